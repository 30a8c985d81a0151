"""What is extracted of networks that AutoTVM cannot tune as a whole, and what is said of the
rest.
"""

import numpy as np
import pytest
import tvm
from small_networks import TARGET, two_layers
from tvm import relay
from tvm.relay.prelude import Prelude

from autotvm_opevo.autotvm.evaluation import build
from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.folding import fold

ARM = tvm.target.Target("llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mattr=+neon")


def constant(*shape, dtype="float32"):
    return relay.const(np.ones(shape, dtype))


def dense(x, units=32, columns=64):
    return relay.nn.dense(x, constant(units, columns))


def nhwc(x):
    return relay.nn.conv2d(
        x,
        constant(3, 3, 16, 16),
        channels=16,
        kernel_size=(3, 3),
        padding=(1, 1),
        data_layout="NHWC",
        kernel_layout="HWIO",
    )


def depthwise_nhwc(x):
    return relay.nn.conv2d(
        x,
        constant(3, 3, 16, 1),
        channels=16,
        groups=16,
        kernel_size=(3, 3),
        data_layout="NHWC",
        kernel_layout="HWOI",
    )


def network(body, *inputs):
    return tvm.IRModule.from_expr(relay.Function(inputs or relay.analysis.free_vars(body), body))


def extracted(body, *inputs, target=TARGET):
    return extract(fold(network(body, *inputs), {}), target)


def names(found):
    return sorted({task.name for task in found.tasks})


IMAGE = relay.var("image", shape=(1, 8, 8, 16))


def test_the_first_task_of_an_operator_is_what_the_compiler_uses_untuned():
    mod = fold(two_layers(), {})
    found = extract(mod, TARGET)
    first, second = (found.tasks[i].name for i in found.operators[1].tasks)
    assert (first, second) == ("dense_pack.x86", "dense_nopack.x86")
    assert any("contrib_dense_pack" in name for name in build(mod, TARGET).function_metadata)


class TestLayouts:
    def test_convolutions_without_a_template_for_their_layout_are_counted_with_how_to_convert(self):
        body = nhwc(nhwc(depthwise_nhwc(nhwc(IMAGE))))
        found = extracted(dense(relay.nn.batch_flatten(body), columns=576))
        assert names(found) == ["dense_nopack.x86", "dense_pack.x86"]
        assert "3 nn.conv2d in NHWC, 1 nn.conv2d in NHWC with 16 groups" in found.left_out
        assert "with 16 groups. Most templates of 2D convolutions are for NCHW" in found.left_out

    def test_a_network_of_such_convolutions_only_is_refused_with_the_same(self):
        with pytest.raises(
            ValueError,
            match=r"nothing to tune: .* on llvm.*: 1 nn.conv2d in NHWC. Most templates",
        ):
            extracted(nhwc(IMAGE))

    @pytest.mark.parametrize(
        "body",
        [
            nhwc(nhwc(IMAGE)),
            relay.nn.max_pool2d(nhwc(depthwise_nhwc(IMAGE)), layout="NHWC"),
            relay.nn.conv2d(
                relay.var("image", shape=(8, 8, 16, 1)),
                constant(3, 3, 16, 8),
                data_layout="HWCN",
                kernel_layout="HWIO",
            ),
        ],
    )
    def test_the_lines_that_are_given_make_them_tunable(self, body):
        mod = network(body)
        with pytest.raises(ValueError, match="To convert the network") as caught:
            extract(fold(mod, {}), TARGET)
        lines = [line for line in str(caught.value).splitlines() if line.startswith("    ")]
        scope = {"tvm": tvm, "relay": relay, "mod": mod}
        exec("\n".join(line[4:] for line in lines), scope)
        found = extract(fold(scope["mod"], {}), TARGET)
        assert not found.left_out
        assert all("NCHWc" in name for name in names(found))

    def test_quantized_convolutions_are_converted_by_the_name_that_the_network_has_for_them(self):
        x = relay.var("x", shape=(1, 8, 8, 16), dtype="uint8")
        body = relay.qnn.conv2d(
            x,
            constant(3, 3, 16, 32, dtype="int8"),
            *(relay.const(zero, "int32") for zero in (0, 0)),
            *(relay.const(scale, "float32") for scale in (0.5, 0.5)),
            kernel_size=(3, 3),
            channels=32,
            data_layout="NHWC",
            kernel_layout="HWIO",
        )
        with pytest.raises(
            ValueError, match=r"ConvertLayout\({'qnn.conv2d': \['NCHW', 'default'\]}\)"
        ):
            extracted(body)

    def test_where_the_layout_has_templates_nothing_is_said(self):
        found = extracted(nhwc(depthwise_nhwc(IMAGE)), target=ARM)
        assert len(found.tasks) >= 2
        assert found.left_out == ""

    def test_where_another_layout_has_none_either_no_conversion_is_advised(self):
        x = relay.var("x", shape=(1, 32, 16))
        body = relay.nn.conv1d(
            x, constant(3, 16, 8), channels=8, kernel_size=3, data_layout="NWC", kernel_layout="WIO"
        )
        flat = relay.nn.batch_flatten(body)
        found = extracted(dense(flat, columns=240))
        assert found.left_out == "1 nn.conv1d in NWC"

    def test_nothing_is_printed_by_tvm_where_it_cannot_compile_an_operator(self, capfd, caplog):
        body = relay.nn.conv2d(
            relay.var("x", shape=(1, 16, 8, 8)), constant(3, 3, 16, 8), kernel_layout="HWIO"
        )
        found = extracted(dense(relay.nn.batch_flatten(body), columns=288))
        assert "1 nn.conv2d in NCHW" in found.left_out
        assert "Traceback" not in capfd.readouterr().err
        assert "TVM cannot compile an operator" in caplog.text


