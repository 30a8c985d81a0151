"""Records of AutoTVM's logs, parsed as JSON: nothing in a log is unpickled or evaluated."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.task import Task
from tvm.target import Target, TargetKind

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import last_line
from autotvm_opevo.tuning.record_lines import (
    FAILURES,
    UNUSED_OPTIONS,
    option_names,
    split_line,
    task_key,
    without_options,
)

Record = tuple[MeasureInput, MeasureResult]


class UnknownTarget(ValueError):
    """A record's target is of a kind that this TVM does not know, or has such options, which may
    change schedules.
    """


def seconds(result: MeasureResult) -> float:
    """Mean measured time; infinity for a failed measurement or an impossible time."""
    if result.error_no != MeasureErrorNo.NO_ERROR:
        return math.inf
    mean = float(np.mean(result.costs))
    return mean if math.isfinite(mean) and mean > 0 else math.inf


def are_possible(costs: Iterable[Any]) -> bool:
    """Whether all of a success's times are: AutoTVM would take impossible ones for the best."""
    return all(0 < float(cost) < math.inf for cost in costs)


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
    kind = FAILURES[MeasureErrorNo(result.error_no)]  # which may be written as a float
    if not kind or len(result.costs) != 2:
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

    The record's target is as `known_target` has it. A `ValueError` if AutoTVM could not parse the
    line or use the record: `UnknownTarget` if TVM does not know its target.
    """
    try:
        fields = parse_fields(line)
        if fields is None:
            return None
        target, unknown = known_target(fields.input[0])
        if unknown:
            names = ", ".join(f"-{name}" for name in unknown)
            raise UnknownTarget(
                f"since TVM {tvm.__version__} does not know {names} in their target"
            )
        if target != fields.input[0]:
            line = json.dumps({**jsonl.load(line), "input": [target, *fields.input[1:]]})
        decoded: Record = record.decode(line)
        hash(decoded[0].task.workload)  # AutoTVM uses it as a dictionary key
    except UnknownTarget:
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
        kind = target.split()[0]
        try:
            options = TargetKind.options_from_name(kind)
        except Exception:
            raise UnknownTarget(f"since TVM {tvm.__version__} has no target {kind}") from None
        unknown = option_names(target).difference(options)
        return without_options(target, unknown & UNUSED_OPTIONS), sorted(unknown - UNUSED_OPTIONS)
    return target, []


class Fields(NamedTuple):
    """One line of a log: the JSON of its input and of its configuration, and its result."""

    input: Any
    config: Any
    result: MeasureResult


def parse_fields(line: str) -> Fields | None:
    """The fields of a line, in a twentieth of the time that `parse` takes; None like `parse`. An
    exception of any kind if AutoTVM could not use the record, whose input and configuration are not
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
    if MeasureErrorNo(error_no) == MeasureErrorNo.NO_ERROR and not are_possible(costs):
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
