"""The runner on one forked worker, with real runs."""

import time

import numpy as np
import pytest
from instant_measuring import TIMEOUT
from small_templates import matmul_task
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult

from autotvm_opevo.autotvm import LocalBuilder, LocalRunner
from autotvm_opevo.autotvm import runner as module
from autotvm_opevo.autotvm.log import key_of


@pytest.fixture(scope="module")
def task():
    return matmul_task()


@pytest.fixture(scope="module")
def built(task):
    builder = LocalBuilder(TIMEOUT)
    builder.set_task(task, {})
    inputs = [MeasureInput(task.target, task, task.config_space.get(i)) for i in range(3)]
    yield inputs, builder.build(inputs)
    builder.close()


@pytest.fixture
def runner(task):
    runner = LocalRunner(TIMEOUT, number=1, cooldown_interval=0)
    runner.set_task(task)
    yield runner
    runner.close()


def test_times_what_was_built(runner, built):
    results = runner.run(*built)
    assert [result.error_no for result in results] == [0] * 3
    assert all(0 < np.mean(result.costs) < 1 for result in results)
    assert all(result.all_cost >= build.time_cost for result, build in zip(results, built[1]))


def test_what_was_not_built_is_not_run(runner, built):
    failure = MeasureResult(("", ValueError()), MeasureErrorNo.COMPILE_HOST, 0.0, time.time())
    assert runner.run(built[0][:1], [failure]) == [failure]


def test_a_crash_fails_one_trial_and_the_next_runs(runner, built, tmp_path):
    inputs, builds = built
    broken = builds[0]._replace(filename=str(tmp_path / "missing.so"))
    results = runner.run(inputs, [broken, *builds[1:]])
    assert [result.error_no for result in results] == [MeasureErrorNo.RUNTIME_DEVICE, 0, 0]
    assert "missing.so" in str(results[0].costs)


def test_a_trial_that_takes_too_long_is_a_timeout(runner, built, monkeypatch):
    def measure(*_):
        time.sleep(600)

    inputs, builds = built
    runner.timeout = 2
    monkeypatch.setattr(module, "measure", measure)
    (late,) = runner.run(inputs[:1], builds[:1])
    assert late.error_no == MeasureErrorNo.RUN_TIMEOUT
    assert "longer than 2 seconds" in late.costs[0]


def test_what_was_built_can_be_timed_again_and_takes_for_ever_if_it_fails_now(
    runner, built, tmp_path
):
    inputs, builds = built
    assert 0 < runner.retime(inputs[0], builds[0]) < 1
    missing = builds[0]._replace(filename=str(tmp_path / "missing.so"))
    assert runner.retime(inputs[0], missing) == float("inf")
    assert runner.retime(inputs[0], builds[0]) < 1


def test_the_thresholds_are_multiples_of_the_task_s_best(runner, built, monkeypatch):
    thresholds = []

    def measure(*arguments, timeout):
        thresholds.append(arguments[-1])
        return ((3.0,), (1.0,), (2.0,))[len(thresholds) - 1]

    monkeypatch.setattr(runner._worker, "call", measure)
    runner.pruning = 1.5
    runner.run(*built)
    assert thresholds == [
        module.Thresholds(),
        pytest.approx((4.5, 3.3, 3 / 1.1)),
        pytest.approx((1.5, 1.1, 1 / 1.1)),
    ]
    runner.pruning = None
    monkeypatch.setattr(runner._worker, "call", lambda *arguments, timeout: arguments[-1])
    assert runner.run(built[0][:1], built[1][:1])[0].costs == module.Thresholds()


def test_pruning_below_the_best_is_refused():
    with pytest.raises(ValueError, match=r"pruning must be at least 1, or None, 0\.5 given"):
        LocalRunner(pruning=0.5)


def test_a_module_loader_is_refused():
    with pytest.raises(ValueError, match=r"use autotvm\.RPCRunner for others"):
        LocalRunner(module_loader=lambda *_: None)


def test_an_impossible_time_prunes_nothing(runner, built, monkeypatch):
    monkeypatch.setattr(runner._worker, "call", lambda *arguments, timeout: (0.0,))
    runner.pruning = 1.5
    runner.run(*built)
    task = built[0][0].task
    assert runner._best[key_of(task.target, task)] == float("inf")


class Module:
    """A library whose entry function takes `seconds`, by a clock that only it moves."""

    entry_name = "f"

    def __init__(self, seconds):
        self.seconds, self.asked = seconds, []

    def time_evaluator(self, name, device, number, repeat, min_repeat_ms, f_preproc):
        self.asked.append((repeat, min_repeat_ms))

        class Results:
            results = tuple(self.seconds * (1 + i / 100) for i in range(repeat))

        return lambda *_: Results


@pytest.mark.parametrize(
    ("seconds", "thresholds", "asked", "costs"),
    [
        (1.0, (), [(1, 50), (2, 50)], 1),  # the first trial of a task
        (0.8, (1.5, 1.1, 0.9), [(2, 1), (1, 50), (2, 50), (3, 50)], 4),
        (1.0, (1.5, 1.1, 0.9), [(2, 1), (1, 50), (2, 50)], 1),
        (1.4, (1.5, 1.1, 0.9), [(2, 1), (1, 50)], 1),
        (1.6, (1.5, 1.1, 0.9), [(2, 1)], 2),
    ],
)
def test_the_slower_a_trial_the_fewer_times_it_is_measured(
    monkeypatch, seconds, thresholds, asked, costs
):
    library = Module(seconds)
    monkeypatch.setattr(module.tvm.runtime, "load_module", lambda file: library)
    measured = module.measure("llvm", "file", [], (1, 3, 50, ""), module.Thresholds(*thresholds))
    assert library.asked == asked
    assert len(measured) == costs
    assert measured[0] == pytest.approx(seconds, rel=0.02)


def test_types_that_numpy_lacks_are_filled_too():
    (tensor,) = module._arguments([((8,), "bfloat16", True)], module.tvm.cpu())
    assert tensor.dtype == "bfloat16"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int64"])
def test_random_tensors_have_elements_between_1_and_10(dtype):
    (tensor,) = module._arguments([((300, 500), dtype, True)], module.tvm.cpu())
    values = tensor.numpy()
    assert values.shape == (300, 500)
    assert values.dtype == dtype
    assert values.min() >= 1
    assert values.max() <= 10
    assert len(np.unique(values)) >= 9


def test_tensors_of_the_last_trial_are_kept():
    tensors = [((4, 4), "float32", True), ((2,), "int32", True)]
    first = module._arguments(tensors, module.tvm.cpu())
    assert module._arguments(tensors, module.tvm.cpu()) is first
    other = module._arguments([((4, 5), "float32", True)], module.tvm.cpu())
    assert other[0].shape == (4, 5)
    assert module._arguments(tensors, module.tvm.cpu()) is not first


def test_another_device_has_tensors_of_its_own():
    """As where a script tunes the same shapes for a CPU and for a GPU."""
    tensors = [((4, 4), "float32", True)]
    for device in (module.tvm.cpu(0), module.tvm.cpu(1)):
        (tensor,) = module._arguments(tensors, device)
        assert tensor.device == device


def test_given_inputs_are_used():
    given = np.arange(6, dtype="float32").reshape(2, 3)
    (used,) = module._arguments([given], module.tvm.cpu())
    np.testing.assert_array_equal(used.numpy(), given)
