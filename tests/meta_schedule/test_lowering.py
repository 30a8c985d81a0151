"""Compiling a tuned network: which weights are packed, when, and that outputs are the same."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from quick_network_tuning import instant, tune_module
from quick_tuning import outputs, timed
from relax_modules import calls_of, count_changes, network_of
from sketches import AVX512, int8_matmul
from tvm import relax, te
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import (
    MemoryDatabase,
    ScheduleFnDatabase,
    TuningRecord,
    UnionDatabase,
)
from unoptimized import cpu

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import build, lower, lower_as_imported, pack_weights
from autotvm_opevo.lowering.rewriting import with_statements
from autotvm_opevo.meta_schedule import as_target, compile_network, open_database
from autotvm_opevo.meta_schedule.compilation import _best_records
from autotvm_opevo.meta_schedule.database import database_with
from autotvm_opevo.meta_schedule.evaluation import random_inputs
from autotvm_opevo.meta_schedule.space import DecisionSpace
from autotvm_opevo.meta_schedule.tasks import extract
from autotvm_opevo.networks import relax as workloads

SIZE = 64


def network():
    """Two dense layers that are the same function, and their weights."""
    rng = np.random.default_rng(0)
    weights = {
        name: tvm.runtime.tensor(rng.standard_normal((SIZE, SIZE), dtype="float32"))
        for name in ("w1", "w2")
    }
    x, w1, w2 = (
        relax.Var(name, relax.TensorType((SIZE, SIZE), "float32")) for name in ("x", "w1", "w2")
    )
    blocks = relax.BlockBuilder()
    with blocks.function("main", [x, w1, w2], attrs={"num_input": 1}):
        with blocks.dataflow():
            y = blocks.emit(relax.op.nn.relu(relax.op.matmul(x, w1)))
            y = blocks.emit_output(relax.op.nn.relu(relax.op.matmul(y, w2)))
        blocks.emit_func_output(y)
    return blocks.finalize(), weights


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    return tune_module(*network(), folder, 12, **instant()).best_file


def free_buffers(mod):
    """The layout-free buffers of all functions of a module."""
    attributes = [
        function.attrs
        for function in mod.functions.values()
        if isinstance(function, tvm.tirx.PrimFunc)
    ]
    return [
        [*map(int, found["layout_free_buffers"])]
        for found in attributes
        if found and "layout_free_buffers" in found
    ]


def shapes_of_constants(mod):
    """Of those that each operator takes."""
    return [
        [tuple(map(int, one.ty.shape)) for one in call.args[1] if isinstance(one, tvm.ir.Constant)]
        for call in calls_of(mod, "call_tir")
    ]


def test_schedules_choose_the_layout_of_bound_weights_only():
    mod, weights = network()
    assert free_buffers(lower(bind_params(mod, weights), cpu())) == [[1]]
    assert free_buffers(lower(mod, cpu())) == []
    assert free_buffers(lower(bind_params(mod, {"w1": weights["w1"]}), cpu())) == [[1]]
    assert (
        free_buffers(lower(bind_params(mod, weights), as_target("nvidia/geforce-rtx-3090"))) == []
    )


def test_schedules_do_not_choose_the_layout_of_weights_that_another_function_takes():
    mod, weights = network()
    other = tvm.IRModule(
        {"other": network()[0]["main"].with_attr("global_symbol", "other"), "main": mod["main"]}
    )
    operators = lower(bind_params(other, weights), cpu())
    assert free_buffers(operators) == [[1]]


def constant(*shape):
    return relax.const(np.random.default_rng(0).standard_normal(shape).astype("float32"))


WEIGHTS = {
    "conv1d": ((1, 8, 16), lambda x: relax.op.nn.conv1d(x, constant(4, 8, 3))),
    "conv2d": ((1, 8, 9, 9), lambda x: relax.op.nn.conv2d(x, constant(4, 8, 3, 3), strides=2)),
    "grouped": ((1, 8, 9, 9), lambda x: relax.op.nn.conv2d(x, constant(6, 4, 3, 3), groups=2)),
    "depthwise": ((1, 8, 9, 9), lambda x: relax.op.nn.conv2d(x, constant(8, 1, 3, 3), groups=8)),
    "multiplied": ((1, 4, 9, 9), lambda x: relax.op.nn.conv2d(x, constant(8, 1, 3, 3), groups=4)),
    "conv3d": ((1, 4, 6, 6, 6), lambda x: relax.op.nn.conv3d(x, constant(4, 4, 3, 3, 3))),
    "matmul": ((1, 8, 16), lambda x: relax.op.matmul(x, constant(16, 4))),
    "batched": ((3, 8, 16), lambda x: relax.op.matmul(x, constant(3, 16, 4))),
    "broadcast": ((3, 8, 16), lambda x: relax.op.matmul(x, constant(1, 16, 4))),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights_that_are_summed_over_are_packed_and_biases_are_not(kind):
    shape, multiply = WEIGHTS[kind]
    mod = network_of(multiply, lambda x: relax.op.add(x, constant(1)), shape=shape)
    assert free_buffers(lower(mod, cpu())) == [[1]]


# The type of the input, and what reads a constant.
OTHERS = {
    "in part": (
        ((1, 16, 8), "float32"),
        [
            lambda x: relax.op.multiply(x, constant(1, 16, 1)),
            lambda x: relax.op.strided_slice(x, [1], [0], [8]),
        ],
    ),
    "by an index": (((1,), "int64"), [lambda i: relax.op.take(constant(50, 768), i, axis=0)]),
    "in reverse": (
        ((1, 8, 8, 8), "float32"),
        [lambda x: relax.op.nn.conv2d_transpose(x, constant(8, 1, 2, 2), strides=(2, 2))],
    ),
}


@pytest.mark.parametrize("how", OTHERS)
def test_constants_of_which_tvm_would_lose_a_part_are_not_packed(how):
    (shape, dtype), functions = OTHERS[how]
    assert free_buffers(lower(network_of(*functions, shape=shape, dtype=dtype), cpu())) == []


def test_a_tuned_table_is_looked_up_right(tmp_path):
    """All that was left of a packed one was its last row."""
    (shape, dtype), functions = OTHERS["by an index"]
    mod = network_of(*functions, shape=shape, dtype=dtype)
    best = tune_module(mod, None, tmp_path, 1, **instant()).best_file
    ways = [build(lower_as_imported(mod, cpu()), cpu()), compile_network(mod, None, cpu(), best)]
    (expected,), (actual,) = outputs(ways, [np.array([7])])
    np.testing.assert_array_equal(actual, expected)


def test_expressions_may_be_deeper_than_pythons_calls():
    """As of many tensors that are stacked."""

    def element(i):
        value = x[i]
        for _ in range(2 * sys.getrecursionlimit()):
            value = te.sin(value)
        return value

    x = te.placeholder((4,), name="x")
    function = te.create_prim_func([x, te.compute((4,), element, name="y")])
    found = []
    with_statements(function.body, lambda node: found.append(type(node).__name__) or node)
    assert found.count("SBlock") == 2


def test_what_is_computed_is_not_packed():
    """TVM's matrix products would have it so, as of attention's keys and values."""
    kind = relax.TensorType((1, 64, 4, 32), "float32")
    variables = [relax.Var(name, kind) for name in "qkv"]
    blocks = relax.BlockBuilder()
    with blocks.function("main", variables):
        with blocks.dataflow():
            y = blocks.emit_output(relax.op.nn.attention(*variables))
        blocks.emit_func_output(y)
    assert "layout_free" not in lower(blocks.finalize(), cpu()).script()


def test_weights_are_packed_once_and_not_in_each_run(tuned):
    lowered = lower(bind_params(*network()), cpu())
    with cpu(), open_database(tuned):
        applied = relax.transform.MetaScheduleApplyDatabase()(lowered)
    assert shapes_of_constants(applied) == [[(SIZE, SIZE)]] * 2
    assert "layout_rewrite_preproc" in applied.script()
    packed = pack_weights(applied)
    assert "layout_rewrite_preproc" not in packed.script()
    assert [np.prod(shape) for (shape,) in shapes_of_constants(packed)] == [SIZE**2] * 2


@pytest.mark.parametrize("unbound", [[], ["w1"], ["w1", "w2"]])
def test_a_compiled_network_computes_what_the_untuned_one_does(tuned, unbound):
    mod, weights = network()
    known = {name: weight for name, weight in weights.items() if name not in unbound}
    inputs = random_inputs(lower_as_imported(bind_params(mod, known), cpu()))
    untuned = build(lower_as_imported(bind_params(mod, known), cpu()), cpu())
    executables = [
        untuned,
        *(
            compile_network(mod, known, cpu(), database)
            for database in (None, tuned, open_database(tuned))
        ),
    ]
    expected, *others = outputs(executables, inputs)
    for other in others:
        np.testing.assert_allclose(other[0], expected[0], rtol=1e-4, atol=1e-3)


def test_operators_without_a_record_are_counted_in_a_warning(tuned, caplog):
    compile_network(*network(), cpu(), tuned)
    assert not caplog.records
    compile_network(*workloads.mlp(), cpu(), tuned)
    assert "no record for 4 of 4 operators, which keep their default" in caplog.text


def test_a_record_for_the_target_is_preferred_to_a_faster_one_for_another(tuned, caplog):
    """TVM would take the fastest, whatever its target."""
    (record,) = open_database(tuned).get_all_tuning_records()
    foreign = timed(record, 1e-9, as_target("llvm -num-cores=64"))
    both = database_with([record, foreign])
    tasks, _ = extract(lower(bind_params(*network()), cpu()), cpu())
    assert [
        float(one.run_secs[0]) for one in _best_records(both, tasks, cpu()).get_all_tuning_records()
    ] != [1e-9]
    assert not caplog.records
    compile_network(*network(), cpu(), database_with([foreign]))
    assert "1 record applied that the database has for" in caplog.text


def test_a_record_for_another_kind_of_device_is_not_applied(tuned, caplog):
    """A CPU's schedules have no threads for a GPU."""
    tasks, _ = extract(lower(bind_params(*network()), cpu()), cpu())
    gpu = as_target("nvidia/geforce-rtx-3090")
    assert len(_best_records(open_database(tuned), tasks, gpu)) == 0
    assert "no record for 1 of 1 operator, which" in caplog.text


