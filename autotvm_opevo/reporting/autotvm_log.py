"""AutoTVM's log as trials. It is read as JSON and needs no TVM: nothing in it is unpickled or evaluated."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from autotvm_opevo.reporting.formatting import printable
from autotvm_opevo.reporting.trials import Recording, Trial, Value
from autotvm_opevo.tuning.journal import moment
from autotvm_opevo.tuning.naming import task_key, task_name

# In the order of AutoTVM's MeasureErrorNo.
_FAILURES = (
    "",
    "instantiation",
    "compile host",
    "compile device",
    "runtime device",
    "wrong answer",
    "build timeout",
    "run timeout",
    "unknown",
)


def read(lines: Iterable[bytes], recording: Recording) -> None:
    """Take all trials; count what is torn or of another kind.

    >>> recording = Recording("log")
    >>> read([b'{"input": ["llvm", "dense", [["TENSOR", [1, 8], "float32"]], {}], "config": {"index": 3, "code_hash": null, '
    ...       b'"entity": [["tile_x", "sp", [-1, 4]]]}, "result": [[0.002], 0, 1.5, 1795260407.0], "version": 0.2}',
    ...       b'{"input": ["llvm", "den'], recording)
    >>> len(recording), recording.malformed, [(task.name, task.best) for task in recording.tasks.values()]
    (1, 1, [('dense 1x8', 0.002)])
    """
    recording.read(lines, _trial)


def _trial(said: dict[str, Any]) -> Trial:
    target, template, arguments, *_ = said["input"]
    costs, error_no, _, time = said["result"]
    latency = sum(map(float, costs)) / len(costs) if error_no == 0 else math.inf
    failure = _FAILURES[error_no]
    if error_no == 0 and not 0 < latency < math.inf:  # what no clock can have said
        latency, failure = math.inf, "unknown"
    knobs = {printable(name): _value(kind, value) for name, kind, value in said["config"]["entity"]}
    name = printable(task_name(template, arguments))
    return Trial(task_key(target, template, arguments), name, latency, failure, printable(target), moment(time), knobs)


def _value(kind: str, value: Any) -> Value:
    if kind == "sp":
        kind, tile = ("inner tile", _integers(value[1:])) if value[0] == -1 else ("tile", _integers(value))
        if min(tile, default=0) < 1:
            raise ValueError(f"{value} is no tile")
        return Value(kind, tile)
    if kind == "re":
        return Value("order", _integers(value))
    if kind == "an":
        return Value("annotation", tuple(map(printable, value)))
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return Value("number", value)
    return Value("choice", json.dumps(value))  # which writes all but ASCII as that


def _integers(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
