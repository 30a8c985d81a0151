"""Convolutions by Winograd's algorithm: the algorithm is exact, outputs agree, and it is chosen
where it pays.
"""

from collections import defaultdict
from itertools import zip_longest

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from quick_network_tuning import instant, tune_module
from quick_tuning import outputs
from relax_modules import count_changes, network_with
from tvm import relax
from unoptimized import cpu

from autotvm_opevo.lowering import winograd
from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import build, lower, lower_as_imported
from autotvm_opevo.lowering.winograd import _Convolution, choose_tiling, transform_matrices
from autotvm_opevo.meta_schedule import open_database
from autotvm_opevo.meta_schedule.database import database_with, workload_key


def network(image, kernel, padding=1, dtype="float32", bound=True, **options):
    """A convolution in NCHW, its bias and a relu; and the weights."""
    shapes = image, kernel, (1, kernel[0], 1, 1)

    @network_with(*(relax.TensorType(shape, dtype) for shape in shapes))
    def mod(emit, x, weight, bias):
        y = relax.op.nn.conv2d(x, weight, padding=padding, **options)
        return relax.op.nn.relu(relax.op.add(y, bias))

    rng, scale = np.random.default_rng(0), np.prod(kernel[1:]) ** -0.5
    weights = {
        f"x{i}": (scale * rng.standard_normal(shape)).astype(dtype)
        for i, shape in enumerate(shapes[1:], start=1)
    }
    return mod, weights if bound else {}


def assert_agrees_with_the_direct_convolution(image, kernel, padding):
    mod = bind_params(*network(image, kernel, padding))
    lowered = lower(mod, cpu())
    assert count_changes(lowered)["winograd"] == 1
    x = np.random.default_rng(1).standard_normal(image).astype("float32")
    executables = [build(one, cpu()) for one in (lower_as_imported(mod, cpu()), lowered)]
    (direct,), (found,) = outputs(executables, [x])
    assert np.abs(found - direct).max() < 1e-5 * np.abs(direct).max()


@given(alpha=st.sampled_from([4, 6]), r=st.integers(2, 5), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_the_transforms_correlate_exactly(alpha, r, seed):
    """A^T ((G g) * (B^T d)) is the correlation of d with g."""
    if r >= alpha:
        return
    rng = np.random.default_rng(seed)
    a, b, g = transform_matrices(alpha, r)
    weights, data = rng.standard_normal(r), rng.standard_normal(alpha)
    np.testing.assert_allclose(
        a.T @ ((g @ weights) * (b.T @ data)), np.correlate(data, weights), atol=1e-12
    )


@pytest.mark.parametrize(
    ("image", "kernel", "padding"),
    [
        ((2, 32, 30, 17), (48, 32, 3, 3), 1),  # images and tiles that do not divide
        ((1, 64, 27, 27), (96, 64, 5, 5), 2),
        ((1, 256, 7, 7), (256, 256, 3, 3), 1),  # small tiles
    ],
)
def test_outputs_agree_with_the_direct_convolution(image, kernel, padding):
    assert_agrees_with_the_direct_convolution(image, kernel, padding)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 20))]
)
def test_outputs_agree_whatever_the_extents(seed, monkeypatch):
    """Also where it would not pay: of images smaller than a tile, and with more padding on one side
    than on the other.
    """
    monkeypatch.setattr(winograd, "_MIN_SPEEDUP", 0.0)
    rng = np.random.default_rng(seed)
    kernel = int(rng.choice([3, 5]))
    image = (
        int(rng.integers(1, 4)),
        int(rng.integers(1, 6)),
        *(int(n) for n in rng.integers(kernel, 16, 2)),
    )
    padding = tuple(int(n) for n in rng.integers(0, kernel, 4))
    kernels = int(rng.integers(1, 6)), image[1], kernel, kernel
    assert_agrees_with_the_direct_convolution(image, kernels, padding)


def test_what_follows_is_fused_into_the_last_of_three_operators():
    lowered = lower(bind_params(*network((1, 64, 28, 28), (64, 64, 3, 3))), cpu())
    names = {variable.name_hint.rstrip("0123456789") for variable in lowered.functions} - {
        "main",
        "transpose",
    }
    assert names == {"winograd_input", "winograd_product", "fused_winograd_output_add_relu"}


