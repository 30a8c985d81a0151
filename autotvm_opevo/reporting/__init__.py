"""Reports of tuning runs, of any tuner, as text, a page, images and tables. Needs no TVM; text
needs no matplotlib and jinja2.
"""

from autotvm_opevo.reporting.summary import summarize

__all__ = ["summarize"]
