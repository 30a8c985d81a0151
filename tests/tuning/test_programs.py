"""Outputs and latencies of built programs."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from autotvm_opevo.tuning.programs import check_linker, compare_outputs, random_arrays


def compare(expected, actual, *dtypes):
    return compare_outputs([np.asarray(expected)], [np.asarray(actual)], dtypes)


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
        ([-1e9, 1.0, 2.0], [-1e9, 1.0, 2.002], 1e-3, True),
        ([-1e9, 1.0, 2.0], [-1e9, 1.0, 9.0], 3.5, False),
        ([-1e9, 1.0], [1.0, 1.0], np.inf, False),
        ([1e12, 2e8, 5e7], [1e12, 2.2e8, 6e7], 2e-5, True),
    ],
)
def test_the_largest_relative_error_of_an_output_decides(expected, actual, error, match):
    assert compare(expected, actual) == (pytest.approx(error), match)


def test_float16_outputs_have_a_larger_tolerance():
    assert compare(np.array([1.0, 2.0], "float16"), np.array([1.01, 2.0], "float16"))[1]


def test_the_worst_of_several_outputs_counts():
    one = np.ones(2)
    assert compare_outputs([one, one], [one, 1.5 * one])[0] == 0.5


@pytest.mark.parametrize("shapes", [[(2,)], [(2, 1), (2, 1)], [(2, 1)] * 3, []])
def test_outputs_of_other_shapes_or_of_another_number_are_different(shapes):
    expected = [np.ones((2, 1)), np.ones((1, 2))]
    assert compare_outputs(expected, [np.ones(shape) for shape in shapes]) == (np.inf, False)


def quantized(dtype="float32", step=0.8):
    """Values that were rounded to multiples of a step, and a random generator."""
    rng = np.random.default_rng(0)
    return (step * rng.normal(scale=30, size=10_000).clip(-127, 127).round()).astype(dtype), rng


class TestQuantizedNetworks:
    """Sums are rounded differently, by a millionth; those at the edge of a step of a quantization
    are then a whole step apart.
    """

    @pytest.mark.parametrize(
        ("dtype", "step"), [("float32", 0.8), ("int8", 1.0), ("float64", 1e-3)]
    )
    @pytest.mark.parametrize(("share", "steps"), [(1e-3, 1), (0.04, 1), (0.04, 3)])
    def test_some_values_may_be_steps_apart(self, dtype, step, share, steps):
        x, rng = quantized(dtype, step)
        y = (
            x
            + rng.choice(
                [0, -steps * step, steps * step], x.size, p=[1 - share, share / 2, share / 2]
            )
        ).astype(dtype)
        assert compare(x, y, "float32", "int8")[1]
        if dtype != "int8":
            assert not compare(x, y, "float32")[1]

    def test_what_follows_may_differ_by_the_sums_of_steps(self):
        x, rng = quantized()
        y = x + rng.choice([0, -0.8, 0.8], x.size, p=[0.96, 0.02, 0.02])
        weights = rng.normal(size=(100, 20))
        assert compare(x.reshape(-1, 100) @ weights, y.reshape(-1, 100) @ weights, "uint8")[1]

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda x: np.roll(x, 1),
            lambda x: 1.1 * x,
            lambda x: np.where(np.arange(x.size) % 100, x, 0),
            lambda x: np.append(x[:-1], 100.0),
            lambda x: np.append(x[:-1], np.nan),
            lambda x: np.zeros_like(x),
        ],
        ids=["moved", "scaled", "holes", "one", "nan", "zero"],
    )
    def test_other_values_are_different(self, wrong):
        x, _ = quantized()
        assert not compare(x, wrong(x), "int8")[1]

    def test_truth_values_and_wider_integers_are_no_quantized_values(self):
        x, _ = quantized()
        assert not compare(x, x + 0.8, "float32", "bool", "int32")[1]


def test_float16_in_a_network_has_the_tolerance_of_its_outputs():
    assert compare([1.0, 2.0], [1.01, 2.0], "float16", "float32")[1]
    assert not compare([1.0, 2.0], [1.1, 2.0], "float16", "float32")[1]


@pytest.mark.parametrize(
    ("changed", "match"), [(0, True), (10, True), (11, False), (10_000, False)]
)
@pytest.mark.parametrize("dtype", ["int64", "uint32", "bool"])
def test_few_positions_of_largest_values_may_be_others(dtype, changed, match):
    x = np.ones(10_000, dtype)
    y = np.where(np.arange(x.size) < changed, 0, x)
    assert compare(x, y)[1] == match


def test_without_floating_point_numbers_outputs_must_match_exactly():
    x = np.arange(10_000, dtype="int32")
    assert compare(x, x, "int8", "int32")[1]
    y = np.where(x == 7, 8, x)
    assert not compare(x, y, "int8", "int32")[1]
    assert compare(x, y, "int8", "int32", "float32")[1]


def test_random_integers_of_eight_bits_have_any_value():
    signed, unsigned = random_arrays([np.empty(10_000, "int8"), np.empty(10_000, "uint8")])
    assert (signed.min(), signed.max()) == (-128, 127)
    assert (unsigned.min(), unsigned.max()) == (0, 255)


def test_random_inputs_are_reproducible_and_integers_are_indices():
    tensors = np.empty((3, 4), "float32"), np.empty(50, "int64")
    first, second = (random_arrays(tensors) for _ in range(2))
    assert all((x == y).all() for x, y in zip(first, second))
    assert set(first[1]) == {0, 1}


def test_a_temporary_folder_whose_libraries_cannot_be_loaded_is_named(monkeypatch, tmp_path):
    """As where it is mounted noexec."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cc = SimpleNamespace(create_shared=lambda file, sources: Path(file).touch())
    with pytest.raises(RuntimeError, match=f"libraries in {tmp_path} .*: set TMPDIR to another"):
        check_linker(cc)
