"""The product of topologies: configurations, their indices, and a constraint."""

import numpy as np
import pytest

from autotvm_opevo import Space
from autotvm_opevo.topology import Categorical, Discrete, Factorization, Permutation


def small():
    return Space(
        {
            "tile": Factorization(6, parts=2),
            "unroll": Discrete([0, 16, 64]),
            "explicit": Categorical([False, True]),
        }
    )


def test_indexes_every_configuration_last_knob_fastest():
    space = small()
    configurations = list(space)
    assert len(configurations) == len(space) == space.size == 4 * 3 * 2
    assert [space.index(configuration) for configuration in configurations] == list(
        range(space.size)
    )
    assert [space[i] for i in range(space.size)] == configurations
    assert configurations[:3] == [
        {"tile": (1, 6), "unroll": 0, "explicit": False},
        {"tile": (1, 6), "unroll": 0, "explicit": True},
        {"tile": (1, 6), "unroll": 16, "explicit": False},
    ]


def test_sizes_and_indices_are_exact_beyond_64_bits():
    space = Space({f"order{i}": Permutation(12) for i in range(5)})
    assert space.size == 479001600**5
    last = space[space.size - 1]
    assert last == {f"order{i}": tuple(range(11, -1, -1)) for i in range(5)}
    assert space.index(last) == space.size - 1


def test_space_without_knobs_has_one_configuration():
    space = Space({})
    assert space.size == 1
    assert list(space) == [space[0]] == [{}]


def test_samples_the_whole_product():
    space = small()
    rng = np.random.default_rng(0)
    assert {space.index(space.sample(rng)) for _ in range(400)} == set(range(space.size))


def test_constraint_does_not_change_indices():
    space = Space({"x": Discrete(range(10))}, constraint=lambda c: c["x"] % 2)
    assert [space.is_feasible({"x": x}) for x in (1, 2)] == [True, False]
    assert space.size == 10
    assert space.index({"x": 4}) == 4


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        (
            {"tile": (2, 3), "unroll": 0},
            r"must be a dict of the knobs \['tile', 'unroll', 'explicit'\], .* given",
        ),
        (
            {"tile": (2, 3), "unroll": 0, "explicit": True, "vthread": 1},
            "must be a dict of the knobs",
        ),
        (((2, 3), 0, True), r"must be a dict of the knobs .*, \(\(2, 3\), 0, True\) given"),
        (
            {"tile": (2, 4), "unroll": 0, "explicit": True},
            r"knob 'tile': value \(2, 4\) given, allowed are the 4 vertices",
        ),
        ({"tile": (2, 3), "unroll": 5, "explicit": True}, "knob 'unroll': value 5 given"),
        ({"tile": (2, 3), "unroll": 0, "explicit": 1}, "knob 'explicit': value 1 given"),
    ],
)
def test_configurations_of_another_space_are_rejected(configuration, message):
    with pytest.raises(ValueError, match=message):
        small().index(configuration)


def test_invalid_arguments_are_rejected():
    with pytest.raises(ValueError, match="knob 'x' must be a Topology"):
        Space({"x": [1, 2, 3]})
    with pytest.raises(ValueError, match="knobs must be a mapping"):
        Space([Discrete([1])])
    with pytest.raises(ValueError, match="constraint must be a function"):
        Space({}, constraint="x < 3")
    for index in (-1, 24):
        with pytest.raises(IndexError, match=f"configuration index {index} given"):
            small()[index]
