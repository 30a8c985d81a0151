"""The public functions `report` and `summarize`: logs in; page, plots and tables, or a few lines out."""

from __future__ import annotations

import os
from pathlib import Path

from autotvm_opevo._utils.atomic_files import write_whole
from autotvm_opevo.reporting.about_logs import describe_logs
from autotvm_opevo.reporting.logs import input_files, open_logs
from autotvm_opevo.reporting.page import render
from autotvm_opevo.reporting.plots import save_plots
from autotvm_opevo.reporting.tables import save_tables


def report(
    *logs: str | os.PathLike[str],
    out: str | os.PathLike[str],
    title: str = "",
    png: str | os.PathLike[str] | None = None,
    csv: str | os.PathLike[str] | None = None,
) -> Path:
    """Write a report of tuning runs: one self-contained HTML file, for screen and print.

    For each task it shows the best latency so far over trials and over time, failures, the best configurations, and each knob's
    graph with the best trial at each vertex. Several logs are overlaid, to compare tuners.

    Parameters
    ----------
    *logs : str or path
        AutoTVM logs, written by any tuner, folders of them, or folders of MetaSchedule databases; the runs may still be in
        progress. They are never modified. A knob's graph is complete if the task's template is registered; otherwise it has the
        values that were tried.
    out : str or path
        The HTML file.
    title : str
        Title of the page. Defaults to the names of the logs.
    png : str or path, optional
        Folder in which to save all plots as images; created if needed.
    csv : str or path, optional
        Folder in which to save all trials and the statistics of all knobs as tables; created if needed.

    Returns
    -------
    Path
        The HTML file.

    Raises
    ------
    ValueError
        If a path is not a log or has no trial, `out` is one of the logs or not a file, or `png` or `csv` is not a folder.
    OSError
        If a log cannot be read or a file cannot be written.

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
    ...     print(summarize(log).splitlines()[1])
    Converged? Too early to tell: fewer than 64 trials for an operator.
    >>> "dense 1x8" in page
    True
    """
    page = Path(out)
    if not page.parent.is_dir():
        raise FileNotFoundError(f"out must be in an existing folder, {page.parent} does not exist")
    for name, folder in (("png", png), ("csv", csv)):
        if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
            raise ValueError(f"{name} must be a folder, {folder} is a file")
    contents = open_logs(logs)
    if page.resolve() in input_files(logs):
        raise ValueError(f"out must not be one of the logs, which are never modified; {page} given")
    if page.exists() and not page.is_file():
        raise ValueError(f"out must be a regular file, {page} is {'a folder' if page.is_dir() else 'none'}")
    write_whole(page, [render(contents, title).encode()])
    if png is not None:
        save_plots(contents, Path(png))
    if csv is not None:
        save_tables(contents, Path(csv))
    return page


def summarize(*logs: str | os.PathLike[str]) -> str:
    """What a report begins with, as text: of each log a summary and the verdict, and whether several can be compared.

    Parameters
    ----------
    *logs : str or path
        As for `report`.

    Returns
    -------
    str
        One or more lines.

    Raises
    ------
    ValueError
        If a path is not a log or has no trial.
    OSError
        If a log cannot be read.

    Examples
    --------
    See `report`.
    """
    return describe_logs(open_logs(logs))
