"""AutoTVM's log files: read, repaired, appended to, and locked.

A log is treated as data: it is parsed as JSON, and nothing in it is unpickled or evaluated.
`TaskState.resume` resumes from its records.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.task import Task
from tvm.target import Target, TargetKind

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.atomic_files import Lock, check_writable, set_aside, sync
from autotvm_opevo._utils.text import last_line, pluralize
from autotvm_opevo.tuning.logs import about
from autotvm_opevo.tuning.record_lines import (
    UNUSED_OPTIONS,
    option_names,
    split_line,
    task_key,
    without_options,
)

logger = logging.getLogger(__name__)

Record = tuple[MeasureInput, MeasureResult]

# How every record that AutoTVM writes begins.
_HEAD = b'{"input"'


class UnknownOption(ValueError):
    """A record's target has options that this TVM does not know, and that may change schedules."""


def seconds(result: MeasureResult) -> float:
    """Mean measured time; infinity for a failed measurement or an impossible time."""
    if result.error_no != MeasureErrorNo.NO_ERROR:
        return math.inf
    mean = float(np.mean(result.costs))
    return mean if math.isfinite(mean) and mean > 0 else math.inf


def fitness(result: MeasureResult) -> float:
    """Runs per second, or 0 for a failed measurement.

    Needs no FLOP count: Equation 2 is invariant to scale.
    """
    mean = seconds(result)
    return 1.0 / mean if math.isfinite(1.0 / mean) else 0.0


def fastest(records: Iterable[Record], confirmed: Record | None) -> Record:
    """Of a task's records the one that was confirmed, unless a later one is faster; else the
    fastest of all.
    """
    since = confirmed[1].timestamp if confirmed else -math.inf
    later = [record for record in records if record[1].timestamp > since]
    return min([*([confirmed] if confirmed else []), *later], key=lambda record: seconds(record[1]))


def key_of(target: object, task: Task) -> str:
    """The key of a task; see `task_key`. A record's target is not its task's, which has none."""
    return task_key(str(target), task.name, task.args)


def failure(result: MeasureResult) -> tuple[str, str]:
    """Kind of a failure in words, and its message, which is empty for results from a log; both are
    for a success.
    """
    if result.error_no == MeasureErrorNo.NO_ERROR:
        return "", ""
    kind = MeasureErrorNo(result.error_no).name.lower().replace("_", " ").replace(" error", "")
    if len(result.costs) != 2:
        return kind, ""
    trace, error = result.costs
    while isinstance(error, tuple):  # the builder wraps its errors twice
        error = error[-1]
    text = str(error).strip()
    # TVM may cut off the reason, at the end of the trace
    if not text or text.startswith("Traceback"):
        text = str(trace)
    message = last_line(text) or type(error).__name__
    if "code == RPCCode::kReturn" in message:
        message = (
            "the session ended without a result: the kernel crashed, or exceeded the "
            "runner's timeout"
        )
    if isinstance(error, TimeoutError) and not str(error):
        owner = "builder" if result.error_no == MeasureErrorNo.BUILD_TIMEOUT else "runner"
        message = f"longer than the {owner}'s timeout"
    return kind, message[:300]


def parse(line: str) -> Record | None:
    """Parse one line of a log; None for comments and for records of AutoTVM's log version 0.1,
    which TVM skips, too.

    The record's target is as `known_target` has it.

    Raises
    ------
    ValueError
        If AutoTVM could not parse the line, or could not use the record.
    UnknownOption
        If that is since this TVM does not know an option of the target.
    """
    try:
        fields = parse_fields(line)
        if fields is None:
            return None
        target, unknown = known_target(fields.input[0])
        if unknown:
            names = ", ".join(f"-{name}" for name in unknown)
            raise UnknownOption(
                f"since TVM {tvm.__version__} does not know {names} in their target"
            )
        if target != fields.input[0]:
            line = json.dumps({**jsonl.load(line), "input": [target, *fields.input[1:]]})
        decoded: Record = record.decode(line)
        hash(decoded[0].task.workload)  # AutoTVM uses it as a dictionary key
    except UnknownOption:
        raise
    except Exception as error:  # whatever decode raises here, it would also raise in AutoTVM
        raise ValueError(f"not an AutoTVM record: {type(error).__name__}: {error}") from error
    return decoded


