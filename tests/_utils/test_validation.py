"""Checks of arguments."""

import numpy as np
import pytest

from autotvm_opevo._utils.validation import as_integer, as_seconds, is_number


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), 10**30])
def test_integers_become_plain_ints(value):
    number = as_integer("size", value)
    assert number == value
    assert type(number) is int


@pytest.mark.parametrize("value", [0, -1, 2.0, "3", None, True, np.bool_(True), float("nan")])
def test_other_values_are_rejected(value):
    with pytest.raises(ValueError, match=r"size must be an integer of at least 1, .* given"):
        as_integer("size", value)


def test_lower_bound_is_configurable():
    assert as_integer("seed", 0, at_least=0) == 0
    with pytest.raises(ValueError, match="at least 2, 1 given"):
        as_integer("parts", 1, at_least=2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, True), (-0.5, True), (np.float32(2), True), (10**400, True)]
    + [
        (value, False)
        for value in (float("inf"), float("nan"), np.float64("-inf"), "1", None, 1j, [1])
    ],
)
def test_only_finite_real_numbers_are_numbers(value, expected):
    assert is_number(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1.0), (np.float32(0.5), 0.5), (float("inf"), float("inf")), (10**400, float("inf"))],
)
def test_durations_become_floats(value, expected):
    assert as_seconds("timeout", value) == expected


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), True, np.bool_(True), "1", None])
def test_other_durations_are_rejected(value):
    with pytest.raises(ValueError, match=r"timeout must be a positive number of seconds, .* given"):
        as_seconds("timeout", value)
