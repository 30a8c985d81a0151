"""What Relax's ONNX importer lowers at once, Clip and Pad, are operators again, in NHWC; a Clip is
fused into convolutions.
"""

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper
from onnx_files import save_nodes
from quick_tuning import outputs
from relax_modules import count_changes
from tvm import relax, topi
from unoptimized import cpu

from autotvm_opevo.lowering.channels_last import with_channels_last
from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import build, lower, lower_as_imported
from autotvm_opevo.lowering.rewriting import raise_to_operators
from autotvm_opevo.networks import relax as workloads
from benchmarks.onnx_graph import OnnxGraph


def clipped(folder, opset, bounds, dtype="float32"):
    """A convolution between two ReLU6, or what their bounds make of them."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weight = np.random.default_rng(1).standard_normal((8, 8, 3, 3)).astype(dtype)
    constants = [("w", weight)]
    if opset >= 11:
        constants += [(name, np.array(value, dtype)) for name, value in bounds.items()]

    def clip(x, y):
        if opset < 11:
            return helper.make_node("Clip", [x], [y], **bounds)
        return helper.make_node(
            "Clip", [x, *(name if name in bounds else "" for name in ("min", "max"))], [y]
        )

    nodes = [
        clip("x", "a"),
        helper.make_node("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1]),
        clip("b", "y"),
    ]
    inputs = {"x": (kind, (1, 8, 6, 10))}
    return workloads.model_file(
        save_nodes(folder / "model.onnx", nodes, inputs, constants, opset, kind)
    )


RELU6 = {"min": 0.0, "max": 6.0}


@pytest.mark.parametrize(
    ("opset", "dtype", "bounds"),
    [
        *((6, "float32", RELU6), (6, "float32", {"min": -0.5}), (13, "float16", RELU6)),
        *((13, "float32", bounds) for bounds in (RELU6, {"min": -0.5}, {"max": 0.25})),
    ],
)
def test_a_clip_is_fused_into_the_convolution_before_it(tmp_path, opset, dtype, bounds):
    lowered = [
        way(bind_params(*clipped(tmp_path, opset, bounds, dtype)), cpu())
        for way in (lower_as_imported, lower)
    ]
    assert count_changes(lowered[1])["nhwc"] == 1
    names = {
        variable.name_hint.translate(str.maketrans("", "", "0123456789_"))
        for variable in lowered[1].functions
    }
    assert "conv2d" not in names
    assert not any(name.count("transpose") > 1 for name in names)
    x = np.random.default_rng(0).standard_normal((1, 8, 6, 10)).astype(dtype)
    (expected,), (actual,) = outputs([build(one, cpu()) for one in lowered], [x])
    np.testing.assert_allclose(
        actual,
        expected,
        rtol=1e-2 if dtype == "float16" else 1e-5,
        atol=1e-2 if dtype == "float16" else 1e-5,
    )


PADS = {
    **{
        mode: {"mode": mode, "pads": [0, 0, 1, 2, 0, 0, 1, 2]}
        for mode in ("constant", "reflect", "edge", "wrap")
    },
    "before": {"mode": "reflect", "pads": [0, 0, 1, 2, 0, 0, 0, 1]},
    "after": {"mode": "constant", "pads": [0, 0, 0, 0, 0, 0, 1, 1]},
    "images and channels": {"mode": "edge", "pads": [1, 2, 1, 2, 1, 2, 1, 2]},
    "with a number": {"mode": "constant", "pads": [0, 1, 1, 1, 0, 1, 1, 1], "value": 0.5},
    **{name: {"auto_pad": name} for name in ("SAME_UPPER", "SAME_LOWER")},
}


# Those that are what a convolution adds, and become a part of it.
ZEROS = "constant", "after", "SAME_UPPER", "SAME_LOWER"


def padded(folder, *names):
    """For each name two convolutions, the second one of an image that is padded."""
    g = OnnxGraph(opset=19)
    image = g.input("x", 1, 3, 9, 12)
    for name in names:
        x, pads = g.relu(g.conv(image, 3, 6)), PADS[name].get("pads")
        if pads:
            value = g.constant(PADS[name].get("value", 0.0))
            x = g.add("Pad", x, g.ints(*pads), value, mode=PADS[name]["mode"])
            x = g.conv(x, 6 + pads[1] + pads[5], 4, pad=0)
        else:
            x = g.conv(x, 6, 4, stride=2, pad=PADS[name]["auto_pad"])
        g.output(x)
    onnx.save(g.model(), folder / "model.onnx")
    return bind_params(*workloads.model_file(folder / "model.onnx"))


@pytest.mark.parametrize("name", PADS)
def test_an_image_is_padded_in_nhwc(tmp_path, name):
    converted = relax.transform.FoldConstant()(
        with_channels_last(raise_to_operators(padded(tmp_path, name)))
    )
    script = converted["main"].script()
    assert "call_tir" not in script
    assert script.count("permute_dims") == 2
    assert ("nn.pad(" in script) == (name not in ZEROS)


def test_padded_images_are_right(tmp_path, caplog):
    """All in one network, which is built once."""
    mod = padded(tmp_path, *PADS)
    x = np.random.default_rng(0).standard_normal((1, 3, 9, 12)).astype("float32")
    lowered = [way(mod, cpu()) for way in (lower_as_imported, lower)]
    for name, expected, actual in zip(PADS, *outputs([build(one, cpu()) for one in lowered], [x])):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4, err_msg=name)
    assert not caplog.text  # or it would be lowered as imported


# What other functions of TVM's operator library make of a tensor of 2 x 3, and nothing.
OTHERS = {
    "sum": lambda call, x: call(topi.add, x, 1.0),
    "reduction": lambda call, x: call(topi.sum, x),
    "constant": lambda call, x: call(topi.full, (2, 3), "float32", 1.0),
    "two maxima": lambda call, x: call(
        lambda y: topi.add(topi.maximum(y, 0.0), topi.maximum(y, 0.0)), x
    ),
    "maximum of what is reversed": lambda call, x: call(
        lambda y: topi.maximum(topi.flip(y, 1), 0.0), x
    ),
    "maximum of itself": lambda call, x: call(lambda y: topi.maximum(y, y), x),
    "tile": lambda call, x: call(topi.tile, x, [2, 1]),
    "padding that is much wider at the end": lambda call, x: call(topi.nn.pad, x, [0, 0], [0, 3]),
    "symmetric padding": lambda call, x: call(topi.nn.mirror_pad, x, [1, 1], [1, 1], "SYMMETRIC"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_stay(name):
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(OTHERS[name](builder.call_te, x))
        builder.emit_func_output(y)
    mod = builder.finalize()
    tvm.ir.assert_structural_equal(raise_to_operators(mod), mod)
