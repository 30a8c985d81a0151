"""One task of a network: loading records, driving its tuner, describing failures."""

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
    def test_restores_the_rounds(self):
        state = TaskState(TASK, OpEvoTuner, seed=0)
        state.resume(records(range(7), [None, 5.0, 4.0, 6.0, 3.0, 7.0, 2.0]), round_size=3)
        assert state.progress.trials == 7
        assert state.progress.latencies == [4.0, 3.0, 2.0]
        assert state.failures == {"runtime device": 1}

    def test_counts_each_configuration_once_with_its_best_result(self):
        state = TaskState(TASK, OpEvoTuner, seed=0)
        state.resume(records([4, 4, 4, 5], [3.0, None, 2.0, 9.0]), round_size=8)
        assert state.progress.trials == 2
        assert state.latency == 2.0
        assert not state.failures

    def test_ignores_records_of_other_tasks(self):
        other = matmul_task(32)
        state = TaskState(TASK, OpEvoTuner, seed=0)
        state.resume([(measured(other, other.config_space.get(0)), result(1.0))], round_size=8)
        assert state.progress.trials == 0
        assert state.progress.latencies == []

    def test_the_tuner_resumes_from_the_records(self):
        state = TaskState(TASK, OpEvoTuner, seed=0)
        state.resume(records(range(20), [1.0 + i for i in range(20)]), round_size=8)
        assert state.tuner.best_config.index == 0
        assert {config.index for config in state.tuner.next_batch(50)}.isdisjoint(range(20))


class TestTuner:
    def test_gets_the_seed_if_it_has_that_parameter(self):
        assert TaskState(TASK, OpEvoTuner, seed=7).tuner.seed == 7
        assert isinstance(TaskState(TASK, autotvm.tuner.RandomTuner, seed=7).tuner, autotvm.tuner.RandomTuner)
        assert TaskState(TASK, lambda task: OpEvoTuner(task, seed=3), seed=7).tuner.seed == 3

    def test_a_tuner_that_repeats_itself_ends(self):
        class Broken(autotvm.tuner.RandomTuner):
            def has_next(self):
                return True

            def next_batch(self, batch_size):
                return [self.space.get(1)] * batch_size

        state, measured_configs = TaskState(TASK, Broken, seed=None), []

        def measure(task, configs):
            measured_configs.extend(configs)
            return [(measured(task, config), result(1.0)) for config in configs]

        while state.measure_batch(4, measure):
            pass
        assert not state.progress.active
        assert len(measured_configs) == 2  # the untuned configuration, and that of the tuner


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
def test_a_failure_is_described_in_one_line(result, kind, message):
    assert failure(result) == (kind, message)
