"""Complete knob graphs from AutoTVM's templates, where they are registered; a log only has the values that were tried."""

from __future__ import annotations

import json
import logging
from typing import Any

from autotvm_opevo.reporting.trials import Task
from autotvm_opevo.reporting.values import Knob, Value
from autotvm_opevo.topology import Topology

logger = logging.getLogger(__name__)


class Template:
    """The knobs of an AutoTVM task according to its template; without AutoTVM or the template, what the log has is kept.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        try:
            self._knobs = _knob_space(*json.loads(task.key))
        except Exception as error:  # whatever TVM or a template raises: the report does without it
            logger.debug("%s: no template: %s", task.name, error)
            self._knobs = None

    @property
    def known(self) -> bool:
        """Whether the template is registered."""
        return self._knobs is not None

    def complete(self, name: str, value: Value) -> Value:
        """Add the outermost part to an inner tile, if the template is known; return any other value unchanged."""
        try:
            vertex = self._knobs.vertex(name, _entity(value)) if self._knobs and value.kind == "inner tile" else value.value
        except (KeyError, ValueError):  # the template has changed since
            return value
        is_complete = isinstance(vertex, tuple) and isinstance(value.value, tuple) and len(vertex) > len(value.value)
        return Value("tile", vertex) if is_complete else value

    def complete_knob(self, name: str, knob: Knob) -> tuple[Knob, Topology | None]:
        """A knob with its values as vertices of its topology, and the topology; unchanged and None if the template is unknown."""
        if self._knobs is None or name not in self._knobs.space.knobs:
            return knob, None
        complete = Knob("tile" if knob.kind == "inner tile" else knob.kind, knob.options)
        for value, stats in knob.stats.items():
            try:
                complete.merge(self._knobs.vertex(name, _entity(Value(knob.kind, value))), stats)
            except ValueError:
                return knob, None
        return complete, self._knobs.space.knobs[name]


def _knob_space(target: str, template: str, arguments: Any) -> Any:
    from autotvm_opevo.autotvm.space import KnobSpace  # isort: skip  # first: explains what is missing without AutoTVM
    from tvm import autotvm, relay  # noqa: F401  # registers the templates of Relay's operators
    from tvm.target import Target

    task = autotvm.task.create(template, _as_tuples(arguments), Target(target))
    return KnobSpace(task.config_space)


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _entity(value: Value) -> Any:
    from tvm.autotvm.task.space import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity

    kind, vertex = value.kind, value.value
    if kind in ("tile", "inner tile"):
        return SplitEntity([-1, *vertex] if kind == "inner tile" else list(vertex))  # type: ignore[misc, call-overload]
    if kind == "order":
        return ReorderEntity(list(vertex))  # type: ignore[call-overload]
    if kind == "annotation":
        return AnnotateEntity(list(vertex))  # type: ignore[call-overload]
    return OtherOptionEntity(json.loads(vertex) if kind == "choice" else vertex)  # type: ignore[arg-type]
