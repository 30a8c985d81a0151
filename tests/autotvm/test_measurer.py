"""Builders and runners shared by the tasks of a network."""

import math
import os
import threading
import time
from functools import partial

import pytest
import tvm
from instant_measuring import TIMEOUT, InstantBuilder, InstantRunner, for_real, instant
from tvm import autotvm
from tvm.contrib.popen_pool import PopenPoolExecutor

from autotvm_opevo.autotvm import LocalRunner
from autotvm_opevo.autotvm import measurer as module
from autotvm_opevo.autotvm.log import failure, key_of, seconds
from autotvm_opevo.autotvm.measurer import Measurer, default_measure_option
from autotvm_opevo.autotvm.rpc import DevicePoolError

LLVM = tvm.target.Target("llvm")


def dense_task(extent=16):
    tensors = [tvm.te.placeholder((extent, extent)) for _ in range(2)]
    return autotvm.task.create("dense_nopack.x86", args=(*tensors, None, "float32"), target="llvm")


def measure(measurer, task, index):
    """Build and run one configuration."""
    (trial,) = measurer.submit(task, [task.config_space.get(index)])
    return trial.result(TIMEOUT)


class TestMeasurer:
    def test_starts_once_for_many_tasks_and_is_reusable(self):
        tasks = [dense_task(16), dense_task(32)]
        option = for_real()
        for _ in range(2):
            with Measurer(option) as measurer:
                keys = set()
                for task in (*tasks, *tasks):
                    measured, result = measure(measurer, task, 0)
                    assert result.error_no == 0
                    assert measured.task is task
                    keys.add(option["runner"].key)
                assert len(keys) == 1
            assert not autotvm.GLOBAL_SCOPE.in_tuning

    def test_others_measure_a_batch_while_it_is_submitted(self):
        calls = []

        class Builder(InstantBuilder):
            def build(self, measure_inputs):
                calls.append(("build", len(measure_inputs)))
                return super().build(measure_inputs)

        class Runner(InstantRunner):
            def set_task(self, task):
                calls.append(task.name)

            def run(self, measure_inputs, build_results):
                calls.append(("run", len(measure_inputs)))
                return super().run(measure_inputs, build_results)

        task = dense_task()
        option = autotvm.measure_option(
            Builder(timeout=1, n_parallel=4), Runner(lambda config: 1.0 + config.index)
        )
        with Measurer(option) as measurer:
            for batch in ([0, 1, 2], [3]):
                trials = measurer.submit(task, [task.config_space.get(i) for i in batch])
                assert [trial.result(0)[1].costs for trial in trials] == [(1.0 + i,) for i in batch]
                assert measurer.has_capacity
        assert calls == [task.name, ("build", 3), ("run", 3), ("build", 1), ("run", 1)]

    @pytest.mark.parametrize("latency", [0.0, math.nan, math.inf, -1e-9])
    def test_an_impossible_time_is_a_failure(self, latency):
        """AutoTVM would take it for the best."""
        task = dense_task()
        runner = InstantRunner(lambda config: latency)
        with Measurer(autotvm.measure_option(InstantBuilder(timeout=1), runner)) as measurer:
            (trial,) = measurer.submit(task, [task.config_space.get(0)])
        assert failure(trial.result(0)[1]) == (
            "runtime device",
            f"impossible seconds: ({latency},)",
        )

    def test_the_best_five_of_a_task_can_be_timed_again_after_the_builder_has_deleted_them(self):
        task = dense_task(64)
        with Measurer(for_real()) as measurer:
            trials = measurer.submit(task, [task.config_space.get(i) for i in range(7)])
            latencies = sorted(seconds(trial.result(TIMEOUT)[1]) for trial in trials)[:5]
            finalists = measurer.finalists.of(key_of(task.target, task))
            assert [finalist.seconds for finalist in finalists] == [
                latency for latency in latencies if latency <= 1.5 * latencies[0]
            ]
            assert all(0 < measurer.retime(finalist) < 1 for finalist in finalists)
            measurer.restart()
            assert 0 < measurer.retime(finalists[0]) < 1
            folder = measurer.finalists._folder.name
            assert sum(name.endswith(".tar") for name in os.listdir(folder)) == 5
        assert not os.path.exists(folder)
        assert not measurer.finalists.of(key_of(task.target, task))

    def test_a_gpu_keeps_its_process_while_the_best_are_timed_again(self, monkeypatch):
        """A new one takes seconds, and where memory lies matters on a CPU."""
        restarted = []
        with Measurer(for_real()) as measurer:
            monkeypatch.setattr(measurer, "_ask_device", lambda: {"checks": {}})
            for target in ("llvm", "cuda -arch=sm_90"):
                task = dense_task()
                task.target = tvm.target.Target(target)
                measurer._prepare(task)
                kind = task.target.kind.name
                monkeypatch.setattr(measurer.runner, "restart", partial(restarted.append, kind))
                measurer.restart()
        assert restarted == ["llvm"]

    @pytest.mark.parametrize("owner", ["builder", "runner"])
    def test_a_user_s_builder_or_runner_that_raises_ends_the_run(self, owner):
        def fail(*_):
            raise OSError("the lab is closed")

        option = instant()
        setattr(option[owner], {"builder": "build", "runner": "run"}[owner], fail)
        with Measurer(option) as measurer, pytest.raises(OSError, match="the lab is closed"):
            measure(measurer, dense_task(), 0)

    def test_a_gpu_that_another_user_has_is_waited_for_as_by_a_trial(self, monkeypatch):
        """The builder needs to know its limits."""
        monkeypatch.setattr(module, "REQUEST_TIMEOUT", 0.1)
        option = instant()
        option["runner"].get_build_kwargs = threading.Event().wait
        with (
            Measurer(option) as measurer,
            pytest.raises(DevicePoolError, match=r"waited 0\.1 seconds for a device to report"),
        ):
            measure(measurer, dense_task(), 0)

    def test_autotvms_runner_gives_way_to_this_packages_with_its_options(self):
        options = {"timeout": TIMEOUT, "number": 2, "repeat": 4, "min_repeat_ms": 1}
        builder = autotvm.LocalBuilder(timeout=TIMEOUT, n_parallel=1)
        runner = autotvm.LocalRunner(**options, cooldown_interval=0)
        task = dense_task()
        with Measurer(autotvm.measure_option(builder, runner)) as measurer:
            assert isinstance(measurer.runner, LocalRunner)
            assert {name: getattr(measurer.runner, name) for name in options} == options
            _, result = measure(measurer, task, 0)
            assert len(result.costs) == 2  # of four, without the extremes
            assert measurer.finalists.of(key_of(task.target, task))

    @pytest.mark.parametrize(
        ("compiler", "why"), [("", "none is on the PATH"), ("no-compiler", "No such file")]
    )
    def test_without_a_compiler_to_link_with_there_are_no_trials(
        self, monkeypatch, tmp_path, compiler, why
    ):
        """All would fail, and stay failures in the log."""
        for name, value in {"PATH": str(tmp_path), "CXX": compiler, "CC": ""}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(RuntimeError, match=rf"install g\+\+ or clang.*{why}"):
            Measurer(for_real()).__enter__()
        assert not autotvm.GLOBAL_SCOPE.in_tuning

    @pytest.mark.soak
    def test_a_builder_of_autotvms_that_hangs_fails_its_trials(self, monkeypatch):
        """As when TVM's compiler keeps Python's lock, without which a worker cannot notice its
        timeout.
        """

        def hang(*_):
            time.sleep(600)

        builder, runner = (
            autotvm.LocalBuilder(timeout=1, n_parallel=1),
            InstantRunner(lambda config: 1.0),
        )
        builder.executor, builder.build_func = PopenPoolExecutor(max_workers=1), hang
        runner.run = lambda measure_inputs, build_results: build_results
        monkeypatch.setattr(module, "START_TIMEOUT", 5)
        with Measurer(autotvm.measure_option(builder, runner)) as measurer:
            assert "ChildProcessError" in measure(measurer, dense_task(), 0)[1].costs[0]


