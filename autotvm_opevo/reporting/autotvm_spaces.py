"""The whole graph of a knob of AutoTVM, where its template is known here: a log holds but the values that were tried."""

from __future__ import annotations

import json
import logging
from typing import Any

from autotvm_opevo.reporting.trials import Knob, Task, Value
from autotvm_opevo.topology import Topology

logger = logging.getLogger(__name__)


class Template:
    """What the template of a task says of its knobs; nothing where there is no AutoTVM, or the template is not registered.

    Parameters
    ----------
    task : Task
        Of AutoTVM.
    """

    def __init__(self, task: Task) -> None:
        try:
            self._knobs = _knob_space(*json.loads(task.key))
        except Exception as error:  # whatever TVM or a template raises: the report is drawn without it
            logger.debug("%s: no template here: %s", task.name, error)
            self._knobs = None

    @property
    def known(self) -> bool:
        """Whether there is one here."""
        return self._knobs is not None

    def value(self, name: str, value: Value) -> Value:
        """The same, a tile with the outermost part that the log leaves open, where that is known."""
        try:
            vertex = self._knobs.vertex(name, _entity(value)) if self._knobs and value.kind == "inner tile" else value.value
        except (KeyError, ValueError):  # of a template that was another then
            return value
        whole = isinstance(vertex, tuple) and isinstance(value.value, tuple) and len(vertex) > len(value.value)
        return Value("tile", vertex) if whole else value

    def knob(self, name: str, knob: Knob) -> tuple[Knob, Topology | None]:
        """What was seen of a knob in the template's words, and its topology; as it is, and None, where no template is known."""
        if self._knobs is None or name not in self._knobs.space.knobs:
            return knob, None
        whole = Knob("tile" if knob.kind == "inner tile" else knob.kind, knob.options)
        for value, seen in knob.seen.items():
            try:
                whole.add(self._knobs.vertex(name, _entity(Value(knob.kind, value))), seen.trials, seen.latency)
            except ValueError:
                return knob, None
        return whole, self._knobs.space.knobs[name]


def _knob_space(target: str, template: str, arguments: Any) -> Any:
    from autotvm_opevo.autotvm.space import KnobSpace  # isort: skip  # says what is missing where there is no AutoTVM
    from tvm import autotvm, relay  # noqa: F401  # registers the templates of Relay's operators
    from tvm.target import Target

    task = autotvm.task.create(template, _tuples(arguments), Target(target))
    return KnobSpace(task.config_space)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _entity(said: Value) -> Any:
    from tvm.autotvm.task.space import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity

    kind, value = said.kind, said.value
    if kind in ("tile", "inner tile"):
        return SplitEntity([-1, *value] if kind == "inner tile" else list(value))  # type: ignore[misc, call-overload]
    if kind == "order":
        return ReorderEntity(list(value))  # type: ignore[call-overload]
    if kind == "annotation":
        return AnnotateEntity(list(value))  # type: ignore[call-overload]
    return OtherOptionEntity(json.loads(value) if kind == "choice" else value)  # type: ignore[arg-type]
