"""Constraints that leave so few configurations that random draws find hardly any."""

import logging
import math
import re
import time
from functools import partial

import numpy as np
import pytest

from autotvm_opevo import OpEvo, Space
from autotvm_opevo._utils import timeouts
from autotvm_opevo.baselines import GBFS, NA2C, NoSE
from autotvm_opevo.search import feasible
from autotvm_opevo.topology import Categorical, Discrete, Factorization, Permutation

POWERS = Discrete([2**i for i in range(11)])
FACTORS = Factorization(4096, 4)


def knobs(topology, count=8):
    return {f"x{i}": topology for i in range(count)}


def product_is(number):
    return lambda c: math.prod(c.values()) == number


SPACES = {
    "a product": Space(knobs(POWERS), product_is(1024)),
    "a product of any numbers": Space(knobs(Discrete(range(1, 361)), 5), product_is(360)),
    "a sum": Space(knobs(Discrete(range(64)), 6), lambda c: sum(c.values()) == 64),
    "a sum of powers": Space(knobs(POWERS, 10), lambda c: sum(c.values()) == 2048),
    "two products": Space(
        knobs(POWERS),
        lambda c: all(
            math.prod(c[f"x{i}"] for i in group) == 64 for group in ((0, 1, 2, 3), (4, 5, 6, 7))
        ),
    ),
    "a chain": Space(
        knobs(Discrete(range(1, 51)), 9),
        lambda c: all(a < b for a, b in zip(c.values(), list(c.values())[1:])),
    ),
    "a falling chain": Space(
        knobs(Discrete(range(50)), 9),
        lambda c: list(c.values()) == sorted(c.values(), reverse=True),
    ),
    "equal numbers": Space(
        knobs(Discrete(range(1000)), 4), lambda c: len({c["x0"], c["x1"], c["x2"]}) == 1
    ),
    "a limit": Space(knobs(POWERS, 10), lambda c: math.prod(c.values()) <= 2**14),
    "a limit on both sides": Space(
        knobs(Discrete(range(1000)), 4), lambda c: c["x0"] + c["x1"] < 40 and c["x2"] > 980
    ),
    "tiles in a small memory": Space(
        {**knobs(FACTORS, 3), "order": Permutation(4)},
        lambda c: sum(math.prod(c[f"x{i}"][1:]) for i in range(3)) <= 12,
    ),
    "an order that fits a choice": Space(
        {
            "order": Permutation(8),
            "first": Categorical("abcdefgh"),
            "size": POWERS,
            "other": POWERS,
        },
        lambda c: c["order"][0] == ord(c["first"]) - 97
        and c["order"][1] == 0
        and c["size"] * c["other"] == 4096,
    ),
}
SEARCHES = {
    "OpEvo": OpEvo,
    "OpEvo as published": partial(OpEvo, surrogate=None),
    "NoSE": partial(NoSE, population_size=16),
}


def fitness(configuration):
    numbers = [value for value in configuration.values() if isinstance(value, int)]
    return 1.0 / (1 + sum(abs(math.log2(1 + number) - 2.25) for number in numbers))


def logged(caplog):
    """Not what servers of other tests still log from their threads."""
    return [record for record in caplog.records if record.name.startswith("autotvm_opevo")]


def run(search, trials, value=fitness):
    proposed = []
    while len(proposed) < trials and (batch := search.ask(8)):
        search.tell(batch, list(map(value, batch)))
        proposed += batch
    return proposed


# All searches draw in the same way, and one of them in all spaces.
FEW_SPACES = ("a product", "a sum", "a falling chain", "an order that fits a choice")


@pytest.mark.parametrize(
    ("name", "make"),
    [
        pytest.param(
            name,
            make,
            id=f"{name}-{search}",
            marks=[] if make is OpEvo or name in FEW_SPACES else pytest.mark.soak,
        )
        for name in SPACES
        for search, make in SEARCHES.items()
    ],
)
def test_many_different_feasible_configurations_are_found(name, make, caplog):
    space, trials = SPACES[name], 16 if make is OpEvo else 32  # a process is fitted to each batch
    proposed = run(make(space, seed=0), trials)
    assert all(map(space.is_feasible, proposed))
    assert len(set(map(space.index, proposed))) == len(proposed) >= trials
    assert not logged(caplog)


@pytest.mark.parametrize(
    ("name", "value"),
    [("a product", fitness), ("a chain", lambda _: 0.0), ("an order that fits a choice", fitness)],
)
def test_the_same_seed_proposes_the_same(name, value):
    first, again, other = (run(OpEvo(SPACES[name], seed=seed), 16, value) for seed in (3, 3, 4))
    assert len(first) >= 16
    assert first == again != other


@pytest.mark.parametrize("seeds", [1, pytest.param(3, marks=pytest.mark.soak)])
@pytest.mark.parametrize("surrogate", ["gp", None])
def test_the_search_gets_better(surrogate, seeds):
    """Numbers whose product is given are best where none is large, far from where it is easiest to
    find some.
    """
    for seed in range(seeds):
        search = OpEvo(SPACES["a product"], seed=seed, surrogate=surrogate)
        run(search, 96)
        assert max(search.best[0].values()) <= 4