@pytest.mark.parametrize(("cpu", "applied"), [("skylake-avx512", 1), ("core-avx2", 0)])
def test_a_record_with_instructions_of_another_cpu_is_not_applied(cpu, applied):
    """LLVM would end the process; another number of cores does not matter."""
    context = ms.TuneContext(
        int8_matmul(), target=AVX512, space_generator="post-order-apply", rand_state=1
    )
    sketches, postprocs = context.generate_design_space(), context.space_generator.postprocs
    decisions = DecisionSpace(context.mod, sketches, postprocs)
    candidate, _ = decisions.candidate(next(iter(next(decisions.seed_configurations()))))
    assert "sch.tensorize(" in str(candidate.sch.trace)
    database = MemoryDatabase()
    workload = database.commit_workload(context.mod)
    database.commit_tuning_record(
        TuningRecord(candidate.sch.trace, workload, [1e-3], AVX512, candidate.args_info)
    )
    tasks = [SimpleNamespace(dispatched=[context.mod])]
    target = as_target(f"llvm -mcpu={cpu} -num-cores=64")
    assert len(_best_records(database, tasks, target)) == applied


def test_a_database_in_memory_is_applied(tuned, caplog):
    tasks, _ = extract(lower(bind_params(*network()), cpu()), cpu())
    database = database_with(open_database(tuned).get_all_tuning_records())
    assert len(_best_records(database, tasks, cpu())) == 1
    assert compile_network(*network(), cpu(), database)
    assert not caplog.records