def test_only_the_weights_are_packed():
    """TVM would pack the matrices of the transforms wrongly."""
    lowered = lower(bind_params(*network((1, 64, 28, 28), (64, 64, 3, 3))), cpu())
    operators = {variable.name_hint: function for variable, function in lowered.functions.items()}
    packed = {
        name.rstrip("0123456789")
        for name, one in operators.items()
        if one.attrs and "layout_free_buffers" in one.attrs
    }
    assert "winograd_product" in packed
    assert not {"winograd_input", "fused_winograd_output_add_relu"} & packed


@pytest.mark.parametrize(
    ("strategy", "trials"),
    [
        ("opevo", 12),
        *(
            pytest.param(strategy, 32, marks=pytest.mark.soak)
            for strategy in ("opevo", "evolutionary")
        ),
    ],
)
@pytest.mark.timeout(1200)
def test_every_schedule_computes_the_same(tmp_path, strategy, trials):
    """All that are found, not the best alone: 13 rows in tiles of 4 are where packing went
    wrong.
    """
    mod, weights = network((1, 32, 13, 13), (48, 32, 3, 3))
    options = (
        {"strategy": "evolutionary", "cost_model": "random"} if strategy == "evolutionary" else {}
    )
    tune_module(mod, weights, tmp_path, trials, **instant(), **options)
    lowered, of_tasks = lower(bind_params(mod, weights), cpu()), defaultdict(list)
    for record in open_database(tmp_path).get_all_tuning_records():
        of_tasks[workload_key(record.workload.mod)].append(record)
    count = sum(map(len, of_tasks.values()))
    assert count == trials if strategy == "opevo" else count >= trials / 2
    # with a schedule of each task at a time
    ways = [None, *map(database_with, zip_longest(*of_tasks.values()))]
    x = np.random.default_rng(1).standard_normal((1, 32, 13, 13)).astype("float32")
    expected, *found = (
        result[0] for result in outputs([build(lowered, cpu(), one) for one in ways], [x])
    )
    assert max(np.abs(one - expected).max() for one in found) < 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize(
    "options",
    [
        {"strides": 2},
        {"dilation": 2},
        {"groups": 2},
        {"dtype": "float16"},
        {"bound": False},
        {"image": (1, 3, 64, 64)},
        {"image": (1, 512, 7, 7), "kernel": (1, 1), "padding": 0},
        {"kernel": (1, 3), "padding": (0, 1)},
        {"kernel": (3, 1), "padding": (1, 0)},
        {"kernel": (4, 4)},
    ],
    ids=str,
)
def test_other_convolutions_stay_direct(options):
    image, size = options.get("image", (1, 64, 28, 28)), options.get("kernel", (3, 3))
    kernel = (64, image[1] // options.get("groups", 1), *size)
    mod, weights = network(
        image,
        kernel,
        **{name: value for name, value in options.items() if name not in ("image", "kernel")},
    )
    assert count_changes(lower(bind_params(mod, weights), cpu()))["winograd"] == 0


def channels_last(n, bound):
    """A convolution in NHWC of a number of images, which may be a variable."""
    options = {"padding": 1, "data_layout": "NHWC", "kernel_layout": "HWIO"}
    mod = network_with((n, 28, 28, 64), (3, 3, 64, 64))(
        lambda emit, x, kernel: relax.op.nn.conv2d(x, kernel, **options)
    )
    return mod, {"x1": np.ones((3, 3, 64, 64), "float32")} if bound else {}


@pytest.mark.parametrize(
    ("n", "bound", "count"),
    [(1, True, 1), (1, False, 0), (tvm.tirx.Var("n", "int64"), True, 0)],
    ids=["", "unbound", "symbolic"],
)
def test_models_in_nhwc_need_known_weights_and_extents(n, bound, count):
    mod, weights = channels_last(n, bound)
    assert count_changes(lower(bind_params(mod, weights), cpu()))["winograd"] == count


@pytest.mark.parametrize(
    ("conv", "m"),
    [
        (_Convolution(1, 56, 56, 64, 64, 3), 4),
        (_Convolution(1, 14, 14, 256, 256, 3), 4),
        # weights of larger tiles would be read for few outputs
        (_Convolution(1, 7, 7, 512, 512, 3), 2),
        (_Convolution(8, 7, 7, 512, 512, 3), 4),
        (_Convolution(1, 27, 27, 64, 192, 5), 2),
        (_Convolution(1, 224, 224, 3, 64, 3), None),  # the transforms would take longer
        (_Convolution(1, 4, 4, 64, 64, 7), None),
    ],
)
def test_tiles_are_as_large_as_pays(conv, m):
    tiling = choose_tiling(conv)
    assert (tiling and tiling.m) == m
