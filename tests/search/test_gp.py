"""The posterior of the Gaussian process, against a dense solution."""

import numpy as np
import pytest
from gaussian_process import SPACE, sample

from autotvm_opevo.search.gp import Hyperparameters, Posterior


def test_the_posterior_is_that_of_a_dense_solution():
    kernel, x, targets = sample(SPACE, 40)
    train_x, others = x[:25], x[25:]
    hyperparameters = Hyperparameters(np.array([0.3, 0.6, 0.1, 0.9]), 0.05)
    both = np.stack([targets[:25], np.exp(targets[:25])], axis=1)
    posterior = Posterior(kernel, hyperparameters, train_x, both, others)

    gram = np.exp(
        -np.tensordot(hyperparameters.inverse_lengthscales, kernel.pairwise_distances(x), 1)
    )
    inverse = np.linalg.inv(gram[:25, :25] + 0.05 * np.eye(25))
    cross = gram[25:, :25]
    for target in range(2):
        y = both[:, target] - both[:, target].mean()
        assert posterior.mean[:, target] == pytest.approx(
            both[:, target].mean() + cross @ inverse @ y, rel=1e-5
        )
        variance = y @ inverse @ y / 25 * (1 - np.einsum("ij,jk,ik->i", cross, inverse, cross))
        assert posterior.stddev[:, target] == pytest.approx(np.sqrt(variance), rel=1e-5)


def test_conditioning_on_a_point_leaves_the_variance_that_its_result_would():
    kernel, x, targets = sample(SPACE, 40)
    hyperparameters = Hyperparameters(np.array([0.3, 0.6, 0.1, 0.9]), 0.05)
    posterior = Posterior(kernel, hyperparameters, x[:25], targets[:25, None], x[25:])
    before = posterior.stddev
    posterior.condition_on(3)
    posterior.condition_on(7)
    result = Posterior(
        kernel, hyperparameters, x[[*range(25), 28, 32]], np.arange(27.0)[:, None], x[25:]
    )
    assert posterior.stddev / posterior._sigma == pytest.approx(
        result.stddev / result._sigma, rel=1e-6
    )
    assert (posterior.stddev <= before).all()
