"""Parser of MetaSchedule databases: a trace has decisions and their options. Needs no TVM."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import printable
from autotvm_opevo.reporting.trials import UNKNOWN_FAILURE, TaskId, Trial, Value
from autotvm_opevo.tuning.record_lines import UNMEASURED, recorded_mean, seconds, workload_hash

# For each task, the number of each of its sketches, from 0.
SketchNumbers = dict[str, dict[str, int]]

# Attributes of the instruction that parallelizes loops.
_PARALLEL = ["meta_schedule.parallel"]
# Instructions that name blocks, and how what they return is related to the block that they take.
_GET_BLOCK = ("GetSBlock", "GetBlock")
_COPIES = {
    "CacheRead": "cache read",
    "CacheWrite": "cache write",
    "ReadAt": "cache read",
    "WriteAt": "cache write",
    "RFactor": "rfactor",
    "DecomposePadding": "padding",
}
_RELATIVES = {"GetConsumers": "consumer", "GetProducers": "producer", "GetChildBlocks": "child"}


def workload_hashes(lines: Iterable[bytes]) -> list[str]:
    """Read the workloads' hashes from ``database_workload.json``, up to the first invalid line.

    >>> workload_hashes([b'["2222", "..."]', b'["12'])
    ['2222']
    """
    return [value[0] for value in takewhile(workload_hash, map(jsonl.load, lines))]


def meta_schedule_trial(
    record: Any, workloads: Sequence[str], sketches: SketchNumbers
) -> tuple[TaskId, Trial]:
    """The task and the trial of a record, which has neither a timestamp nor an error; raises an
    error of any common type if it is none.

    The hashes of the database's workloads identify tasks across databases. The numbers of sketches
    are added to `sketches`, which all logs of a report share: a sketch has the same in each.

    >>> instructions = [
    ...     ["GetSBlock", [], ["matmul", "main"], ["b0"]],
    ...     ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
    ...     ["SamplePerfectTile", ["l2"], [4, 64], ["v4", "v5", "v6", "v7"]],
    ... ]
    >>> trace = [instructions, [[2, [2, 4, 1, 8]]]]
    >>> record = [trace, [0.001], {"kind": "llvm"}, [["TENSOR", "float32", [8, 64]]]]
    >>> task, trial = meta_schedule_trial([0, record], [], {})
    >>> task.name, trial.latency, list(trial.knobs)
    ('matmul 8x64', 0.001, ['sketch', 'matmul, loop 2, 64 iterations'])
    """
    workload, ((instructions, decisions), run_secs, target, arguments) = record
    latency, failure = seconds(run_secs), ""
    if latency == math.inf:
        failure = "not measured" if recorded_mean(run_secs) == UNMEASURED else UNKNOWN_FAILURE
    trace = _Trace(instructions, dict(map(tuple, decisions)))
    shapes = ["x".join(map(str, argument[2])) or "scalar" for argument in arguments]
    digest = workloads[workload] if 0 <= workload < len(workloads) else ""
    # The shapes of packed weights are the schedule's, not the workload's.
    key = json.dumps([target, digest or [trace.block, arguments]])
    numbers = sketches.setdefault(key, {})
    sketch = numbers.setdefault(trace.sketch, len(numbers))
    name = printable(" ".join([trace.block, *shapes]))
    task = TaskId(key, name, printable(_format_target(target)), digest or key)
    knobs = {"sketch": Value("choice", str(sketch + 1)), **trace.knobs}
    return task, Trial(latency, failure, knobs)


def _format_target(target: Mapping[str, Any]) -> str:
    """Format a target as TVM's string.

    >>> _format_target({"kind": "llvm", "mcpu": "core-avx2", "keys": ["cpu"], "num-cores": 2})
    'llvm -mcpu=core-avx2 -num-cores=2'
    """
    names = [name for name in ("arch", "mcpu", "num-cores") if name in target]
    return " ".join([str(target["kind"]), *(f"-{name}={target[name]}" for name in names)])


class _Trace:
    """A trace's decisions as `knobs`, named after the blocks and loops that they concern; the
    `block` that the workload computes, the one tiled first or, if none is, the first other than the
    root; and the `sketch`, identified by the instructions before the postprocessors'.
    """

    def __init__(self, instructions: list[Any], decisions: Mapping[int, Any]) -> None:
        instructions = list(takewhile(lambda step: step[0] != "EnterPostproc", instructions))
        # The maximum number of parallel loops is an input, though TVM's own search varies it, and
        # no part of the sketch.
        sketch = [
            [kind, [] if attributes == _PARALLEL else inputs, attributes, *rest]
            for kind, inputs, attributes, *rest in instructions
        ]
        self.sketch = json.dumps(sketch)
        self._names: dict[str, str] = {}  # of the blocks and loops that variables stand for
        annotates = [rest for kind, *rest in instructions if kind == "Annotate"]
        annotations = {  # of variables; others are of numbers or lists
            inputs[1]: attributes[0]
            for inputs, attributes, _ in annotates
            if isinstance(inputs[1], str)
        }
        self.knobs: dict[str, Value] = {}
        counts: Counter[str] = Counter()
        tiled, blocks = [], []
        for position, (kind, inputs, attributes, outputs) in enumerate(instructions):
            self._name_outputs(kind, inputs, attributes, outputs)
            if kind in _GET_BLOCK and attributes[0] != "root":
                blocks.append(str(attributes[0]))
            if kind == "SamplePerfectTile" and inputs[0] in self._names:
                tiled.append(self._names[inputs[0]].partition(",")[0])
            if position in decisions:
                name, value = self._parse_decision(
                    kind, inputs, attributes, decisions[position], annotations.get(outputs[0], "")
                )
                name = printable(name)
                counts[name] += 1
                self.knobs[name if counts[name] == 1 else f"{name} ({counts[name]})"] = value
        self.block = next(iter([*tiled, *blocks]), "main")

    def _name_outputs(
        self, kind: str, inputs: list[Any], attributes: list[Any], outputs: list[str]
    ) -> None:
        if kind in _GET_BLOCK:
            self._names[outputs[0]] = str(attributes[0])
        elif kind == "GetLoops":
            for number, loop in enumerate(outputs, start=1):
                self._names[loop] = f"{self._block(inputs)}, loop {number}"
        elif kind in _COPIES:
            self._names[outputs[0]] = f"{self._block(inputs)}, {_COPIES[kind]}"
        elif kind in _RELATIVES:
            for block in outputs:
                self._names[block] = f"{_RELATIVES[kind]} of {self._block(inputs)}"

    def _block(self, inputs: Sequence[Any]) -> str:
        return self._names.get(inputs[0], "a block")

    def _parse_decision(
        self, kind: str, inputs: list[Any], attributes: list[Any], decision: Any, annotation: str
    ) -> tuple[str, Value]:
        if kind == "SamplePerfectTile":
            tile = tuple(int(part) for part in decision)
            if min(tile) < 1:
                raise ValueError(f"the parts of a tile must be positive integers, {decision} given")
            name = f"{self._names.get(inputs[0], 'a fused loop')}, {math.prod(tile)} iterations"
            return name, Value("tile", tile)
        if kind == "SampleCategorical":
            options = tuple(map(printable, attributes[0]))
            name = str(annotation).removeprefix("meta_schedule.").replace("_", " ")
            name = name or f"choice of {', '.join(options)}"
            return name, Value("choice", options[int(decision)])
        return f"location of {self._block(inputs)}", Value("number", int(decision))
