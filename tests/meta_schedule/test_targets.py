"""The targets of other machines, by TVM 0.27's LLVM 22, and this one's."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from machines import MACHINES, pretend
from tvm.target.codegen import llvm_get_cpu_archlist

from autotvm_opevo.meta_schedule.targets import (
    THIS_MACHINE,
    as_target,
    local_cpu_target,
    measure_flops,
)
from autotvm_opevo.tuning.this_machine import GENERIC_CPUS, candidate_cpus, instructions

features_of = THIS_MACHINE.cpu_features


@pytest.mark.parametrize(("machine", "name", "older_llvm", "best", "older_best"), MACHINES)
def test_a_machine_gets_a_target_that_llvm_knows(
    monkeypatch, tmp_path, machine, name, older_llvm, best, older_best
):
    pretend(monkeypatch, tmp_path, machine)
    candidates = candidate_cpus(name, features_of)
    assert candidates[0] == best
    assert {*candidates[:-1]} <= {str(cpu) for cpu in llvm_get_cpu_archlist(as_target("llvm"))}


@pytest.mark.parametrize("cpu", GENERIC_CPUS)
def test_what_generic_cpus_need_is_what_llvm_says(cpu):
    assert {*instructions(features_of(cpu))} - {"sse2"} == GENERIC_CPUS[cpu]


def test_code_for_this_machines_target_runs():
    target = local_cpu_target()
    assert measure_flops(target) > 1e8
    THIS_MACHINE.check(as_target(target))


def test_a_target_beyond_the_processor_is_refused_before_anything_is_measured(
    monkeypatch, tmp_path
):
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")
    with pytest.raises(ValueError, match=r"it lacks avx512bw, .*; llvm -mcpu=[\w-]+ works"):
        THIS_MACHINE.check(as_target("llvm -mcpu=skylake-avx512"))
    with pytest.raises(ValueError, match=r"it lacks avx512f;"):
        THIS_MACHINE.check(as_target("llvm -mcpu=core-avx2 -mattr=+avx512f"))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs CPU affinity")
def test_counting_cores_leaves_all_of_them_to_what_is_started_later(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")

    def cores():
        before = os.sched_getaffinity(0)
        assert as_target("llvm").attrs["num-cores"] == 1
        return before, os.sched_getaffinity(0)

    with ThreadPoolExecutor(1) as thread:  # TVM binds each thread once
        before, after = thread.submit(cores).result()
    assert before == after
