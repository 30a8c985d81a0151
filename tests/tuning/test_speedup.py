"""Comparing a network's outputs and latencies before and after tuning."""

import numpy as np
import pytest

from autotvm_opevo.tuning.speedup import REPEATS, Speedup, random_arrays, time_interleaved


def compare(expected, actual):
    return Speedup.from_runs([[np.asarray(expected)], [np.asarray(actual)]], [[0.2], [0.1]])


@pytest.mark.parametrize(
    ("expected", "actual", "error", "match"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0, True),
        ([1.0, 2.0], [1.001, 2.0], 5e-4, True),
        ([1.0, 2.0], [1.01, 2.0], 5e-3, False),
        ([0.0, 0.0], [0.0, 1e-4], 1e-4, True),
        ([np.inf, 1.0], [np.inf, 1.0], 0.0, True),
        ([np.nan, np.inf], [np.inf, np.nan], 0.0, True),
        ([np.nan, 1.0], [0.0, 1.0], np.inf, False),
    ],
)
def test_the_largest_relative_error_of_an_output_decides(expected, actual, error, match):
    speedup = compare(expected, actual)
    assert speedup.relative_error == pytest.approx(error)
    assert speedup.outputs_match == match


def test_float16_outputs_have_a_larger_tolerance():
    assert compare(np.array([1.0, 2.0], "float16"), np.array([1.01, 2.0], "float16")).outputs_match


def test_the_worst_of_several_outputs_counts():
    one = np.ones(2)
    assert Speedup.from_runs([[one, one], [one, 1.5 * one]], [[0.2], [0.1]]).relative_error == 0.5


def test_networks_are_timed_in_turn():
    calls = []
    latencies = time_interleaved([lambda: calls.append("a") or 1.0, lambda: calls.append("b") or 2.0])
    assert calls == ["a", "b"] * REPEATS
    assert latencies == [[1.0] * REPEATS, [2.0] * REPEATS]


def test_random_inputs_are_reproducible_and_integers_are_indices():
    first, second = (random_arrays([((3, 4), "float32"), ((50,), "int64")]) for _ in range(2))
    assert all((x == y).all() for x, y in zip(first, second))
    assert set(first[1]) == {0, 1}
