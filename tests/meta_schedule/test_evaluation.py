"""Built networks on this machine."""

import errno
import gc
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax, te
from tvm.s_tir.meta_schedule.runner.config import EvaluatorConfig

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import lower_as_imported
from autotvm_opevo.meta_schedule.evaluation import (
    computed_dtypes,
    network_loader,
    open_device,
    random_inputs,
)
from autotvm_opevo.meta_schedule.targets import as_target
from autotvm_opevo.meta_schedule.worker import build_artifact, run_artifact
from autotvm_opevo.networks import relax as workloads
from autotvm_opevo.tuning.programs import compare_outputs

TARGET = as_target("llvm")


def is_loaded(file):
    return str(file) in Path("/proc/self/maps").read_text()


def test_a_folder_that_nfs_keeps_while_its_libraries_are_loaded_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def not_empty(*_, **options):
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    with monkeypatch.context() as nfs, open_device(TARGET):
        nfs.setattr(os, "rmdir", not_empty)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
class TestLibrariesAreUnloaded:
    """Each has its weights: those of AlexNet, loaded anew for every round of timings, would soon
    fill the memory.
    """

    def test_with_the_network_at_once(self, tmp_path, monkeypatch):
        """Not by the garbage collector at some time, when another network may have been loaded from
        the same file, whose code refers to the first one's kernels on a GPU.
        """
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        lowered = lower_as_imported(
            bind_params(*workloads.operator("matmul", [(8, 64), (64, 32)])), TARGET
        )
        with open_device(TARGET) as (device, upload):
            load = network_loader(TARGET, random_inputs(lowered), device, upload)
            network = load(lowered)
            instance, other = network(), network()
            assert is_loaded(tmp_path)
            assert np.array_equal(instance.outputs()[0], other.outputs()[0])
            assert instance.seconds() > 0
            del instance
            assert other.seconds() > 0
            gc.disable()
            try:
                other.outputs()
                del other
                assert not is_loaded(tmp_path)
            finally:
                gc.enable()

    def test_after_each_trial(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        x = te.placeholder((64,), name="x")
        function = te.create_prim_func([x, te.compute((64,), lambda i: x[i] + 1.0, name="y")])
        mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        artifact, _ = build_artifact(mod, TARGET, True, str(tmp_path))
        tensors = [("TENSOR", "float32", shape) for shape in [(64,), (64,)]]
        assert min(run_artifact(artifact, "cpu", tensors, EvaluatorConfig(1, 1, 1, False))) > 0
        gc.collect()
        assert not is_loaded(artifact)


def test_outputs_may_be_shapes_and_numbers_in_tuples_of_tuples():
    x = relax.Var("x", relax.TensorType((8, 16), "float32"))
    blocks = relax.BlockBuilder()
    with blocks.function("main", [x]):
        y = blocks.emit(relax.op.nn.relu(x))
        shape = blocks.emit(relax.op.shape_of(x))
        blocks.emit_func_output(
            relax.Tuple([y, shape, relax.Tuple([relax.ShapeExpr([3, 4]), relax.prim_value(5)])])
        )
    lowered = lower_as_imported(blocks.finalize(), TARGET)
    with open_device(TARGET) as (device, upload):
        load = network_loader(TARGET, random_inputs(lowered), device, upload)
        tensor, *numbers = load(lowered)().outputs()
    assert tensor.shape == (8, 16)
    assert numbers == [8, 16, 3, 4, 5]
    assert compare_outputs([tensor, *numbers], [tensor, *numbers]) == (0.0, True)


@pytest.mark.parametrize("legalize", [False, True])
def test_what_a_network_computes_has_dtypes_of_its_own(legalize):
    """Other than those of its inputs and outputs; parts of tuples and other functions count."""
    blocks = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 4), "uint8"))
    scale, zero = relax.const(0.5, "float32"), relax.const(0, "int8")
    with blocks.function("part", [x], private=True):
        part = blocks.emit_func_output(blocks.emit(relax.op.astype(x, "float16")))
    y = relax.Var("y", relax.TensorType((4, 4), "uint8"))
    with blocks.function("main", [y]):
        with blocks.dataflow():
            z = blocks.emit(relax.op.quantize(relax.op.astype(y, "float32"), scale, zero))
            z = blocks.emit(relax.TupleGetItem(blocks.emit(relax.op.split(z, 2)), 1))
            z = blocks.emit_output(relax.op.dequantize(z, scale, zero))
        blocks.emit_func_output(relax.Tuple([z, blocks.emit(relax.Call(part, [y]))]))
    mod = blocks.finalize()
    assert computed_dtypes(relax.transform.LegalizeOps()(mod) if legalize else mod) == {
        "float16",
        "float32",
        "int8",
    }


def test_bfloat16_outputs_have_a_larger_tolerance():
    expected, actual = (
        np.array(values, ml_dtypes.bfloat16) for values in ([1.0, 2.0], [1.01, 2.0])
    )
    assert compare_outputs([expected], [actual])[1]
