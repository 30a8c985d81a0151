"""Conversion of convolutions to NHWC: what changes, what stays, and that outputs are the same."""

import numpy as np
import pytest
import tvm
from quick_tuning import outputs
from tvm import relax

from autotvm_opevo.lowering import layouts
from autotvm_opevo.lowering.network import build, count_changes, lower, lower_as_imported
from autotvm_opevo.meta_schedule import as_target
from autotvm_opevo.meta_schedule.evaluation import random_inputs

CPU = as_target("llvm -mcpu=core-avx2 -num-cores=2")


def network(groups=1, derive=lambda weight: weight):
    """Two convolutions, pooled, and a dense layer; and the weights, of which the second convolution's is derived from its own."""
    rng = np.random.default_rng(0)
    shapes = {"w1": (8, 8 // groups, 3, 3), "w2": (4, 8, 1, 1), "dense": (100, 3)}
    builder = relax.BlockBuilder()
    variables = {name: relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in shapes.items()}
    x = relax.Var("x", relax.TensorType((1, 8, 10, 10), "float32"))
    with builder.function("main", [x, *variables.values()]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.conv2d(x, variables["w1"], padding=1, groups=groups))
            y = builder.emit(relax.op.nn.max_pool2d(relax.op.nn.relu(y), pool_size=(2, 2), strides=(2, 2)))
            y = builder.emit(relax.op.nn.conv2d(y, builder.emit(derive(variables["w2"]))))
            y = builder.emit(relax.op.matmul(relax.op.reshape(y, (1, 100)), variables["dense"]))
            y = builder.emit_output(y)
        builder.emit_func_output(y)
    weights = {name: tvm.runtime.tensor(rng.standard_normal(shape).astype("float32")) for name, shape in shapes.items()}
    return relax.transform.CanonicalizeBindings()(builder.finalize()), weights


def kernel_layouts(mod):
    found = []

    def visit(node):
        if getattr(getattr(node, "op", None), "name", "") == "relax.nn.conv2d":
            found.append(str(node.attrs.kernel_layout))

    relax.analysis.post_order_visit(mod["main"], visit)
    return found


def outputs_of(mod, weights):
    """As imported, and as lowered for tuning."""
    lowered = [way(mod, weights, CPU) for way in (lower_as_imported, lower)]
    return [arrays[0] for arrays in outputs([build(one, CPU) for one in lowered], random_inputs(lowered[0]))]


def test_operators_in_other_layouts_are_counted():
    """Two convolutions and a dense layer, all with constant weights; without these, nothing is converted."""
    mod, weights = network()
    assert count_changes(lower(mod, weights, CPU)) == {"nhwc": 2, "packed": 3, "winograd": 0, "fast_math": 0}
    assert count_changes(lower(mod, {}, CPU)) == {"nhwc": 0, "packed": 0, "winograd": 0, "fast_math": 0}
    assert count_changes(lower_as_imported(mod, weights, CPU)) == {"nhwc": 0, "packed": 0, "winograd": 0, "fast_math": 0}


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_convolutions_become_channels_last_and_outputs_stay(groups):
    mod, weights = network(groups)
    bound = relax.transform.BindParams("main", weights)(mod)
    assert kernel_layouts(layouts.with_channels_last(bound)) == ["HWIO", "HWIO"]
    imported, converted = outputs_of(mod, weights)
    np.testing.assert_allclose(converted, imported, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("derive", [lambda weight: weight, relax.op.abs], ids=["argument", "of an argument"])
def test_weights_that_are_known_in_a_run_only_are_not_converted_in_each(derive):
    mod, weights = network(derive=derive)
    del weights["w2"]
    bound = relax.transform.BindParams("main", weights)(mod)
    assert kernel_layouts(layouts.with_channels_last(bound)) == ["HWIO", "OIHW"]
    imported, converted = outputs_of(mod, weights)
    np.testing.assert_allclose(converted, imported, rtol=1e-4, atol=1e-4)


def test_weights_that_follow_from_constants_are_converted():
    mod, weights = network(derive=relax.op.abs)
    assert count_changes(lower(mod, weights, CPU))["nhwc"] == 2
    imported, converted = outputs_of(mod, weights)
    np.testing.assert_allclose(converted, imported, rtol=1e-4, atol=1e-4)


def test_other_targets_keep_the_layouts():
    mod, weights = network()
    target = tvm.target.Target("nvidia/geforce-rtx-3090")
    lowered = [way(mod, weights, target) for way in (lower_as_imported, lower)]
    tvm.ir.assert_structural_equal(*lowered)


def test_a_network_that_relax_cannot_convert_is_tuned_as_it_is(monkeypatch, caplog):
    def broken(*_):
        raise tvm.error.InternalError("no layout")

    monkeypatch.setattr(relax.transform, "ConvertLayout", broken)
    mod, weights = network()
    imported = layouts.with_packable_weights(lower_as_imported(mod, weights, CPU))
    tvm.ir.assert_structural_equal(lower(mod, weights, CPU), imported)
    assert "convolutions stay in their layout, since Relax cannot convert the network: no layout" in caplog.text


def test_an_operator_of_a_single_block_is_lowered():
    """TVM scatters by a function that has no root around it."""
    builder = relax.BlockBuilder()
    x, updates = (relax.Var(name, relax.TensorType((4, 4), "float32")) for name in ("x", "updates"))
    indices = relax.Var("indices", relax.TensorType((4, 4), "int64"))
    with builder.function("main", [x, indices, updates]):
        with builder.dataflow():
            y = builder.emit_output(builder.emit(relax.op.scatter_elements(x, indices, updates)))
        builder.emit_func_output(y)
    lowered = lower(builder.finalize(), {}, CPU)
    assert "scatter_elements" in lowered.script()
