"""Targets of other machines, by TVM 0.17's LLVM 10, and this one's, and devices it lacks."""

import shutil

import pytest
import tvm
from machines import MACHINES, pretend
from tvm import autotvm
from tvm.target.codegen import llvm_get_cpu_archlist

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm.targets import (
    THIS_MACHINE,
    as_target,
    check_device,
    local_cpu_target,
    measure_flops,
)
from autotvm_opevo.networks import relay as workloads
from autotvm_opevo.tuning.this_machine import GENERIC_CPUS, candidate_cpus, instructions

features_of = THIS_MACHINE.cpu_features


@pytest.mark.parametrize(("machine", "newer_llvm", "name", "newer_best", "best"), MACHINES)
def test_a_machine_gets_a_target_that_llvm_knows(
    monkeypatch, tmp_path, machine, newer_llvm, name, newer_best, best
):
    pretend(monkeypatch, tmp_path, machine)
    candidates = candidate_cpus(name, features_of)
    assert candidates[0] == best
    assert {*candidates[:-1]} <= {
        str(cpu) for cpu in llvm_get_cpu_archlist(tvm.target.Target("llvm"))
    }


@pytest.mark.parametrize("cpu", GENERIC_CPUS)
def test_what_generic_cpus_need_is_what_llvm_says(cpu):
    assert {*instructions(features_of(cpu))} - {"sse2"} == GENERIC_CPUS[cpu]


def test_code_for_this_machines_target_runs():
    target = local_cpu_target()
    assert measure_flops(target) > 1e8
    THIS_MACHINE.check(tvm.target.Target(target))


def test_a_target_beyond_the_processor_is_refused_before_anything_is_measured(
    monkeypatch, tmp_path
):
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")
    with pytest.raises(ValueError, match=r"it lacks avx512bw, .*; llvm -mcpu=core-avx2 works"):
        THIS_MACHINE.check(tvm.target.Target("llvm -mcpu=skylake-avx512"))
    with pytest.raises(ValueError, match=r"it lacks avx512f;"):
        THIS_MACHINE.check(tvm.target.Target("llvm -mcpu=core-avx2 -mattr=+avx512f"))


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
