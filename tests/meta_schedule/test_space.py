"""DecisionSpace: configurations are legal, and candidates have the decisions of their traces."""

import numpy as np
import pytest
from sketches import TARGETS, TASKS, context, decision_space, run
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule

from autotvm_opevo.meta_schedule.space import SKETCH, DecisionSpace
from autotvm_opevo.topology import Categorical, Discrete, Factorization

# Matrix products that differ from the first ones in their extents, or the order of their axes.
OTHER_EXTENTS = "MM2", "MM3", "BMM2", "BMM3"


def sample_feasible(decisions, n, seed=0):
    """Random feasible configurations."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < n:
        configuration = decisions.space.sample(rng)
        if decisions.space.is_feasible(configuration):
            found.append(configuration)
    return found


def accepted(workload, target, n, seed=0):
    """Random configurations whose candidates are valid, with those candidates and their effective
    configurations.
    """
    decisions = decision_space(workload, target)
    pairs = []
    for configuration in sample_feasible(decisions, n, seed):
        candidate, effective = decisions.candidate(decisions.canonicalize(configuration))
        if candidate is not None:
            pairs.append((configuration, candidate, effective))
    return decisions, pairs


def test_tiles_without_a_bound_on_the_innermost_part_are_feasible():
    """As of rules of the user's own, which TVM writes as -1."""
    rule = ms.schedule_rule.MultiLevelTiling("SSRSRS", max_innermost_factor=None)
    space = ms.space_generator.PostOrderApply(sch_rules=[rule], postprocs=[], mutator_probs={})
    tasks = ms.TuneContext(
        mod=context("MM1", "llvm").mod, target=TARGETS["llvm"], space_generator=space, rand_state=1
    )
    decisions = DecisionSpace(tasks.mod, tasks.generate_design_space(), [])
    assert all(
        decisions.space.is_feasible(decisions.space.sample(np.random.default_rng(seed)))
        for seed in range(8)
    )


@pytest.mark.parametrize(
    ("workload", "target"),
    [pytest.param(*one, marks=[pytest.mark.soak] * (one[0] in OTHER_EXTENTS)) for one in TASKS],
)
def test_every_sketch_is_in_the_space_and_a_candidate_has_the_decisions_of_its_configuration(
    workload, target
):
    decisions, pairs = accepted(workload, target, 12)
    sketches = context(workload, target).generate_design_space()
    assert len(decisions.space.knobs[SKETCH]) == len(sketches)
    for number, start in enumerate(decisions.seed_configurations()):
        tried = ((configuration, *decisions.candidate(configuration)) for configuration in start)
        pairs.append(next(pair for pair in tried if pair[1] is not None))
        assert pairs[-1][0][SKETCH] == number
    for configuration, candidate, effective in pairs:
        assert decisions.configuration(candidate.sch.trace) == effective
        again, same = decisions.candidate(effective)
        assert again is not None
        assert same == effective
        assert str(again.sch.trace) == str(candidate.sch.trace)
        for name, value in decisions.canonicalize(configuration).items():
            if not name.startswith("location"):  # TVM adjusts these, where a loop has one iteration
                assert effective[name] == value


@pytest.mark.parametrize(
    ("workload", "target"), [("MM1", "llvm"), ("C2", "llvm"), ("BMM1", "cuda")]
)
def test_innermost_tiles_respect_their_bound(workload, target):
    decisions = decision_space(workload, target)
    rng = np.random.default_rng(0)
    infeasible = 0
    for _ in range(300):
        configuration = decisions.space.sample(rng)
        innermost = [value[-1] for value in configuration.values() if isinstance(value, tuple)]
        assert decisions.space.is_feasible(configuration) == (max(innermost) <= 64)
        infeasible += max(innermost) > 64
    assert infeasible
    _, pairs = accepted(workload, target, 20)
    seed_configurations = [
        decisions.candidate(configuration)[0]
        for start in decisions.seed_configurations()
        for configuration in start
    ]
    for candidate in [pair[1] for pair in pairs] + seed_configurations:
        if candidate is None:
            continue
        for instruction, decision in candidate.sch.trace.decisions.items():
            if instruction.kind.name == "SamplePerfectTile":
                assert int(decision[-1]) <= int(instruction.attrs[1])


def test_tiles_are_factorizations_choices_categorical_and_locations_discrete():
    knobs = decision_space("C2", "llvm").space.knobs
    assert {type(topology) for name, topology in knobs.items() if name.startswith("tile")} == {
        Factorization
    }
    assert {type(topology) for name, topology in knobs.items() if name.startswith("choice")} == {
        Categorical
    }
    assert {type(topology) for name, topology in knobs.items() if name.startswith("location")} == {
        Discrete
    }
    assert knobs["tile 512 in 4, last to 64 (1)"].product == 512
    assert list(knobs["choice of 0, 16, 64, 512 (1)"]) == [0, 16, 64, 512]


def test_sketches_of_a_matrix_product_have_the_same_knobs():
    decisions = decision_space("MM1", "llvm")
    first = sample_feasible(decisions, 1)[0]
    traces = {
        str(decisions.candidate({**first, SKETCH: number})[0].sch.trace) for number in range(3)
    }
    assert len(traces) == 3
    assert decisions.canonicalize(first) == first


