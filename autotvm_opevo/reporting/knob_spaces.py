"""The topologies of a task's knobs, from the journal or AutoTVM's template; a log only has the values that were tried."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from autotvm_opevo._utils.text import printable
from autotvm_opevo.reporting.knobs import Knob, Value
from autotvm_opevo.reporting.network import TaskInLogs
from autotvm_opevo.topology import Topology
from autotvm_opevo.topology.serialization import from_json

logger = logging.getLogger(__name__)


class KnobSpaces:
    """The topologies of a task's knobs, as far as they are known, and the vertices that the values of its log are.

    Without a journal that has them, they are those of AutoTVM's template, if it is registered: importing it takes seconds.

    Parameters
    ----------
    task : TaskInLogs
    """

    def __init__(self, task: TaskInLogs) -> None:
        known = [one.task.topologies for one in task.in_logs if one.task.topologies]
        self._topologies = _from_journal(known[0]) if known else _registered(task.example.key)

    @property
    def known(self) -> bool:
        """Whether the topologies are."""
        return bool(self._topologies)

    def complete(self, name: str, value: Value) -> Value:
        """Add the outermost part to an inner tile, if the knob's topology is known; return any other value unchanged."""
        if value.kind != "inner tile" or name not in self._topologies:
            return value
        try:
            vertex = _vertex(self._topologies[name], value)
        except ValueError:  # the template has changed since
            return value
        return value if vertex == value.value else Value("tile", vertex)  # with a tail, the outermost part follows from the loop

    def complete_knob(self, name: str, knob: Knob) -> tuple[Knob, Topology | None]:
        """A knob with its values as vertices of its topology, and the topology; unchanged and None if that is unknown."""
        topology = self._topologies.get(name)
        if topology is None:
            return knob, None
        complete = Knob("tile" if knob.kind == "inner tile" else knob.kind, knob.options)
        for value, stats in knob.stats.items():
            try:
                complete.merge(_vertex(topology, Value(knob.kind, value)), stats)
            except ValueError:
                return knob, None
        return complete, topology


def _vertex(topology: Topology, value: Value) -> Hashable:
    """The vertex that a value of a log is; raises `ValueError` if there is none.

    Logs can lack the outermost part of a tile; with tails, it follows from the loop, and the vertices lack it. AutoTVM's
    categories are JSON.
    """
    vertex: Any = value.value
    forms = [vertex]
    if value.kind == "inner tile":
        forms.append((topology.extent // math.prod(vertex), *vertex))
    elif value.kind == "tile":
        forms.append(vertex[1:])
    if not isinstance(vertex, str):
        forms.append(json.dumps(vertex))
    form = next((form for form in forms if form in topology), vertex)
    return topology[topology.index(form)]  # type: ignore[no-any-return]


def _from_journal(knobs: Mapping[str, Sequence[Any]]) -> Mapping[str, Topology]:
    """The topologies as a journal has them; those that are damaged are left out."""
    found = {}
    for name, knob in knobs.items():
        with suppress(LookupError, TypeError, ValueError):
            found[printable(name)] = from_json(*knob)
    return found


def _registered(key: str) -> Mapping[str, Topology]:
    """The topologies according to AutoTVM's template; empty without AutoTVM or the template."""
    try:
        target, template, arguments = json.loads(key)
        return _space(target, template, arguments).knobs  # type: ignore[no-any-return]
    except Exception as error:  # whatever TVM or a template raises: the report does without it
        logger.debug("%s: no template: %s", key, error)
        return {}


def _space(target: str, template: str, arguments: Any) -> Any:
    from autotvm_opevo.autotvm.space import KnobSpace  # isort: skip  # first: explains what is missing without AutoTVM
    from tvm import autotvm, relay  # noqa: F401  # registers the templates of Relay's operators
    from tvm.target import Target

    task = autotvm.task.create(template, _as_tuples(arguments), Target(target))
    return KnobSpace(task.config_space).space


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
