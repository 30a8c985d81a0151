"""Built networks on this machine."""

import gc
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.s_tir.meta_schedule.runner.config import EvaluatorConfig

from autotvm_opevo.meta_schedule import workloads
from autotvm_opevo.meta_schedule.evaluation import network_loader, random_inputs
from autotvm_opevo.meta_schedule.lowering import lower_as_imported
from autotvm_opevo.meta_schedule.targets import as_target
from autotvm_opevo.meta_schedule.worker import build_artifact, run_artifact

TARGET = as_target("llvm")


def is_loaded(file):
    return str(file) in Path("/proc/self/maps").read_text()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
class TestLibrariesAreUnloaded:
    """Each has its weights: those of AlexNet, loaded anew for every round of timings, would soon fill the memory."""

    def test_with_the_network(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        lowered = lower_as_imported(*workloads.operator("matmul", [(8, 64), (64, 32)]), TARGET)
        with network_loader(TARGET, random_inputs(lowered)) as load:
            network = load(lowered)
            instance, other = network(), network()
            assert is_loaded(tmp_path)
            assert np.array_equal(instance.outputs()[0], other.outputs()[0])
            assert instance.seconds() > 0
            del instance
            assert other.seconds() > 0
            del other
            gc.collect()
            assert not is_loaded(tmp_path)

    def test_after_each_trial(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        x = te.placeholder((64,), name="x")
        function = te.create_prim_func([x, te.compute((64,), lambda i: x[i] + 1.0, name="y")])
        mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        artifact = build_artifact(mod, TARGET, link=True)
        tensors = [("TENSOR", "float32", shape) for shape in [(64,), (64,)]]
        assert min(run_artifact(artifact, "cpu", tensors, EvaluatorConfig(1, 1, 1, False))) > 0
        gc.collect()
        assert not is_loaded(artifact)
