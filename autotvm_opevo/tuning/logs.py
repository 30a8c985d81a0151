"""Which files logs are: where the best of one is, what logs must be to be compared, and what a file
is that is given in the place of one. Imports no TVM.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from autotvm_opevo._utils import jsonl
from autotvm_opevo.tuning.record_lines import workload_hash, workload_number

# Where `tune_network` keeps the best records: a file beside AutoTVM's log, a database in
# MetaSchedule's work directory.
BEST_FILE = ".best.json"
BEST_DATABASE = "best"
# The files of a MetaSchedule database, as TVM names them.
WORKLOAD_FILE = "database_workload.json"
RECORD_FILE = "database_tuning_record.json"
# Target and task, in Base64, of a record that is pickled.
_PICKLE = re.compile(rb"[^\t]+\tgA[\w+/=]+\t")
_GZIP = b"\x1f\x8b"
# How much of a file is looked at: bytes, and lines with JSON.
_HEAD, _LINES = 1 << 16, 20


def best_file(log: Path) -> Path:
    """The file of the best records of an AutoTVM log.

    >>> best_file(Path("alexnet.json")).name, best_file(Path("alexnet.log")).name
    ('alexnet.best.json', 'alexnet.log.best.json')
    """
    return log.with_name(log.name.removesuffix(".json") + BEST_FILE)


def is_best(log: Path) -> bool:
    """Whether a log has the best of another one only.

    >>> is_best(Path("alexnet.best.json")), is_best(Path("alexnet.json"))
    (True, False)
    """
    return log.name.endswith(BEST_FILE) or (
        log.name == BEST_DATABASE and (log.resolve().parent / RECORD_FILE).exists()
    )


def check_logs(logs: Sequence[str | PathLike[str]]) -> list[str]:
    """Names for logs as short as can be; raises `ValueError` if there is none, or one is given
    twice, and `FileNotFoundError` if one does not exist.
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
    """The only target for which all logs, given those of each, have records; otherwise raise
    `ValueError`.

    >>> common_target([["llvm", "cuda"], ["llvm"]])
    'llvm'
    """
    common = set.intersection(*map(set, logs))
    if len(common) != 1:
        number = "more than one" if common else "no"
        known = ", ".join(sorted({target for log in logs for target in log}))
        raise ValueError(f"target must be given, the logs have {number} target in common: {known}")
    return common.pop()


_DATABASE = "a MetaSchedule database, whose schedules AutoTVM cannot use: give its folder to report"


def about(path: Path, otherwise: str) -> str:
    """The end of a sentence on a file or folder without a record: what it is, if that is known, and
    what to do, such as ", it is compressed with gzip: unpack it with gunzip, or check its name".
    """
    kind = identify(path)
    if not kind:
        return f": {otherwise}"
    return f", it is {kind}, or {otherwise}" if ": " in kind else f", it is {kind}: {otherwise}"


def identify(path: Path) -> str:
    """What a file or folder is that is no AutoTVM log, and what to do; empty if unknown."""
    if path.is_dir():
        return _DATABASE if (path / RECORD_FILE).exists() else ""
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    if not head:
        return "empty"
    if head.startswith(_GZIP):
        return "compressed with gzip: unpack it with gunzip"
    if b"\0" in head.strip(b"\0"):
        return "a binary file"
    if known := next(filter(None, map(_of_value, _values(path))), ""):
        return known
    if _PICKLE.match(head):
        write = "write its records as JSON with autotvm.record.encode"
        return f"a log in AutoTVM's pickle format: {write}"
    return ""


def kind_of_file(path: Path) -> str:
    """`RECORD_FILE` or `WORKLOAD_FILE` by a file's lines, ``"AutoTVM"`` for a log; else empty."""
    return _kind(next(_values(path), None))


def _kind(value: Any) -> str:
    keys = value.keys() if isinstance(value, dict) else set()
    if {"input", "result"} <= keys or {"i", "r"} <= keys:
        return "AutoTVM"
    if workload_number(value) is not None:
        return RECORD_FILE
    return WORKLOAD_FILE if workload_hash(value) is not None else ""


def describe_file(path: Path) -> str:
    """What a file is that was given in the place of a database's folder, and what to do."""
    kind = kind_of_file(path)
    if kind == "AutoTVM":
        other = "not a database of MetaSchedule: it needs TVM 0.8 to 0.19"
        return f"{path} is a log of AutoTVM, {other}"
    one_of_two = f"{path} is one of the two files of a database of MetaSchedule"
    if path.name in (RECORD_FILE, WORKLOAD_FILE):
        return f"{one_of_two}: name their folder, {path.parent}"
    if kind:
        other = RECORD_FILE if kind == WORKLOAD_FILE else WORKLOAD_FILE
        return (
            f"{one_of_two}: call it {kind}, put it into a folder with the {other} that belongs to "
            "it, and name the folder"
        )
    return f"{path} is a file, not a database of MetaSchedule: name the folder of one"


def _values(path: Path) -> Iterator[Any]:
    """The JSON values of a file's first lines that have one."""
    with open(path, "rb") as lines:
        values = (value for _, value in jsonl.read(lines) if value is not jsonl.MALFORMED)
        yield from islice(values, _LINES)


def _of_value(value: Any) -> str:
    """What has such a line; see `identify`."""
    keys = value.keys() if isinstance(value, dict) else set()
    if {"i", "r", "v"} <= keys:
        if not isinstance(value["v"], str):
            return "a log in AutoTVM's format 0.1, which no TVM since 0.7 reads"
        ansor = "a log of Ansor (auto_scheduler), whose schedules AutoTVM cannot use"
        return f"{ansor}: compile with it under auto_scheduler.ApplyHistoryBest"
    if {"type", "time"} <= keys:
        return "the run log of tune_network: name the log beside it, without .journal"
    return _DATABASE if _kind(value) in (RECORD_FILE, WORKLOAD_FILE) else ""
