"""What is no target, and devices that this machine lacks."""

import shutil

import pytest
import tvm
from tvm import autotvm

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm.targets import as_target, check_device
from autotvm_opevo.networks import relay as workloads


@pytest.mark.parametrize("given", ["abacus", 3, None])
def test_what_is_no_target_is_refused(given):
    with pytest.raises(ValueError, match=r"target must be a target of TVM, .* given"):
        as_target(given)


def test_a_target_is_left_as_it_is():
    target = tvm.target.Target("llvm -mcpu=core-avx2")
    assert str(as_target(target)) == str(target) == str(as_target(str(target)))


class TestDevice:
    @pytest.mark.skipif(tvm.cuda(0).exist, reason="this machine has a GPU")
    def test_a_device_that_this_machine_lacks_is_refused_before_anything_starts(self, tmp_path):
        mod, params = workloads.operator("nn.dense", [(1, 16), (16, 16)])
        with pytest.raises(ValueError, match="no cuda device"):
            tune_network(mod, params, "cuda", tmp_path / "log.json", trials=4)
        assert not list(tmp_path.iterdir())

    @pytest.mark.skipif(not shutil.which("nvcc"), reason="needs CUDA's compiler")
    def test_a_device_behind_a_tracker_may_be_missing_here(self):
        target = tvm.target.Target("cuda -arch=sm_90")
        check_device(target, autotvm.RPCRunner("gpu", "127.0.0.1", 9190))

    def test_a_gpu_for_which_nothing_compiles_is_refused(self, monkeypatch):
        monkeypatch.setenv("PATH", "")
        target = tvm.target.Target("cuda -arch=sm_90")
        with pytest.raises(RuntimeError, match=r"cannot compile for cuda .*'nvcc'; TVM 0.17 needs"):
            check_device(target, autotvm.RPCRunner("gpu", "127.0.0.1", 9190))
