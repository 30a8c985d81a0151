"""AutoTVM's knobs as topologies: conversion of a ConfigSpace to a Space, and of configurations in
both directions.
"""

from __future__ import annotations

import json
import logging
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from tvm.autotvm.task.space import (
    AnnotateSpace,
    ConfigEntity,
    ConfigSpace,
    OtherOptionSpace,
    ReorderEntity,
    ReorderSpace,
    SplitSpace,
    TransformSpace,
)

from autotvm_opevo._utils.validation import is_number
from autotvm_opevo.search.space import Configuration, Space
from autotvm_opevo.topology import (
    Categorical,
    Discrete,
    Factorization,
    InducedSubgraph,
    Permutation,
    Tiling,
    Topology,
)

logger = logging.getLogger("autotvm")

Tiles = tuple[int, ...]
Reader = Callable[[Any], Any]  # from an entity to its vertex
# Exceptions from entities that do not have the structure of their kind of knob.
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class KnobSpace:
    """A task's ``config_space`` as a `Space`, its attribute ``space``.

    A ``multi_filter`` becomes the space's constraint and is evaluated per configuration, whereas
    AutoTVM's ``is_index_valid`` and ``len`` enumerate the whole space first.
    """

    def __init__(self, config_space: ConfigSpace) -> None:
        self._config_space = config_space
        self._knobs = {name: Knob(transform) for name, transform in config_space.space_map.items()}
        unstructured = [name for name, knob in self._knobs.items() if not knob.readable]
        if unstructured:
            logger.warning(
                "Knobs without a known structure are treated as categorical: %s.", unstructured
            )
        multi_filter = getattr(config_space, "_shared_filter", None)  # since TVM 0.11
        constraint = (
            None
            if multi_filter is None
            else lambda configuration: multi_filter(self._entities(configuration))
        )
        self.space = Space({name: knob.topology for name, knob in self._knobs.items()}, constraint)

    def config_entity(self, configuration: Configuration) -> ConfigEntity:
        """AutoTVM's ConfigEntity of a configuration; unlike ``ConfigSpace.get``, correct beyond
        2**63 points.
        """
        index, stride = 0, 1
        for name, knob in self._knobs.items():
            position, _ = knob.entities[configuration[name]]
            index += stride * position
            stride *= knob.positions
        return ConfigEntity(
            index,
            self._config_space.code_hash,
            self._entities(configuration),
            self._config_space._constraints,
        )

    def configuration(self, config: ConfigEntity) -> Configuration:
        """The configuration of a ConfigEntity, possibly from a log; a `ValueError` if it is not in
        this space.
        """
        entities = config._entity_map
        if entities.keys() != self._knobs.keys():
            raise ValueError(
                f"config must have the knobs {list(self._knobs)}, {list(entities)} given"
            )
        return {name: knob.value(entities[name]) for name, knob in self._knobs.items()}

    def own(self, config: ConfigEntity) -> ConfigEntity:
        """This space's ConfigEntity of the same values, whose ``index`` tells it from all others:
        AutoTVM's lists can have equal entities, at several indices; this takes the first. Raises as
        `configuration`.
        """
        return self.config_entity(self.configuration(config))

    def _entities(self, configuration: Configuration) -> OrderedDict[str, Any]:
        return OrderedDict(
            (name, knob.entities[configuration[name]][1]) for name, knob in self._knobs.items()
        )