@pytest.mark.parametrize("method", [GBFS, NA2C])
def test_searches_on_factorizations_find_them_too(method):
    space = Space(knobs(FACTORS, 4), lambda c: math.prod(tile[3] for tile in c.values()) == 2**40)
    proposed = run(method(space, seed=0), 24, lambda c: float(c["x0"][3]))
    assert len(proposed) >= 24
    assert all(map(space.is_feasible, proposed))


def test_results_of_another_task_lead_to_what_is_feasible_here():
    """Of a product of 1024, one of 1000 is near, where nothing else tells where it is."""
    knob = Discrete(range(1, 1001))
    other, space = (Space(knobs(knob, 7), product_is(number)) for number in (500, 1000))
    known = [
        dict(zip(other.knobs, numbers))
        for numbers in ((5, 5, 5, 2, 2, 1, 1), (5, 2, 5, 2, 5, 1, 1), (1, 5, 5, 1, 2, 2, 5))
    ]
    search = OpEvo(space, seed=0, history=[(other, known, [3.0, 2.0, 1.0])])
    proposed = run(search, 64)
    assert len(proposed) >= 64
    assert all(map(space.is_feasible, proposed))


@pytest.mark.parametrize(
    "make", [*SEARCHES.values(), GBFS, NA2C], ids=[*SEARCHES, "G-BFS", "N-A2C"]
)
def test_where_nothing_is_feasible_one_warning_names_the_constraint(make, caplog):
    def fits_in_memory(configuration):
        return False

    search = make(Space(knobs(FACTORS, 3), fits_in_memory), seed=0)
    assert search.ask(8) == []
    assert not search.has_next()
    assert search.ask(1) == []
    (record,) = logged(caplog)
    assert record.levelno == logging.WARNING
    assert "finds no feasible configuration: the constraint" in caplog.text
    assert "fits_in_memory leaves few or none of" in caplog.text
    assert "declare sizes whose product is given as one Factorization" in caplog.text


def test_where_no_configuration_of_a_small_space_is_feasible_a_warning_says_so(caplog):
    search = OpEvo(Space(knobs(POWERS, 3), lambda c: False), seed=0)
    assert (search.ask(8), search.ask(8)) == ([], [])
    assert len(logged(caplog)) == 1
    assert "leaves none of 1,331" in caplog.text


def test_where_a_slow_constraint_rejects_a_small_space_it_says_what_takes_long(monkeypatch, capsys):
    monkeypatch.setattr(timeouts, "SILENT", 0.01)

    def is_slow(configuration):
        time.sleep(0.001)
        return False

    OpEvo(Space(knobs(POWERS, 2), is_slow), seed=0).ask(1)
    assert re.search(r"is_slow allows: \d+ s so far", capsys.readouterr().err)


def test_a_small_space_that_is_exhausted_needs_no_warning(caplog):
    search = OpEvo(Space(knobs(POWERS, 3), product_is(2)), seed=0)
    assert len(run(search, 9)) == 3
    assert search.ask(8) == []
    assert not logged(caplog)


def test_of_a_single_feasible_configuration_the_search_ends_with_a_warning(caplog):
    only = dict.fromkeys(knobs(POWERS), 1024)
    search = OpEvo(Space(knobs(POWERS), lambda c: c == only), seed=0)
    assert run(search, 8) == [only]
    assert search.ask(8) == []
    assert caplog.text.count("finds no other feasible configuration") == 1


def test_from_what_is_told_after_the_end_the_search_goes_on(caplog):
    """The warning stays the only one."""
    secret = {f"x{i}": 2 + 7 * i for i in range(12)}
    space = Space(
        knobs(Discrete(range(100)), 12),
        lambda c: sum(c[name] != value for name, value in secret.items()) <= 2,
    )
    search = OpEvo(space, seed=0)
    assert search.ask(8) == []
    search.tell([secret], [1.0])
    proposed = run(search, 16)
    assert len(proposed) >= 16
    assert all(map(space.is_feasible, proposed))
    assert len(logged(caplog)) == 1


def test_a_mild_constraint_needs_no_walks(monkeypatch):
    """Nor does a space without one."""
    monkeypatch.setattr(feasible.FeasibleWalks, "__init__", None)
    for constraint in (
        None,
        lambda c: c["x0"] < c["x1"],
        lambda c: c["x0"] < c["x1"] < c["x2"] < c["x3"],
    ):
        assert len(run(OpEvo(Space(knobs(Discrete(range(100))), constraint), seed=0), 48)) >= 48


def test_likely_draws_are_of_all_kinds():
    """Random ones, ones at the ends, and ones in order, also of knobs with more than 2**1024
    values.
    """
    space = Space(
        {
            "a": Permutation(200),
            "b": Discrete(range(5000)),
            "c": Discrete(range(5000)),
            "d": Categorical("xyz"),
        }
    )
    drawn = [c for c, _ in zip(feasible.likely_draws(space, np.random.default_rng(0)), range(2000))]
    for configuration in drawn[::100]:
        space.index(configuration)
    ends = [(c["b"], c["c"]) for c in drawn if {c["b"], c["c"]} <= {0, 4999}]
    assert {(0, 0), (4999, 4999), (0, 4999), (4999, 0)} <= set(ends)
    assert 0.2 < sum(c["b"] % 4999 != 0 for c in drawn) / len(drawn) < 0.9
    assert {c["d"] for c in drawn} == set("xyz")
