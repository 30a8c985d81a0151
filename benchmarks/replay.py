"""Replay a landscape: AutoTVM's own loop, tasks and tuners, with a builder and a runner that look
results up.

    landscape = load("benchmarks/landscapes/matmul-64.npz")
    task = replay.task(landscape)
    XGBTuner(task).tune(n_trial=512, measure_option=replay.measure_option(landscape))

With *known constraints* tuners can propose tabulated configurations only (AutoTVM's
``multi_filter``). With *hidden constraints* they can propose any, and a configuration that is not
in the table costs a trial and fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import autotvm, te
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.measure.measure import Builder, Runner
from tvm.autotvm.task import Task
from tvm.autotvm.task.task import deserialize_args

from benchmarks import operators
from benchmarks.landscape import Landscape, knob_values

# The landscapes of tasks without an operator, by the tasks' argument.
_LANDSCAPES: dict[str, Landscape] = {}
# Operations of a task without an operator: AutoTVM compares FLOPS.
_FLOP = 1e9


def has_template(landscape: Landscape) -> bool:
    """Whether AutoTVM can lower the landscape's configurations, as XGBTuner's loop features
    require.
    """
    return "operator" in landscape.metadata or "template" in landscape.metadata


def task_of(meta: dict[str, Any]) -> Task:
    """Create the task of a ``template`` with ``args`` for a ``target``, as JSON has them."""

    def hashable(value: Any) -> Any:
        return tuple(map(hashable, value)) if isinstance(value, list) else value

    arguments = deserialize_args(hashable(meta["args"]))
    return autotvm.task.create(meta["template"], arguments, meta["target"])


def task(landscape: Landscape, hidden: bool = True) -> Task:
    """Create an AutoTVM task with the landscape's configurations.

    Parameters
    ----------
    landscape : Landscape
    hidden : bool
        Whether constraints are hidden.

    Raises
    ------
    ValueError
        If the operator's template has changed since the recording, if constraints should be known
        but the landscape has a template and gaps, or if a value is not a number.
    """
    if has_template(landscape):
        if not hidden and len(landscape) < landscape.size:
            raise ValueError(
                f"landscape {landscape.name} has gaps, which its template cannot know: replay "
                "it with hidden=True"
            )
        meta = landscape.metadata
        is_named = "operator" in meta
        made = operators.task(meta["operator"], meta["target"]) if is_named else task_of(meta)
        if knob_values(made.config_space) != landscape.values:
            raise ValueError(
                f"landscape {landscape.name} was recorded from another version of its "
                "template: record it again"
            )
        return made
    others = {
        knob: value
        for knob, values in landscape.values.items()
        for value in values
        if not isinstance(value, (int, float))
    }
    if others:
        raise ValueError(
            f"values of landscape {landscape.name} must be numbers, which are XGBTuner's "
            f"features; {others} given"
        )
    key = f"{landscape.name}, {'hidden' if hidden else 'known'}"
    _LANDSCAPES[key] = landscape
    return autotvm.task.create("autotvm_opevo/landscape", args=(key, hidden), target="llvm")


@autotvm.template("autotvm_opevo/landscape")
def _template(key: str, hidden: bool) -> tuple[te.Schedule, list[te.Tensor]]:
    """Define the knobs, which have no effect on the schedule."""
    landscape = _LANDSCAPES[key]
    cfg = autotvm.get_config()
    for knob, values in landscape.values.items():
        cfg.define_knob(knob, values)

    def is_tabulated(entities: dict[str, Any]) -> bool:
        row = [values.index(entities[knob].val) for knob, values in landscape.values.items()]
        return landscape.config_indices(np.array([row]))[0] in landscape

    if not hidden and len(landscape) < landscape.size:
        cfg.multi_filter(is_tabulated)
    cfg.add_flop(_FLOP)
    tensor = te.placeholder((1,), name="x")
    result = te.compute((1,), lambda i: tensor[i], name="y")
    return te.create_schedule(result.op), [tensor, result]


def measure_option(landscape: Landscape, batch: int = 8) -> dict[str, Any]:
    """Create ``tune``'s ``measure_option``, for batches of `batch` configurations."""
    return autotvm.measure_option(
        builder=NoBuilder(n_parallel=batch), runner=LookUp(landscape, n_parallel=batch)
    )


class NoBuilder(Builder):
    """A builder that builds nothing."""

    def build(self, measure_inputs: list[MeasureInput]) -> list[None]:
        return [None] * len(measure_inputs)


class LookUp(Runner):
    """A runner that returns the recorded results."""

    def __init__(self, landscape: Landscape, n_parallel: int) -> None:
        super().__init__(n_parallel=n_parallel)
        self._landscape = landscape

    def get_build_kwargs(self) -> dict[str, Any]:
        return {}

    def run(
        self, measure_inputs: list[MeasureInput], build_results: list[Any]
    ) -> list[MeasureResult]:
        return [self._result(measured.config.index) for measured in measure_inputs]

    def _result(self, index: int) -> MeasureResult:
        milliseconds, error = self._landscape.look_up(index)
        if error == MeasureErrorNo.NO_ERROR:
            return MeasureResult((milliseconds / 1e3,), error, 0.0, 0.0)
        reason = tvm.TVMError(f"recorded as {MeasureErrorNo(error).name}")
        return MeasureResult(("", reason), error, 0.0, 0.0)
