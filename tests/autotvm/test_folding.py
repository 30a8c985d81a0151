"""Networks as they are given, and constants folded as TVM folds them."""

import numpy as np
import pytest
import tvm
from tvm import relay

from autotvm_opevo.autotvm.folding import as_module, fold
from autotvm_opevo.networks import relay as workloads

ANY = relay.Any()
WEIGHT = np.ones((32, 64), "float32")


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


def dense(shape=(8, 64), name="x", weight=None):
    x = relay.var(name, shape=shape)
    return relay.Function([x], relay.nn.dense(x, relay.const(WEIGHT) if weight is None else weight))


def inputs(mod):
    return [variable.name_hint for variable in mod["main"].params]


class TestFunctions:
    def test_a_function_is_a_module_s_main(self):
        assert inputs(as_module(dense())) == ["x"]

    def test_the_functions_that_main_calls_are_inlined(self):
        helper, deeper, unused = map(relay.GlobalVar, ("helper", "deeper", "unused"))
        x, y, z = (relay.var(name, shape=(8, 64)) for name in "xyz")
        mod = tvm.IRModule(
            {
                relay.GlobalVar("main"): relay.Function(
                    [x], relay.Call(helper, [relay.Call(helper, [x])])
                ),
                helper: relay.Function([y], relay.nn.relu(relay.Call(deeper, [y]))),
                deeper: relay.Function([z], relay.add(z, relay.const(1.0))),
                unused: dense(),
            }
        )
        before = str(mod)
        found = as_module(mod)
        assert [one.name_hint for one in found.get_global_vars()] == ["main"]
        assert str(found["main"]).count("nn.relu") == str(found["main"]).count("add(") == 2
        assert str(mod) == before

    @pytest.mark.parametrize(
        ("mod", "message"),
        [
            (
                tvm.IRModule({"forward": dense(), "encode": dense()}),
                'main, it has encode, forward: mod\\["main"\\] = mod\\["encode"\\]',
            ),
            (tvm.IRModule(), "mod must have a function main, it has none"),
            (dense().body, "mod must be an IRModule or a relay.Function, Call given"),
            ((dense(), {}), "mod must be an IRModule or a relay.Function, tuple given"),
            ("resnet.onnx", "mod must be an IRModule or a relay.Function, str given"),
        ],
    )
    def test_what_has_no_main_is_refused_with_what_it_is(self, mod, message):
        with pytest.raises(ValueError, match=message):
            as_module(mod)


class TestWeights:
    @pytest.mark.parametrize("array", [WEIGHT, tvm.nd.array(WEIGHT)])
    def test_are_bound_by_name_and_others_ignored(self, array):
        mod = dense(weight=relay.var("w"))
        mod = relay.Function(relay.analysis.free_vars(mod.body), mod.body)
        assert inputs(as_module(mod, {"w": array, "of another network": array})) == ["x"]

    @pytest.mark.parametrize(
        ("array", "given"),
        [
            (WEIGHT[:3], r"float32 of shape \(3, 64\)"),
            (WEIGHT.astype("float64"), r"float64 of shape \(32, 64\)"),
            (tvm.nd.array(WEIGHT.ravel()), r"float32 of shape \(2048,\)"),
            (WEIGHT.tolist(), r"float64 of shape \(32, 64\)"),
        ],
    )
    def test_of_other_shapes_and_dtypes_are_refused(self, array, given):
        body = dense(weight=relay.var("w", shape=(32, 64))).body
        mod = relay.Function(relay.analysis.free_vars(body), body)
        with pytest.raises(ValueError, match=rf"'w' is float32 of shape \(32, 64\), {given} given"):
            as_module(mod, {"w": array})

    def test_may_have_extents_that_are_open(self):
        body = dense(weight=relay.var("w", shape=(ANY, 64))).body
        mod = relay.Function(relay.analysis.free_vars(body), body)
        assert inputs(as_module(mod, {"w": WEIGHT})) == ["x"]
        with pytest.raises(ValueError, match=r"'w' is float32 of shape \('\?', 64\)"):
            as_module(mod, {"w": WEIGHT[:, :8]})

    def test_may_be_bound_already(self):
        for params in (None, {}):
            assert inputs(as_module(dense(), params)) == ["x"]

    @pytest.mark.parametrize(
        ("params", "given"), [([WEIGHT], "list"), ({0: WEIGHT}, "dict"), (b"...", "bytes")]
    )
    def test_without_names_are_refused(self, params, given):
        with pytest.raises(ValueError, match=rf"by their names \(str\), .*; {given} given"):
            as_module(dense(), params)


class TestShapes:
    @pytest.mark.parametrize(
        ("shape", "text"),
        [
            ((ANY, 64), r"'tokens' \(\?, 64\).*shape={'tokens': \(1, 64\)}"),
            ((8, ANY), r"'tokens' \(8, \?\)"),
            ((tvm.tir.Var("n", "int32"), 64), r"'tokens' \(\?, 64\)"),
        ],
    )
    def test_an_input_of_unknown_shape_is_refused_by_name(self, shape, text):
        with pytest.raises(
            ValueError, match=f"the shapes of all inputs must be known, that of {text}"
        ):
            as_module(dense(shape, "tokens"))

    def test_all_inputs_of_unknown_shape_are_named(self):
        x, y, z = (
            relay.var(name, shape=shape)
            for name, shape in (("x", (ANY,)), ("y", (8,)), ("z", (ANY,)))
        )
        with pytest.raises(ValueError, match=r"that of 'x' \(\?,\), 'z' \(\?,\) is not"):
            as_module(relay.Function([x, y, z], relay.Tuple([x, y, z])))

    def test_tuples_are_looked_into(self):
        pair = relay.var(
            "pair", relay.TupleType([relay.TensorType((8,)), relay.TensorType((ANY, 4))])
        )
        with pytest.raises(ValueError, match=r"that of 'pair' \(\?, 4\)"):
            as_module(relay.Function([pair], relay.TupleGetItem(pair, 1)))

    def test_an_input_without_any_type_is_refused_by_name(self):
        x = relay.var("image")
        with pytest.raises(ValueError, match=r"that of 'image' of any rank is not"):
            as_module(relay.Function([x], relay.nn.relu(x)))

    def test_types_that_follow_need_not_be_given(self):
        x, weight = relay.var("x", shape=(8, 64)), relay.var("w")
        assert inputs(
            as_module(relay.Function([x, weight], relay.nn.dense(x, weight, units=4)))
        ) == ["x", "w"]

    def test_shapes_that_depend_on_data_are_no_input_s(self):
        x = relay.var("x", shape=(8,))
        assert inputs(as_module(relay.Function([x], relay.argwhere(x)))) == ["x"]
