"""What a tuning run has found, as a page to look at in the morning. Reads logs of any tuner, and needs no TVM."""

try:
    from autotvm_opevo.reporting.report import report
except ModuleNotFoundError as error:
    if error.name not in ("jinja2", "markupsafe", "matplotlib"):
        raise
    raise ImportError(f"a report needs {error.name}: pip install jinja2 matplotlib") from error

__all__ = ["report"]
