"""Outputs and latencies of built programs."""

import numpy as np
import pytest

from autotvm_opevo.tuning.programs import compare_outputs, random_arrays


def compare(expected, actual):
    return compare_outputs([np.asarray(expected)], [np.asarray(actual)])


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
    assert compare(expected, actual) == (pytest.approx(error), match)


def test_float16_outputs_have_a_larger_tolerance():
    assert compare(np.array([1.0, 2.0], "float16"), np.array([1.01, 2.0], "float16"))[1]


def test_the_worst_of_several_outputs_counts():
    one = np.ones(2)
    assert compare_outputs([one, one], [one, 1.5 * one])[0] == 0.5


def test_random_inputs_are_reproducible_and_integers_are_indices():
    first, second = (random_arrays([((3, 4), "float32"), ((50,), "int64")]) for _ in range(2))
    assert all((x == y).all() for x, y in zip(first, second))
    assert set(first[1]) == {0, 1}
