"""A small ONNX model."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save_onnx(path, shape=(1, 8, 8, 8)):
    """A convolution and a ReLU."""
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((16, 8, 3, 3)).astype("float32"), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["y"], ["z"])]
    x, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", shape), ("z", None)))
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [z], [weight]), opset_imports=[helper.make_opsetid("", 11)])
    model.ir_version = 7
    onnx.save(model, path)
