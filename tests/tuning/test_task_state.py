"""What is counted of a task's trials, whichever TVM measures them."""

from math import inf

import pytest

from autotvm_opevo.tuning.task_scheduler import TaskProgress
from autotvm_opevo.tuning.task_state import TaskState


class Task(TaskState):
    """Proposes nothing."""

    best, can_propose = None, False

    def _propose(self, size, others):
        raise NotImplementedError

    def add(self, trial):
        self._count(*trial)

    def finish(self, trials):
        raise NotImplementedError


@pytest.fixture
def task():
    return Task("task", "dense 8x8", "key", TaskProgress())


def test_the_best_latency_counts_at_the_end_of_a_round(task):
    for trial in [(3.0,), (inf, "run timeout", ""), (2.0,), (2.5,)]:
        task.add(trial)
    task.end_round()
    task.confirmed(2.25)
    assert (task.latency, task.progress.latencies, task.progress.trials) == (2.25, [2.25], 4)
    assert task.failures == {"run timeout": 1}


def test_the_most_common_error_is_told_by_its_message_while_all_trials_fail(task):
    assert task.dominant_error == ""
    task.add((inf, "build", ""))  # of an earlier call
    task.add((inf, "build", ""))
    assert task.dominant_error == "build"
    task.add((inf, "run", "no such device"))
    assert task.dominant_error == "no such device"
    task.add((1.0,))
    assert task.dominant_error == ""
