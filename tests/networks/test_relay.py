"""Networks, operators and model files in Relay."""

from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper
from onnx_files import save_inputs, save_nodes, save_onnx
from tvm import relay
from tvm.driver import tvmc

from autotvm_opevo.networks import relay as workloads


def test_alexnet_has_the_papers_shapes():
    mod, params = workloads.alexnet(batch=2)
    assert list(map(int, mod["main"].ret_type.shape)) == [2, 1000]
    assert tuple(params["conv2_weight"].shape) == (192, 64, 5, 5)
    assert tuple(params["dense1_weight"].shape) == (4096, 9216)


def test_creating_a_network_leaves_numpys_global_generator_unchanged():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    workloads.network("mlp")
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_an_unknown_network_is_rejected_with_the_known_names():
    with pytest.raises(ValueError, match=r"network must be one of alexnet, mlp, .*'lexnet' given"):
        workloads.network("lexnet")


@pytest.mark.parametrize("name", ["nn.no_such_operator", "nn", "no.where"])
def test_an_unknown_operator_is_rejected(name):
    with pytest.raises(ValueError, match="operator must be one of Relay's"):
        workloads.operator(name, [(8, 8)])


def test_invalid_operator_arguments_are_rejected_with_the_reason():
    with pytest.raises(
        ValueError,
        match=r"operator nn.batch_matmul cannot take tensors of \[\(1, 8, 16\), \(1, 4, 5\)\]",
    ):
        workloads.operator("nn.batch_matmul", [(1, 8, 16), (1, 4, 5)])
    with pytest.raises(
        ValueError, match=r"operator nn.dense cannot take .* with {'colour': 1}: .*colour"
    ):
        workloads.operator("nn.dense", [(8, 16), (4, 16)], attributes={"colour": 1})


@pytest.mark.parametrize("name", ["missing.onnx", "what.xyz", "broken.onnx"])
def test_other_files_are_rejected(tmp_path, name):
    if not name.startswith("missing"):
        (tmp_path / name).write_bytes(b"no model")
    with pytest.raises(ValueError, match=f"cannot read .*{name}"):
        workloads.model_file(tmp_path / name)


def test_the_package_that_reads_a_file_is_named(tmp_path):
    (tmp_path / "model.tflite").write_bytes(b"TFL3")
    with pytest.raises(ImportError, match=r"to read .*model\.tflite, install tflite$"):
        workloads.model_file(tmp_path / "model.tflite")


def test_of_another_format_too_an_open_shape_must_be_given(tmp_path, monkeypatch):
    """Such as a batch of any size in TensorFlow."""
    x = relay.var("x", shape=(relay.Any(), 3))
    loaded = SimpleNamespace(mod=tvm.IRModule.from_expr(relay.nn.relu(x)), params={})
    monkeypatch.setattr(tvmc, "load", lambda *_, **__: loaded)
    with pytest.raises(ValueError, match=r"input 'x' of .*model.pb has .* --shape x=1x3 on the"):
        workloads.model_file(tmp_path / "model.pb")


def test_convolutions_are_converted_to_a_layout(tmp_path):
    save_onnx(tmp_path / "model.onnx")
    for layout in ("NHWC", "NCHW"):
        mod, _ = workloads.model_file(tmp_path / "model.onnx", layout=layout)
        assert f'data_layout="{layout}"' in str(mod) or layout == "NCHW"
    with pytest.raises(
        ValueError, match="layout must be one that TVM converts to, such as NCHW; 'XYZ' given"
    ):
        workloads.model_file(tmp_path / "model.onnx", layout="XYZ")


def test_inputs_have_the_names_in_the_file(tmp_path):
    shapes = {"input.1": ("n", 3), "0": (2, 3), "weight": (2,), "scale": (), "any": None}
    path = save_inputs(tmp_path / "model.onnx", shapes)
    with pytest.raises(
        ValueError,
        match=r"input 'input.1' of .* dynamic shape.*--shape input.1=1x3 --shape any=1x3x224x224",
    ):
        workloads.model_file(path)
    mod, _ = workloads.model_file(path, {"input.1": (5, 3), "0": (4, 3), "any": ()})
    found = {one.name_hint: tuple(map(int, one.checked_type.shape)) for one in mod["main"].params}
    assert found == {"input.1": (5, 3), "0": (4, 3), "scale": (), "any": ()}


IMAGE = {"x": (TensorProto.FLOAT, [1, 2, 4, 4])}
NOT_IMPORTED = {
    "fails at MaxPool pool, AssertionError": (
        [helper.make_node("MaxPool", ["x"], ["y", "positions"], kernel_shape=[2, 2], name="pool")],
        [],
        17,
    ),
    "fails, InternalError: .*pad width": (
        [helper.make_node("Pad", ["x", "pads", "", "axes"], ["y"], name="pad")],
        [("pads", np.array([1, 1])), ("axes", np.array([2]))],
        18,
    ),
    "OpNotImplemented: .*: Det. Export": ([helper.make_node("Det", ["x"], ["y"])], [], 17),
}


@pytest.mark.parametrize("message", NOT_IMPORTED)
def test_what_tvm_cannot_import_is_named_in_one_line(tmp_path, message):
    nodes, constants, opset = NOT_IMPORTED[message]
    path = save_nodes(tmp_path / "model.onnx", nodes, IMAGE, constants, opset)
    with pytest.raises(ValueError, match=rf"cannot read .*model\.onnx: .*{message}") as caught:
        workloads.model_file(path)
    assert "\n" not in str(caught.value)
