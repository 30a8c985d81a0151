"""NoSE: prediction, roulette-wheel selection, crossover and mutation, as in the paper."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from autotvm_opevo import Space
from autotvm_opevo.baselines import NoSE
from autotvm_opevo.baselines.nose import knn_predict
from autotvm_opevo.topology import Categorical, Discrete


def canberra(x, z):
    """Equation 4, where 0 / 0 is 0."""
    return sum(abs(a - b) / (abs(a) + abs(b)) for a, b in zip(x, z) if a or b)


class TestKnnPredict:
    def test_is_the_weighted_mean_of_equations_1_to_4(self):
        rng = np.random.default_rng(0)
        evaluated = np.unique(rng.integers(0, 9, size=(40, 4)), axis=0).astype(float)
        fitnesses = rng.random(len(evaluated)).tolist()
        candidates = rng.integers(10, 20, size=(7, 4)).astype(float)
        predictions = knn_predict(candidates, evaluated, fitnesses, k=9)
        for candidate, prediction in zip(candidates, predictions):
            distances = [canberra(candidate, x) for x in evaluated]
            nearest = sorted(range(len(evaluated)), key=distances.__getitem__)[:9]
            weights = [1 / distances[i] for i in nearest]
            assert prediction == pytest.approx(
                sum(w * fitnesses[i] for w, i in zip(weights, nearest)) / sum(weights)
            )

    def test_uses_all_if_there_are_fewer_than_k(self):
        assert knn_predict(np.array([[3.0]]), np.array([[1.0]]), [2.0], k=9) == pytest.approx([2.0])


def wide(values, knobs=40):
    return Space({f"x{i}": Categorical(range(values)) for i in range(knobs)})


def test_starts_with_n_random_configurations_and_continues_with_the_elite():
    search = NoSE(wide(50), seed=0)
    sizes = []
    for _ in range(3):
        batch = search.ask(1000)
        search.tell(batch, np.random.default_rng(0).random(len(batch)))
        sizes.append(len(batch))
    assert sizes == [100, 30, 30]


def test_elite_has_the_highest_predictions():
    space = Space({f"x{i}": Discrete(range(1, 60)) for i in range(5)})
    search = NoSE(space, seed=1)
    first = search.ask(100)
    search.tell(first, [float(sum(c.values())) for c in first])
    offspring = search._offspring()
    fitnesses = list(search.results.values())
    predictions = knn_predict(
        search._encode(offspring), search._encode(search.results), fitnesses, 9
    )
    again = NoSE(space, seed=1)
    again.tell(again.ask(100), [float(sum(c.values())) for c in first])
    elite = [space.index(c) for c in again.ask(100)]
    assert elite == [offspring[i] for i in np.argsort(-predictions, kind="stable")[:30]]


def test_parents_are_selected_in_proportion_to_fitness_and_cross_at_one_point():
    """Without mutation, and with parents that share no value: the first and last knobs identify the
    two parents.
    """
    space = Space({f"x{i}": Categorical(range(4)) for i in range(3)})
    fitness = np.array([1.0, 2.0, 3.0, 10.0])
    selected, cuts = Counter(), Counter()
    for seed in range(600):
        search = NoSE(
            space, population_size=4, offspring_size=1, elite_size=1, mutation_rate=0.0, seed=seed
        )
        search.tell([dict.fromkeys(space.knobs, j) for j in range(4)], fitness)
        child = list(search.ask(1)[0].values())
        selected[child[0], child[-1]] += 1
        cuts[child.index(child[-1])] += 1
    # equal parents make a duplicate, and are drawn again
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    expected = np.array([fitness[i] * fitness[j] for i, j in pairs])
    assert set(selected) <= set(pairs)
    expected *= 600 / expected.sum()
    assert chisquare([selected[pair] for pair in pairs], expected).pvalue > 1e-4
    assert chisquare([cuts[1], cuts[2]]).pvalue > 1e-4


def test_every_knob_mutates_with_probability_p():
    space = wide(1000)
    search = NoSE(space, population_size=1, offspring_size=50, elite_size=50, seed=0)
    search.tell([dict.fromkeys(space.knobs, 7)], [1.0])
    changed = sum(value != 7 for child in search.ask(50) for value in child.values())
    assert binomtest(changed, 50 * 40, 0.3).pvalue > 1e-4


def test_only_the_best_n_are_parents():
    space = wide(20)
    search = NoSE(
        space, population_size=3, offspring_size=40, elite_size=40, mutation_rate=0.0, seed=0
    )
    search.tell([dict.fromkeys(space.knobs, j) for j in range(20)], range(20))
    assert {value for child in search.ask(40) for value in child.values()} == {17, 18, 19}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"population_size": 0}, "population_size must be an integer"),
        ({"offspring_size": 0}, "offspring_size must be an integer"),
        ({"elite_size": 0}, "elite_size must be an integer"),
        ({"mutation_rate": 1.5}, "mutation_rate must be between 0 and 1, 1.5 given"),
        ({"neighbours": 0}, "neighbours must be an integer"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        NoSE(wide(2), **options)
