"""Networks with shapes that are known only in a run: the rest is tuned, and they are named."""

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper
from onnx_files import save_nodes
from quick_network_tuning import instant, tune_module
from quick_tuning import outputs
from relax_modules import network_with
from tvm import relax
from unoptimized import cpu

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import build, lower_as_imported
from autotvm_opevo.meta_schedule import compare_logs, compile_network, lower_for_tuning
from autotvm_opevo.meta_schedule.tasks import extract
from autotvm_opevo.networks.relax import model_file
from autotvm_opevo.reporting.logs import open_logs

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
WEIGHT = np.random.default_rng(0).standard_normal((64, 32)).astype("float32")
pytestmark = pytest.mark.usefixtures("two_rounds")


def untuned(errors):
    """The operators that are named as untuned, in one line."""
    (line,) = (line for line in errors.splitlines() if "kept at default" in line)
    reason, names = line.split(": ")
    assert reason == "kept at default, since their shapes or loops are known only in a run"
    return names.split(", ")


def positions(*operators, dense=True):
    """A dense layer, where it is not zero, which are n positions, and operators on these."""
    x, n = relax.Var("x", relax.TensorType((4, 64), "float32")), tvm.tirx.Var("n", "int64")
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, relax.const(WEIGHT))) if dense else x
            found = builder.match_cast(
                builder.emit(relax.op.nonzero(y)), relax.TensorType([2, n], "int64")
            )
            found = builder.emit(relax.op.astype(found, "float32"))
            for operator in operators:
                found = builder.emit(operator(found))
            result = builder.emit_output(relax.Tuple([y, found]))
        builder.emit_func_output(result)
    return builder.finalize()


def convolution(found):
    image = relax.op.reshape(found, (1, 2, found.ty.shape[1], 1))
    return relax.op.nn.conv2d(image, relax.const(np.ones((4, 2, 3, 3), "float32")), padding=(1, 1))


ON_POSITIONS = {
    "elementwise": lambda found: relax.op.multiply(found, relax.const(2.0, "float32")),
    "fast math": relax.op.exp,
    "softmax": relax.op.nn.softmax,
    "reduction": lambda found: relax.op.sum(found, axis=[1]),
    "matmul": lambda found: relax.op.matmul(found, relax.op.permute_dims(found)),
    "convolution": convolution,
}


@pytest.mark.parametrize("kind", ON_POSITIONS)
def test_what_has_a_known_shape_is_extracted_lowered_and_built(kind):
    mod = positions(ON_POSITIONS[kind])

    lowered = lower_for_tuning(mod, None, cpu())
    tasks, others = extract(lowered, cpu())
    assert [task.task_name.rstrip("0123456789") for task in tasks] == ["matmul"]
    assert others
    inputs = [np.random.default_rng(1).standard_normal((4, 64)).astype("float32")]
    executables = [build(lowered, cpu()), build(lower_as_imported(mod, cpu()), cpu())]
    for one, other in zip(*outputs(executables, inputs)):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_the_network_is_tuned_compared_compiled_and_reported(tmp_path, capsys, caplog):
    mod = positions(ON_POSITIONS["elementwise"])
    result = tune_module(mod, None, tmp_path / "log", 4)
    assert [row.name for row in result.rows if row.works] == ["matmul 4x64 64x32"]
    assert untuned(capsys.readouterr().err) == ["fused_cast_multiply"]
    assert not result.comparison_error
    assert result.comparison.race.latencies
    compile_network(mod, None, cpu(), result.best_file)
    assert compare_logs(mod, None, cpu(), [result.best_file], time_limit=5).race.latencies
    assert not [record for record in caplog.records if "no record" in record.message]
    (log,) = open_logs([tmp_path / "log"])
    assert [task.name for task in log.tasks.values()] == ["matmul 4x64 64x32"]


def test_a_network_without_an_operator_of_known_shape_is_refused(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"it has none: the shapes or loops of cast are known only in",
    ):
        tune_module(positions(dense=False), None, tmp_path, 4)


