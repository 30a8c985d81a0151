"""Conversion of real AutoTVM ConfigSpaces to Spaces: every kind of knob, with each of its
policies.
"""

import json
import logging

import pytest
from small_templates import matmul_task, scaling_task
from tvm.autotvm.task.space import ConfigEntity, ConfigSpace

from autotvm_opevo.autotvm.space import Knob, KnobSpace
from autotvm_opevo.topology import (
    Categorical,
    Discrete,
    Factorization,
    InducedSubgraph,
    Permutation,
)


def axes(count):
    return [ConfigSpace.axis(4) for _ in range(count)]


def split(extent, **options):
    cfg = ConfigSpace()
    cfg.define_split("knob", cfg.axis(extent), **{"num_outputs": 3, **options})
    return cfg


def reorder(count, policy, **options):
    cfg = ConfigSpace()
    given = axes(count)
    chosen = {
        name: [[given[i] for i in chain] for chain in chains]
        for name, chains in options.items()
        if name != "interval"
    }
    cfg.define_reorder("knob", given, policy, **{**options, **chosen})
    return cfg


def annotate(count, policy, **options):
    cfg = ConfigSpace()
    cfg.define_annotate("knob", axes(count), policy, **options)
    return cfg


def option(*candidates):
    cfg = ConfigSpace()
    cfg.define_knob("knob", list(candidates))
    return cfg


SPLITS = {
    "factors": split(64),
    "factors of a prime": split(97),
    "factors of one": split(1),
    "factors into two": split(24, num_outputs=2),
    "factors with a limit": split(64, max_factor=8),
    "factors with a filter": split(64, filter=lambda e: e.size[-1] in (1, 32)),
    "power2 with tails": split(60, policy="power2"),
    "power2 without": split(60, policy="power2", no_tail=True),
    "verbose with tails": split(60, policy="verbose"),
    "verbose without": split(60, policy="verbose", no_tail=True),
    "verbose with limit and filter": split(
        60, policy="verbose", max_factor=16, filter=lambda e: e.size[1] != 2
    ),
    "candidates that multiply to the extent": split(
        64, policy="candidate", candidate=[[64, 1, 1], [4, 4, 4], [1, 8, 8]]
    ),
    "candidates with -1": split(
        64, policy="candidate", candidate=[[-1, 1, 1], [-1, 4, 4], [-1, 8, 8]]
    ),
    "candidates with tails": split(
        60, policy="candidate", candidate=[[-1, 7, 13], [-1, 4, 4], [-1, 1, 1]]
    ),
    "candidates with and without": split(
        60, policy="candidate", candidate=[[-1, 16, 4], [15, 4, 1], [-1, 7, 2]]
    ),
    "candidates of any product": split(
        64, policy="candidate", candidate=[[2, 4, 4], [1, 1, 7], [4, 4, 8]]
    ),
}
REORDERS = {
    "identity": reorder(4, "identity"),
    "all": reorder(4, "all"),
    "all of one": reorder(1, "all"),
    "interval_all": reorder(6, "interval_all", interval=(1, 4)),
    "candidate": reorder(4, "candidate", candidate=[[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]]),
    "interleave": reorder(8, "interleave", spatial=[[0, 1, 2], [3, 4, 5]], reduce=[[6, 7]]),
    "interleave_cuda": reorder(
        8, "interleave_cuda", spatial=[[0, 1, 2], [3, 4, 5]], reduce=[[6, 7]]
    ),
}
ANNOTATIONS = {
    **{
        policy: annotate(2, policy)
        for policy in ("none", "unroll", "try_unroll", "try_vec", "try_unroll_vec")
    },
    "vec": annotate(1, "vec"),  # for two axes AutoTVM has no entity: only one may be vectorized
    **{f"{policy} {n}": annotate(n, policy) for policy in ("bind_gpu",) for n in (2, 4, 7)},
    **{f"bind_gpu_virtual {n}": annotate(n, "bind_gpu_virtual") for n in (3, 6, 9)},
    "locate_cache": annotate(5, "locate_cache", num_anchor=2),
}
OPTIONS = {
    "numbers": option(1500, 0, 512),
    "floats": option(0.5, 0.25, 1),
    "booleans": option(True, False),
    "strings": option("a", "b"),
    "mixed": option(None, 1, "1", True, 1.5, [1, 2], {"a": 1}),
    "one": option(7),
    "the same twice": option(4, 8, 4),
}
ALL = {**SPLITS, **REORDERS, **ANNOTATIONS, **OPTIONS}


