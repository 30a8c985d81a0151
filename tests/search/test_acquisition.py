"""Expected improvement against its integral, what is expected of configurations, and which
candidates are selected.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtri
from scipy.stats import norm, rankdata
from threadpoolctl import ThreadpoolController

from autotvm_opevo import Space
from autotvm_opevo.search.acquisition import Acquisition, Model, log_ei, log_fitness, normal_scores
from autotvm_opevo.topology import Categorical, Discrete, Factorization


@pytest.mark.parametrize("z", [-8.0, -2.0, 0.0, 0.5, 6.0])
def test_expected_improvement_is_the_integral(z):
    expected = quad(
        lambda x: (x - 1.0) * norm.pdf(x, 1.0 + 3 * z, 3.0), 1.0, 1.0 + 3 * max(z, 0) + 40
    )[0]
    assert log_ei(np.array([1.0 + 3 * z]), np.array([3.0]), 1.0) == pytest.approx(
        np.log(expected), rel=1e-4
    )


def test_expected_improvement_grows_with_the_mean_however_hopeless_or_certain():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = log_ei(
            np.array([-1e9, -1e4, -31.0, -30.0, -29.0, 0.0, 29.0, 30.0, 31.0, 1e4]),
            np.ones(10),
            0.0,
        )
    assert (np.diff(found) > 0).all()
    assert np.isfinite(found).all()


def predict(results, numbers):
    return Model(Space({"x": Discrete(range(100))}), np.random.default_rng(0)).predict(
        results, numbers
    )


def test_targets_are_the_logarithm_relative_to_the_best_and_the_normal_score():
    fitness = np.array([1.0, 4.0, 0.0, 2.0])
    assert log_fitness(fitness) == pytest.approx(np.log([0.25, 1, np.nan, 0.5]), nan_ok=True)
    assert np.isnan(log_fitness(np.zeros(2))).all()
    assert predict(dict(enumerate(fitness)), [50]).best_f == pytest.approx(
        [0, normal_scores(np.arange(3)).max()]
    )


@given(st.lists(st.integers(-3, 3) | st.floats(allow_nan=False), min_size=1))
def test_equal_results_share_the_mean_of_their_ranks(values):
    expected = ndtri((rankdata(values) - 0.5) / len(values))
    assert normal_scores(np.array(values, dtype=float)).tolist() == expected.tolist()


def test_configurations_beside_failures_are_less_likely_to_be_feasible():
    results = {number: float(number >= 50) for number in range(0, 100, 5)}
    failing, working = predict(results, [12, 88]).log_prob_feasible
    assert failing < np.log(0.3) < np.log(0.8) < working <= 0


def test_without_failures_all_are_feasible():
    assert predict({1: 1.0, 5: 2.0}, [2, 3]).log_prob_feasible.tolist() == [0, 0]


def test_appended_results_are_learned():
    model = Model(Space({"x": Discrete(range(100))}), np.random.default_rng(0))
    results = {0: 1.0, 99: 1.1}
    model.predict(results, [50])
    results[50] = 9.0
    mean = model.predict(results, [51, 2]).posterior.mean[:, 0]
    assert mean[0] > mean[1]


def line():
    return Space({"x": Discrete(range(1000)), "flag": Categorical([False, True])})


def results_of(space, values):
    return {space.index({"x": x, "flag": flag}): fitness for (x, flag), fitness in values.items()}


def acquisition_of(space, seed=0, make=Acquisition):
    return make([Model(space, np.random.default_rng(seed))])


def selected(space, results, candidates, n=1, pending=()):
    """As configurations."""
    acquisition = acquisition_of(space)
    numbers = [space.index({"x": x, "flag": flag}) for x, flag in candidates]
    return [
        tuple(space[i].values())
        for i in acquisition.select(
            [numbers], results, [space.index({"x": x, "flag": f}) for x, f in pending], n
        )
    ]


def test_neighbours_of_good_configurations_are_selected_and_those_of_failures_are_not():
    space = line()
    results = results_of(
        space,
        {
            (x, False): (1.0 if 480 <= x <= 520 else 0.1 if x > 520 else 0.0)
            for x in range(0, 1000, 20)
        },
    )
    found = selected(space, results, [(x, False) for x in (10, 110, 490, 510, 710, 910)], n=2)
    assert set(found) == {(490, False), (510, False)}


def test_a_batch_is_diverse_and_accounts_for_pending_evaluations():
    space = line()
    results = results_of(
        space,
        {(100, False): 1.0, (900, False): 1.0, (500, False): 0.1, (0, True): 0.2, (999, True): 0.3},
    )
    candidates = [(104, False), (105, False), (106, False), (896, False), (895, False)]
    first, second = selected(space, results, candidates, n=2)
    assert (first[0] < 500) != (second[0] < 500)
    pending = selected(
        space, results, candidates, pending=[(105, False), (103, False), (107, False)]
    )
    assert pending[0][0] > 500


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
    results = {
        int(i): v for i, v in zip(np.random.default_rng(0).permutation(space.size), values * repeat)
    }
    candidates = [i for i in range(300) if i not in results]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = acquisition_of(space).select([candidates], results, [], 16)
    assert len(set(found)) == 16


def test_the_same_seed_selects_the_same():
    space = Space({"y": Factorization(64, 3), "x": Discrete(range(100))})
    results = {int(i): float(i % 7) for i in np.random.default_rng(0).permutation(space.size)[:900]}
    candidates = [i for i in range(400) if i not in results]
    first, again = (
        acquisition_of(space, 3).select([candidates], results, [], 20) for _ in range(2)
    )
    assert first == again


def test_the_cost_does_not_grow_with_pending_evaluations():
    """Of a caller that never tells."""
    space = Space({"x": Discrete(range(100_000))})
    results = {i * 1000: float(i) for i in range(1, 9)}
    model = Model(space, np.random.default_rng(0))
    acquisition = Acquisition([model])
    candidates = list(range(7000, 7100))
    pending = list(range(20_000, 30_000))
    encoded = []
    encode = model._encode
    model._encode = lambda numbers: encoded.append(list(numbers)) or encode(encoded[-1])
    acquisition.select([candidates], results, pending, 8)
    assert max(map(len, encoded)) <= len(candidates) + 256


def test_expected_improvement_agrees_with_high_precision_far_in_the_tail():
    """ln h(z) for z = -1e2, -1e4, -1e6, by its asymptotic series h(z) = phi(z) (z^-2 - 3 z^-4 + 15
    z^-6 - ...).
    """
    z = np.array([-1e2, -1e4, -1e6])
    series = -(z**2) / 2 - np.log(2 * np.pi) / 2 + np.log(z**-2.0 - 3 * z**-4.0 + 15 * z**-6.0)
    assert log_ei(z, np.ones(3), 0.0) == pytest.approx(series, rel=1e-12)


def test_the_criterion_can_be_replaced():
    """With the posterior mean for a criterion, the best of a batch is next to the best result."""

    class PosteriorMean(Acquisition):
        def score(self, prediction, target):
            return prediction.posterior.mean[:, target]

    space = line()
    results = results_of(space, {(x, False): float(1 + x) for x in range(0, 1000, 100)})
    acquisition = acquisition_of(space, make=PosteriorMean)
    candidates = [space.index({"x": x, "flag": False}) for x in (5, 405, 905)]
    assert acquisition.select([candidates], results, [], 1) == [candidates[-1]]


def test_the_model_runs_in_one_blas_thread_and_restores_the_others():
    controller = ThreadpoolController()
    with controller.limit(limits=2, user_api="blas"):
        before = [library["num_threads"] for library in controller.info()]
        seen = []

        class Spy(Acquisition):
            def score(self, prediction, target):
                seen.extend(
                    library["num_threads"]
                    for library in controller.info()
                    if library["user_api"] == "blas"
                )
                return super().score(prediction, target)

        space = line()
        acquisition = acquisition_of(space, make=Spy)
        acquisition.select([[1, 3]], results_of(space, {(5, True): 1.0, (7, True): 2.0}), [], 1)
        assert set(seen) == {1}
        assert [library["num_threads"] for library in controller.info()] == before


def test_models_take_turns_and_one_waits_for_enough_results():
    space = line()
    asked = []

    class Recording(Model):
        def predict(self, results, numbers):
            asked.append(self.min_results)
            return super().predict(results, numbers)

    rng = np.random.default_rng(0)
    acquisition = Acquisition([Recording(space, rng), Recording(space, rng, min_results=3)])
    results = results_of(space, {(5, True): 1.0, (7, True): 2.0})
    acquisition.select([[1, 3]], results, [], 2)
    assert asked == [1]
    results[space.index({"x": 9, "flag": False})] = 0.0
    assert len(acquisition.select([[1, 3, 5]], results, [], 3)) == 3
    assert asked == [1, 1, 3]


def test_without_a_model_that_has_enough_results_nothing_is_selected():
    space = line()
    acquisition = Acquisition([Model(space, np.random.default_rng(0), min_results=16)])
    assert acquisition.select([[1, 3]], results_of(space, {(5, True): 1.0}), [], 2) == []


def test_pools_take_turns_from_call_to_call_and_the_first_has_those_of_empty_ones():
    """However little the candidates of one promise."""
    space = line()
    acquisition = acquisition_of(space)
    results = results_of(
        space, {(x, False): 1.0 if x == 500 else 0.01 for x in range(0, 1000, 100)}
    )
    near, far = (
        [space.index({"x": x, "flag": False}) for x in xs]
        for xs in ((499, 501, 502, 498, 497, 503), (950, 850, 750))
    )
    found = [acquisition.select([near, [], far], results, [], n) for n in (1, 1, 1, 2, 4)]
    pools = ["near" if number in near else "far" for batch in found for number in batch]
    assert pools == ["near", "near", "far"] * 3
    assert len(acquisition.select([[], far], results, [], 8)) == len(far)
    assert acquisition.select([[], []], results, [], 1) == []


def test_a_candidate_of_two_pools_is_selected_once():
    space = line()
    results = results_of(space, {(5, True): 1.0, (7, True): 2.0})
    assert sorted(acquisition_of(space).select([[1, 3], [3, 5]], results, [], 8)) == [1, 3, 5]
