"""The text of reports."""

import re

from synthetic_logs import write_log

from autotvm_opevo import report


def report_text(tmp_path, *lines):
    """The text of the report of a log with the given lines."""
    log = write_log(tmp_path / "log.json", *lines)
    return page_text(report(log, out=tmp_path / "report.html"))


def page_text(page):
    """The text of a page, without its charts."""
    text = page.read_text()
    return " ".join(
        re.sub(r"<svg.*?</svg>|<style.*?</style>|<[^>]+>", " ", text, flags=re.DOTALL).split()
    )
