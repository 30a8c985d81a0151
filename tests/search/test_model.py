"""What is expected of configurations."""

import numpy as np
import pytest

from autotvm_opevo import Space
from autotvm_opevo.search.model import Model, log_fitness, normal_scores
from autotvm_opevo.topology import Discrete


def predict(results, numbers, **options):
    return Model(Space({"x": Discrete(range(100))}), np.random.default_rng(0), **options).predict(results, numbers)


def test_targets_are_the_logarithm_relative_to_the_best_and_the_normal_score():
    fitness = np.array([1.0, 4.0, 2.0])
    assert log_fitness(fitness) == pytest.approx(np.log([0.25, 1, 0.5]))
    assert predict(dict(enumerate(fitness)), [50]).best_f == pytest.approx([0, normal_scores(fitness).max()])


def test_configurations_beside_failures_are_less_likely_to_be_feasible():
    results = {number: float(number >= 50) for number in range(0, 100, 5)}
    failing, working = predict(results, [12, 88]).log_prob_feasible
    assert failing < np.log(0.3) < np.log(0.8) < working <= 0


def test_without_failures_all_are_feasible():
    assert predict({1: 1.0, 5: 2.0}, [2, 3]).log_prob_feasible.tolist() == [0, 0]


def test_appended_results_are_learned():
    model = Model(Space({"x": Discrete(range(100))}), np.random.default_rng(0), targets=[log_fitness])
    results = {0: 1.0, 99: 1.1}
    model.predict(results, [50])
    results[50] = 9.0
    mean = model.predict(results, [51, 2]).posterior.mean[:, 0]
    assert mean[0] > mean[1]
