"""Inputs of ONNX files and the shapes that are given for them, without TVM."""

import onnx
import pytest
from onnx import TensorProto, helper
from onnx_files import save_inputs

from autotvm_opevo.networks.onnx_inputs import import_error, inputs_of, load_onnx, static_shapes

SHAPES = {"input.1": ("n", 3), "0": ("n", 5), "weight": (2,), "scale": (), "fixed": (4, 4)}


@pytest.fixture
def model(tmp_path):
    return onnx.load(save_inputs(tmp_path / "model.onnx", SHAPES))


def test_weights_that_a_file_lists_are_no_inputs(model):
    assert [one.name for one in inputs_of(model)] == ["input.1", "0", "scale", "fixed"]


def test_shapes_are_known_by_the_files_names_and_by_others(model):
    others = {"input_1": "input.1", "input_0": "0", "0": "fixed"}
    found = static_shapes("model", model, {"input_1": (2, 3), "0": [2, 5]}, lambda: others)
    assert found == {"input.1": [2, 3], "0": [2, 5]}  # a file's own name comes first


def test_other_names_are_not_asked_for_without_need(model):
    static_shapes(
        "model", model, {"input.1": (2, 3), "0": (2, 5)}, lambda: pytest.fail("asked for")
    )


def test_all_open_shapes_are_named_with_what_to_give(model):
    with pytest.raises(
        ValueError,
        match=r"input 'input.1' of model has a dynamic shape.*--shape input.1=1x3 --shape 0=1x5 on",
    ):
        static_shapes("model", model, None)
    with pytest.raises(
        ValueError,
        match=r"input '0' of .* example --shape 0=1x5 on .* or shapes=\{'0': \(1, 5\)\} in Python",
    ):
        static_shapes("model", model, {"input.1": (2, 3)})


@pytest.mark.parametrize("extent", [0, -1])
def test_extents_that_are_no_sizes_are_open(tmp_path, extent):
    model = onnx.load(save_inputs(tmp_path / "model.onnx", {"x": (extent, 3)}))
    with pytest.raises(ValueError, match="--shape x=1x3 on the command line"):
        static_shapes("model", model, {})


def test_of_an_unknown_rank_any_shape_is_accepted(tmp_path):
    model = onnx.load(save_inputs(tmp_path / "model.onnx", {"a b": None}))
    with pytest.raises(
        ValueError,
        match=r"input 'a b' of model has a shape of unknown rank.*--shape 'a b=1x3x224x224' on",
    ):
        static_shapes("model", model, {})
    for shape in ((), (3,), (1, 2, 3)):
        assert static_shapes("model", model, {"a b": shape}) == {"a b": list(shape)}


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            {"input": (1, 3)},
            r"inputs of model, 'input' given: its inputs are 'input.1', '0', 'scale', 'fixed'",
        ),
        ({"weight": (2,)}, "'weight' given: its inputs are"),
        (
            {"fixed": (4,)},
            r"the shape of input 'fixed' of model must have 2 dimensions, \(4,\) given",
        ),
        (
            {"scale": (1,)},
            r"the shape of input 'scale' of model must have 0 dimensions, \(1,\) given",
        ),
        ({"fixed": (4, 0)}, "each extent of 'fixed' must be an integer of at least 1, 0 given"),
        ({"fixed": (4, "n")}, "each extent of 'fixed' must be an integer of at least 1, 'n' given"),
        (
            {"fixed": (4, 4), "also fixed": (4, 8)},
            r"input 'fixed' of model must have one shape, \(4, 4\) and \(4, 8\) given",
        ),
    ],
)
def test_other_shapes_are_refused(model, shapes, message):
    with pytest.raises(ValueError, match=message):
        static_shapes("model", model, shapes, lambda: {"also fixed": "fixed"})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.onnx", b"", "cannot read .*m.onnx: it is empty, or no ONNX file"),
        ("m.onnx", b"no model", "cannot read .*m.onnx: [^;]*$"),
        ("m.onnx", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS.*git lfs pull; "),
        ("m.tflite", b"TFL3", "m.tflite: models must be ONNX files, .*; "),
    ],
)
def test_files_that_are_no_models_are_refused_with_what_they_are(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_onnx(tmp_path / name)


def test_functions_of_a_file_are_inlined(tmp_path):
    """PyTorch's exporter writes such, some of them in others."""
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    double, quadruple = (
        helper.make_function("own", name, ["a"], ["b"], nodes, opsets)
        for name, nodes in (
            ("Double", [helper.make_node("Add", ["a", "a"], ["b"])]),
            (
                "Quadruple",
                [
                    helper.make_node("Double", ["a"], ["c"], domain="own"),
                    helper.make_node("Double", ["c"], ["b"], domain="own"),
                ],
            ),
        )
    )
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    node = helper.make_node("Quadruple", ["x"], ["y"], domain="own")
    model = helper.make_model(
        helper.make_graph([node], "g", [x], [y]),
        functions=[double, quadruple],
        opset_imports=opsets,
        ir_version=8,
    )
    onnx.save(model, tmp_path / "model.onnx")
    loaded = load_onnx(tmp_path / "model.onnx")
    assert [node.op_type for node in loaded.graph.node] == ["Add", "Add"]


SEQUENCE = helper.make_tensor_sequence_value_info("texts", TensorProto.FLOAT, None)
STRINGS = helper.make_tensor_value_info("texts", TensorProto.STRING, [1])


@pytest.mark.parametrize(
    ("value", "kind"), [(SEQUENCE, "sequence"), (STRINGS, "tensor of strings")]
)
def test_inputs_that_are_no_tensors_of_numbers_are_refused_by_name(model, value, kind):
    model.graph.input.append(value)
    with pytest.raises(ValueError, match=f"must be tensors of numbers, 'texts' is a {kind}: "):
        static_shapes("model", model, None)


def test_an_importers_error_is_one_line_with_the_operator():
    """That of the innermost graph, where a branch of an If has one of its own."""

    def _construct_nodes(*graphs):
        for node in graphs[0]:
            if graphs[1:]:
                _construct_nodes(*graphs[1:])
            elif node.op_type == "Resize":
                raise KeyError("scales\n  in a script of the network")

    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("Resize", ["y"], ["z"], name="/up/Resize"),
    ]
    for graphs in ([nodes], [[helper.make_node("If", ["c"], ["y"])], nodes]):
        with pytest.raises(KeyError) as caught:
            _construct_nodes(*graphs)
        message = str(import_error("m.onnx", caught.value, {}))
        assert message.startswith("cannot read m.onnx: TVM's importer fails at Resize /up/Resize, ")
        assert "\n" not in message
        assert "KeyError" in message


def test_an_error_of_the_whole_file_names_no_operator():
    message = str(import_error("m.onnx", NotImplementedError("no LSTM"), {}))
    assert message.startswith(
        "cannot read m.onnx: TVM's importer fails, NotImplementedError: no LSTM. Export"
    )


def test_shapes_that_are_given_may_be_wrong():
    message = str(import_error("m.onnx", ValueError("4 channels, not 3"), {"x": [1, 4, 8, 8]}))
    assert "4 channels, not 3. Check the shapes, {'x': [1, 4, 8, 8]}, or export the" in message
