"""Where the best of one is, and what logs must be to be compared. Imports no TVM."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from os import PathLike
from pathlib import Path

# Where `tune_network` keeps the best records: a file beside AutoTVM's log, a database in
# MetaSchedule's work directory.
BEST_FILE = ".best.json"
BEST_DATABASE = "best"
# The files of a MetaSchedule database, as TVM names them.
WORKLOAD_FILE = "database_workload.json"
RECORD_FILE = "database_tuning_record.json"
# Seconds, in a database, of a schedule that was chosen without a trial: TVM takes it only where
# there is no other. Those of a failed trial are more, and TVM never takes it.
UNMEASURED = 1e8


def best_file(log: Path) -> Path:
    """The file of the best records of an AutoTVM log.

    >>> best_file(Path("alexnet.json")).name
    'alexnet.best.json'
    """
    return log.with_name(log.name.removesuffix(".json") + BEST_FILE)


def best_of(log: Path) -> Path:
    """The best records of a log or work directory if `tune_network` has written any, else the log
    itself.
    """
    best = log / BEST_DATABASE if log.is_dir() else best_file(log)
    return best if best.exists() else log


def is_best(log: Path) -> bool:
    """Whether a log has the best of another one only.

    >>> is_best(Path("alexnet.best.json")), is_best(Path("alexnet.json"))
    (True, False)
    """
    return log.name.endswith(BEST_FILE) or (
        log.name == BEST_DATABASE and (log.resolve().parent / RECORD_FILE).exists()
    )


def check_logs(logs: Sequence[str | PathLike[str]]) -> list[str]:
    """Names for logs as short as can be; the files must exist, and differ.

    Raises
    ------
    ValueError
        If there is none, or one is given twice.
    FileNotFoundError
        If one does not exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = [Path(folder) / name for name in ("a.json", "b.json")]
    ...     _ = [file.write_text("") for file in files]
    ...     check_logs(files)
    ['a.json', 'b.json']
    """
    paths = [Path(log) for log in logs]
    if not paths:
        raise ValueError("logs must have at least one log, none given")
    for i, path in enumerate(paths):
        if not path.exists():
            raise FileNotFoundError(2, os.strerror(2), str(path))
        if any(path.samefile(earlier) for earlier in paths[:i]):
            raise ValueError(f"logs must differ, {path} is given twice")
    return short_names(paths)


def short_names(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths, of equally many parts, that are unique.

    >>> short_names([Path("a/log.json"), Path("b/log.json")])
    ['a/log.json', 'b/log.json']
    >>> short_names([Path("a/x.json"), Path("b/y.json")])
    ['x.json', 'y.json']
    """
    for parts in range(1, max(len(path.parts) for path in paths) + 2):
        names = [str(Path(*path.parts[-parts:])) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def common_target(logs: Sequence[Collection[str]]) -> str:
    """The only target for which all logs have records, given those of each.

    Raises
    ------
    ValueError
        If there is none, or more than one.

    Examples
    --------
    >>> common_target([["llvm", "cuda"], ["llvm"]])
    'llvm'
    """
    common = set.intersection(*map(set, logs))
    if len(common) != 1:
        number, known = (
            "more than one" if common else "no",
            ", ".join(sorted({target for log in logs for target in log})),
        )
        raise ValueError(f"target must be given, the logs have {number} target in common: {known}")
    return common.pop()