def logged(entity):
    """What AutoTVM's log has for an entity."""
    return json.dumps(ConfigEntity(0, None, {"knob": entity}, []).to_json_dict()["entity"])


def topology(cfg):
    return Knob(cfg.space_map["knob"]).topology


@pytest.mark.parametrize("cfg", ALL.values(), ids=ALL)
class TestEveryKnob:
    def test_every_entity_is_a_vertex_and_back(self, cfg):
        knob = Knob(cfg.space_map["knob"])
        loggable = [knob.entities[value][1] for value in knob.topology]
        assert knob.readable
        assert len(loggable) == len(set(map(logged, loggable))) == knob.topology.size
        for value, entity in zip(knob.topology, loggable):
            assert knob.value(entity) == value
        assert {
            str(list(e.perm) if hasattr(e, "perm") else e) for e in cfg.space_map["knob"].entities
        } == {str(list(e.perm) if hasattr(e, "perm") else e) for e in loggable}

    def test_positions_are_those_of_autotvm(self, cfg):
        knob = Knob(cfg.space_map["knob"])
        assert knob.positions == len(cfg.space_map["knob"])
        for value in knob.topology:
            position, _ = knob.entities[value]
            assert knob.value(cfg.space_map["knob"][position]) == value

    def test_configurations_from_a_log_have_the_same_vertices(self, cfg):
        space = KnobSpace(cfg)
        for value in space.space.knobs["knob"]:
            written = json.dumps(space.config_entity({"knob": value}).to_json_dict())
            assert space.configuration(ConfigEntity.from_json_dict(json.loads(written))) == {
                "knob": value
            }


def test_unrestricted_splits_are_factorizations():
    for cfg, parts, extent in [
        (SPLITS["factors"], 3, 64),
        (SPLITS["factors into two"], 2, 24),
        (SPLITS["factors of one"], 3, 1),
    ]:
        graph = topology(cfg)
        assert isinstance(graph, Factorization)
        assert (graph.product, graph.parts) == (extent, parts)
        assert Knob(cfg.space_map["knob"]).entities[graph[0]][1].size == [-1, *graph[0][1:]]


def test_restricted_splits_are_subgraphs_of_factorizations():
    graph = topology(SPLITS["factors with a filter"])
    assert isinstance(graph, InducedSubgraph)
    whole = Factorization(64, parts=3)
    assert all(value in whole and value[-1] in (1, 32) for value in graph)
    layer = (4, 16, 1)
    assert set(graph.neighbours(layer)) >= {v for v in whole.neighbours(layer) if v[-1] == 1}


def test_splits_with_tails_are_tilings():
    """The neighbours of (16, 2) divide a part by 2, or move a 2 to the other part."""
    graph = topology(SPLITS["power2 with tails"])
    assert (16, 2) in graph
    # 32 x 2 and 16 x 4 exceed the extent
    assert set(graph.neighbours((16, 2))) == {(8, 2), (16, 1), (32, 1), (8, 4)}


def test_reorders_are_permutations():
    assert isinstance(topology(REORDERS["all"]), Permutation)
    interval = topology(REORDERS["interval_all"])
    assert set(interval.neighbours((0, 1, 2, 3, 4, 5))) == {
        (0, 2, 1, 3, 4, 5),
        (0, 3, 2, 1, 4, 5),
        (0, 1, 3, 2, 4, 5),
    }


def test_annotations_are_categorical():
    assert isinstance(topology(ANNOTATIONS["try_unroll_vec"]), Categorical)


def test_options_are_discrete_if_all_are_numbers():
    assert list(topology(OPTIONS["numbers"])) == [0, 512, 1500]
    assert isinstance(topology(OPTIONS["floats"]), Discrete)
    assert list(topology(OPTIONS["the same twice"])) == [4, 8]
    for name in ("booleans", "strings", "mixed"):
        assert isinstance(topology(OPTIONS[name]), Categorical)


def test_equal_values_of_different_types_stay_distinct():
    graph = topology(OPTIONS["mixed"])
    assert len(graph) == 7
    knob = Knob(OPTIONS["mixed"].space_map["knob"])
    assert [knob.entities[value][1].val for value in graph] == [
        None,
        1,
        "1",
        True,
        1.5,
        [1, 2],
        {"a": 1},
    ]


