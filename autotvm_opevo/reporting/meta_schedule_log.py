"""MetaSchedule's database as trials. It is read as JSON and needs no TVM: a trace says what was sampled, and from what."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from autotvm_opevo.reporting.formatting import printable
from autotvm_opevo.reporting.trials import Recording, Trial, Value

# TVM's word for a trial that failed.
_FAILED = 1e9


Sketches = dict[str, dict[str, int]]


def read(lines: Iterable[bytes], recording: Recording, workloads: Sequence[str], sketches: Sketches) -> None:
    """Take all records, which have no time and no error; count what is torn or of another kind.

    Parameters
    ----------
    lines : iterable of bytes
    recording : Recording
    workloads : sequence of str
        The hashes of the database's workloads, by which tasks of different databases are the same.
    sketches : dict
        Of each task the numbers of its sketches: one for all logs of a report, or they would be called alike.

    >>> recording = Recording("folder")
    >>> trace = [[["GetSBlock", [], ["matmul", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
    ...           ["SamplePerfectTile", ["l2"], [4, 64], ["v4", "v5", "v6", "v7"]]], [[2, [2, 4, 1, 8]]]]
    >>> record = [0, [trace, [0.001], {"kind": "llvm"}, [["TENSOR", "float32", [8, 64]]]]]
    >>> read([json.dumps(record).encode(), b"[0, [[[["], recording, [], {})
    >>> (task,) = recording.tasks.values()
    >>> task.name, task.best, recording.malformed
    ('matmul 8x64', 0.001, 1)
    >>> list(task.knobs)
    ['sketch', 'matmul, loop 2, 64 iterations']
    """
    recording.read(lines, lambda said: _trial(said, sketches, workloads))


def hashes(lines: Iterable[bytes]) -> list[str]:
    """Of the workloads in ``database_workload.json``, up to the first line that is none.

    >>> hashes([b'["2222", "..."]', b'["12'])
    ['2222']
    """
    found: list[str] = []
    for line in lines:
        try:
            found.append(str(json.loads(line)[0]))
        except (LookupError, TypeError, ValueError):
            break
    return found


def _trial(said: Any, sketches: Sketches, workloads: Sequence[str]) -> Trial:
    workload, ((instructions, decisions), run_secs, target, arguments) = said
    seconds = [float(time) for time in run_secs or ()]
    latency = sum(seconds) / len(seconds) if seconds else math.inf
    works = 0 < latency < _FAILED
    trace = _Trace(instructions, dict(map(tuple, decisions)))
    shapes = ["x".join(map(str, argument[2])) for argument in arguments]
    which = workloads[workload] if 0 <= workload < len(workloads) else ""
    task = json.dumps([target, which or trace.block, arguments])
    known = sketches.setdefault(task, {})
    sketch = known.setdefault(trace.skeleton, len(known))
    knobs = {"sketch": Value("choice", str(sketch + 1)), **trace.knobs}
    name = printable(" ".join([trace.block, *shapes]))
    failure, latency = ("", latency) if works else ("failed", math.inf)
    return Trial(task, name, latency, failure, printable(_target(target)), math.nan, knobs, which)


def _target(said: dict[str, Any]) -> str:
    """In the words that TVM takes.

    >>> _target({"kind": "llvm", "mcpu": "core-avx2", "keys": ["cpu"], "num-cores": 2, "tag": ""})
    'llvm -mcpu=core-avx2 -num-cores=2'
    """
    return " ".join([str(said["kind"]), *(f"-{name}={said[name]}" for name in ("arch", "mcpu", "num-cores") if name in said)])


class _Trace:
    """A trace's decisions as knobs, called by the loops and blocks that they are about.

    Attributes
    ----------
    block : str
        What is tiled first, or else the first block that is no root: what the workload computes.
    skeleton : str
        The instructions up to the postprocessors', without the decisions: which sketch it is.
    knobs : dict of str to Value
    """

    def __init__(self, instructions: list[Any], decisions: dict[int, Any]) -> None:
        end = next((i for i, (kind, *_) in enumerate(instructions) if kind == "EnterPostproc"), len(instructions))
        sketch = instructions[:end]
        # How many loops are parallel at most is no decision, though TVM's own search varies it.
        said = [[kind, [], *rest] if rest[0] == ["meta_schedule.parallel"] else [kind, i, *rest] for kind, i, *rest in sketch]
        self.skeleton = json.dumps(said)
        self._called: dict[str, str] = {}  # what variables stand for
        annotated = {inputs[1]: attributes[0] for kind, inputs, attributes, _ in sketch if kind == "Annotate"}
        self.knobs: dict[str, Value] = {}
        names: Counter[str] = Counter()
        for position, (kind, inputs, attributes, outputs) in enumerate(sketch):
            self._call(kind, inputs, attributes, outputs)
            if position not in decisions:
                continue
            name, value = self._knob(kind, inputs, attributes, decisions[position], annotated.get(outputs[0], ""))
            names[name] += 1
            self.knobs[printable(name) if names[name] == 1 else f"{printable(name)} ({names[name]})"] = value
        tiled = (self._called.get(inputs[0], "") for kind, inputs, _, _ in sketch if kind == "SamplePerfectTile")
        blocks = (str(attributes[0]) for kind, _, attributes, _ in sketch if kind in _GET_BLOCK)
        named = [*(loop.partition(",")[0] for loop in tiled if loop), *(block for block in blocks if block != "root")]
        self.block = named[0] if named else "main"

    def _call(self, kind: str, inputs: list[Any], attributes: list[Any], outputs: list[str]) -> None:
        if kind in _GET_BLOCK:
            self._called[outputs[0]] = str(attributes[0])
        elif kind == "GetLoops":
            block = self._called.get(inputs[0], "a block")
            self._called.update((loop, f"{block}, loop {number}") for number, loop in enumerate(outputs, start=1))
        elif kind in _COPIES:
            self._called[outputs[0]] = f"{self._called.get(inputs[0], 'a block')}, {_COPIES[kind]}"
        elif kind in _RELATIVES:
            self._called.update((block, f"{_RELATIVES[kind]} of {self._called.get(inputs[0], 'a block')}") for block in outputs)

    def _knob(self, kind: str, inputs: list[Any], attributes: list[Any], decision: Any, annotation: str) -> tuple[str, Value]:
        if kind == "SamplePerfectTile":
            tile = tuple(int(part) for part in decision)
            if min(tile) < 1:
                raise ValueError(f"{tile} is no tile")
            name = f"{self._called.get(inputs[0], 'a fused loop')}, {math.prod(tile)} iterations"
            return name, Value("tile", tile, innermost=int(attributes[1]))
        if kind == "SampleCategorical":
            options = tuple(map(str, attributes[0]))
            name = str(annotation).removeprefix("meta_schedule.").replace("_", " ") or "choice of " + ", ".join(map(str, options))
            return name, Value("choice", options[int(decision)], options)
        return f"location of {self._called.get(inputs[0], 'a block')}", Value("number", int(decision))


_GET_BLOCK = ("GetSBlock", "GetBlock")
_COPIES = {
    "CacheRead": "as it is read",
    "CacheWrite": "as it is written",
    "ReadAt": "as it is read",
    "WriteAt": "as it is written",
    "RFactor": "in parts",
    "DecomposePadding": "padding",
}
_RELATIVES = {"GetConsumers": "consumer", "GetProducers": "producer", "GetChildBlocks": "part"}
