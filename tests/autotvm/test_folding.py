"""Constants are folded as TVM folds them."""

import numpy as np
import pytest
import tvm
from small_networks import TARGET
from tvm import relay
from tvm.contrib import graph_executor

from autotvm_opevo.autotvm.evaluation import build, random_inputs
from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.networks import relay as workloads


def conv2d(x, channels, name):
    return relay.nn.conv2d(
        x, relay.var(f"{name}_weight"), channels=channels, kernel_size=(3, 3), padding=(1, 1)
    )


def batch_norm(x, channels, name):
    statistics = [
        relay.var(f"{name}_{part}", shape=(channels,))
        for part in ("gamma", "beta", "mean", "variance")
    ]
    return relay.nn.batch_norm(x, *statistics)[0]


def model(x, low):
    mod = relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(x), x))
    )
    rng = np.random.default_rng(0)
    params = {}
    for one in mod["main"].params:
        if one.name_hint != "data":
            values = rng.uniform(
                0.5 if "variance" in one.name_hint else low,
                1.5,
                tuple(map(int, one.checked_type.shape)),
            )
            params[one.name_hint] = tvm.nd.array(values.astype("float32"))
    return mod, params


def data():
    return relay.var("data", shape=(1, 16, 8, 8))


def after_convolution(low):
    return model(
        conv2d(relay.nn.relu(batch_norm(conv2d(data(), 32, "a"), 32, "norm")), 16, "b"), low
    )


def before_convolution(low):
    return model(conv2d(relay.nn.relu(batch_norm(data(), 16, "norm")), 16, "b"), low)


def folded_by_tvm(mod, params):
    bound = tvm.IRModule.from_expr(relay.build_module.bind_params_by_name(mod["main"], params))
    passes = [
        relay.transform.InferType(),
        relay.transform.SimplifyInference(),
        relay.transform.FoldConstant(),
        relay.transform.FoldScaleAxis(),
        relay.transform.FoldConstant(),
    ]
    with tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential(passes)(bound)


def constants(mod):
    found = []
    relay.analysis.post_order_visit(
        mod["main"],
        lambda one: found.append(one.data.numpy()) if isinstance(one, relay.Constant) else None,
    )
    return found


# Scales move through a ReLU only where they are positive.
@pytest.mark.parametrize("low", [0.5, -0.5])
@pytest.mark.parametrize("make", [after_convolution, before_convolution])
def test_the_result_is_that_of_tvms_passes(make, low):
    mod, params = make(low)
    folded, expected = fold(mod, params), folded_by_tvm(mod, params)
    assert tvm.ir.structural_equal(folded, expected)
    for one, other in zip(constants(folded), constants(expected)):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert [one.name_hint for one in folded["main"].params] == ["data"]
    assert "batch_norm" not in str(folded)


@pytest.mark.parametrize("name", ["mobilenet", "resnet-18"])
@pytest.mark.soak
def test_networks_are_folded_as_by_tvm(name):
    mod, params = workloads.network(name)
    assert tvm.ir.structural_equal(fold(mod, params), folded_by_tvm(mod, params))


def test_a_folded_network_has_the_same_tasks_and_outputs():
    mod, params = after_convolution(0.5)
    folded = fold(mod, params)
    bound = tvm.IRModule.from_expr(relay.build_module.bind_params_by_name(mod["main"], params))
    tasks = [[task.workload for task in extract(one, TARGET).tasks] for one in (bound, folded)]
    assert tasks[0] == tasks[1]
    outputs = []
    for one in (bound, folded):
        module = graph_executor.GraphModule(build(one, TARGET)["default"](tvm.cpu()))
        module.run(**random_inputs(relay.transform.InferType()(one)))
        outputs.append(module.get_output(0).numpy())
    np.testing.assert_allclose(*outputs, rtol=1e-5, atol=1e-5)


def test_what_is_no_float32_is_left_to_tvm():
    mod = tvm.IRModule.from_expr(
        relay.Function([], relay.add(relay.const(np.int32(7)), relay.const(np.int32(2))))
    )
    (result,) = constants(fold(mod, {}))
    assert result.dtype == np.int32
    assert result == 9


def test_scalars_and_divisions_by_zero_are_folded():
    one = relay.rsqrt(relay.const(np.float32(4.0)))
    mod = tvm.IRModule.from_expr(
        relay.Function([], relay.divide(one, relay.const(np.float32(0.0))))
    )
    (result,) = constants(fold(mod, {}))
    assert result.dtype == np.float32
    assert np.isinf(result)
