"""Workloads in Relax: networks by name, operators, and model files with the names of inputs."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_files import save_inputs, save_nodes, save_onnx

from autotvm_opevo.cli.argument_types import named_shape
from autotvm_opevo.networks import relax as workloads


def test_networks_are_created_by_name():
    assert len(workloads.network("resnet-18", 2)[1]) == 42
    with pytest.raises(
        ValueError,
        match=r"network must be one of alexnet, bert-small, mlp, resnet-18; 'lenet' given",
    ):
        workloads.network("lenet")


def test_operators_are_relaxs():
    mod, _ = workloads.operator(
        "nn.conv2d", [(1, 3, 8, 8), (4, 3, 3, 3)], attributes={"padding": [1, 1]}
    )
    assert [int(extent) for extent in mod["main"].ret_ty.shape] == [1, 4, 8, 8]
    with pytest.raises(
        ValueError, match=r"one of Relax's, such as matmul or nn.conv2d; 'nn.dense' given"
    ):
        workloads.operator("nn.dense", [(1, 2), (3, 2)])
    with pytest.raises(
        ValueError, match=r"operator matmul cannot take tensors of \[\(2, 3\), \(4, 5\)\]"
    ):
        workloads.operator("matmul", [(2, 3), (4, 5)])
    with pytest.raises(ValueError, match=r"operator matmul cannot .*: unknown dtype `floot`"):
        workloads.operator("matmul", [(2, 3), (3, 5)], "floot")


# Those that Relax renames, some of them to names that the file has, too.
NAMES = ["data", "input.1", "0", "a.b", "a_b", "image:0", "2d", "_x", "a b", "naïve"]


def shapes_of(mod):
    return [tuple(map(int, variable.ty.shape)) for variable in mod["main"].params]


@pytest.mark.filterwarnings(
    "ignore:Renaming name:UserWarning", "ignore:Input .* has unknown:UserWarning"
)
class TestNamesOfInputs:
    def test_shapes_are_taken_by_the_files_names(self, tmp_path):
        path = save_inputs(tmp_path / "model.onnx", dict.fromkeys(NAMES, ("n", 3)))
        mod, _ = workloads.model_file(path, {name: (size, 3) for size, name in enumerate(NAMES, 1)})
        assert shapes_of(mod) == [(size, 3) for size in range(1, 1 + len(NAMES))]

    @pytest.mark.parametrize("name", NAMES)
    def test_shapes_are_taken_by_the_names_that_relax_gives(self, tmp_path, name):
        path = save_inputs(tmp_path / "model.onnx", {"first": (2,), "weight": (2,), name: ("n", 3)})
        (_, variable) = workloads.model_file(path, {name: (1, 3)})[0]["main"].params
        mod, _ = workloads.model_file(path, {variable.name: (5, 3)})
        assert shapes_of(mod) == [(2,), (5, 3)]

    @pytest.mark.parametrize("name", NAMES)
    def test_what_the_error_suggests_is_accepted(self, tmp_path, name):
        path = save_inputs(tmp_path / "model.onnx", {name: ("n", 3)})
        with pytest.raises(ValueError, match=f"input '{name}' of .* has a dynamic shape") as error:
            workloads.model_file(path)
        (option,) = re.findall(r"--shape '?(.*?)'? on the command line", str(error.value))
        assert shapes_of(workloads.model_file(path, dict([named_shape(option)]))[0]) == [(1, 3)]

    def test_a_files_name_comes_before_one_that_relax_gives(self, tmp_path):
        path = save_inputs(tmp_path / "model.onnx", {"a.b": ("n", 3), "a_b": ("n", 3)})
        mod, _ = workloads.model_file(path, {"a.b": (1, 3), "a_b": (2, 3)})
        assert shapes_of(mod) == [(1, 3), (2, 3)]
        names = [variable.name for variable in mod["main"].params]
        assert shapes_of(workloads.model_file(path, {"a.b": (4, 3), names[1]: (5, 3)})[0]) == [
            (4, 3),
            (5, 3),
        ]

    def test_scalars_and_unknown_ranks_are_accepted(self, tmp_path):
        path = save_inputs(tmp_path / "model.onnx", {"scale.1": (), "1": None, "2": None})
        mod, _ = workloads.model_file(path, {"1": (), "2": (2, 3), "scale_1": ()})
        assert shapes_of(mod) == [(), (), (2, 3)]

    def test_an_unknown_name_is_refused_with_the_files_names(self, tmp_path):
        path = save_inputs(tmp_path / "model.onnx", {"input.1": ("n", 3), "weight": (2,)})
        for name in ("input", "input_2", "weight"):
            with pytest.raises(
                ValueError,
                match=rf"of inputs of .*model.onnx, '{name}' given: its inputs are 'input.1'$",
            ):
                workloads.model_file(path, {name: (1, 3)})


def test_the_module_has_the_weights(tmp_path):
    save_onnx(tmp_path / "model.onnx")
    mod, params = workloads.model_file(tmp_path / "model.onnx")
    assert not params
    assert shapes_of(mod) == [(1, 8, 8, 8)]


IMAGE = {"x": (TensorProto.FLOAT, [1, 2, 4, 4])}
NOT_IMPORTED = {
    "fails at Upsample up, ": (
        [helper.make_node("Upsample", ["x", "scales"], ["y"], name="up")],
        [("scales", np.array([1, 1, 2, 2], "float32"))],
        9,
    ),
    "OpNotImplemented: .*: Celu. Export": ([helper.make_node("Celu", ["x"], ["y"])], [], 17),
}


@pytest.mark.parametrize("message", NOT_IMPORTED)
def test_what_tvm_cannot_import_is_named_in_one_line(tmp_path, capfd, message):
    nodes, constants, opset = NOT_IMPORTED[message]
    path = save_nodes(tmp_path / "model.onnx", nodes, IMAGE, constants, opset)
    with pytest.raises(ValueError, match=rf"cannot read .*model\.onnx: .*{message}") as caught:
        workloads.model_file(path)
    assert "\n" not in str(caught.value)
    assert not capfd.readouterr().out
