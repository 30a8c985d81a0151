"""AutoTVM's log as trials. It is read as JSON and needs no TVM: nothing in it is unpickled or evaluated."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable
from typing import Any

from autotvm_opevo.journal import autotvm_task
from autotvm_opevo.reporting.trials import Recording, Trial, Value

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
    >>> len(recording), recording.torn, [(task.name, task.best) for task in recording.tasks.values()]
    (1, 1, [('dense 1x8', 0.002)])
    """
    for line in lines:
        if not line.strip() or line.startswith(b"#"):
            continue
        try:
            said = json.loads(line)
        except ValueError:
            recording.torn += 1
            continue
        try:
            trial = _trial(said)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            recording.foreign += 1
            continue
        recording.add(trial)


def _trial(said: dict[str, Any]) -> Trial:
    target, template, arguments, *_ = said["input"]
    costs, error_no, _, time = said["result"]
    latency = sum(map(float, costs)) / len(costs) if error_no == 0 else math.inf
    failure = _FAILURES[error_no]
    if error_no == 0 and not 0 < latency < math.inf:  # what no clock can have said
        latency, failure = math.inf, "unknown"
    knobs = {str(name): _value(kind, value) for name, kind, value in said["config"]["entity"]}
    task = autotvm_task(target, template, arguments)
    return Trial(task, task_name(template, arguments), latency, failure, float(time), knobs)


def task_name(template: str, arguments: Any) -> str:
    """The template and the shapes of its tensors, or what else are its arguments."""
    shapes = ["x".join(map(str, argument[1])) for argument in arguments if _is_tensor(argument)]
    others = [str(argument) for argument in arguments if isinstance(argument, (int, str))]
    return " ".join([str(template), *(shapes or others)])


def _is_tensor(argument: Any) -> bool:
    return isinstance(argument, list) and len(argument) > 1 and argument[0] == "TENSOR" and isinstance(argument[1], list)


def _value(kind: str, value: Any) -> Value:
    if kind == "sp":
        return Value("inner tile", _integers(value[1:])) if value[0] == -1 else Value("tile", _integers(value))
    if kind == "re":
        return Value("order", _integers(value))
    if kind == "an":
        return Value("annotation", tuple(map(str, value)))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Value("number", value)
    return Value("choice", json.dumps(value))


def _integers(values: Any) -> tuple[Hashable, ...]:
    return tuple(int(value) for value in values)
