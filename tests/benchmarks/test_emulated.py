"""Emulated GPU tasks: what cannot run is what TVM refuses, and tuners run on them."""

import json

import numpy as np
import pytest
import tvm
from tvm.autotvm.measure.measure_methods import gpu_verify_pass
from tvm.autotvm.task.space import InstantiationError

from benchmarks import emulated, runs, tuners

LIMITS = {
    "max_shared_memory_per_block": 48 * 1024,
    "max_threads_per_block": 1024,
    "max_thread_x": 1024,
    "max_thread_y": 1024,
    "max_thread_z": 64,
}


def tensor(*shape):
    return ["TENSOR", shape, "float32"]


def convolution(template, image, kernel, stride):
    args = [tensor(1, *image), tensor(*kernel), [stride] * 2, [1] * 4, [1, 1], "float32"]
    return template, args


TASKS = {
    "direct": convolution("conv2d_nchw.cuda", (64, 56, 56), (128, 64, 3, 3), 2),
    "depthwise": convolution("depthwise_conv2d_nchw.cuda", (32, 56, 56), (32, 1, 3, 3), 1),
    "winograd": convolution("conv2d_nchw_winograd.cuda", (512, 14, 14), (512, 512, 3, 3), 1),
    "matmul": (
        "batch_matmul.cuda",
        [tensor(1, 128, 256), tensor(1, 256, 512), [1, 128, 512], "float32", 0, 0],
    ),
}


@pytest.fixture
def pool(request, tmp_path):
    """A pool of random configurations with arbitrary run times."""
    template, args = TASKS[request.param]
    path = tmp_path / f"{request.param}.npz"
    rng = np.random.default_rng(0)
    meta = json.dumps({"template": template, "args": args, "target": "cuda -arch=sm_86"})
    arrays = {"index": rng.integers(10**4, size=40), "time": rng.random(40, dtype=np.float32)}
    np.savez(path, **arrays, error=np.zeros(40, np.uint8), meta=meta)
    return path


def is_refused(task, index):
    """Whether AutoTVM's builder would refuse a configuration."""
    check = {"tir.add_lower_pass": [(2, gpu_verify_pass(**LIMITS))]}
    with task.target, tvm.transform.PassContext(config=check):
        schedule, arguments = task.instantiate(task.config_space.get(index))
        try:
            tvm.lower(schedule, arguments)
        except InstantiationError:
            return True
    return False


@pytest.mark.parametrize(
    "pool",
    [pytest.param(name, marks=[pytest.mark.soak] * (name == "winograd")) for name in TASKS],
    indirect=True,
)
def test_what_cannot_run_is_what_tvm_refuses(pool):
    made = emulated.Pool(pool)
    space = made.task.config_space
    # TVM takes minutes to unroll some loops, which changes nothing of what a GPU refuses.
    drawn = map(int, np.random.default_rng(1).integers(len(space), size=200))
    some = np.array([i for i in drawn if space.get(i)["auto_unroll_max_step"].val <= 8][:16])
    refused = [is_refused(made.task, int(index)) for index in some]
    assert made.can_run(some).tolist() == [not no for no in refused]
    assert 0 < sum(refused) < len(refused)


class OutputsPerThread:
    """A model that needs no library."""

    def predict(self, x):
        return np.log(2) * x[:, 3]  # the first knob is a tile of four parts


@pytest.mark.parametrize("pool", ["direct"], indirect=True)
def test_an_emulator_is_a_landscape_of_the_whole_space(pool):
    made = emulated.Pool(pool)
    emulator = emulated.Emulator(made, OutputsPerThread())
    index = np.random.default_rng(1).integers(len(made.task.config_space), size=50)
    for at, can_run, parts in zip(index, made.can_run(index), made.sizes(index)["tile_f"]):
        milliseconds, error = emulator.look_up(int(at))
        assert (error == 0) == can_run
        assert milliseconds == pytest.approx(parts[3]) if can_run else np.isnan(milliseconds)


@pytest.mark.parametrize("pool", ["direct"], indirect=True)
def test_tuners_run_on_an_emulator(pool, monkeypatch):
    made = emulated.Pool(pool)
    emulator = emulated.Emulator(made, OutputsPerThread())
    monkeypatch.setattr(emulated, "_prepared", lambda *_: (emulator, made.task))
    job = emulated.Job(str(pool), True, "OpEvo", 0, 16)
    result = runs.run(job)
    assert result["measured"] == 16
    monkeypatch.setattr(emulated, "_VERSION", 0)
    assert result["digest"] != job.key["digest"]  # runs on another emulator are not resumed
    assert tuners.handles("OpEvo", made.task)


def test_fractions_are_of_the_best_that_any_run_has_found():
    slow, fast = ({"digest": "task", "steps": [(1, fraction, 0.0)]} for fraction in (0.6, 1.2))
    other = {"digest": "of an earlier emulator", "steps": [(1, 2.4, 0.0)]}
    assert emulated.relative_to_best([slow], [slow, fast, other])[0]["steps"] == [(1, 0.5, 0.0)]