class Knob:
    """One knob, as ``cfg.define_split`` and the like create it. Entities are identified by content:
    their order in AutoTVM carries no information.

    Splits become factorizations, or tilings if they leave tails; reorders permutations; numbers
    discrete; annotations and all other options categorical, with their JSON text as value, which
    tells True from 1 but not a list from a tuple. A knob whose entities do not have the structure
    of its kind is categorical, too, and not `readable`.

    AutoTVM's list has `positions` entities, of which several may be equal, and then share a vertex;
    `entities` has the first of each vertex, with its position.
    """

    def __init__(self, transform: TransformSpace) -> None:
        # AutoTVM's identity reorder has a range, which its own log cannot represent
        entities = [
            ReorderEntity(list(entity.perm))
            if isinstance(entity, ReorderEntity) and isinstance(entity.perm, range)
            else entity
            for entity in transform.entities
        ]
        try:
            reading = next(
                (read(transform, entities) for kind, read in _KINDS if isinstance(transform, kind)),
                None,
            )
        except _UNREADABLE:
            reading = None
        self.readable = reading is not None
        self.topology, self._read = reading or _categorical(
            entities, lambda entity: _text(vars(entity))
        )
        self.positions = len(entities)
        self.entities: dict[Any, tuple[int, Any]] = {}
        for position, entity in enumerate(entities):
            self.entities.setdefault(self._read(entity), (position, entity))

    def value(self, entity: Any) -> Any:
        """The vertex of an entity, possibly from a log; raises `ValueError` if this knob has no
        such entity.
        """
        try:
            value = self._read(entity)
        except _UNREADABLE as error:
            raise ValueError(
                f"entity {entity!r} given, which is of another kind: {error}"
            ) from None
        return self.topology[self.topology.index(value)]


Reading = tuple[Topology, Reader]


def _split(transform: SplitSpace, entities: list[Any]) -> Reading | None:
    def factors(entity: Any) -> Tiles:
        """All parts; TVM writes the outermost one as -1 and computes it."""
        size = _integers(entity.size)
        inner = math.prod(size[1:])
        resolved = size[0] == -1 and inner > 0 and transform.product % inner == 0
        return (transform.product // inner, *size[1:]) if resolved else size

    def inner_parts(entity: Any) -> Tiles:
        """All but the outermost part, which with tails follows from the others."""
        return _integers(entity.size)[1:]

    sizes = [factors(entity) for entity in entities]
    if all(min(size) > 0 and math.prod(size) == math.prod(sizes[0]) for size in sizes):
        return _subgraph(Factorization(math.prod(sizes[0]), len(sizes[0])), sizes), factors
    tiles = [inner_parts(entity) for entity in entities]
    if len(set(tiles)) == len(set(sizes)):
        return InducedSubgraph(Tiling(tiles), dict.fromkeys(tiles)), inner_parts
    return None


def _reorder(_: ReorderSpace, entities: list[Any]) -> Reading | None:
    def permutation(entity: Any) -> Tiles:
        return _integers(entity.perm)

    orders = [permutation(entity) for entity in entities]
    if any(sorted(order) != list(range(len(orders[0]))) for order in orders):
        return None
    return _subgraph(Permutation(len(orders[0])), orders), permutation


def _annotate(_: AnnotateSpace, entities: list[Any]) -> Reading:
    return _categorical(entities, lambda entity: _text(entity.anns))


def _option(_: OtherOptionSpace, entities: list[Any]) -> Reading:
    if any(isinstance(entity.val, bool) or not is_number(entity.val) for entity in entities):
        return _categorical(entities, lambda entity: _text(entity.val))
    return Discrete({entity.val for entity in entities}), lambda entity: entity.val


_KINDS: list[tuple[type, Callable[..., Reading | None]]] = [
    (SplitSpace, _split),
    (ReorderSpace, _reorder),
    (AnnotateSpace, _annotate),
    (OtherOptionSpace, _option),
]


def _subgraph(graph: Topology, values: list[Tiles]) -> Topology:
    """The graph itself if the values are all its vertices, else the subgraph that they induce."""
    distinct = dict.fromkeys(values)
    return graph if graph.size == len(distinct) else InducedSubgraph(graph, distinct)


def _categorical(entities: list[Any], read: Reader) -> Reading:
    return Categorical(dict.fromkeys(map(read, entities))), read


def _text(value: Any) -> str:
    """JSON text of a value, equal for a list and a tuple; its ``repr`` if JSON cannot represent
    it.
    """
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return repr(value)


def _integers(values: Any) -> Tiles:
    integers = tuple(map(int, values))
    if any(integer != value for integer, value in zip(integers, values)):
        raise ValueError(f"not all of {values!r} are integers")
    return integers
