"""What as many trials again bring."""

import numpy as np
import pytest

from autotvm_opevo.reporting.convergence import GAINS, TRIALS
from benchmarks.convergence import CONVERGED, DOUBLED, calibration, expectations, observe, tables


def landscapes(count, curve):
    """The best so far of three seeds on landscapes, given as a function of the number of trials."""
    trials = np.arange(1, 2 * max(DOUBLED) + 1)
    return {f"landscape {i}": np.array([curve(trials)] * 3) for i in range(count)}


def test_the_table_has_what_doubling_the_trials_brings():
    """Latency falls with the square root of the trials: doubling them always brings 41%."""
    found = list(observe(landscapes(6, lambda trials: trials**-0.5), np.random.default_rng(0), 200))
    assert {row for row, _, _ in found} == {len(GAINS)}
    assert {column for _, column, _ in found} == set(range(len(TRIALS) + 1))
    assert [gain for _, _, gain in found] == pytest.approx([2**0.5 - 1] * len(found))


def test_networks_without_a_result_in_time_say_nothing():
    late = landscapes(2, lambda trials: np.where(trials < 100, np.inf, 1.0))
    assert {column for _, column, _ in observe(late, np.random.default_rng(0), 200)} == {len(TRIALS)}


def test_cells_have_the_median_and_the_90_percent_quantile():
    cells = [(row, column) for row in range(len(GAINS) + 1) for column in range(len(TRIALS) + 1)]
    table = expectations([(*cell, gain) for cell in cells for gain in np.linspace(0, 1, 11)])
    assert table[1][1] == pytest.approx((0.5, 0.9))


def test_runs_that_stand_still_are_called_converged_and_are():
    mixed = {
        **landscapes(5, lambda trials: np.ones(len(trials))),
        **{f"other {i}": curve for i, curve in enumerate(landscapes(15, lambda trials: trials**-0.5).values())},
    }
    found = calibration(mixed, np.random.default_rng(0), 1000)
    gains = [gain for converged, _, gain in found if converged]
    assert gains
    assert np.median(gains) < CONVERGED
    assert "were called converged" in tables(mixed, 1000)