DENSE = [("MatMul", ["x", "w"], ["d"]), ("Relu", ["d"], ["y"])]
# Nodes after a dense layer, outputs and constants.
ONNX = {
    "NonZero": (
        [
            ("ReduceSum", ["y", "one"], ["s"], {"keepdims": 0}),
            ("NonZero", ["s"], ["p"]),
            ("Transpose", ["p"], ["t"], {"perm": [1, 0]}),
            ("GatherND", ["y", "t"], ["rows"]),
            ("MatMul", ["rows", "v"], ["z"]),
        ],
        {"one": np.array([1]), "v": WEIGHT[:32, :8].copy()},
    ),
    "Unique": (
        [("Unique", ["y"], ["u"], {"sorted": 1}), ("Mul", ["u", "two"], ["z"])],
        {"two": np.float32(2)},
    ),
    "NonMaxSuppression": (
        [
            ("Reshape", ["y", "shape"], ["boxes"]),
            ("NonMaxSuppression", ["boxes", "scores", "most", "iou", "score"], ["z"]),
        ],
        {
            "shape": np.array([1, 32, 4]),
            "scores": np.linspace(0, 1, 32, dtype="float32").reshape(1, 1, 32),
            "most": np.array([5]),
            "iou": np.array([0.5], "float32"),
            "score": np.array([0.1], "float32"),
        },
    ),
    "Slice": (
        [
            ("ReduceMax", ["y"], ["m"], {"keepdims": 0}),
            ("Cast", ["m"], ["i"], {"to": INT64}),
            ("Unsqueeze", ["i", "zero"], ["end"]),
            ("Slice", ["y", "zero", "end", "zero"], ["z"]),
        ],
        {"zero": np.array([0])},
    ),
    "Compress": (
        [("Compress", ["y", "rows"], ["z"], {"axis": 0})],
        {"rows": np.array([True, False, True, True])},
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ONNX)
def test_networks_from_onnx_are_tuned_but_for_what_such_operators_make(tmp_path, capsys, kind):
    nodes, constants = ONNX[kind]
    path = save_nodes(
        tmp_path / "model.onnx",
        [helper.make_node(*node[:3], **(node[3] if node[3:] else {})) for node in DENSE + nodes],
        {"x": (FLOAT, (4, 64))},
        {"w": WEIGHT, **constants}.items(),
        opset=13,
        dtype=INT64 if kind == "NonMaxSuppression" else FLOAT,
    )
    mod, params = model_file(path)
    result = tune_module(mod, params, tmp_path / "log", 12, **instant())
    assert any("matmul" in row.name and row.works for row in result.rows)
    assert untuned(capsys.readouterr().err)
    inputs = [np.random.default_rng(1).standard_normal((4, 64)).astype("float32")]
    executables = [
        compile_network(mod, params, cpu(), result.best_file),
        build(lower_as_imported(bind_params(mod, params), cpu()), cpu()),
    ]
    ((tuned,), (expected,)) = outputs(executables, inputs)
    np.testing.assert_allclose(tuned, expected, rtol=1e-3, atol=1e-3)


def test_a_network_for_any_batch_is_compiled_and_tuned_for_one(tmp_path):
    @network_with((tvm.tirx.Var("batch", "int64"), 64), (8, 8))
    def mod(emit, x, z):
        y = emit(relax.op.nn.relu(relax.op.matmul(x, relax.const(WEIGHT))))
        return relax.Tuple([y, emit(relax.op.nn.softmax(z))])

    call = r"relax\.transform\.BindSymbolicVars\(\{'batch': 1\}\)\(mod\)"
    with pytest.raises(
        ValueError, match=rf"mod must have inputs of known shapes, x0 is .*batch.*{call}"
    ):
        tune_module(mod, None, tmp_path / "log", 4)
    assert not (tmp_path / "log").exists()
    bound = relax.transform.BindSymbolicVars({"batch": 2})(mod)
    result = tune_module(bound, None, tmp_path / "log", 4, **instant())
    inputs = [
        np.random.default_rng(1).standard_normal(shape).astype("float32")
        for shape in ((2, 64), (8, 8))
    ]
    executables = [compile_network(one, None, cpu(), result.best_file) for one in (mod, bound)]
    for one, other in zip(*outputs(executables, inputs)):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_inputs_that_are_no_tensors_leave_out_the_comparison_with_the_reason(tmp_path):
    pair = tvm.ir.TupleType([relax.TensorType(shape, "float32") for shape in [(8, 64), (64, 32)]])
    mod = network_with(pair)(lambda emit, x: relax.op.matmul(emit(x[0]), emit(x[1])))
    result = tune_module(mod, None, tmp_path, 4)
    assert all(row.works for row in result.rows)
    assert "its inputs must be tensors to have random values, x0 is " in str(result)
