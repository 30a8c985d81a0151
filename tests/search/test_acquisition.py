"""Which candidates are chosen."""

import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from autotvm_opevo import Space
from autotvm_opevo.search.acquisition import Screening, log_improvement
from autotvm_opevo.topology import Categorical, Discrete, Factorization


@pytest.mark.parametrize("z", [-8.0, -2.0, 0.0, 0.5, 6.0])
def test_expected_improvement_is_the_integral(z):
    expected = quad(lambda x: (x - 1.0) * norm.pdf(x, 1.0 + 3 * z, 3.0), 1.0, 1.0 + 3 * max(z, 0) + 40)[0]
    assert log_improvement(np.array([1.0 + 3 * z]), np.array([3.0]), 1.0) == pytest.approx(np.log(expected), rel=1e-4)


def test_expected_improvement_grows_with_the_mean_however_hopeless_or_certain():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = log_improvement(np.array([-1e9, -1e4, -31.0, -30.0, -29.0, 0.0, 29.0, 30.0, 31.0, 1e4]), np.ones(10), 0.0)
    assert (np.diff(found) > 0).all()
    assert np.isfinite(found).all()


def line():
    return Space({"x": Discrete(range(1000)), "flag": Categorical([False, True])})


def told(space, values):
    return {space.index({"x": x, "flag": flag}): fitness for (x, flag), fitness in values.items()}


def chosen(space, results, candidates, n=1, pending=(), seed=0):
    """As configurations."""
    screening = Screening(space, np.random.default_rng(seed))
    numbers = [space.index({"x": x, "flag": flag}) for x, flag in candidates]
    return [
        tuple(space[i].values())
        for i in screening.choose(numbers, results, [space.index({"x": x, "flag": f}) for x, f in pending], n)
    ]


def test_the_neighbours_of_the_good_are_chosen_and_not_those_of_failures():
    space = line()
    results = told(space, {(x, False): (1.0 if 480 <= x <= 520 else 0.1 if x > 520 else 0.0) for x in range(0, 1000, 20)})
    found = chosen(space, results, [(x, False) for x in (10, 110, 490, 510, 710, 910)], n=2)
    assert set(found) == {(490, False), (510, False)}


def test_a_batch_is_spread_and_what_is_pending_counts():
    space = line()
    results = told(space, {(100, False): 1.0, (900, False): 1.0, (500, False): 0.1, (0, True): 0.2, (999, True): 0.3})
    candidates = [(104, False), (105, False), (106, False), (896, False), (895, False)]
    first, second = chosen(space, results, candidates, n=2)
    assert (first[0] < 500) != (second[0] < 500)
    beside = chosen(space, results, candidates, pending=[(105, False), (103, False), (107, False)])
    assert beside[0][0] > 500


@pytest.mark.parametrize(
    "values",
    [
        [1.0] * 8,
        [0.0] * 7 + [1.0],
        [1e-9, 1e-3, 1.0, 1e-6, 1e-1, 0.0, 1e-2, 1e-8],
        [5e-324, 1.7e308, 1.0, 0.0, 1e-300, 1e300, 2.0, 3.0],
        [1.0, 1.0 + 1e-15, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    ],
    ids=["all equal", "one valid", "nine orders", "all of a double", "nearly equal"],
)
@pytest.mark.parametrize("repeat", [1, 60], ids=["few", "many"])
def test_degenerate_results_neither_warn_nor_raise(values, repeat):
    space = Space({"y": Factorization(64, 3), "x": Discrete(range(100))})
    results = {int(i): v for i, v in zip(np.random.default_rng(0).permutation(space.size), values * repeat)}
    candidates = [i for i in range(300) if i not in results]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Screening(space, np.random.default_rng(0)).choose(candidates, results, [], 16)
    assert len(set(found)) == 16


def test_the_same_seed_chooses_the_same():
    space = Space({"y": Factorization(64, 3), "x": Discrete(range(100))})
    results = {int(i): float(i % 7) for i in np.random.default_rng(0).permutation(space.size)[:900]}
    candidates = [i for i in range(400) if i not in results]
    first, again = (Screening(space, np.random.default_rng(3)).choose(candidates, results, [], 20) for _ in range(2))
    assert first == again


def test_fewer_candidates_than_wanted_are_all_chosen():
    space = line()
    results = told(space, {(5, True): 1.0, (7, True): 2.0})
    assert len(chosen(space, results, [(1, True), (2, True)], n=5)) == 2


def test_no_more_than_so_many_pending_are_looked_at():
    """A caller that never tells does not make the next question dearer."""
    space = Space({"x": Discrete(range(100_000))})
    results = {i * 1000: float(i) for i in range(1, 9)}
    screening = Screening(space, np.random.default_rng(0))
    candidates = list(range(7000, 7100))
    pending = list(range(20_000, 30_000))
    looked = []
    points = screening._points
    screening._points = lambda numbers: looked.append(list(numbers)) or points(looked[-1])
    screening.choose(candidates, results, pending, 8)
    assert max(map(len, looked)) <= len(candidates) + 256
