"""local_builder generates the same code as TVM's LocalBuilder."""

import subprocess
import sys

import numpy as np
import pytest
import tvm
from sketches import TARGETS, decision_space
from tvm import te
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.builder import BuilderInput
from tvm.s_tir.meta_schedule.builder.local_builder import default_build
from tvm.target import Target

from autotvm_opevo.meta_schedule import local_builder
from autotvm_opevo.meta_schedule.builder import build_schedule as build

# TVM 0.27 builds these intrinsics; for VNNI's, its LLVM wants other types.
AVX512 = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})


def int8_matmul():
    x, w = te.placeholder((64, 64), "uint8", name="X"), te.placeholder((64, 64), "int8", name="W")
    k = te.reduce_axis((0, 64), name="k")
    z = te.compute((64, 64), lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="Z")
    return te.create_prim_func([x, w, z])


def candidates(context, n):
    context.pre_tuning(max_trials=n, num_trials_per_iter=n)
    found = context.generate_measure_candidates()
    context.post_tuning()
    return found


def assembly(module):
    return module.inspect_source("s")


@pytest.mark.parametrize("workload", ["MM1", "BMM1", "C1", pytest.param("C2", marks=pytest.mark.soak), "softmax", "sum", "relu"])
def test_code_for_a_cpu_is_the_same(workload):
    decisions = decision_space(workload, "llvm")
    rng = np.random.default_rng(0)
    for start in decisions.seed_configurations():
        for configuration in (next(iter(start)), decisions.canonicalize(decisions.space.sample(rng))):
            candidate, _ = decisions.candidate(configuration)
            if candidate is not None:
                mod = candidate.sch.mod
                ours, theirs = (f(mod, TARGETS["llvm"], None) for f in (build, default_build))
                assert assembly(ours) == assembly(theirs)


def test_a_schedule_with_intrinsics_is_built_without_importing_them():
    context = ms.TuneContext(
        int8_matmul(), target=AVX512, space_generator="post-order-apply", search_strategy="replay-trace", rand_state=1
    )
    scheduled = next(c.sch.mod for c in candidates(context, 16) if "dot_16x4_avx512" in str(c.sch.trace))
    theirs = assembly(default_build(scheduled, AVX512, None))
    assert "vpmaddubsw" in theirs
    script = (
        "import sys, tvm\n"
        "from autotvm_opevo.meta_schedule.builder import build_schedule\n"
        "mod = tvm.ir.load_json(sys.stdin.read())\n"
        "target = tvm.target.Target({'kind': 'llvm', 'mcpu': 'skylake-avx512', 'num-cores': 2})\n"
        "print(build_schedule(mod, target, None).inspect_source('s'))\n"
        "assert 'tvm.s_tir.tensor_intrin' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=tvm.ir.save_json(scheduled), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == theirs.strip()


def test_other_targets_are_built_by_tvm(monkeypatch):
    asked = []
    monkeypatch.setattr(ms.builder.local_builder, "default_build", lambda *arguments: asked.append(arguments))
    build("mod", TARGETS["cuda"], None)
    assert asked == [("mod", TARGETS["cuda"], None)]


def test_workers_return_artifacts_or_errors(tmp_path):
    decisions = decision_space("MM1", "llvm")
    candidate, _ = decisions.candidate(next(iter(next(decisions.seed_configurations()))))
    builder = local_builder(max_workers=1, timeout_sec=240)
    good, bad = builder.build(
        [
            BuilderInput(candidate.sch.mod, TARGETS["llvm"]),
            BuilderInput(candidate.sch.mod, Target({"kind": "llvm", "mtriple": "no"})),
        ]
    )
    assert good.error_msg is None
    assert good.artifact_path.endswith(".tar")
    assert bad.artifact_path is None
    assert bad.error_msg
