"""A landscape as something to tune: AutoTVM's own loop, tasks and tuners, with a builder and a runner that look the answer up.

    landscape = load("benchmarks/landscapes/matmul-64.npz")
    task = replay.task(landscape)
    XGBTuner(task).tune(n_trial=512, measure_option=replay.measure_option(landscape))

*Known* is a landscape of which only the tabulated points may be proposed (AutoTVM's ``multi_filter``); *blind* is one of which
the whole space may: what is not tabulated costs a trial, and fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import autotvm, te
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.measure.measure import Builder, Runner
from tvm.autotvm.task import Task

from benchmarks import operators
from benchmarks.landscape import Landscape, entity_value

# Those that a task was made of, by the name that the task's argument holds.
_LANDSCAPES: dict[str, Landscape] = {}
# What a task without an operator counts for a run, so that AutoTVM has FLOPS to compare.
_FLOP = 1e9


def has_template(landscape: Landscape) -> bool:
    """Whether AutoTVM can lower the landscape's configurations, which XGBTuner's own features are taken from."""
    return "operator" in landscape.about


def task(landscape: Landscape, blind: bool = True) -> Task:
    """An AutoTVM task whose configurations are the landscape's.

    Raises
    ------
    ValueError
        If the operator's template does not have the space any more that was recorded, if only tabulated points may be proposed
        of a landscape with a template and gaps, or if a value is no number.
    """
    if has_template(landscape):
        if not blind and len(landscape) < landscape.size:
            raise ValueError(f"landscape {landscape.name} has gaps and a template, which proposes them: replay it blind")
        made = operators.task(landscape.about["operator"], landscape.about["target"])
        space = made.config_space.space_map
        if {
            knob: [entity_value(entity) for entity in transform.entities] for knob, transform in space.items()
        } != landscape.values:
            raise ValueError(f"landscape {landscape.name} was recorded of another template: record it again")
        return made
    words = {knob: value for knob, values in landscape.values.items() for value in values if not isinstance(value, (int, float))}
    if words:
        raise ValueError(f"values must be numbers, which XGBTuner takes for features; {words} given in {landscape.name}")
    key = f"{landscape.name}, {'blind' if blind else 'known'}"
    _LANDSCAPES[key] = landscape
    return autotvm.task.create("autotvm_opevo/landscape", args=(key, blind), target="llvm")


@autotvm.template("autotvm_opevo/landscape")
def _template(key: str, blind: bool) -> tuple[te.Schedule, list[te.Tensor]]:
    """Knobs that hold the values themselves, and change nothing."""
    landscape = _LANDSCAPES[key]
    cfg = autotvm.get_config()
    for knob, values in landscape.values.items():
        cfg.define_knob(knob, values)
    if not blind and len(landscape) < landscape.size:
        cfg.multi_filter(_Tabulated(landscape))
    cfg.add_flop(_FLOP)
    tensor = te.placeholder((1,), name="x")
    result = te.compute((1,), lambda i: tensor[i], name="y")
    return te.create_schedule(result.op), [tensor, result]


class _Tabulated:
    """Whether entities are a row of the table."""

    def __init__(self, landscape: Landscape) -> None:
        self._landscape = landscape

    def __call__(self, entities: dict[str, Any]) -> bool:
        positions = [values.index(entities[knob].val) for knob, values in self._landscape.values.items()]
        return self._landscape.numbers(np.array([positions]))[0] in self._landscape


def measure_option(landscape: Landscape, batch: int = 8) -> dict[str, Any]:
    """What ``tune`` takes: `batch` configurations at once, and no time at all."""
    option: dict[str, Any] = autotvm.measure_option(
        builder=NoBuilder(n_parallel=batch), runner=LookUp(landscape, n_parallel=batch)
    )
    return option


class NoBuilder(Builder):
    """Builds nothing."""

    def build(self, measure_inputs: list[MeasureInput]) -> list[None]:
        return [None] * len(measure_inputs)


class LookUp(Runner):
    """Answers with what was measured."""

    def __init__(self, landscape: Landscape, n_parallel: int) -> None:
        super().__init__(n_parallel=n_parallel)
        self._landscape = landscape

    def get_build_kwargs(self) -> dict[str, Any]:
        return {}

    def run(self, measure_inputs: list[MeasureInput], build_results: list[Any]) -> list[MeasureResult]:
        return [self._result(measured.config.index) for measured in measure_inputs]

    def _result(self, number: int) -> MeasureResult:
        milliseconds, error = self._landscape.look_up(number)
        if error == MeasureErrorNo.NO_ERROR:
            return MeasureResult((milliseconds / 1e3,), error, 0.0, 0.0)
        reason = tvm.TVMError(f"recorded as {MeasureErrorNo(error).name}")
        return MeasureResult(("", reason), error, 0.0, 0.0)
