"""Hypothesis profiles: the default one for every run, ``--hypothesis-profile=soak`` for a long one."""

from hypothesis import settings

settings.register_profile("default", max_examples=60, deadline=None)
settings.register_profile("soak", max_examples=2_000, deadline=None)
settings.load_profile("default")
