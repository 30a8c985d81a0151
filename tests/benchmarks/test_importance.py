"""The benchmark of which knobs mattered."""

import numpy as np
import pytest

from benchmarks import importance
from benchmarks.landscape import FOLDER, load


def test_the_interaction_has_its_share_and_changes_no_effect():
    additive = np.add.outer(np.add.outer(np.arange(5.0), np.arange(4.0) ** 2), np.arange(2.0))
    table, pair = importance.with_interaction(additive)
    before, alone = importance.true_shares(additive)
    after, still_alone = importance.true_shares(table)
    assert pair == (0, 1)
    assert sum(before) == pytest.approx(1)
    assert after == pytest.approx(0.8 * before)
    assert still_alone == pytest.approx(alone)


def test_tables_have_the_latency_of_each_configuration():
    landscape = load(FOLDER / "C1.npz")
    logs = importance.table(landscape)
    row = landscape.knob_indices[77]
    assert np.exp(logs[tuple(row)]) == pytest.approx(landscape.time[77])
    knobs = importance.topologies(landscape)
    assert [knob.size for knob in knobs.values()] == list(logs.shape)


def test_averages_are_omega_squared_of_the_analysis_of_variance():
    from scipy import stats

    rng = np.random.default_rng(0)
    groups = [rng.normal(mean, 0.5, count) for mean, count in [(0, 12), (1, 30), (0.2, 5)]]
    f, n, k = stats.f_oneway(*groups).statistic, 47, 3
    expected = (k - 1) * (f - 1) / ((k - 1) * (f - 1) + n)
    labels = [i for i, group in enumerate(groups) for _ in group]
    assert importance.omega_squared(labels, np.concatenate(groups)) == pytest.approx(expected)
