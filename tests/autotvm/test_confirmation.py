"""Which finalists are timed again, when, and what becomes of their times."""

import time

import numpy as np
import pytest
from instant_measuring import measured, result
from small_templates import matmul_task

from autotvm_opevo.autotvm.finalists import Finalist
from autotvm_opevo.autotvm.run import confirm

TASKS = [matmul_task(extent) for extent in (16, 32, 64)]


class Measurer:
    """A measurer whose finalists have given true latencies, by task."""

    def __init__(self, latencies, seconds=0.0):
        self.latencies, self.seconds, self.calls = latencies, seconds, []
        self.finalists = self

    def of(self, task):
        position = TASKS.index(task)
        return [
            Finalist(1.0, measured(task, task.config_space.get(i)), result(1.0), (position, i))
            for i in range(len(self.latencies[position]))
        ]

    def restart(self):
        self.calls.append("restart")

    def time_again(self, finalist):
        position, i = finalist.build
        self.calls.append((position, i))
        time.sleep(self.seconds)
        return self.latencies[position][i]


def test_the_winner_of_each_task_is_the_fastest_with_its_confirmed_time():
    found = list(confirm(Measurer([[3.0, 2.0], [1.0, 1.5]]), TASKS[:2], 60))
    assert {i: record[0].config.index for i, record, _ in found} == {0: 1, 1: 0}
    assert {i: record[1].costs for i, record, _ in found} == {0: (2.0,), 1: (1.0,)}
    assert [race.seconds(race.fastest) for _, _, race in found] == [[2.0] * 5, [1.0] * 5]


def test_the_only_finalist_of_a_task_is_timed_again_too():
    ((task, _, race),) = confirm(Measurer([[], [2.0]]), TASKS[:2], 60)
    assert (task, race.seconds(0)) == (1, [2.0] * 5)


def test_every_round_of_a_task_has_a_new_process_and_begins_with_another_finalist():
    measurer = Measurer([[1.0, 1.0], [1.0, 1.0]])
    list(confirm(measurer, TASKS[:2], 60))
    rounds = [text.strip() for text in " ".join(map(str, measurer.calls)).split("restart")[1:]]
    assert rounds[:6] == ["(0, 0) (0, 1)", "(0, 1) (0, 0)", "(0, 0) (0, 1)", "(1, 0) (1, 1)", "(1, 1) (1, 0)", "(1, 0) (1, 1)"]
    assert rounds[6:8] == ["(0, 1) (0, 0)", "(1, 1) (1, 0)"]


def test_undecided_tasks_take_turns_after_their_first_rounds():
    noise = np.random.default_rng(0)
    measurer = Measurer([[1.0, 1.0], [1.0, 1.0]])
    measurer.time_again = lambda finalist: measurer.calls.append(finalist.build[0]) or noise.lognormal(0, 0.1)
    list(confirm(measurer, TASKS[:2], 60))
    tasks = [call for call in measurer.calls if call != "restart"][::2]
    assert tasks[:10] == [0, 0, 0, 1, 1, 1, 0, 1, 0, 1]


def test_without_time_nothing_is_confirmed():
    assert not list(confirm(Measurer([[1.0, 2.0]]), TASKS[:1], 0))


def test_when_time_is_short_the_first_tasks_are_confirmed():
    measurer = Measurer([[1.0, 2.0]] * 3, seconds=0.2)
    assert [task for task, _, _ in confirm(measurer, TASKS, 1.1)] == [0]  # three rounds of 0.4 s
    assert len(measurer.calls) < 12


def test_what_fails_now_is_not_the_best():
    ((_, record, _),) = confirm(Measurer([[np.inf, 2.0]]), TASKS[:1], 60)
    assert record[0].config.index == 1
    assert not list(confirm(Measurer([[np.inf, np.inf]]), TASKS[:1], 60))


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_no_tasks(seconds):
    assert not list(confirm(Measurer([]), [], seconds))