UNSTRUCTURED = {
    "a part of zero": split(64, policy="candidate", candidate=[(0, 4, 4), (4, 4, 4)]),
    "two unknown parts": split(64, policy="candidate", candidate=[[-1, -1, 4], [4, 4, 4]]),
    "tiles that differ only outside": split(
        64, policy="candidate", candidate=[[7, 4, 4], [4, 4, 4]]
    ),
    "a missing part": split(64, policy="candidate", candidate=[[None, 4, 4], [4, 4, 4]]),
    "a part that is a string": split(64, policy="candidate", candidate=[["a", 4, 4], [4, 4, 4]]),
    "fractional parts": split(64, policy="candidate", candidate=[[2.5, 4, 4], [2.9, 4, 4]]),
    "primes beyond trial division": split(
        64, policy="candidate", candidate=[[-1, 1, (10**6 + 3) * (10**6 + 33)], [-1, 1, 1]]
    ),
    "an order of only some loops": reorder(4, "candidate", candidate=[[0, 1], [3, 2, 1, 0]]),
}


@pytest.mark.parametrize("cfg", UNSTRUCTURED.values(), ids=UNSTRUCTURED)
def test_knobs_of_unknown_structure_are_categorical_with_a_warning(cfg, caplog):
    with caplog.at_level(logging.WARNING, logger="autotvm"):
        knobs = KnobSpace(cfg)
    assert isinstance(knobs.space.knobs["knob"], Categorical)
    # other tests' servers may still log
    assert [record.message for record in caplog.records if record.name == "autotvm"] == [
        "Knobs without a known structure are treated as categorical: ['knob']."
    ]
    assert knobs.space.size == 2
    for configuration in knobs.space:
        written = json.dumps(knobs.config_entity(configuration).to_json_dict())
        assert (
            knobs.configuration(ConfigEntity.from_json_dict(json.loads(written))) == configuration
        )


@pytest.mark.parametrize("values", [(1, 10**400), (float("inf"), 1.0), ({(1, 2): 2}, {"a": 2})])
def test_unusual_numbers_are_accepted(values):
    knobs = KnobSpace(option(*values))
    assert [knobs.config_entity(configuration)["knob"].val for configuration in knobs.space] in [
        list(values),
        list(values[::-1]),
    ]


class TestConfigSpace:
    def test_entities_are_those_of_config_space_get(self):
        task = matmul_task(8)
        knobs = KnobSpace(task.config_space)
        assert knobs.space.size == len(task.config_space)
        seen = set()
        for number in range(0, knobs.space.size, 7):
            ours = knobs.config_entity(knobs.space[number])
            theirs = task.config_space.get(ours.index)
            assert ours.to_json_dict() == theirs.to_json_dict()
            assert knobs.configuration(theirs) == knobs.space[number]
            seen.add(ours.index)
        assert len(seen) == len(range(0, knobs.space.size, 7))

    def test_indices_are_exact_beyond_64_bits(self):
        cfg = ConfigSpace()
        for i in range(12):
            cfg.define_split(f"tile{i}", cfg.axis(1024), num_outputs=4)
        knobs = KnobSpace(cfg)
        assert knobs.space.size == 286**12 > 2**63
        last = knobs.space[knobs.space.size - 1]
        config = knobs.config_entity(last)
        positions = [
            [e.size for e in cfg.space_map[f"tile{i}"].entities].index(config[f"tile{i}"].size)
            for i in range(12)
        ]
        assert config.index == sum(p * 286**i for i, p in enumerate(positions))
        assert (
            knobs.configuration(
                ConfigEntity.from_json_dict(json.loads(json.dumps(config.to_json_dict())))
            )
            == last
        )

    def test_a_space_without_knobs_has_one_configuration(self):
        knobs = KnobSpace(scaling_task(lambda cfg, schedule, tensor: None).config_space)
        assert knobs.space.size == 1
        assert knobs.config_entity({}).index == 0

    @pytest.mark.parametrize(
        ("entities", "message"),
        [
            ([["tile", "sp", [-1, 4]]], r"config must have the knobs \['knob'\], \['tile'\] given"),
            (
                [["knob", "sp", [-1, 4, 5]]],
                r"value \(-1, 4, 5\) given, allowed are the 28 vertices of Factorization",
            ),
            ([["knob", "ot", 4]], "which is of another kind"),
            ([["knob", "sp", [-1, "x", 5]]], "which is of another kind: invalid literal"),
            ([["knob", "sp", []]], "which is of another kind"),
            ([["knob", "sp", [-1, float("inf"), 4]]], "which is of another kind"),
        ],
    )
    def test_configurations_of_another_space_are_refused(self, entities, message):
        knobs = KnobSpace(SPLITS["factors"])
        unrelated = ConfigEntity.from_json_dict({"index": 0, "code_hash": None, "entity": entities})
        with pytest.raises(ValueError, match=message):
            knobs.configuration(unrelated)
