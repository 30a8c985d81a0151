"""The loop of TVM's tutorials tune_relay_cuda.py, tune_relay_arm.py and tune_relay_mobile_gpu.py,
with transfer learning.
"""

import os
from collections import defaultdict

import numpy as np
import pytest
import tvm
from instant_measuring import for_real, instant
from tvm import autotvm, relay

from autotvm_opevo import OpEvoTuner

TARGETS = {
    "cuda": tvm.target.cuda(),
    "arm": tvm.target.Target("llvm -device=arm_cpu -mtriple=aarch64-linux-gnu"),
    "mobile_gpu": tvm.target.Target("opencl -device=mali", host="llvm -mtriple=aarch64-linux-gnu"),
}


def two_convolutions():
    """Strided, for which each target has the same templates."""
    x = relay.var("x", shape=(1, 16, 32, 32))
    for channels in (32, 64):
        weights = relay.const(np.full((channels, channels // 2, 3, 3), 0.01, "float32"))
        x = relay.nn.conv2d(
            x, weights, strides=(2, 2), padding=(1, 1), channels=channels, kernel_size=(3, 3)
        )
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(x), x))


def tune(mod, target, log, measure_option, trials):
    """Return how many others each task of a template learned from."""
    tasks = autotvm.task.extract_from_program(
        mod["main"], target=target, params={}, ops=(relay.op.get("nn.conv2d"),)
    )
    counts, temporary = defaultdict(list), f"{log}.tmp"
    for task in reversed(tasks):
        tuner = OpEvoTuner(task, loss_type="reg")
        if os.path.isfile(temporary):
            tuner.load_history(autotvm.record.load_from_file(temporary))
        tuner.tune(
            n_trial=min(trials, len(task.config_space)),
            early_stopping=600,
            measure_option=measure_option,
            callbacks=[
                autotvm.callback.progress_bar(trials),
                autotvm.callback.log_to_file(temporary),
            ],
        )
        counts[task.name].append(len(tuner._search.sources))
    autotvm.record.pick_best(temporary, str(log))
    return counts


@pytest.mark.parametrize("name", TARGETS)
def test_the_second_convolution_learns_from_the_first_for_the_targets_of_the_tutorials(
    name, tmp_path, monkeypatch
):
    monkeypatch.setenv("TOPHUB_LOCATION", "NONE")  # Mali's templates would download records
    counts = tune(two_convolutions(), TARGETS[name], tmp_path / "log.json", instant(), 8)
    assert counts
    assert set(map(tuple, counts.values())) == {(0, 1)}


def test_with_measurements_the_best_of_both_compile(tmp_path):
    log, target = tmp_path / "log.json", tvm.target.Target("llvm")
    tune(two_convolutions(), target, log, for_real(), 4)
    measured = [measured for measured, _ in autotvm.record.load_from_file(str(log))]
    assert len(measured) == 2
    with autotvm.apply_history_best(str(log)) as best, tvm.transform.PassContext(opt_level=3):
        assert not any(best.query(target, one.task.workload).is_fallback for one in measured)
        relay.build(two_convolutions(), target)
