"""Small ONNX models."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save_onnx(path):
    """A convolution and a ReLU."""
    weight = np.random.default_rng(0).standard_normal((16, 8, 3, 3)).astype("float32")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    save_nodes(path, nodes, {"x": (TensorProto.FLOAT, (1, 8, 8, 8))}, [("w", weight)], opset=11)


def save_inputs(path, shapes):
    """A ReLU of each input, by name; None is an unknown rank. The input "weight", of the file
    alone, has a value.
    """
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    outputs = [
        helper.make_tensor_value_info(f"relu of {name}", TensorProto.FLOAT, None) for name in shapes
    ]
    nodes = [helper.make_node("Relu", [name], [f"relu of {name}"]) for name in shapes]
    weights = (
        [numpy_helper.from_array(np.ones((2,), "float32"), "weight")] if "weight" in shapes else []
    )
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path
    )
    return path


def save_nodes(path, nodes, inputs, constants=(), opset=17, dtype=TensorProto.FLOAT):
    """Nodes, whose last output is the model's, of inputs and constants; both by name."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
        [helper.make_tensor_value_info(nodes[-1].output[0], dtype, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants],
    )
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path