@pytest.mark.parametrize("workload", ["softmax", "C1"])
def test_the_space_does_not_depend_on_what_tvm_sampled_for_its_sketches(workload):
    """With another seed, another run of the same task finds the same space."""

    def knobs(seed):
        task = ms.TuneContext(
            context(workload, "llvm").mod,
            target=TARGETS["llvm"],
            space_generator="post-order-apply",
            rand_state=seed,
        )
        return {
            name: repr(knob)
            for name, knob in DecisionSpace(
                task.mod, task.generate_design_space(), []
            ).space.knobs.items()
        }

    first, *others = (knobs(seed) for seed in range(1, 7))
    assert all(other == first for other in others)


def test_a_knob_that_a_sketch_lacks_is_inactive():
    decisions = decision_space("softmax", "llvm")
    inactive = 0
    for configuration in sample_feasible(decisions, 60):
        canonical = decisions.canonicalize(configuration)
        candidate, effective = decisions.candidate(configuration)
        assert candidate is not None
        assert decisions.candidate(canonical)[1] == effective
        inactive += canonical != configuration
    assert inactive > 10


def test_compute_locations_inside_loops_of_one_iteration_yield_the_same_candidate():
    decisions = decision_space("C2", "llvm")
    location = next(name for name in decisions.space.knobs if name.startswith("location"))
    base = next(iter(next(decisions.seed_configurations())))
    found = {
        decisions.candidate({**base, location: value})[1][location]
        for value in decisions.space.knobs[location]
    }
    assert 1 < len(found) < len(decisions.space.knobs[location])


@pytest.mark.parametrize("workload", ["MM1", pytest.param("C2", marks=pytest.mark.soak)])
def test_a_trace_of_tvms_own_search_is_recovered(workload):
    task = context(workload, "llvm")
    task.pre_tuning(max_trials=16, num_trials_per_iter=16)
    decisions = decision_space(workload, "llvm")
    candidates = task.generate_measure_candidates()
    task.post_tuning()
    read = 0
    for candidate in candidates:
        if 'ann_key="meta_schedule.parallel", ann_val=32' not in str(candidate.sch.trace):
            # TVM mutates this annotation, which is no decision: the trace belongs to another sketch
            continue
        configuration = decisions.configuration(candidate.sch.trace)
        again, _ = decisions.candidate(configuration)
        assert str(again.sch.trace) == str(candidate.sch.trace)
        read += 1
    assert read >= 8


def test_a_trace_of_another_workload_is_rejected():
    decisions = decision_space("MM1", "llvm")
    other = context("C1", "llvm").generate_design_space()[0]
    with pytest.raises(ValueError, match="one of the sketches"):
        decisions.configuration(other.trace)
    # the same instructions, other extents
    larger = context("MM2", "llvm").generate_design_space()[0]
    with pytest.raises(ValueError, match="decisions of this workload's space"):
        decisions.configuration(larger.trace)


@pytest.mark.parametrize("workload", ["sum", "softmax"])
def test_candidates_compute_the_workloads_result(workload):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 1000)).astype("float32")
    empty = np.zeros((), "float32") if workload == "sum" else np.zeros_like(x)
    expected = run(context(workload, "llvm").mod, x, empty)
    _, pairs = accepted(workload, "llvm", 3)
    for _, candidate, _ in pairs:
        np.testing.assert_allclose(run(candidate.sch.mod, x, empty), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("workload", "target"), [("C2", "cuda"), ("C2", "llvm"), ("softmax", "llvm")]
)
def test_the_space_contains_all_that_tvm_samples(workload, target):
    task = context(workload, target)
    decisions = decision_space(workload, target)
    sketches = task.generate_design_space()
    for seed in range(1, 30):
        for sketch in sketches:
            sampled = Schedule(task.mod, seed=seed)
            trace = sketch.trace.simplified(True)
            type(trace)(list(trace.insts), {}).apply_to_schedule(sampled, remove_postproc=True)
            assert decisions.space.is_feasible(decisions.configuration(sampled.trace))


class TestTransfer:
    @pytest.mark.parametrize("target", ["llvm", "cuda"])
    def test_knobs_of_another_shape_get_the_names_of_those_with_the_same_role(self, target):
        mine, other = decision_space("MM1", target), decision_space("MM2", target)
        source = mine.translate(other.by_role({0: 1.0}))
        assert source.space.knobs.keys() == mine.space.knobs.keys()
        assert source.space.size == other.space.size
        assert [*source.space[5].values()] == [*other.space[5].values()]
        for name, topology in mine.space.knobs.items():
            peer = source.space.knobs[name]
            assert type(peer) is type(topology)
            if isinstance(topology, Factorization):
                assert peer.parts == topology.parts
        extents = [
            [t.product for t in space.knobs.values() if isinstance(t, Factorization)]
            for space in (mine.space, source.space)
        ]
        assert extents[0] != extents[1]

    def test_workloads_with_sketches_of_another_structure_are_no_source(self):
        assert (
            decision_space("MM1", "llvm").translate(decision_space("C2", "llvm").by_role({0: 1.0}))
            is None
        )