def test_a_function_that_schedules_is_applied():
    scheduled = []

    def schedule(one):
        scheduled.append(one)
        return False

    assert compile_network(*network(), cpu(), ScheduleFnDatabase(schedule))
    assert scheduled


def test_a_union_of_databases_is_refused():
    with pytest.raises(ValueError, match="no union of databases: tune the networks into one"):
        compile_network(*network(), cpu(), UnionDatabase(MemoryDatabase()))


@pytest.mark.parametrize("database", [3, ["a", "b"], {"records": []}])
def test_what_is_no_database_is_refused(database):
    with pytest.raises(
        ValueError, match=r"database must be a folder or a database of MetaSchedule, .* given"
    ):
        compile_network(*network(), cpu(), database)


@pytest.mark.parametrize("name", ["typo", "file"])
def test_a_database_that_is_not_there_is_refused_and_not_created(tmp_path, name):
    (tmp_path / "file").write_text("{}")
    with pytest.raises(ValueError, match=f"{name} .*database of MetaSchedule"):
        compile_network(*network(), cpu(), tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_network_that_is_legalized_keeps_its_operators():
    mod, weights = workloads.network("resnet-18")
    mod = relax.transform.LegalizeOps()(mod)
    assert count_changes(lower(bind_params(mod, weights), cpu())) == {
        "nhwc": 0,
        "packed": 16,
        "winograd": 0,
        "fast_math": 0,
    }


@pytest.mark.parametrize("scatter", ["scatter_elements", "scatter_nd"])
def test_operators_of_a_single_block_are_built(scatter):
    """TVM's own pass for packed weights does not expect them."""
    rng = np.random.default_rng(0)
    weight, data = (rng.standard_normal(shape, "float32") for shape in ((8, 8), (4, 8)))
    indices = relax.const(np.zeros((1, 8 if scatter == "scatter_elements" else 1), "int64"))
    mod = network_of(
        lambda x: relax.op.matmul(x, relax.const(weight)),
        lambda x: getattr(relax.op, scatter)(x, indices, relax.const(np.ones((1, 8), "float32"))),
        relax.op.nn.relu,
        shape=(4, 8),
    )
    expected = np.maximum(data @ weight, 0)
    expected[0] = 1
    ((output,),) = outputs([compile_network(mod, None, cpu())], [data])
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)
