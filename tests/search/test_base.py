"""Invariants of every search: OpEvo and the baselines."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotvm_opevo import OpEvo, Space
from autotvm_opevo.baselines import GBFS, NA2C, NoSE
from autotvm_opevo.topology import Discrete, Factorization

SEARCHES = {
    "OpEvo": OpEvo,
    "OpEvo as published": lambda space, seed=None: OpEvo(space, seed=seed, surrogate=None),
    "G-BFS": GBFS,
    "N-A2C": NA2C,
    "NoSE": lambda space, seed=None: NoSE(space, population_size=10, seed=seed),
}
# A search takes a hundred times as long as other properties.
EXAMPLES = (
    20 if settings.default is settings.get_profile("default") else settings.default.max_examples
)
every_search = pytest.mark.parametrize("make", SEARCHES.values(), ids=SEARCHES)


def tiles():
    return Space({"y": Factorization(24, 3), "x": Factorization(8, 2)})


def fitness(configuration):
    return float(configuration["y"][-1] * configuration["x"][-1])


def run(search, trials, batch=8, value=fitness):
    """Ask and tell; returns the configurations' numbers."""
    numbers = []
    while len(numbers) < trials and (configurations := search.ask(batch)):
        search.tell(configurations, [value(c) for c in configurations])
        numbers += map(search.space.index, configurations)
    return numbers


@every_search
@pytest.mark.parametrize("value", [fitness, lambda c: 0.0], ids=["some work", "all fail"])
def test_every_configuration_is_proposed_exactly_once(make, value):
    search = make(tiles(), seed=0)
    numbers = run(search, 10_000, value=value)
    assert sorted(numbers) == list(range(search.space.size))
    assert not search.has_next()


def test_what_is_discarded_before_it_is_proposed_is_not_proposed():
    search = OpEvo(Space({"x": Discrete(range(20))}), seed=0)
    search.ask(1)  # generates eight
    queued = search.space[search._queue[0]]
    search.discard([queued])
    proposed = []
    while batch := search.ask(4):
        proposed += batch
        search.tell(batch, [1.0] * len(batch))
    assert proposed
    assert queued not in proposed


def test_a_discarded_proposal_is_neither_pending_nor_proposed_again():
    search = OpEvo(Space({"x": Discrete(range(20))}), seed=0)
    (first, *others) = search.ask(8)
    search.discard([first])
    search.tell(others, [1.0] * 7)
    proposed = []
    while batch := search.ask(4):
        proposed += batch
        search.tell(batch, [1.0] * len(batch))
    assert first not in proposed
    assert len(proposed) == 12
    assert search.best[0] != first
    with pytest.raises(ValueError, match="must be a dict of the knobs"):
        search.discard([{"y": 1}])


def test_what_is_expected_is_pending_until_it_is_told_and_not_proposed():
    search = OpEvo(Space({"x": Discrete(range(20))}), seed=0)
    expected = {"x": 7}
    search.expect([expected])
    number = search.space.index(expected)
    assert list(search._pending) == [number]
    search.tell([expected], [1.0])
    assert number not in search._pending
    search.expect([expected])  # its result is known
    assert number not in search._pending
    proposed = []
    while batch := search.ask(4):
        proposed += batch
        search.tell(batch, [1.0] * len(batch))
    assert len(proposed) == 19
    assert expected not in proposed


@every_search
@pytest.mark.properties
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_whatever_the_order_of_questions_and_answers(make, data):
    space = Space({"y": Factorization(12, 2), "x": Factorization(8, 2)})
    forbidden = data.draw(st.sets(st.integers(0, space.size - 1), max_size=20))
    search = make(
        Space(space.knobs, lambda c: space.index(c) not in forbidden),
        seed=data.draw(st.integers(0, 100)),
    )
    history = data.draw(st.sets(st.integers(0, space.size - 1), max_size=5))
    search.tell([space[i] for i in history], [float(i % 3) for i in history])
    proposed, waiting = [], []
    while batch := search.ask(data.draw(st.integers(1, 12))):
        proposed += map(space.index, batch)
        waiting += batch
        told, waiting = (waiting, []) if data.draw(st.booleans()) else ([], waiting)
        search.tell(told, [data.draw(st.sampled_from([0.0, 0.5, 2.0])) for _ in told])
    assert len(proposed) == len(set(proposed))
    assert set(proposed) == set(range(space.size)) - forbidden - history


@every_search
def test_the_same_seed_proposes_the_same_and_touches_no_global_generator(make):
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    first, again, other = (run(make(tiles(), seed=seed), 40) for seed in (5, 5, 6))
    assert first == again != other
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


@every_search
def test_the_best_of_history_is_where_it_begins(make):
    """What is told before anything is asked is known: it is not proposed, and the best of it is the
    best.
    """
    search = make(tiles(), seed=0)
    told = [search.space[i] for i in (3, 50, 99)]
    search.tell(told, [1.0, 3.0, 2.0])
    assert search.best == (told[1], 3.0)
    assert not {3, 50, 99} & set(run(search, 60))


@every_search
def test_what_is_no_space_is_refused(make):
    with pytest.raises(ValueError, match="space must be a Space"):
        make({"x": Discrete([1, 2])}, seed=0)