class TestDefaultMeasureOption:
    @pytest.fixture(autouse=True)
    def tracker(self, monkeypatch):
        monkeypatch.setattr(module, "addresses", lambda key, host, port: [f"{host}:{port}"] * 3)
        monkeypatch.setenv("TVM_TRACKER_HOST", "lab")
        monkeypatch.setenv("TVM_TRACKER_PORT", "9190")

    def test_a_key_is_of_the_tracker_in_the_environment(self):
        runner = default_measure_option(LLVM, key="board")["runner"]
        assert (runner.key, runner.host, runner.port) == ("board", "lab", 9190)
        assert runner.n_parallel == 3

    def test_an_address_comes_before_that_in_the_environment(self):
        runner = default_measure_option(LLVM, key="board", host="attic", port=1)["runner"]
        assert (runner.host, runner.port) == ("attic", 1)

    @pytest.mark.parametrize("given", [{"key": "board"}, {"host": "lab", "port": 9190}])
    def test_devices_need_a_key_and_an_address(self, monkeypatch, given):
        monkeypatch.delenv("TVM_TRACKER_HOST")
        with pytest.raises(ValueError, match="devices need a key and their tracker's host"):
            default_measure_option(LLVM, **given)

    def test_this_machine_s_device_needs_none(self):
        assert isinstance(default_measure_option(LLVM)["runner"], LocalRunner)
