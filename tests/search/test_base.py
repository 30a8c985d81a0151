"""Invariants of every search: OpEvo and the baselines."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_examples import EXAMPLES

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


@every_search
def test_what_is_enqueued_comes_next_and_once(make):
    search = make(tiles(), seed=0)
    first = search.ask(1)  # some queue what follows
    wanted = [search.space[i] for i in (70, 3)]
    search.enqueue([*wanted, *wanted, *first])  # pending ones are skipped
    assert search.ask(1) + search.ask(1) == wanted
    assert search.pending == [*first, *wanted]
    search.tell([*first, *wanted], [1.0, 2.0, 0.0])
    assert not search.pending
    search.enqueue(wanted)  # their results are known
    numbers = run(search, 10_000)
    assert sorted([*numbers, *map(search.space.index, [*first, *wanted])]) == list(
        range(search.space.size)
    )
    with pytest.raises(ValueError, match="must be a dict of the knobs"):
        search.enqueue([{"z": 1}])


@every_search
def test_what_is_told_while_it_is_enqueued_is_not_proposed(make):
    search = make(tiles(), seed=0)
    wanted = [search.space[i] for i in (70, 3)]
    search.enqueue(wanted)
    search.tell(wanted[:1], [1.0])
    assert wanted[0] not in run_configurations(search)


@every_search
def test_what_gets_no_result_is_neither_pending_nor_proposed_again_nor_learned(make):
    search = make(tiles(), seed=0)
    (first, *others) = search.ask(8)
    search.tell([first], [None])
    assert search.pending == others
    assert not search.results
    assert first not in run_configurations(search)
    assert search.space.index(first) not in search.results


def run_configurations(search):
    return [search.space[number] for number in run(search, 10_000)]


@every_search
def test_it_may_propose_what_the_constraint_excludes_if_that_is_enqueued(make):
    space = tiles()
    search = make(Space(space.knobs, lambda c: c["x"][0] > 1), seed=0)
    excluded = {"y": (24, 1, 1), "x": (1, 8)}
    search.enqueue([excluded])
    assert search.ask(1) == [excluded]
    assert all(c["x"][0] > 1 for c in run_configurations(search))


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
    make(tiles()).ask(8)  # with a seed that is drawn
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
