"""The pipeline with a real builder, whose build function and runs are ours."""

import threading
import time

import psutil
import pytest
from small_templates import matmul_task
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.measure.measure_methods import BuildResult

from autotvm_opevo.autotvm import LocalBuilder
from autotvm_opevo.autotvm.pipeline import Pipeline

TASK = matmul_task()
INPUTS = [MeasureInput(TASK.target, TASK, TASK.config_space.get(i)) for i in range(4)]
LIMIT = 120


def instant(measured, folder, **_):
    return BuildResult(f"{folder}/library", (), None, 0.1)


def ran(measured, build):
    return MeasureResult((1.0,), 0, 0.1, time.time())


@pytest.fixture
def pipelines():
    opened = []

    def make(run=ran, build=instant, devices=1, local=True, n_parallel=2):
        builder = LocalBuilder(timeout=LIMIT, n_parallel=n_parallel)
        builder.set_task(TASK, {})
        builder.build_func = build
        opened.append(Pipeline(builder, run, devices, local))
        return opened[-1]

    yield make
    for pipeline in opened:
        pipeline.close(lambda: None)


def test_every_trial_is_built_and_run(pipelines):
    seen = []
    pipeline = pipelines(lambda measured, build: (seen.append(measured.config.index), ran(measured, build))[1])
    trials = [pipeline.submit(measured) for measured in INPUTS]
    assert [trial.result(LIMIT).costs for trial in trials] == [(1.0,)] * 4
    assert sorted(seen) == [0, 1, 2, 3]
    assert pipeline.building == 0


def test_what_is_built_runs_before_a_slower_build_of_the_same_batch(pipelines):
    def build(measured, folder, **_):
        time.sleep(600 if measured.config.index == 0 else 0)
        return BuildResult(f"{folder}/library", (), None, 0.1)

    pipeline = pipelines(build=build)
    slow, *others = [pipeline.submit(measured) for measured in INPUTS]
    assert [trial.result(LIMIT).error_no for trial in others] == [0, 0, 0]
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
    assert pipeline.submit(INPUTS[0]).result(LIMIT).costs == (1.0,)


def test_a_remote_trial_runs_while_the_next_is_built(pipelines):
    """The run ends when the other build has begun, which would never be if one waited for the other."""
    begun = threading.Event()

    def run(measured, build):
        assert begun.wait(LIMIT)
        return ran(measured, build)

    pipeline = pipelines(run, local=False, n_parallel=1)
    first, second = pipeline.submit(INPUTS[0]), pipeline.submit(INPUTS[1])
    while not (second.done() or pipeline.building == 0):
        time.sleep(0.02)
    begun.set()
    assert first.result(LIMIT).error_no == second.result(LIMIT).error_no == 0


def test_builds_are_paused_while_a_trial_runs_on_this_cpu(pipelines):
    states = []

    def build(measured, folder, **_):
        time.sleep(600 if measured.config.index == 0 else 0)
        return BuildResult(f"{folder}/library", (), None, 0.1)

    def run(measured, built):
        workers = [psutil.Process(worker._pid) for worker in pipeline._builder.executor._workers if worker._pid]
        end = time.monotonic() + LIMIT
        while {worker.status() for worker in workers} != {psutil.STATUS_STOPPED} and time.monotonic() < end:
            time.sleep(0.01)  # the signal is on its way
        states.append({worker.status() for worker in workers})
        return ran(measured, built)

    pipeline = pipelines(run, build)
    slow, quick = pipeline.submit(INPUTS[0]), pipeline.submit(INPUTS[1])
    quick.result(LIMIT)
    assert states == [{psutil.STATUS_STOPPED}]
    assert not slow.done()
    worker = next(worker for worker in pipeline._builder.executor._workers if worker._pid)
    assert psutil.Process(worker._pid).status() != psutil.STATUS_STOPPED


def test_nothing_runs_while_it_is_quiet(pipelines):
    runs = []
    pipeline = pipelines(lambda measured, build: (runs.append(measured), ran(measured, build))[1])
    with pipeline.quiet():
        trial = pipeline.submit(INPUTS[0])
        end = time.monotonic() + LIMIT
        while pipeline.building and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.2)
        assert not runs
    assert trial.result(LIMIT).error_no == 0


def test_a_cancelled_trial_does_not_run(pipelines):
    begun, go = threading.Event(), threading.Event()

    def run(measured, build):
        begun.set()
        assert go.wait(LIMIT)
        return ran(measured, build)

    pipeline = pipelines(run)
    first, second = pipeline.submit(INPUTS[0]), pipeline.submit(INPUTS[1])
    assert begun.wait(LIMIT)
    cancelled = [trial for trial in (first, second) if trial.cancel()]
    assert len(cancelled) == 1
    go.set()
    (other,) = {first, second} - {*cancelled}
    assert other.result(LIMIT).error_no == 0


def test_what_fails_to_build_is_not_run(pipelines):
    def build(measured, folder, **_):
        raise ValueError("no such instruction")

    pipeline = pipelines(lambda *_: pytest.fail("it was not built"), build)
    result = pipeline.submit(INPUTS[0]).result(LIMIT)
    assert result.error_no == MeasureErrorNo.COMPILE_HOST
    assert "no such instruction" in result.costs[0]


def test_an_error_of_the_devices_is_raised_by_the_trial(pipelines):
    def run(measured, build):
        raise OSError("the last device is gone")

    with pytest.raises(OSError, match="the last device is gone"):
        pipelines(run).submit(INPUTS[0]).result(LIMIT)


def test_closing_ends_what_is_built_and_what_runs(pipelines):
    stop, running = threading.Event(), threading.Event()

    def build(measured, folder, **_):
        time.sleep(600 if measured.config.index == 0 else 0)
        return BuildResult(f"{folder}/library", (), None, 0.1)

    def run(measured, built):
        running.set()
        assert stop.wait(LIMIT)
        raise ChildProcessError("interrupted")

    pipeline = pipelines(run, build)
    building, ran = pipeline.submit(INPUTS[0]), pipeline.submit(INPUTS[1])
    assert running.wait(LIMIT)
    waiting = pipeline.submit(INPUTS[2])
    workers = [psutil.Process(worker._pid) for worker in pipeline._builder.executor._workers if worker._pid]
    pipeline.close(stop.set)
    assert building.cancelled()
    assert waiting.cancelled()
    assert isinstance(ran.exception(0), ChildProcessError)
    end = time.monotonic() + LIMIT
    while any(map(is_alive, workers)) and time.monotonic() < end:  # beside other work, a killed process takes a moment to end
        time.sleep(0.01)
    assert not any(map(is_alive, workers))


def is_alive(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
