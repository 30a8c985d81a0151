"""Parser of AutoTVM logs: plain JSON, of which nothing is unpickled or evaluated. Needs no TVM."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from autotvm_opevo._utils.text import printable
from autotvm_opevo.reporting.trials import TaskId, Trial, Value
from autotvm_opevo.tuning.record_lines import FAILURES, task_key, task_name, without_options

# How a record begins, with its target.
_TARGET = re.compile(rb'\{"input": \["([^"\\]*)"')


def with_triples(lines: Iterable[bytes]) -> dict[str, str]:
    """Targets of records without a triple, and the same with the only one that occurs. Early TVMs
    do not write their machine's.

    >>> early = b'{"input": ["llvm -keys=cpu -link-params=0", '
    >>> with_triples([early, b'{"input": ["llvm -keys=cpu -mtriple=x86_64-linux", '])
    {'llvm -keys=cpu': 'llvm -keys=cpu -mtriple=x86_64-linux'}
    """
    matches = filter(None, map(_TARGET.match, lines))
    known: defaultdict[str, set[str]] = defaultdict(set)
    for text in {match[1].decode(errors="replace") for match in matches}:
        target = without_options(text)
        known[without_options(target, {"mtriple"})].add(target)
    pairs = {target: same for target, same in known.items() if len(same) == 2 and target in same}
    return {target: max(same, key=len) for target, same in pairs.items()}


def autotvm_trial(record: Any, triples: Mapping[str, str]) -> tuple[TaskId, Trial]:
    """The task and the trial of a record; raises an error of any common type if it is none. Targets
    without a triple get one of `triples`.

    >>> record = {
    ...     "input": ["llvm", "dense", [["TENSOR", [1, 8], "float32"]], {}],
    ...     "config": {"index": 3, "code_hash": None, "entity": [["tile_x", "sp", [-1, 4]]]},
    ...     "result": [[0.002], 0, 1.5, 1795260407.0],
    ... }
    >>> task, trial = autotvm_trial(record, {})
    >>> task.name, trial.latency, trial.knobs["tile_x"].value
    ('dense 1x8', 0.002, (4,))
    """
    recorded, template, arguments, *_ = record["input"]
    target = without_options(recorded)
    target = triples.get(target, target)
    costs, error_no, _, timestamp = record["result"]
    ended = float(timestamp)
    latency = sum(map(float, costs)) / len(costs) if error_no == 0 else math.inf
    failure = dict(enumerate(FAILURES))[error_no]  # which may be written as a float
    if error_no == 0 and not 0 < latency < math.inf:  # no valid measurement
        latency, failure = math.inf, FAILURES[-1]
    key, run_log_key = (task_key(text, template, arguments) for text in (target, recorded))
    task = TaskId(key, printable(task_name(template, arguments)), printable(target), run_log_key)
    entities = record["config"]["entity"]
    knobs = {printable(name): _parse_value(kind, value) for name, kind, value in entities}
    return task, Trial(latency, failure, knobs, ended if 0 <= ended < 1e10 else math.nan)


def _parse_value(kind: str, value: Any) -> Value:
    if kind == "sp":
        inner = value[0] == -1
        tile = tuple(map(int, value[1:] if inner else value))
        if min(tile, default=0) < 1:
            raise ValueError(f"the parts of a tile must be positive integers, {value} given")
        return Value("inner tile" if inner else "tile", tile)
    if kind == "re":
        return Value("order", tuple(map(int, value)))
    if kind == "an":
        return Value("annotation", tuple(map(printable, value)))
    if type(value) in (int, float) and abs(value) < math.inf:
        return Value("number", value)
    return Value("choice", json.dumps(value))  # which escapes all but ASCII
