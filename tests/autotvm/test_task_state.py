"""One task of a network: loading records, driving its tuner, describing failures."""

from functools import partial

import pytest
from instant_measuring import measured, result
from small_templates import matmul_task
from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureResult

from autotvm_opevo import OpEvoTuner
from autotvm_opevo.autotvm.baselines import NoSETuner
from autotvm_opevo.autotvm.history import History
from autotvm_opevo.autotvm.log import failure
from autotvm_opevo.autotvm.task_state import TaskState

TASK, OPEVO = matmul_task(), partial(OpEvoTuner, seed=0)
TRACE = "Traceback (most recent call last):\n  1: tvm::runtime"


def records(indices, seconds):
    return [(measured(TASK, TASK.config_space.get(i)), result(s)) for i, s in zip(indices, seconds)]


class TestTransfer:
    def state(self, n, count=0, **options):
        task = matmul_task(n)
        state = TaskState(task, OPEVO, **options)
        state.resume(
            [(measured(task, task.config_space.get(i)), result(1.0 + i)) for i in range(count)],
            round_size=8,
        )
        return state

    def test_a_task_learns_from_those_that_have_a_result(self):
        states = [self.state(16), self.state(32, 5), self.state(64)]
        states[0].learn_from(states)
        proposed = {configuration["order"].perm for configuration in states[0].propose(4)}
        assert proposed == {matmul_task(32).config_space.get(0)["order"].perm}

    def test_a_history_counts_from_the_start(self):
        task = matmul_task(32)
        history = History()
        history.add((measured(task, task.config_space.get(i)), result(1.0 + i)) for i in range(9))
        state = self.state(16, history=history)
        state.learn_from([state])
        assert state.propose(8)[-1]["order"].perm == task.config_space.get(0)["order"].perm

    @pytest.mark.parametrize("tuner", [partial(NoSETuner, seed=0), autotvm.tuner.RandomTuner])
    def test_other_tuners_learn_nothing(self, tuner):
        state = TaskState(TASK, tuner)
        state.learn_from([state, self.state(32, 5)])
        assert len(state.propose(8)) == 8


class TestLoad:
    def test_restores_the_rounds(self):
        state = TaskState(TASK, OPEVO)
        state.resume(records(range(7), [None, 5.0, 4.0, 6.0, 3.0, 7.0, 2.0]), round_size=3)
        assert state.progress.trials == 7
        assert state.progress.latencies == [4.0, 3.0, 2.0]
        assert state.failures == {"runtime device": 1}

    def test_counts_each_configuration_once_with_its_best_result(self):
        state = TaskState(TASK, OPEVO)
        state.resume(records([4, 4, 4, 5], [3.0, None, 2.0, 9.0]), round_size=8)
        assert state.progress.trials == 2
        assert state.latency == 2.0
        assert not state.failures

    def test_ignores_records_of_another_space(self):
        space = matmul_task(48).config_space
        state = TaskState(TASK, OPEVO)
        state.resume([(measured(TASK, space.get(len(space) - 1)), result(1.0))], round_size=8)
        assert state.progress.trials == 0
        assert state.progress.latencies == []

    def test_the_tuner_resumes_from_the_records(self):
        state = TaskState(TASK, OPEVO)
        state.resume(records(range(20), [1.0 + i for i in range(20)]), round_size=8)
        assert state.tuner.best_config.index == 0
        assert {config.index for config in state.tuner.next_batch(50)}.isdisjoint(range(20))


def learn(state, candidates):
    trials = [(measured(TASK, config), result(1.0)) for config in candidates]
    for trial in trials:
        state.add(trial)
    state.finish(trials)


def at(moment, pair):
    return pair[0], pair[1]._replace(timestamp=moment)


class TestConfirmation:
    def test_a_confirmed_record_is_the_best_with_its_confirmed_time(self):
        state = TaskState(TASK, OPEVO)
        state.resume(records(range(3), [3.0, 2.0, 2.5]), round_size=8)
        (confirmed,) = records([2], [2.7])
        state.confirm(confirmed)
        assert state.best == confirmed
        assert state.latency == state.progress.latencies[-1] == 2.7

    def test_on_resuming_it_stays_the_best_of_what_was_measured_before_it(self):
        trials = [at(i, pair) for i, pair in enumerate(records(range(3), [3.0, 2.0, 2.5]))]
        confirmed = at(10, records([2], [2.7])[0])
        state = TaskState(TASK, OPEVO)
        state.resume(trials, 8, confirmed)
        assert state.best == confirmed
        assert state.latency == 2.7
        later = TaskState(TASK, OPEVO)
        later.resume(
            [*trials, at(11, records([5], [2.8])[0]), at(12, records([6], [2.6])[0])], 8, confirmed
        )
        assert later.best[0].config.index == 6

    def test_one_that_the_log_lacks_does_not_count(self):
        state = TaskState(TASK, OPEVO)
        state.resume(records(range(3), [3.0, 2.0, 2.5]), 8, records([7], [1.0])[0])
        assert state.latency == 2.0


class TestTuner:
    def test_opevo_proposes_while_a_batch_is_pending_but_autotvms_tuners_do_not(self):
        state = TaskState(TASK, OPEVO)
        batches = [state.propose(4)]
        # the untuned configuration is pending, of which it does not know
        assert not state.can_propose
        learn(state, batches[0])
        batches = [state.propose(4) for _ in range(3)]
        assert state.can_propose
        assert (state.progress.pending, state.progress.begun) == (12, 16)
        assert len({config.index for batch in batches for config in batch}) == 12
        learn(state, batches[1])
        assert (state.progress.trials, state.progress.pending) == (8, 8)

    @pytest.mark.parametrize("tuner", [autotvm.tuner.GATuner, partial(NoSETuner, seed=0)])
    def test_a_search_by_generations_is_asked_once_they_are_measured(self, tuner):
        state = TaskState(TASK, tuner)
        learn(state, state.propose(4))
        assert state.can_propose
        state.propose(4)
        assert not state.can_propose


@pytest.mark.parametrize(
    ("error", "costs", "text"),
    [
        (
            "BUILD_TIMEOUT",
            ("trace", TimeoutError()),
            "build timeout: longer than the builder's timeout",
        ),
        ("RUN_TIMEOUT", ("trace", TimeoutError()), "run timeout: longer than the runner's timeout"),
        ("COMPILE_HOST", ("t", ("t", ValueError("no such\nregister"))), "compile host: register"),
        (
            "RUNTIME_DEVICE",
            (TRACE + "\nTVMError: out of memory\n", RuntimeError(TRACE)),
            "runtime device: TVMError: out of memory",
        ),
        ("UNKNOWN_ERROR", ("t", "a string"), "unknown: a string"),
        ("INSTANTIATION_ERROR", (1e9,), "instantiation: "),
    ],
)
def test_a_failure_is_described_in_one_line(error, costs, text):
    assert ": ".join(failure(MeasureResult(costs, MeasureErrorNo[error], 1, 1))) == text
