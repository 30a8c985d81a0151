"""Batches that are built while others run, in AutoTVM's own loop."""

import os
import tempfile
import threading
import time

import pytest
import tvm
from instant_measuring import TIMEOUT
from rpc_farm import KEY, farm
from small_templates import matmul_task
from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.measure.measure_methods import BuildResult

from autotvm_opevo import OpEvoTuner
from autotvm_opevo.autotvm import LocalBuilder, LocalRunner
from autotvm_opevo.autotvm.build_ahead import BuildAhead
from autotvm_opevo.autotvm.tuner import can_build_ahead


class Builder(autotvm.LocalBuilder):
    """Builds nothing, but notes what it is asked for."""

    def __init__(self, events, n_parallel=4):
        super().__init__(n_parallel=n_parallel, do_fork=True)
        self.events = events

    def build(self, measure_inputs):
        numbers = [measured.config.index for measured in measure_inputs]
        self.events.append(("build", numbers, self.tmp_dir))
        return [BuildResult("file", (), None, 0.0) for _ in measure_inputs]


def inputs(task, *numbers):
    return [MeasureInput(task.target, task, task.config_space.get(i)) for i in numbers]


def test_the_next_batch_is_begun_when_one_is_built_in_another_folder():
    task, events = matmul_task(64), []
    batches = [inputs(task, 2, 3), inputs(task, 4), []]
    ahead = BuildAhead(Builder(events), lambda built: batches.pop(0))
    for batch in (inputs(task, 0, 1), *batches[:2]):
        assert len(ahead.build(batch)) == len(batch)
    ahead.close()
    assert [numbers for _, numbers, _ in events] == [[0, 1], [2, 3], [4]]
    first, second, third = (folder for *_, folder in events)
    assert first == third != second


def test_what_cannot_be_built_is_an_error_where_it_is_waited_for():
    class Broken(Builder):
        def build(self, measure_inputs):
            raise OSError("the disk is full")

    ahead = BuildAhead(Broken([]), None)
    with pytest.raises(OSError, match="the disk is full"):
        ahead.build(inputs(matmul_task(64), 0))
    ahead.close()


def test_a_build_that_is_abandoned_leaves_those_of_the_next_task_alone():
    """As after early stopping, when the next tuner gets the same builder."""
    begun, going_on, done = (threading.Event() for _ in range(3))

    class Slow(autotvm.LocalBuilder):
        def build(self, measure_inputs):
            self.tmp_dir = tempfile.mkdtemp()
            if measure_inputs[0].config.index == 1:
                begun.set()
                going_on.wait(TIMEOUT)
            return [BuildResult(self.tmp_dir, (), None, 0.0)]

    task, builder = matmul_task(64), Slow()
    first = BuildAhead(builder, lambda built: inputs(task, 1))
    first.build(inputs(task, 0))  # begins with the next one
    assert begun.wait(TIMEOUT)
    first.close()
    second = BuildAhead(builder, lambda built: [])
    (built,) = second.build(inputs(task, 2))
    first._ahead.add_done_callback(lambda _: done.set())
    going_on.set()
    assert done.wait(TIMEOUT)
    assert os.path.isdir(built.filename)
    second.close()
    assert not os.path.exists(built.filename)


@pytest.mark.parametrize(
    ("n_parallel", "sizes"), [(4, [4, 4, 4, 2]), pytest.param(16, [8, 8, 8], id="more cores")]
)
def test_a_tuner_s_next_batch_is_begun_before_the_results_of_one_are_known(
    monkeypatch, n_parallel, sizes
):
    task, events, batches = matmul_task(64), [], []

    class Runner(autotvm.RPCRunner):
        def __init__(self):
            super().__init__("key", "host", 1, n_parallel=n_parallel)

        def set_task(self, task):
            """There is nothing to prepare."""

        def get_build_kwargs(self):
            return {}

        def run(self, measure_inputs, build_results):
            expected = min(len(batches) + 2, len(sizes))  # this batch and the next
            end = time.monotonic() + TIMEOUT
            while sum(kind == "build" for kind, *_ in events) < expected:
                assert time.monotonic() < end, "the next batch was not begun"
                time.sleep(0.01)
            events.append(("run", [one.config.index for one in measure_inputs], ""))
            return [
                MeasureResult((1e-3,), MeasureErrorNo.NO_ERROR, 0.1, time.time())
                for _ in measure_inputs
            ]

    option = autotvm.measure_option(builder=Builder(events, n_parallel=n_parallel), runner=Runner())
    monkeypatch.setattr(autotvm, "LocalBuilder", Builder)  # which alone is known to allow it
    tuner = OpEvoTuner(task, seed=0)
    tuner.tune(
        sum(sizes), option, callbacks=[lambda tuner, inputs, results: batches.append(len(inputs))]
    )
    assert batches == sizes
    built = [numbers for kind, numbers, _ in events if kind == "build"]
    ran = [numbers for kind, numbers, _ in events if kind == "run"]
    assert built == ran
    assert len({number for batch in ran for number in batch}) == sum(sizes)
    assert not any(os.path.exists(folder) for kind, _, folder in events if kind == "build")


def test_on_this_machine_s_cpu_and_with_other_builders_autotvm_s_loop_stays_as_it_is():
    cpu, gpu = matmul_task(64), matmul_task(64)
    gpu.target = tvm.target.Target("cuda")
    remote, local = autotvm.RPCRunner("key", "host", 1), autotvm.LocalRunner()
    builder = autotvm.LocalBuilder()
    assert can_build_ahead({"builder": builder, "runner": remote}, cpu)
    assert can_build_ahead({"builder": builder, "runner": local}, gpu)
    assert not can_build_ahead({"builder": builder, "runner": local}, cpu)
    assert not can_build_ahead({"builder": LocalBuilder(), "runner": remote}, cpu)
    assert not can_build_ahead({"builder": builder, "runner": LocalRunner()}, cpu)


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_an_old_script_finds_the_same_on_a_farm(tmp_path, devices):
    with farm(tmp_path, count=devices) as (port, _):
        runner = autotvm.RPCRunner(
            KEY,
            "127.0.0.1",
            port,
            n_parallel=devices,
            number=1,
            repeat=1,
            timeout=TIMEOUT,
            cooldown_interval=0,
        )
        option = autotvm.measure_option(
            builder=autotvm.LocalBuilder(TIMEOUT, n_parallel=devices, do_fork=True), runner=runner
        )
        log = tmp_path / "log.json"
        tuner = OpEvoTuner(matmul_task(64), seed=0)
        tuner.tune(5, option, callbacks=[autotvm.callback.log_to_file(str(log))])
    records = list(autotvm.record.load_from_file(str(log)))
    assert [result.error_no for _, result in records] == [0] * 5
    assert len({measured.config.index for measured, _ in records}) == 5
    assert tuner.best_config is not None