class TestShapesThatDependOnData:
    def test_what_is_static_is_tuned_and_the_rest_named(self):
        x = relay.var("x", shape=(8, 64))
        rows = relay.squeeze(relay.argwhere(relay.sum(dense(x, 64), axis=1)), axis=[1])
        found = extracted(dense(relay.take(dense(x, 64), rows, axis=0)))
        assert names(found) == ["dense_nopack.x86", "dense_pack.x86"]
        assert found.left_out == "1 nn.dense of unknown shape"
        assert found.only_vm == "shapes that depend on data"

    def test_without_anything_static_a_network_is_refused_by_what_it_has(self, capfd):
        x = relay.var("x", shape=(8, 64))
        with pytest.raises(ValueError, match=r"nothing to tune: .*: 1 nn.dense of unknown shape$"):
            extracted(
                dense(
                    relay.take(
                        x, relay.squeeze(relay.argwhere(relay.sum(x, axis=1)), axis=[1]), axis=0
                    )
                )
            )
        assert "Traceback" not in capfd.readouterr().err

    def test_shapes_that_only_seem_to_are_static(self):
        x = relay.var("x", shape=(8, 64))
        found = extracted(dense(relay.reshape(x, relay.shape_of(x))))
        assert (found.left_out, found.only_vm) == ("", "")


class TestControlFlow:
    def test_branches_are_tuned(self):
        x, which = relay.var("x", shape=(8, 64)), relay.var("which", shape=(), dtype="bool")
        found = extracted(
            relay.If(which, dense(x, 32), relay.nn.relu(dense(relay.nn.relu(x), 32))), x, which
        )
        assert names(found) == ["dense_nopack.x86", "dense_pack.x86"]
        assert sum(operator.count for operator in found.operators) == 2
        assert found.only_vm == "branches"

    def test_loops_are_tuned_and_count_once(self):
        x = relay.var("x", shape=(8, 64))
        loop = relay.loops.while_loop(
            lambda i, y: relay.less(i, relay.const(3)),
            [relay.var("i", shape=(), dtype="int32"), relay.var("y", shape=(8, 64))],
            lambda i, y: [relay.add(i, relay.const(1)), dense(y, 64)],
        )
        body = relay.TupleGetItem(loop(relay.const(0), x), 1)
        found = extracted(dense(body, 16), x)
        assert sorted(operator.count for operator in found.operators) == [1, 1]
        assert found.only_vm == "branches, loops or closures"

    def test_functions_that_call_themselves_are_tuned(self):
        again = relay.GlobalVar("again")
        x, n, y, m = (
            relay.var(name, shape=shape)
            for name, shape in (("x", (8, 64)), ("n", ()), ("y", (8, 64)), ("m", ()))
        )
        called = relay.Call(again, [dense(y, 64), relay.subtract(m, relay.const(1.0))])
        recursive = relay.Function(
            [y, m], relay.If(relay.less(m, relay.const(1.0)), y, called), relay.TensorType((8, 64))
        )
        main = relay.Function([x, n], dense(relay.Call(again, [x, n]), 16))
        found = extract(
            fold(tvm.IRModule({relay.GlobalVar("main"): main, again: recursive}), {}), TARGET
        )
        assert sorted(operator.count for operator in found.operators) == [1, 1]
        assert "loops" in found.only_vm

    def test_closures_are_tuned(self):
        x, y, layer = (
            relay.var("x", shape=(8, 64)),
            relay.var("y", shape=(8, 64)),
            relay.var("layer"),
        )
        function = relay.Function([y], dense(y, 64))
        for body in (
            relay.Let(layer, function, relay.Call(layer, [relay.Call(layer, [x])])),
            relay.Call(function, [x]),
        ):
            found = extracted(body, x)
            assert names(found) == ["dense_nopack.x86", "dense_pack.x86"]
            assert found.only_vm == "loops or closures"

    def test_algebraic_data_types_are_no_obstacle(self):
        mod = tvm.IRModule()
        Prelude(mod)
        _, cons, nil = mod.get_type("List")
        x, y = relay.var("x", shape=(8, 64)), relay.var("y", shape=(8, 64))
        first, mapped = mod.get_global_var("hd"), mod.get_global_var("map")
        outputs = mapped(relay.Function([y], dense(y, 64)), cons(dense(x, 64), nil()))
        mod["main"] = relay.Function([x], dense(first(outputs), 16))
        found = extract(fold(mod, {}), TARGET)
        assert len(found.operators) == 2
        assert "algebraic data types" in found.only_vm

    def test_boxes_that_are_suppressed_are_no_obstacle(self):
        x = relay.var("x", shape=(1, 64))
        boxes = relay.reshape(dense(x, 60), (1, 10, 6))
        count, data, indices = relay.vision.get_valid_counts(boxes, 0.1)
        kept = relay.vision.non_max_suppression(data, count, indices, return_indices=False)
        assert names(extracted(kept)) == ["dense_nopack.x86", "dense_pack.x86"]
