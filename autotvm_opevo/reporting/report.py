"""One call: logs in, a page out, and the same as pictures and tables."""

from __future__ import annotations

import os
from pathlib import Path

from autotvm_opevo._utils.atomic_files import write_whole
from autotvm_opevo.reporting import tables
from autotvm_opevo.reporting.logs import files, open_logs
from autotvm_opevo.reporting.page import render
from autotvm_opevo.reporting.pictures import save_pictures


def report(
    *logs: str | os.PathLike[str],
    out: str | os.PathLike[str],
    title: str = "",
    png: str | os.PathLike[str] | None = None,
    csv: str | os.PathLike[str] | None = None,
) -> Path:
    """Write a page about tuning runs: one HTML file that needs nothing else, for a screen or on paper.

    Of every task it shows the best so far over trials and over time, what failed, the best configurations in words, and each
    knob's graph with the best trial seen at every vertex. Several logs are drawn over one another: so tuners are compared.

    Parameters
    ----------
    *logs : str or path
        Logs of AutoTVM, whichever tuner wrote them, or folders of MetaSchedule databases; also of runs that still go on. They are
        read, and never written. Graphs are whole where a task's template is known to the TVM at hand, if there is one.
    out : str or path
        The page.
    title : str
        Its title; the logs' names unless given.
    png, csv : str or path, optional
        Folders for all pictures, and for the curves and what was seen of each knob as tables; made if there are none.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ValueError
        If a log is none, or `out` is one or no file.
    OSError
        If a log cannot be read, or the page not written.

    Examples
    --------
    >>> import json, tempfile
    >>> line = {"input": ["llvm", "dense", [["TENSOR", [1, 8], "float32"]], {}], "version": 0.2,
    ...         "config": {"index": 3, "code_hash": None, "entity": [["tile_x", "sp", [-1, 4]]]},
    ...         "result": [[0.002], 0, 1.5, 1795260407.0]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Path(folder) / "log.json"
    ...     _ = log.write_text(json.dumps(line))
    ...     page = report(log, out=Path(folder) / "report.html").read_text()
    >>> "dense 1x8" in page
    True
    """
    page = Path(out)
    if not page.parent.is_dir():
        raise FileNotFoundError(f"out must be in a folder, {page.parent} is none")
    for name, folder in (("png", png), ("csv", csv)):
        if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
            raise ValueError(f"{name} must be a folder, {folder} is none")
    recordings = open_logs(logs)
    if page.resolve() in files(logs):
        raise ValueError(f"out must be another file than the logs, which are only read; {page} given")
    if page.exists() and not page.is_file():
        raise ValueError(f"out must be a file, {page} is none")
    write_whole(page, [render(recordings, title).encode()])
    if png is not None:
        save_pictures(recordings, Path(png))
    if csv is not None:
        tables.save(recordings, Path(csv))
    return page
