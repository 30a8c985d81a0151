"""LocalBuilder generates the same code as TVM's, in workers that stay."""

import errno
import os
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import tvm
from sketches import AVX512, TARGETS, decision_space, first_candidate, int8_matmul
from tvm import te
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.builder import BuilderInput
from tvm.s_tir.meta_schedule.builder.local_builder import default_build
from tvm.target import Target
from unoptimized import cpu

from autotvm_opevo._utils import atomic_files, cpu_cores
from autotvm_opevo.meta_schedule import LocalBuilder
from autotvm_opevo.meta_schedule import local as module
from autotvm_opevo.meta_schedule.space import DecisionSpace
from autotvm_opevo.meta_schedule.worker import WORKER_MODULE
from autotvm_opevo.meta_schedule.worker import build_schedule as build
from autotvm_opevo.tuning.workers import call_once

# Workers that import this module would import all of TVM's intrinsics.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def candidates(context, n):
    context.pre_tuning(max_trials=n, num_trials_per_iter=n)
    found = context.generate_measure_candidates()
    context.post_tuning()
    return found


def assembly(module):
    return module.inspect_source("s")


@pytest.mark.parametrize(
    "workload",
    [
        "C1",
        "relu",
        *(
            pytest.param(name, marks=pytest.mark.soak)
            for name in ("MM1", "BMM1", "C2", "softmax", "sum")
        ),
    ],
)
def test_code_for_a_cpu_is_the_same(workload):
    """Before LLVM optimizes it, which takes most of the time of a build."""
    decisions = decision_space(workload, "llvm")
    rng = np.random.default_rng(0)
    for start in decisions.seed_configurations():
        for configuration in (
            next(iter(start)),
            decisions.canonicalize(decisions.space.sample(rng)),
        ):
            candidate, _ = decisions.candidate(configuration)
            if candidate is not None:
                mod = candidate.sch.mod
                assert assembly(build(mod, cpu())) == assembly(default_build(mod, cpu(), None))


def test_a_schedule_with_intrinsics_is_built_without_importing_them():
    context = ms.TuneContext(
        int8_matmul(),
        target=AVX512,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=1,
    )
    scheduled = next(
        c.sch.mod for c in candidates(context, 16) if "dot_16x4_avx512" in str(c.sch.trace)
    )
    theirs = assembly(default_build(scheduled, AVX512, None))
    assert "vpmaddubsw" in theirs

    def in_worker(mod):
        return assembly(build(mod, AVX512)), "tvm.s_tir.tensor_intrin" in sys.modules

    assert call_once(WORKER_MODULE, in_worker, scheduled) == (theirs, False)


def float16_matmul():
    x, y = (te.placeholder((64, 64), "float16", name=name) for name in "XY")
    k = te.reduce_axis((0, 64), name="k")
    z = te.compute((64, 64), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), name="Z")
    return te.create_prim_func([x, y, z])


def test_a_gpus_schedule_is_built_without_importing_intrinsics_for_its_architecture(monkeypatch):
    """CUDA's compiler asks for the current target, and takes this machine's GPU without one."""
    target = TARGETS["cuda"]
    context = ms.TuneContext(
        float16_matmul(), target=target, space_generator="post-order-apply", rand_state=1
    ).clone()
    sketches = context.generate_design_space()
    decisions = DecisionSpace(context.mod, sketches, list(context.space_generator.postprocs))
    seeds = chain.from_iterable(decisions.seed_configurations())
    mod = next(c for c, _ in map(decisions.candidate, seeds) if c).sch.mod
    theirs = default_build(mod, target, None).imports[0].inspect_source()
    assert "nvcuda::wmma" in theirs
    monkeypatch.setitem(sys.modules, "tvm.s_tir.tensor_intrin", None)
    assert build(mod, target).imports[0].inspect_source() == theirs
    monkeypatch.setattr(tvm.tirx, "build", lambda mod, target: Target.current())
    assert build(mod, target) == target


def test_there_are_as_many_builds_as_cpus_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(cpu_cores, "_CPUS", {5})
    assert LocalBuilder().max_workers == 1


