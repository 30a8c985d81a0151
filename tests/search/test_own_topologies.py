"""A topology of one's own has the Gaussian process and transfer."""

import numpy as np
import pytest
from own_topologies import Ring, Shared

from autotvm_opevo import OpEvo, Space
from autotvm_opevo.search.gp import GraphKernel
from autotvm_opevo.search.transfer import MultiTaskKernel, SharedKnob
from autotvm_opevo.topology import Categorical, Factorization, InducedSubgraph


def space_of(ring):
    return Space({"ring": ring, "tile": Factorization(64, 3)})


def speed(configuration):
    """Best at 7 of the ring, where the innermost part is 8."""
    return float(
        np.exp(
            -0.2 * abs(configuration["ring"] - 7) - 0.5 * abs(np.log2(configuration["tile"][2]) - 3)
        )
    )


def run(search, trials):
    proposed = []
    while len(proposed) < trials:
        batch = search.ask(8)
        search.tell(batch, list(map(speed, batch)))
        proposed += batch
    return proposed


@pytest.mark.parametrize("ring", [Ring(60), InducedSubgraph(Ring(60), range(0, 60, 2))], ids=repr)
def test_the_gaussian_process_learns_on_it(ring):
    search = OpEvo(space_of(ring), seed=0)
    run(search, 64)
    assert search.best[1] > 0.8
    assert run(OpEvo(space_of(ring), seed=1), 32) == run(OpEvo(space_of(ring), seed=1), 32)


@pytest.mark.parametrize(
    ("own", "other"),
    [(Ring(60), Ring(60)), (Shared(40), Shared(60)), (Shared(60), Shared(40))],
    ids=repr,
)
def test_the_first_proposal_is_the_best_of_a_task_with_the_same_values(own, other):
    teacher = OpEvo(space_of(other), seed=0)
    known = run(teacher, 64)
    search = OpEvo(space_of(own), seed=0, history=[(teacher.space, known, list(map(speed, known)))])
    assert speed(search.ask(1)[0]) == teacher.best[1]
    run(search, 16)


def test_a_value_of_another_task_that_the_ring_lacks_becomes_the_nearest():
    kernel = MultiTaskKernel(Space({"ring": Shared(10)}), [Space({"ring": Shared(60)})])
    assert [kernel.nearest(0, {"ring": value}) for value in (3, 9, 50)] == [[3], [9], [9]]


def test_by_default_values_of_another_ring_say_nothing():
    knob = SharedKnob(Ring(4), [Ring(5)])
    assert knob.encode_other(0, 2).coordinates == pytest.approx([1.5])  # the average
    assert SharedKnob(Ring(4), [Ring(4)]).encode_other(0, 2).coordinates == pytest.approx([2])


def test_values_that_are_alike_or_not_are_one_step_apart():
    class Unordered(Ring):
        is_categorical = True

    for topology in (Unordered(5), InducedSubgraph(Unordered(9), [0, 1, 3, 6, 8])):
        kernel = GraphKernel(Space({"x": topology}))
        x = kernel.encode([(i,) for i in range(5)])
        assert kernel.pairwise_distances(x)[0] == pytest.approx(1 - np.eye(5))


@pytest.mark.parametrize("whole", [Factorization(64, 3), Categorical("abcd"), Ring(9)], ids=repr)
def test_a_subgraph_answers_as_the_whole_graph(whole):
    values = [whole[i] for i in (0, 2, 3)]
    part = InducedSubgraph(InducedSubgraph(whole, list(whole)), values)
    assert (part.whole, part.is_categorical, part.extent) == (
        whole,
        whole.is_categorical,
        whole.extent,
    )
    assert part.is_comparable(whole)
    assert whole.is_comparable(part)
    for value in values:
        assert list(part.encoder()(value)) == list(whole.encoder()(value))
        assert list(part.log_parts(value)) == list(whole.log_parts(value))
