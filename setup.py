from setuptools import setup

setup()  # the metadata is in setup.cfg
