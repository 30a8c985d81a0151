"""Small Relax modules, as people have them."""

import numpy as np
import tvm
from tvm import relax
from tvm.relax.frontend import nn

from autotvm_opevo.lowering.rewriting import calls_in

SHAPES = {
    "first.weight": (32, 64),
    "first.bias": (32,),
    "second.weight": (8, 32),
    "second.bias": (8,),
}


class Net(nn.Module):
    """Two dense layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 8)

    def forward(self, x: nn.Tensor):
        return self.second(nn.relu(self.first(x)))

    def half(self, x: nn.Tensor):
        return self.first(x)


def weights():
    """By name, as arrays of numpy."""
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype("float32") for name, shape in SHAPES.items()}


def export(*names):
    """`Net` with these functions, and its parameters, which have no values."""
    names = names or ("forward",)
    return Net().export_tvm({name: {"x": nn.spec.Tensor((4, 64), "float32")} for name in names})


def exported_with_values():
    """The same, with values."""
    net = Net()
    for name, value in weights().items():
        net.state_dict()[name].data = value
    return net.export_tvm({"forward": {"x": nn.spec.Tensor((4, 64), "float32")}})


def expected(x):
    """What `Net` computes."""
    first, first_bias, second, second_bias = weights().values()
    return np.maximum(x @ first.T + first_bias, 0) @ second.T + second_bias


def with_subfunctions():
    """``main`` calls a private function for each of its two layers; and the weights."""
    builder = relax.BlockBuilder()
    x, w = (relax.Var(name, relax.TensorType((64, 64), "float32")) for name in "xw")
    with builder.function("layer", [x, w], private=True):
        with builder.dataflow():
            y = builder.emit_output(relax.op.nn.relu(builder.emit(relax.op.matmul(x, w))))
        layer = builder.emit_func_output(y)
    x, *variables = (
        relax.Var(name, relax.TensorType((64, 64), "float32")) for name in ("x", "w1", "w2")
    )
    with builder.function("main", [x, *variables], attrs={"num_input": 1}):
        with builder.dataflow():
            y = builder.emit(relax.Call(layer, [x, variables[0]]))
            y = builder.emit_output(relax.Call(layer, [y, variables[1]]))
        builder.emit_func_output(y)
    rng = np.random.default_rng(0)
    return builder.finalize(), {
        name: rng.standard_normal((64, 64)).astype("float32") for name in ("w1", "w2")
    }


def calls_of(mod, *names):
    """The calls of operators in a network, in order: of all, or of those with these names."""
    calls = [one for one in calls_in(mod) if isinstance(one.op, tvm.ir.Op)]
    return [one for one in calls if not names or one.op.name.removeprefix("relax.") in names]


def count_changes(lowered):
    """Number of operators that `lower` changed: convolutions in NHWC, operators whose schedules may
    pack constant weights, convolutions by Winograd's algorithm, and operators with polynomials.
    """
    operators = [
        function
        for function in lowered.functions.values()
        if isinstance(function, tvm.tirx.PrimFunc)
    ]
    texts = [operator.script() for operator in operators]
    return {
        "nhwc": sum("conv2d_nhwc" in text for text in texts),
        "packed": sum(
            bool(operator.attrs and operator.attrs.get("layout_free_buffers"))
            for operator in operators
        ),
        "winograd": sum("winograd_output" in text for text in texts),
        "fast_math": sum("T_fast_" in text for text in texts),
    }


def network_of(*layers, shape=(1, 8, 8, 8), dtype="float32"):
    """A network of layers, one after the other."""
    y, blocks = relax.Var("x", relax.TensorType(shape, dtype)), relax.BlockBuilder()
    with blocks.function("main", [y]):
        with blocks.dataflow():
            for layer in layers[:-1]:
                y = blocks.emit(layer(y))
            y = blocks.emit_output(layers[-1](y))
        blocks.emit_func_output(y)
    return blocks.finalize()


def network_with(*inputs, dataflow=True):
    """A decorator: the network whose operators a function emits, of inputs of types, or of shapes
    in float32.
    """

    def decorate(write):
        types = [relax.TensorType(x, "float32") if isinstance(x, tuple) else x for x in inputs]
        variables = [relax.Var(f"x{i}", kind) for i, kind in enumerate(types)]
        blocks = relax.BlockBuilder()
        with blocks.function("main", variables):
            if dataflow:
                with blocks.dataflow():
                    result = blocks.emit_output(write(blocks.emit, *variables))
            else:
                result = blocks.emit(write(blocks.emit, *variables))
            blocks.emit_func_output(result)
        return blocks.finalize()

    return decorate


def product_and_softmax():
    """A matrix product with a constant, which schedules pack, and a softmax: two tasks."""
    weight = relax.const(np.random.default_rng(0).standard_normal((16, 32), "float32"))
    return network_of(lambda x: relax.op.matmul(x, weight), relax.op.nn.softmax, shape=(8, 16))
