"""Reports of tuning runs, of any tuner, as a page, images and tables. Needs no TVM."""

try:
    from autotvm_opevo.reporting.report import report, summarize
except ModuleNotFoundError as error:
    if error.name not in ("jinja2", "markupsafe", "matplotlib"):
        raise
    raise ImportError(f"reports need {error.name}: pip install jinja2 matplotlib") from error

__all__ = ["report", "summarize"]
