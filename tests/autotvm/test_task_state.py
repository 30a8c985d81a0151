"""One task in rounds: what it takes from a log, what it tells of failures."""

import pytest
from instant_measuring import measured, result
from small_templates import matmul_task
from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureResult

from autotvm_opevo import OpEvoTuner
from autotvm_opevo.autotvm.task_state import TaskState, failure

TASK = matmul_task()
TRACE = "Traceback (most recent call last):\n  1: tvm::runtime"


def records(indices, seconds):
    return [(measured(TASK, TASK.config_space.get(i)), result(s)) for i, s in zip(indices, seconds)]


class TestLoad:
    def test_rebuilds_the_rounds(self):
        tuning = TaskState(TASK, OpEvoTuner, seed=0)
        tuning.load(records(range(7), [None, 5.0, 4.0, 6.0, 3.0, 7.0, 2.0]), round_size=3)
        assert tuning.progress.trials == 7
        assert tuning.progress.latencies == [4.0, 3.0, 2.0]
        assert tuning.failures == {"runtime device": 1}

    def test_counts_a_configuration_once_with_its_best_result(self):
        tuning = TaskState(TASK, OpEvoTuner, seed=0)
        tuning.load(records([4, 4, 4, 5], [3.0, None, 2.0, 9.0]), round_size=8)
        assert tuning.progress.trials == 2
        assert tuning.latency == 2.0
        assert not tuning.failures

    def test_ignores_records_of_others(self):
        other = matmul_task(32)
        tuning = TaskState(TASK, OpEvoTuner, seed=0)
        tuning.load([(measured(other, other.config_space.get(0)), result(1.0))], round_size=8)
        assert tuning.progress.trials == 0
        assert tuning.progress.latencies == []

    def test_the_tuner_goes_on_from_the_best(self):
        tuning = TaskState(TASK, OpEvoTuner, seed=0)
        tuning.load(records(range(20), [1.0 + i for i in range(20)]), round_size=8)
        assert tuning.tuner.best_config.index == 0
        assert {config.index for config in tuning.tuner.next_batch(50)}.isdisjoint(range(20))


class TestTuner:
    def test_gets_a_seed_only_if_it_takes_one(self):
        assert TaskState(TASK, OpEvoTuner, seed=7).tuner.seed == 7
        assert isinstance(TaskState(TASK, autotvm.tuner.RandomTuner, seed=7).tuner, autotvm.tuner.RandomTuner)
        assert TaskState(TASK, lambda task: OpEvoTuner(task, seed=3), seed=7).tuner.seed == 3

    def test_one_that_only_repeats_itself_is_done(self):
        class Broken(autotvm.tuner.RandomTuner):
            def has_next(self):
                return True

            def next_batch(self, batch_size):
                return [self.space.get(1)] * batch_size

        tuning, asked = TaskState(TASK, Broken, seed=None), []

        def measure(task, configs):
            asked.extend(configs)
            return [(measured(task, config), result(1.0)) for config in configs]

        while tuning.measure_batch(4, measure):
            pass
        assert not tuning.progress.active
        assert len(asked) == 2  # the untuned one, and the one


@pytest.mark.parametrize(
    ("result", "kind", "message"),
    [
        (
            MeasureResult(("trace", TimeoutError()), MeasureErrorNo.BUILD_TIMEOUT, 1, 1),
            "build timeout",
            "longer than the builder's timeout",
        ),
        (
            MeasureResult(("trace", TimeoutError()), MeasureErrorNo.RUN_TIMEOUT, 1, 1),
            "run timeout",
            "longer than the runner's timeout",
        ),
        (
            MeasureResult(("t", ("t", ValueError("no such\nregister"))), MeasureErrorNo.COMPILE_HOST, 1, 1),
            "compile host",
            "register",
        ),
        (
            MeasureResult((TRACE + "\nTVMError: out of memory\n", RuntimeError(TRACE)), MeasureErrorNo.RUNTIME_DEVICE, 1, 1),
            "runtime device",
            "TVMError: out of memory",
        ),
        (MeasureResult(("t", "a string"), MeasureErrorNo.UNKNOWN_ERROR, 1, 1), "unknown", "a string"),
        (MeasureResult((1e9,), MeasureErrorNo.INSTANTIATION_ERROR, 1, 1), "instantiation", ""),
    ],
)
def test_a_failure_is_told_in_a_line(result, kind, message):
    assert failure(result) == (kind, message)
