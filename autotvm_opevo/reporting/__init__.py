"""Reports of tuning runs, of any tuner, as text and as a page. Needs no TVM; the text needs neither
matplotlib nor jinja2.
"""

from autotvm_opevo.reporting.summary import summarize

__all__ = ["summarize"]
