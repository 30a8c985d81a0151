"""AutoTVM's log as what it is, a file that many tools write and that a power cut may tear: read, kept whole, appended to, locked.

A log is data. It is read as JSON, and nothing in it is unpickled or evaluated.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.task import Task

from autotvm_opevo._utils.atomic_files import Lock, set_aside, sync
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.search.space import Configuration

Record = tuple[MeasureInput, MeasureResult]


def seconds(result: MeasureResult) -> float:
    """The mean of what was measured; infinite for a failure, and for what no clock can have said."""
    if result.error_no != MeasureErrorNo.NO_ERROR:
        return math.inf
    mean = float(np.mean(result.costs))
    return mean if math.isfinite(mean) and mean > 0 else math.inf


def fitness(result: MeasureResult) -> float:
    """Runs a second, which needs no flop count: Equation 2 does not depend on the scale. 0 for a failure."""
    mean = seconds(result)
    return 1.0 / mean if math.isfinite(1.0 / mean) else 0.0


def configuration_of(measured: MeasureInput, task: Task, knobs: KnobSpace) -> Configuration | None:
    """The configuration of a record, if it is of this task, target and configuration space."""
    if str(measured.target) != str(task.target) or measured.task.workload != task.workload:
        return None
    try:
        return knobs.configuration(measured.config)
    except ValueError:
        return None


def parse(line: str) -> Record | None:
    """One line of a log; None for comments and for AutoTVM's log version 0.1, which its own functions skip, too.

    Raises
    ------
    ValueError
        If AutoTVM could not read the line, or could not go on with what it says.
    """
    if "\r" in line.removesuffix("\r"):
        raise ValueError("more than one line to those who read text")
    if line.startswith("#"):
        return None
    try:
        said = json.loads(line)
        if isinstance(said, dict) and said.get("v") == 0.1:
            return None
        target, _, arguments, *_ = said["input"]
        if not isinstance(target, str) or not isinstance(arguments, list):
            raise ValueError("no target or no arguments")
        costs, error_no, all_cost, timestamp = said["result"]
        if not costs or not all(isinstance(number, (int, float)) for number in (*costs, all_cost, timestamp)):
            raise ValueError("a result that is no number")
        if MeasureErrorNo(error_no) == MeasureErrorNo.NO_ERROR and not all(0 < cost < math.inf for cost in costs):
            raise ValueError("a time that no clock has said, which AutoTVM would take for the best")
        found: Record = record.decode(line)
        hash(found[0].task.workload)  # AutoTVM looks it up
    except Exception as error:  # whatever decode stumbles over, its callers would
        raise ValueError(f"no record of AutoTVM: {type(error).__name__}: {error}") from error
    return found


class Log:
    """A log of AutoTVM that this process alone writes, to be used in a ``with`` statement.

    Entering takes the lock, refuses what cannot be written, and moves the lines that AutoTVM cannot read to ``PATH.rejected``;
    all others stay as they are, whoever wrote them. The lock is beside it, in ``PATH.lock``, and goes with the process.

    Parameters
    ----------
    path : str or path
        The file; it need not exist, its folder must.

    Attributes
    ----------
    path : Path
    records : list of (MeasureInput, MeasureResult)
        What the log said when it was entered, in its order.
    rejected : int
        How many lines were moved.

    Raises
    ------
    ValueError
        If there is a file of that name that is no log, or a folder.
    LogInUse
        If another process has the log; says which.
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
        self.path = Path(os.path.realpath(path))  # through links: what is replaced must be the file itself
        self.records: list[Record] = []
        self.rejected = 0
        self._file: int | None = None
        self._lock = Lock(self.path.with_name(self.path.name + ".lock"))

    def __enter__(self) -> Log:
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"log_file must be in a folder that exists, {self.path.parent} does not")
        if self.path.is_dir():
            raise ValueError(f"log_file must be a file, a log of AutoTVM; {self.path} is a folder: name a file in it")
        try:
            self._lock.acquire(self.path)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            sync(self.path.parent)
            self._read()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._lock.release()

    def append(self, records: Iterable[Record]) -> None:
        """Write records and wait until the disk has them.

        Raises
        ------
        OSError
            If they cannot be written whole, on a full disk for example: what was whole stays, the rest is taken back.
        """
        assert self._file is not None, "a log is entered before it is written"
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
                f"cannot write the log: {error.strerror}. What was measured before is in it: make room and call this again",
                str(self.path),
            ) from error

    def _read(self) -> None:
        """Fill `records`, and move what is none out of the way."""
        good, bad = [], []
        with open(self.path, "rb") as file:
            for line in file:
                try:
                    found = parse(line.decode().rstrip("\n"))
                except ValueError:
                    bad.append(line)
                    continue
                good.append(line)
                if found is not None:
                    self.records.append(found)
        others = [line for line in bad if line.strip() and not line.startswith(b'{"input"')]  # blank or torn, it may be a log
        if others and not good:
            raise ValueError(f"log_file must be a log of AutoTVM or a new file, no line of {self.path} is a record: name another")
        self.rejected = len(bad)
        if bad or not all(line.endswith(b"\n") for line in good):
            self._replace(good, bad)

    def _replace(self, good: Sequence[bytes], bad: Sequence[bytes]) -> None:
        assert self._file is not None
        set_aside(self.path, good, bad)
        os.close(self._file)
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND)
