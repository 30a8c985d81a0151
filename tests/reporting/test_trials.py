"""Tasks and their trials."""

import pytest
from synthetic_logs import autotvm_line, write_log

from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.reporting.trials import Task, TaskId, Trial
from autotvm_opevo.tuning.run_log import BestConfirmed


def test_a_configuration_counts_by_the_fastest_of_its_trials(tmp_path):
    lines = (autotvm_line(i, latency=ms * 1e-3) for i, ms in enumerate([3, 1, 2]))
    (task,) = open_logs([write_log(tmp_path / "log.json", *lines)])[0].tasks.values()
    assert list(task.measured.values()) == [1e-3]


def test_values_with_equal_hashes_are_different_configurations(tmp_path):
    lines = (autotvm_line(0, unroll=unroll) for unroll in (-1, -2))
    (task,) = open_logs([write_log(tmp_path / "log.json", *lines)])[0].tasks.values()
    assert len(task.measured) == 2


@pytest.mark.parametrize(
    ("later", "latency", "stays"), [([], 1.0, True), ([1.1], 1.0, True), ([0.9, 1.2], 0.9, False)]
)
def test_a_lucky_trial_counts_as_it_was_measured_again_until_a_later_one_is_faster(
    later, latency, stays
):
    task = Task(TaskId("dense", "dense", "llvm", "dense"))
    task.trials = [Trial(0.8, "", {}, 1.0), *(Trial(t, "", {}, 3.0) for t in later)]
    task.last_confirmation = BestConfirmed("dense", "", [1.05, 1.0, 0.98], time=2.0)
    assert task.latency == latency
    assert (task.confirmation is not None) == stays


def test_a_trial_that_was_timed_once_is_not_confirmed():
    task = Task(TaskId("dense", "dense", "llvm", "dense"))
    task.trials = [Trial(0.8, "", {}, 1.0)]
    task.last_confirmation = BestConfirmed("dense", "", [0.8], time=2.0)
    assert task.confirmation is None