@lru_cache(maxsize=1024)
def known_target(text: str) -> tuple[str, list[str]]:
    """A target without the options that this TVM has no longer and that change no schedule, and
    others that it does not know.

    Examples
    --------
    >>> known_target("llvm -keys=cpu -link-params=0 -mcpu=core-avx2")
    ('llvm -keys=cpu -mcpu=core-avx2', [])
    """
    target = without_options(text, ())
    try:
        Target(target)
    except Exception:  # TVM raises errors of several types
        unknown = option_names(target).difference(TargetKind.options_from_name(target.split()[0]))
        return without_options(target, unknown & UNUSED_OPTIONS), sorted(unknown - UNUSED_OPTIONS)
    return target, []


class Fields(NamedTuple):
    """One line of a log: the JSON of its input and of its configuration, and its result."""

    input: Any
    config: Any
    result: MeasureResult


def parse_fields(line: str) -> Fields | None:
    """The fields of a line, in a twentieth of the time that `parse` takes; None like `parse`.

    Raises
    ------
    Exception
        Of any kind, if AutoTVM could not use the record; the input and the configuration are not
        checked.
    """
    if "\r" in line.removesuffix("\r"):
        raise ValueError("text readers would see more than one line")
    if line.startswith("#"):
        return None
    fields: Any = jsonl.load(line)
    if isinstance(fields, dict) and fields.get("v") == 0.1:
        return None
    target, _, arguments, *_ = fields["input"]
    if not isinstance(target, str) or not isinstance(arguments, list):
        raise ValueError("no target or no arguments")
    costs, error_no, all_cost, timestamp = fields["result"]
    if not costs or not all(
        isinstance(number, (int, float)) for number in (*costs, all_cost, timestamp)
    ):
        raise ValueError("the result is not numeric")
    if MeasureErrorNo(error_no) == MeasureErrorNo.NO_ERROR and not all(
        0 < float(cost) < math.inf for cost in costs
    ):
        raise ValueError("impossible time, which AutoTVM would take for the best")
    return Fields(
        fields["input"],
        fields["config"],
        MeasureResult(tuple(costs), error_no, all_cost, timestamp),
    )


def read_fields(path: Path) -> Iterator[tuple[str, Fields]]:
    """The records of a log that is only read, with their lines: those that share a line one by one,
    and what is repeated once.

    Other lines are skipped.
    """
    seen: set[int] = set()
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in map(str.strip, lines):
            if line.startswith("#"):
                continue
            whole = _fields(line)
            for part in [line] if whole else split_line(line):
                fields = whole or _fields(part)
                if fields and hash(part) not in seen:
                    seen.add(hash(part))
                    yield part, fields


def _fields(line: str) -> Fields | None:
    with suppress(Exception):  # torn, or not a record
        return parse_fields(line)
    return None


