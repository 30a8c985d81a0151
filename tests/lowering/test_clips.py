"""Clip, which Relax's ONNX importer lowers at once, is an operator again, so that it is fused into convolutions in NHWC."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper
from quick_tuning import outputs
from tvm import relax, topi

from autotvm_opevo.lowering.clips import with_clips_as_operators
from autotvm_opevo.lowering.network import build, count_changes, lower, lower_as_imported
from autotvm_opevo.networks import relax as workloads
from benchmarks.workloads import cpu


def clipped(folder, opset, bounds, dtype="float32"):
    """A convolution between two ReLU6, or what their bounds make of them."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weight = np.random.default_rng(1).standard_normal((8, 8, 3, 3)).astype(dtype)
    initializers = [numpy_helper.from_array(weight, "w")]
    initializers += [numpy_helper.from_array(np.array(value, dtype), name) for name, value in bounds.items() if opset >= 11]

    def clip(x, y):
        if opset < 11:
            return helper.make_node("Clip", [x], [y], **bounds)
        return helper.make_node("Clip", [x, *(name if name in bounds else "" for name in ("min", "max"))], [y])

    nodes = [clip("x", "a"), helper.make_node("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1]), clip("b", "y")]
    x, y = (helper.make_tensor_value_info(name, kind, (1, 8, 6, 10)) for name in "xy")
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], initializers), opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    onnx.save(model, folder / "model.onnx")
    return workloads.model_file(folder / "model.onnx")


RELU6 = {"min": 0.0, "max": 6.0}


@pytest.mark.parametrize(
    ("opset", "dtype", "bounds"),
    [
        *((6, "float32", RELU6), (6, "float32", {"min": -0.5}), (13, "float16", RELU6)),
        *((13, "float32", bounds) for bounds in (RELU6, {"min": -0.5}, {"max": 0.25})),
    ],
)
def test_a_clip_is_fused_into_the_convolution_before_it(tmp_path, opset, dtype, bounds):
    lowered = [way(*clipped(tmp_path, opset, bounds, dtype), cpu()) for way in (lower_as_imported, lower)]
    assert count_changes(lowered[1])["nhwc"] == 1
    names = {variable.name_hint.translate(str.maketrans("", "", "0123456789_")) for variable in lowered[1].functions}
    assert "conv2d" not in names
    assert not any(name.count("transpose") > 1 for name in names)
    x = np.random.default_rng(0).standard_normal((1, 8, 6, 10)).astype(dtype)
    (expected,), (actual,) = outputs([build(one, cpu()) for one in lowered], [x])
    np.testing.assert_allclose(
        actual, expected, rtol=1e-2 if dtype == "float16" else 1e-5, atol=1e-2 if dtype == "float16" else 1e-5
    )


# What other functions of TVM's operator library make of a tensor of 2 x 3, and nothing.
OTHERS = {
    "sum": lambda call, x: call(topi.add, x, 1.0),
    "reduction": lambda call, x: call(topi.sum, x),
    "constant": lambda call, x: call(topi.full, (2, 3), "float32", 1.0),
    "two maxima": lambda call, x: call(lambda y: topi.add(topi.maximum(y, 0.0), topi.maximum(y, 0.0)), x),
    "maximum of what is reversed": lambda call, x: call(lambda y: topi.maximum(topi.flip(y, 1), 0.0), x),
    "maximum of itself": lambda call, x: call(lambda y: topi.maximum(y, y), x),
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
    tvm.ir.assert_structural_equal(with_clips_as_operators(mod), mod)
