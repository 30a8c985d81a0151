"""Measurers: built in real worker processes, run by functions of the test."""

import threading
import time
from contextlib import ExitStack
from functools import partial

import psutil
import pytest

from autotvm_opevo.tuning.measurer import Measurer
from autotvm_opevo.tuning.workers import WorkerPool

LIMIT = 120


def build_slowly(number):
    time.sleep(600 if number == 0 else 0)
    return number


class Ahead(Measurer):
    """Its candidates are numbers, which functions of the test build and run."""

    retime = restart = None

    def __init__(self, run=abs, build=abs, on_this_cpu=True, builders=2):
        super().__init__(batch=2, builds=builders, devices=1, builders=WorkerPool("json", builders))
        self._run, self._build, self._on_this_cpu = run, build, on_this_cpu

    def __exit__(self, *_):
        self.close(lambda: None)

    def close(self, interrupt):
        self._close(interrupt)
        self._builders.close()

    def submit(self, task, candidates):
        builds = [
            self._builders.submit(self._build, number, timeout=LIMIT) for number in candidates
        ]
        return [self._run_when_built(build, partial(self._measure, build)) for build in builds]

    def _measure(self, build):
        with self._on_device(self._on_this_cpu):
            return self._run(build.result())

    def workers(self):
        return [psutil.Process(worker._pid) for worker in self._builders._workers if worker._pid]


@pytest.fixture
def open_measurer():
    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(Ahead(*arguments, **options))


def test_every_trial_is_built_and_run(open_measurer):
    measurer = open_measurer()
    trials = measurer.submit("task", range(4))
    assert [trial.result(LIMIT) for trial in trials] == [0, 1, 2, 3]
    assert measurer.building == 0
    assert measurer.seconds_running > 0


def test_what_is_built_runs_before_a_slower_build_of_the_same_batch(open_measurer):
    measurer = open_measurer(build=build_slowly)
    slow, *others = measurer.submit("task", range(4))
    assert [trial.result(LIMIT) for trial in others] == [1, 2, 3]
    assert not slow.done()
    assert measurer.building == 1


def test_ctrl_c_while_it_waits_for_the_device_lets_the_next_trial_run(open_measurer):
    class Interrupted:
        def __enter__(self):
            raise KeyboardInterrupt

        def __exit__(self, *_):
            pass

    measurer = open_measurer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measurer, "_device", Interrupted())
        with pytest.raises(KeyboardInterrupt), measurer.exclusive():
            pass
    assert measurer.submit("task", [1])[0].result(LIMIT) == 1


def test_closing_ends_a_trial_that_waits_for_a_device_which_ctrl_c_left_locked(open_measurer):
    measurer = open_measurer()
    measurer._device.acquire()
    (trial,) = measurer.submit("task", [1])
    end = time.monotonic() + LIMIT
    while not trial.running() and time.monotonic() < end:
        time.sleep(0.02)
    measurer.__exit__(None, None, None)
    assert isinstance(trial.exception(LIMIT), ChildProcessError)


def test_a_trial_elsewhere_runs_while_the_next_is_built(open_measurer):
    """The run ends when the other build has ended, which would never be if one waited for the
    other.
    """
    built = threading.Event()

    def wait(number):
        assert built.wait(LIMIT)
        return number

    measurer = open_measurer(wait, on_this_cpu=False, builders=1)
    first, second = measurer.submit("task", [1, 2])
    while measurer.building:
        time.sleep(0.02)
    built.set()
    assert (first.result(LIMIT), second.result(LIMIT)) == (1, 2)


def test_builds_are_paused_while_a_trial_runs_on_this_cpu(open_measurer):
    states = []

    def look(number):
        workers, end = measurer.workers(), time.monotonic() + LIMIT
        while {worker.status() for worker in workers} != {
            psutil.STATUS_STOPPED
        } and time.monotonic() < end:
            time.sleep(0.01)  # the signal is on its way
        states.append({worker.status() for worker in workers})

    measurer = open_measurer(look, build_slowly)
    slow, quick = measurer.submit("task", [0, 1])
    quick.result(LIMIT)
    assert states == [{psutil.STATUS_STOPPED}]
    assert not slow.done()
    assert measurer.workers()[0].status() != psutil.STATUS_STOPPED


def test_nothing_runs_while_something_else_has_the_device(open_measurer):
    runs = []
    measurer = open_measurer(runs.append)
    with measurer.exclusive():
        (trial,) = measurer.submit("task", [1])
        end = time.monotonic() + LIMIT
        while measurer.building and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.2)
        assert not runs
    trial.result(LIMIT)
    assert runs == [1]


def test_a_cancelled_trial_does_not_run(open_measurer):
    begun, go = threading.Event(), threading.Event()

    def wait(number):
        begun.set()
        assert go.wait(LIMIT)
        return number

    measurer = open_measurer(wait)
    first, second = measurer.submit("task", [1, 2])
    assert begun.wait(LIMIT)
    cancelled = [trial for trial in (first, second) if trial.cancel()]
    assert len(cancelled) == 1
    go.set()
    (other,) = {first, second} - {*cancelled}
    assert other.result(LIMIT) in (1, 2)


def test_an_error_of_a_run_is_raised_by_its_trial(open_measurer):
    def fail(number):
        raise OSError("the last device is gone")

    measurer = open_measurer(fail)
    with pytest.raises(OSError, match="the last device is gone"):
        measurer.submit("task", [1])[0].result(LIMIT)


def test_closing_ends_what_is_built_and_what_runs(open_measurer):
    stop, running = threading.Event(), threading.Event()

    def wait(number):
        running.set()
        assert stop.wait(LIMIT)
        raise ChildProcessError("interrupted")

    measurer = open_measurer(wait, build_slowly)
    building, ran = measurer.submit("task", [0, 1])
    assert running.wait(LIMIT)
    (waiting,) = measurer.submit("task", [2])
    measurer.close(stop.set)
    assert building.cancelled()
    assert waiting.cancelled()
    assert isinstance(ran.exception(0), ChildProcessError)


def test_more_is_wanted_until_the_builders_have_enough(open_measurer):
    measurer, submitted = open_measurer(), 0
    with measurer.exclusive():
        while measurer.has_capacity:
            submitted += 1
            measurer.submit("task", [submitted])
            assert submitted < 100
    assert submitted >= 3


def test_what_is_built_and_waits_is_dropped_when_it_is_cancelled(open_measurer):
    measurer = open_measurer(build=build_slowly)
    with measurer.exclusive():
        trials = measurer.submit("task", [0, 1])
        measurer.cancel()
    assert all(trial.cancelled() for trial in trials)
    assert measurer.has_capacity
