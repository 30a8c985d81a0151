"""The whole graph of a knob of AutoTVM, where its template is known here: a log holds but the values that were tried."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from autotvm_opevo.reporting.trials import Knob, Task
from autotvm_opevo.topology import Topology

logger = logging.getLogger(__name__)

Full = Callable[[str, Knob], tuple[Knob, "Topology | None"]]


def full_topologies(task: Task) -> Full:
    """A function from a knob's name and what was seen of it to the same in the template's words and the template's topology.

    Where there is no AutoTVM, or the template is not registered, it gives the knob as it is and None.
    """
    try:
        target, template, arguments = json.loads(task.key)
        space = _space(target, template, arguments)
    except Exception as error:  # whatever TVM or a template raises: the report is drawn without it
        logger.debug("%s: no template here: %s", task.name, error)
        return lambda name, knob: (knob, None)

    def full(name: str, knob: Knob) -> tuple[Knob, Topology | None]:
        if name not in space.space.knobs:
            return knob, None
        whole = Knob(knob.kind, knob.options)
        for value, seen in knob.seen.items():
            try:
                whole.add(space.vertex(name, _entity(knob.kind, value)), seen.trials, seen.latency)
            except ValueError:  # of a template that was another then
                return knob, None
        return whole, space.space.knobs[name]

    return full


def _space(target: str, template: str, arguments: Any) -> Any:
    from autotvm_opevo.autotvm.knobs import KnobSpace  # isort: skip  # says what is missing where there is no AutoTVM
    from tvm import autotvm, relay  # noqa: F401  # registers the templates of Relay's operators
    from tvm.target import Target

    task = autotvm.task.create(template, _tuples(arguments), Target(target))
    return KnobSpace(task.config_space)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _entity(kind: str, value: Any) -> Any:
    from tvm.autotvm.task.space import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity

    if kind in ("tile", "inner tile"):
        return SplitEntity([-1, *value] if kind == "inner tile" else list(value))
    if kind == "order":
        return ReorderEntity(list(value))
    if kind == "annotation":
        return AnnotateEntity(list(value))
    return OtherOptionEntity(json.loads(value) if kind == "choice" else value)
