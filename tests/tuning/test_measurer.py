"""The pipeline: built in real worker processes, run by functions of the test."""

import os
import threading
import time
from collections import namedtuple

import psutil
import pytest

from autotvm_opevo.tuning.measurer import Measurer, Pipeline
from autotvm_opevo.tuning.workers import WorkerPool

LIMIT = 120
Build = namedtuple("Build", ["number", "future"])


def build_slowly(number):
    time.sleep(600 if number == 0 else 0)
    return number


def run(build, on_device):
    with on_device:
        return build.future.result()


@pytest.fixture
def pipelines():
    opened = []

    class Pipelines:
        def __call__(self, run=run, build=abs, devices=1, on_this_cpu=True, builders=2):
            self.builders = WorkerPool("json", builders)
            pipeline = Pipeline(run, devices, self.builders)
            self.submit = lambda number: pipeline.submit(
                Build(number, self.builders.submit(build, number, timeout=LIMIT)), on_this_cpu
            )
            opened.append((pipeline, self.builders))
            return pipeline

        def workers(self):
            return [psutil.Process(worker._pid) for worker in self.builders._workers if worker._pid]

    yield Pipelines()
    for pipeline, builders in opened:
        pipeline.close(lambda: None)
        builders.close()


def test_every_trial_is_built_and_run(pipelines):
    pipeline = pipelines()
    trials = [pipelines.submit(number) for number in range(4)]
    assert [trial.result(LIMIT) for trial in trials] == [0, 1, 2, 3]
    assert pipeline.building == 0
    assert pipeline.seconds_running > 0


def test_what_is_built_runs_before_a_slower_build_of_the_same_batch(pipelines):
    pipeline = pipelines(build=build_slowly)
    slow, *others = [pipelines.submit(number) for number in range(4)]
    assert [trial.result(LIMIT) for trial in others] == [1, 2, 3]
    assert not slow.done()
    assert pipeline.building == 1


def test_ctrl_c_while_it_waits_for_quiet_lets_the_next_trial_run(pipelines):
    class Interrupted:
        def __enter__(self):
            raise KeyboardInterrupt

        def __exit__(self, *_):
            pass

    pipeline = pipelines()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "_device", Interrupted())
        with pytest.raises(KeyboardInterrupt), pipeline.quiet():
            pass
    assert pipelines.submit(1).result(LIMIT) == 1


def test_a_trial_elsewhere_runs_while_the_next_is_built(pipelines):
    """The run ends when the other build has ended, which would never be if one waited for the other."""
    built = threading.Event()

    def wait(build, on_device):
        with on_device:
            assert built.wait(LIMIT)
            return build.future.result()

    pipeline = pipelines(wait, on_this_cpu=False, builders=1)
    first, second = pipelines.submit(1), pipelines.submit(2)
    while pipeline.building:
        time.sleep(0.02)
    built.set()
    assert (first.result(LIMIT), second.result(LIMIT)) == (1, 2)


def test_builds_are_paused_while_a_trial_runs_on_this_cpu(pipelines):
    states = []

    def look(build, on_device):
        with on_device:
            workers, end = pipelines.workers(), time.monotonic() + LIMIT
            while {worker.status() for worker in workers} != {psutil.STATUS_STOPPED} and time.monotonic() < end:
                time.sleep(0.01)  # the signal is on its way
            states.append({worker.status() for worker in workers})
            return build.future.result()

    pipelines(look, build_slowly)
    slow, quick = pipelines.submit(0), pipelines.submit(1)
    quick.result(LIMIT)
    assert states == [{psutil.STATUS_STOPPED}]
    assert not slow.done()
    assert pipelines.workers()[0].status() != psutil.STATUS_STOPPED


def test_nothing_runs_while_it_is_quiet(pipelines):
    runs = []

    def note(build, on_device):
        with on_device:
            runs.append(build.number)

    pipeline = pipelines(note)
    with pipeline.quiet():
        trial = pipelines.submit(1)
        end = time.monotonic() + LIMIT
        while pipeline.building and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.2)
        assert not runs
    trial.result(LIMIT)
    assert runs == [1]


def test_a_cancelled_trial_does_not_run(pipelines):
    begun, go = threading.Event(), threading.Event()

    def wait(build, on_device):
        begun.set()
        assert go.wait(LIMIT)
        return build.number

    pipelines(wait)
    first, second = pipelines.submit(1), pipelines.submit(2)
    assert begun.wait(LIMIT)
    cancelled = [trial for trial in (first, second) if trial.cancel()]
    assert len(cancelled) == 1
    go.set()
    (other,) = {first, second} - {*cancelled}
    assert other.result(LIMIT) in (1, 2)


def test_an_error_of_a_run_is_raised_by_its_trial(pipelines):
    def fail(build, on_device):
        raise OSError("the last device is gone")

    pipelines(fail)
    with pytest.raises(OSError, match="the last device is gone"):
        pipelines.submit(1).result(LIMIT)


def test_closing_ends_what_is_built_and_what_runs(pipelines):
    stop, running = threading.Event(), threading.Event()

    def wait(build, on_device):
        with on_device:
            running.set()
            assert stop.wait(LIMIT)
            raise ChildProcessError("interrupted")

    pipeline = pipelines(wait, build_slowly)
    building, ran = pipelines.submit(0), pipelines.submit(1)
    assert running.wait(LIMIT)
    waiting = pipelines.submit(2)
    pipeline.close(stop.set)
    assert building.cancelled()
    assert waiting.cancelled()
    assert isinstance(ran.exception(0), ChildProcessError)


class Doubler(Measurer):
    """Its candidates are numbers, its trials their doubles."""

    def __init__(self, ahead=True):
        super().__init__(batch=2, builds=2, devices=1)
        self._workers, self._ahead = WorkerPool("json", 2), ahead

    def __enter__(self):
        if self._ahead:
            self.pipeline = Pipeline(lambda build, on_device: 2 * build.future.result(), 1, self._workers)
        return self

    def __exit__(self, *_):
        self.close_pipeline(lambda: None)
        self._workers.close()

    def _start(self, task, candidates):
        for number in candidates:
            yield Build(number, self._workers.submit(os.path.abspath if number is None else abs, number, timeout=LIMIT)), False

    def _measure(self, task, candidates):
        return [2 * number for number in candidates]

    def _end_builds(self):
        self._workers.close()


class TestMeasurer:
    @pytest.mark.parametrize("ahead", [True, False])
    def test_every_candidate_is_measured_once_and_knows_its_batch(self, ahead):
        with Doubler(ahead) as measurer:
            numbers = measurer.submit("task", [1, 2]), measurer.submit("task", [3])
            found = []
            while measurer.busy:
                found += measurer.wait()
        assert sorted(found) == [(numbers[0], 2), (numbers[0], 4), (numbers[1], 6)]

    def test_without_a_pipeline_one_batch_waits_at_a_time(self):
        with Doubler(ahead=False) as measurer:
            assert measurer.hungry
            measurer.submit("task", [1])
            assert not measurer.hungry
            measurer.cancel()
            assert not measurer.busy

    def test_with_a_pipeline_more_is_wanted_until_the_builders_have_enough(self):
        with Doubler() as measurer, measurer.quiet():
            submitted = 0
            while measurer.hungry:
                submitted += 1
                measurer.submit("task", [submitted])
                assert submitted < 100
        assert submitted >= 3

    def test_an_error_is_raised_once_nothing_else_is_measured(self):
        with Doubler() as measurer:
            measurer.submit("task", [None])
            with pytest.raises(TypeError):
                list(measurer.wait(LIMIT))
