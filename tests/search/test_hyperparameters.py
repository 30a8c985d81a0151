"""Marginal likelihood and priors, against their mathematics."""

import numpy as np
import pytest
from gaussian_process import SPACE, sample
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from autotvm_opevo import Space
from autotvm_opevo.search.gp import (
    GraphKernel,
    fit_hyperparameters,
    neg_log_posterior,
    prior_median,
)
from autotvm_opevo.topology import Discrete


@pytest.mark.properties
@given(seed=st.integers(0, 100), shift=st.floats(-1.5, 1.5), noise=st.floats(-6, -0.5))
def test_the_gradient_of_the_log_posterior_is_that_of_finite_differences(seed, shift, noise):
    kernel, x, targets = sample(SPACE, 30, seed)
    distances = kernel.pairwise_distances(x)
    at = np.append(np.log(0.2) + shift * np.array([1, -1, 0.5, 0]), noise)
    targets = targets - targets.mean()
    found = neg_log_posterior(at, distances, targets)[1]
    expected = approx_fprime(at, lambda x: neg_log_posterior(x, distances, targets)[0], 1e-6)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_an_irrelevant_knob_gets_a_long_lengthscale():
    space = Space({"matters": Discrete(range(12)), "does not": Discrete(range(12))})
    kernel = GraphKernel(space)
    numbers = np.random.default_rng(0).choice(space.size, 60, replace=False)
    x = kernel.encode([space.vertices(int(i)) for i in numbers])
    hyperparameters = fit_hyperparameters(
        kernel.pairwise_distances(x), np.sin(x[:, 0] * 1.5), prior_median(2)
    )
    assert (
        hyperparameters.inverse_lengthscales[1]
        < 0.02
        < 0.2
        < hyperparameters.inverse_lengthscales[0]
    )
