"""Discrete and categorical knobs against the definitions of Section 3."""

import numpy as np
import pytest

from autotvm_opevo.topology import Categorical, Discrete


def test_discrete_values_are_adjacent_if_none_lies_between():
    values = [5, 1, 2.5, 100]
    topology = Discrete(values)
    assert list(topology) == sorted(values)
    for u in values:
        adjacent = {v for v in values if v != u and not any((w - u) * (w - v) < 0 for w in values)}
        assert set(topology.neighbours(u)) == adjacent


def test_discrete_values_may_exceed_any_float():
    assert Discrete([10**400, 1]).neighbours(1) == [10**400]


def test_categorical_distinguishes_types_and_accepts_numpy_scalars():
    topology = Categorical([False, 0, 0.0, "0"])
    assert [topology.index(value) for value in (False, 0, 0.0, "0")] == [0, 1, 2, 3]
    assert [topology.index(value) for value in (np.bool_(False), np.int64(0), np.float64(0))] == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Discrete([]), r"values must have at least one element, \[\] given"),
        (lambda: Discrete(5), "values must have at least one element, 5 given"),
        (lambda: Discrete([1, 1]), "values must be distinct, 1 given twice"),
        (lambda: Discrete([1, float("nan")]), "values must be finite numbers, nan given"),
        (lambda: Discrete(["a"]), "values must be finite numbers, 'a' given"),
        (lambda: Categorical([]), "values must have at least one element"),
        (lambda: Categorical(["a", "a"]), "values must be distinct, 'a' given twice"),
    ],
)
def test_invalid_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()