def test_workers_return_artifacts_or_errors(tmp_path):
    (build,) = matmul_inputs(1)
    builder = LocalBuilder(max_workers=1, timeout_sec=240)
    good, bad = builder.build(
        [build, BuilderInput(build.mod, Target({"kind": "llvm", "mtriple": "no"}))]
    )
    assert good.error_msg is None
    assert good.artifact_path.endswith(".tar")
    assert bad.artifact_path is None
    assert bad.error_msg
    builder.close()


def matmul_inputs(count):
    candidate = first_candidate(decision_space("MM1", "llvm"))
    return [BuilderInput(candidate.sch.mod, TARGETS["llvm"])] * count


def sleep(*_):
    time.sleep(60)


def die(*_):
    os._exit(1)


def test_builds_that_hang_or_die_cost_no_other(monkeypatch):
    builder = LocalBuilder(max_workers=2, timeout_sec=240)
    monkeypatch.setattr(module, "build_artifact", die)
    (result,) = builder.build(matmul_inputs(1))
    assert result.error_msg == "LocalBuilder: An exception occurred\nthe worker process died"
    monkeypatch.setattr(module, "build_artifact", sleep)
    builder.timeout_sec = 0.1
    (result,) = builder.build(matmul_inputs(1))
    assert result.error_msg == "LocalBuilder: Timeout, killed after 0.1 seconds"
    monkeypatch.undo()
    builder.timeout_sec = 240
    assert [result.error_msg for result in builder.build(matmul_inputs(3))] == [None] * 3
    builder.close()


def fill(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("build_artifact", [die, fill])
def test_that_the_temporary_folder_is_full_is_no_failure_of_a_candidate(
    monkeypatch, build_artifact
):
    builder = LocalBuilder(max_workers=1, timeout_sec=240)
    monkeypatch.setattr(module, "build_artifact", build_artifact)
    if build_artifact is die:  # as LLVM does
        monkeypatch.setattr(atomic_files, "check_writable", fill)
    (build,) = matmul_inputs(1)
    with pytest.raises(OSError, match="No space left on device"):
        builder.result(builder.start(build.mod, build.target))
    # of which TVM makes another
    with pytest.raises(RuntimeError, match="No space left on device"):
        builder.build([build])
    builder.close()


def test_workers_stay_between_batches(monkeypatch):
    builder = LocalBuilder(max_workers=1, timeout_sec=240)
    monkeypatch.setattr(module, "build_artifact", lambda *_: (str(os.getpid()), 0.0))
    assert len({builder.build(matmul_inputs(2))[0].artifact_path for _ in range(4)}) == 1
    builder.close()


def test_what_was_built_is_deleted_when_the_builder_is_closed():
    builder = LocalBuilder(max_workers=1, timeout_sec=240, link=True)
    (result,) = builder.build(matmul_inputs(1))
    folder = Path(result.artifact_path).parent.parent
    # none of what the linker read
    assert [file.name for file in folder.iterdir()] == [Path(result.artifact_path).parent.name]
    builder.close()
    assert not folder.exists()


def test_what_the_linker_of_a_killed_build_leaves_behind_is_deleted(tmp_path, monkeypatch):
    temporary, linker = tmp_path / "tmp", tmp_path / "linker"
    temporary.mkdir()
    linker.write_text('#!/bin/sh\ntouch "$TMPDIR/ccLINK.res"\nexec sleep 600\n')
    linker.chmod(0o755)
    monkeypatch.setenv("CXX", str(linker))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (build,) = matmul_inputs(1)
    builder = LocalBuilder(max_workers=1, timeout_sec=240, link=True)
    future = builder.start(build.mod, build.target)
    while not list(temporary.rglob("ccLINK.res")):
        assert not future.done()
        time.sleep(0.02)
    builder.close()
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_workers": 0}, "max_workers must be an integer of at least 1, 0 given"),
        ({"timeout_sec": 0}, "timeout_sec must be a positive number of seconds, 0 given"),
    ],
)
def test_parameters_are_positive(arguments, message):
    with pytest.raises(ValueError, match=message):
        LocalBuilder(**arguments)


def test_linked_libraries_are_for_this_machine():
    builder = LocalBuilder(max_workers=1, timeout_sec=240, link=True)
    (result,) = builder.build(matmul_inputs(1))
    assert result.artifact_path.endswith(".so")
    assert tvm.runtime.load_module(result.artifact_path).implements_function("main")
    builder.close()
