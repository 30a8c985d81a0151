"""The targets of other machines, by the LLVM of the TVM that is installed, and this one's."""

from importlib.util import find_spec

import pytest
from machines import MACHINES, pretend
from tvm.target import codegen

from autotvm_opevo.tuning.this_machine import GENERIC_CPUS, best_cpu, instructions

if find_spec("tvm.autotvm"):
    from autotvm_opevo.autotvm import targets
    from autotvm_opevo.autotvm.history import prior_file
else:
    from autotvm_opevo.meta_schedule import targets
    from autotvm_opevo.meta_schedule.strategy import prior_file

THIS_MACHINE, as_target = targets.THIS_MACHINE, targets.as_target


@pytest.mark.parametrize(("machine", "newer_llvm", "older_llvm", "newer_best", "best"), MACHINES)
def test_a_machine_gets_a_target_that_llvm_knows(
    monkeypatch, tmp_path, machine, newer_llvm, older_llvm, newer_best, best
):
    pretend(monkeypatch, tmp_path, machine)
    is_new = codegen.llvm_version_major() >= 22
    found = best_cpu(newer_llvm if is_new else older_llvm, THIS_MACHINE.cpu_features)
    assert found == (newer_best if is_new else best)
    assert found in map(str, codegen.llvm_get_cpu_archlist(as_target("llvm")))


@pytest.mark.parametrize("cpu", GENERIC_CPUS)
def test_what_generic_cpus_need_is_what_llvm_says(cpu):
    assert {*instructions(THIS_MACHINE.cpu_features(cpu))} - {"sse2"} == GENERIC_CPUS[cpu]


def test_code_for_this_machines_target_runs_and_measures_its_limits():
    target = as_target(targets.local_cpu_target())
    THIS_MACHINE.check(target)
    roofline = targets.measure_roofline(target)
    assert 1e8 < roofline.flops < 1e14
    assert all(1e8 < speed < 1e13 for _, speed in roofline.bandwidths)
    assert roofline.threads >= 1


def test_a_target_beyond_the_processor_is_refused_before_anything_is_measured(
    monkeypatch, tmp_path
):
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")
    with pytest.raises(ValueError, match=r"it lacks avx512bw, .*; llvm -mcpu=[\w-]+ works"):
        THIS_MACHINE.check(as_target("llvm -mcpu=skylake-avx512"))
    with pytest.raises(ValueError, match=r"it lacks avx512f;"):
        THIS_MACHINE.check(as_target("llvm -mcpu=core-avx2 -mattr=+avx512f"))


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("llvm", "avx2_prior.json"),
        ("llvm -mcpu=core-avx2", "avx2_prior.json"),
        ("llvm -mcpu=skylake-avx512", "avx512_prior.json"),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+neon", "avx2_prior.json"),
    ],
)
def test_what_is_known_depends_on_the_width_of_vectors(target, name):
    path = prior_file(as_target(target))
    assert path.name == name
    assert path.exists()