class Log:
    """AutoTVM log with a single writer; a context manager.

    Entering locks the log and moves lines that AutoTVM cannot parse to ``PATH.rejected``. All other
    lines are kept unchanged, those of records for targets that this TVM does not know too, but
    records that share a line, as in joined files, get one each. The lock file is ``PATH.lock``; the
    lock is released when the process ends, however it ends.

    An existing file without a single record is refused and left untouched, so that a mistyped name
    costs nothing. Exceptions are files that a crash leaves behind: empty or blank ones, and logs
    whose every record is truncated.

    Parameters
    ----------
    path : str or path
        The file is created if it does not exist, and removed if an error ends the context before it
        has a record; its folder must exist.

    Attributes
    ----------
    path : Path
    records : list of (MeasureInput, MeasureResult)
        Records found on entering, in file order.
    rejected : int
        Number of lines moved to ``PATH.rejected``.

    Raises
    ------
    ValueError
        If the path is a folder, or a file that is not a log.
    LogInUse
        If another process holds the lock; the message has its pid.
    OSError
        If the log cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Log(Path(folder) / "log.json") as log:
    ...     log.records, log.rejected
    ([], 0)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # replacing a symbolic link would leave its target unchanged
        self.path = Path(os.path.realpath(path))
        self.records: list[Record] = []
        self.rejected = 0
        # records that stay in the log and cannot be used, by the reason
        self._left_out: Counter[str] = Counter()
        self._is_new = False
        self._file: int | None = None
        self._lock = Lock(self.path.with_name(self.path.name + ".lock"))

    def __enter__(self) -> Log:
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"log_file must be in an existing folder, {self.path.parent} does not exist"
            )
        if self.path.is_dir():
            raise ValueError(
                f"log_file must be a file, {self.path} is a "
                f"folder{about(self.path, 'name a file in it')}"
            )
        check_writable(self.path.parent, self.path)
        try:
            self._lock.acquire(self.path)
            self._is_new = not self.path.exists()
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            sync(self.path.parent)
            self._read()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._file is not None:
            if kind is not None and self._is_new and os.fstat(self._file).st_size == 0:
                self.path.unlink()
            os.close(self._file)
            self._file = None
        self._lock.release()

    def append(self, records: Iterable[Record]) -> None:
        """Append records and sync them to disk.

        Raises
        ------
        OSError
            If the disk is full, for example. Complete records are kept, a partial one is removed.
        """
        assert self._file is not None, "append needs an entered log"
        whole = os.fstat(self._file).st_size
        try:
            for measured, result in records:
                line = (record.encode(measured, result) + "\n").encode()
                written = 0
                while written < len(line):
                    written += os.write(self._file, line[written:])
                whole += len(line)
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, whole)
            raise OSError(
                error.errno,
                f"cannot write the log: {error.strerror}. Earlier results are saved: make "
                "room and run this again",
                str(self.path),
            ) from error

    def _read(self) -> None:
        """Fill `records`, and move malformed lines away; records that share a line get lines of
        their own.
        """
        kept, malformed, was_joined = [], [], False
        with open(self.path, "rb") as file:
            for line in file:
                text = line.decode(errors="surrogateescape")
                if self._load(text.rstrip("\n")):
                    kept.append(line)
                    continue
                good: list[bytes] = []
                bad: list[bytes] = []
                for part in split_line(text):
                    (good if self._load(part) else bad).append(
                        part.encode(errors="surrogateescape")
                    )
                kept += good
                malformed += bad if good else [line]
                was_joined |= bool(good)
        if not self.records and (self._left_out or not _is_crash_remnant(kept, malformed)):
            unusable = next(
                (f" that can be used, {why}: choose another name" for why in self._left_out), ""
            )
            why = unusable or about(self.path, "choose another name")
            raise ValueError(
                f"log_file must be a new file or an AutoTVM log, and {self.path}, which was "
                f"left untouched, has no record{why}"
            )
        for why, count in self._left_out.items():
            logger.warning("%s of %s left out, %s", pluralize(count, "record"), self.path.name, why)
        self.rejected = len(malformed)
        if malformed or was_joined or not all(line.endswith(b"\n") for line in kept):
            assert self._file is not None
            set_aside(self.path, kept, malformed)
            os.close(self._file)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND)

    def _load(self, line: str) -> bool:
        """Add the record of a line, if it has one; returns whether the line belongs in the log."""
        try:
            line.encode()
            parsed = parse(line)
        except UnknownOption as error:
            self._left_out[str(error)] += 1
            return True
        except ValueError:
            return False
        if parsed is not None:
            self.records.append(parsed)
        return True


def _is_crash_remnant(comments: Sequence[bytes], malformed: Sequence[bytes]) -> bool:
    """Whether a file without records is what a crash leaves of a log: nothing, blank lines, or
    truncated records.

    Comments alone prove nothing: Markdown headings and shell scripts have them, too.
    """
    texts = [text for line in malformed if (text := line.strip())]
    truncated = [text for text in texts if text.startswith(_HEAD) or _HEAD.startswith(text)]
    return texts == [text for text in truncated if jsonl.load(text) is jsonl.MALFORMED] and bool(
        texts or not comments
    )
