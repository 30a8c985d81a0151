"""Farms of real trackers and servers on loopback: some are killed, some hang, some are not there."""

import os
import signal
import threading
import time

import pytest
import tvm
from tune_on_a_farm import KEY, farm, free_port, sessions
from tvm import autotvm
from tvm.contrib.popen_pool import PopenPoolExecutor

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import rpc, workloads
from autotvm_opevo.autotvm.log import Record
from autotvm_opevo.autotvm.measurer import Measurer, check_device
from autotvm_opevo.autotvm.processes import run_with_timeout, start, stop
from autotvm_opevo.autotvm.rpc import DevicePoolError

SHAPES = [(1, 16, 8, 8), (16, 16, 3, 3)]
MOD, PARAMS = workloads.operator("nn.conv2d", SHAPES, attributes={"padding": (1, 1), "channels": 16, "kernel_size": (3, 3)})


def on_farm(port, n_parallel=2, **options):
    options = {"number": 1, "repeat": 2, "min_repeat_ms": 100, "timeout": 5, "cooldown_interval": 0, **options}
    return autotvm.measure_option(
        builder=autotvm.LocalBuilder(timeout=10),
        runner=autotvm.RPCRunner(KEY, "127.0.0.1", port, n_parallel=n_parallel, **options),
    )


def records(log) -> list[Record]:
    return list(autotvm.record.load_from_file(str(log)))


def when(log, lines, action):
    """Do something as soon as a log has so many lines."""

    def watch():
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if log.exists() and log.read_bytes().count(b"\n") >= lines:
                action()
                return
            time.sleep(0.05)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def tune(log, option, trials=24):
    return tune_network(MOD, PARAMS, "llvm", log, trials=trials, measure_option=option, seed=0, evaluate=False)


class TestFarm:
    @pytest.mark.parametrize("harm", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.soak)])
    def test_a_server_that_dies_or_hangs_while_it_works_costs_time_and_no_trial(self, tmp_path, harm):
        log = tmp_path / "log.json"
        with farm(tmp_path) as (port, servers):
            watcher = when(log, 6, lambda: os.killpg(servers[0].pid, harm))
            report = tune(log, on_farm(port))
            watcher.join(1)
            assert not watcher.is_alive()
            before, after = sessions(tmp_path)
        assert report.trials == len(records(log)) == 24
        assert [result.error_no for _, result in records(log)] == [0] * 24
        assert before >= 3
        assert after > before

    @pytest.mark.soak
    def test_more_at_once_than_this_machine_has_cores(self, tmp_path):
        with farm(tmp_path, count=3) as (port, _):
            wide = 2 * (os.cpu_count() or 1)
            report = tune(tmp_path / "log.json", on_farm(port, n_parallel=wide))
            used = sessions(tmp_path, count=3)
        assert report.trials == 24
        assert sum(used) == 24
        assert min(used) >= 3

    def test_a_farm_that_loses_its_last_device_ends_the_run_and_blames_no_configuration(self, tmp_path, monkeypatch):
        monkeypatch.setattr(rpc, "_PATIENCE", 3.0)
        log = tmp_path / "log.json"
        with farm(tmp_path) as (port, servers):
            when(log, 6, lambda: [os.killpg(server.pid, signal.SIGKILL) for server in servers])
            with pytest.raises(DevicePoolError, match=f"last device of key '{KEY}' has left the tracker at 127.0.0.1:{port}"):
                tune(log, on_farm(port))
        assert 6 <= len(records(log)) < 24
        assert all(result.error_no == 0 for _, result in records(log))
        assert not autotvm.GLOBAL_SCOPE.in_tuning

    def test_a_tracker_without_devices_is_refused_at_once(self, tmp_path):
        with farm(tmp_path, count=0) as (port, _):
            end = time.monotonic() + 60
            while True:
                with pytest.raises(DevicePoolError) as caught:
                    tune(tmp_path / "log.json", on_farm(port))
                if "no tracker answers" not in str(caught.value) or time.monotonic() > end:
                    break
        assert f"has no device of key '{KEY}': start one with python -m tvm.exec.rpc_server" in str(caught.value)

    def test_no_tracker_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(rpc, "_ANSWER", 2.0)
        port = free_port()
        with pytest.raises(DevicePoolError, match=f"no tracker answers at 127.0.0.1:{port} .*rpc_tracker --port {port}"):
            tune(tmp_path / "log.json", on_farm(port))


class TestBroken:
    """Which failures are the session's, and worth another run."""

    @pytest.mark.parametrize(
        ("error_no", "text", "broke"),
        [
            (autotvm.MeasureErrorNo.RUN_TIMEOUT, "TimeoutError", True),
            (autotvm.MeasureErrorNo.RUNTIME_DEVICE, "Check failed: (code == RPCCode::kReturn) is false: code=1", True),
            (autotvm.MeasureErrorNo.RUNTIME_DEVICE, "RPCError: Error caught from RPC call:\nCUDA: out of memory", False),
            (autotvm.MeasureErrorNo.RUNTIME_DEVICE, "RPCSessionTimeoutError: Error\nRPCCode::kReturn", False),
            (autotvm.MeasureErrorNo.INSTANTIATION_ERROR, "too many threads", False),
            (autotvm.MeasureErrorNo.BUILD_TIMEOUT, "TimeoutError", False),
        ],
    )
    def test_by_what_the_trace_says(self, error_no, text, broke):
        assert rpc._broke(autotvm.MeasureResult((text, RuntimeError(text)), error_no, 1.0, 1.0)) is broke

    @pytest.mark.parametrize(("failures", "runs"), [(0, 1), (1, 2), (2, 2)])
    def test_a_broken_session_is_tried_once_more_and_the_last_answer_counts(self, failures, runs):
        answers = []

        class Runner:
            key, host, port, n_parallel, timeout = "cpu", "127.0.0.1", 1, 1, 1

            def run(self, inputs, builds):
                answers.append(len(answers))
                broke = len(answers) <= failures
                error_no = autotvm.MeasureErrorNo.RUN_TIMEOUT if broke else 0
                return [autotvm.MeasureResult(("", TimeoutError()) if broke else (1.0,), error_no, 1.0, float(len(answers)))]

        class Here(rpc.DevicePool):
            def _devices(self):
                return 1

            def _session(self):
                """Somebody answers."""

        result = Here(Runner()).run(["input"], ["build"])[0]
        assert len(answers) == runs
        assert result.timestamp == runs

    @pytest.mark.soak
    def test_a_last_device_that_hangs_ends_the_run_and_blames_no_configuration(self, tmp_path, monkeypatch):
        monkeypatch.setattr(rpc, "_PATIENCE", 3.0)
        log = tmp_path / "log.json"
        with farm(tmp_path, count=1) as (port, servers):
            when(log, 6, lambda: os.killpg(servers[0].pid, signal.SIGSTOP))
            with pytest.raises(DevicePoolError, match=f"no device of key '{KEY}' answers any more"):
                tune(log, on_farm(port, n_parallel=1, timeout=3))
        assert 6 <= len(records(log)) < 24
        assert all(result.error_no == 0 for _, result in records(log))


class TestMeasurer:
    def test_starts_once_for_many_tasks_and_can_be_used_again(self):
        tasks = []
        for extent in (16, 32):
            tensors = [tvm.te.placeholder((extent, extent)) for _ in range(2)]
            tasks.append(autotvm.task.create("dense_nopack.x86", args=(*tensors, None, "float32"), target="llvm"))
        option = autotvm.measure_option(
            builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0)
        )
        for _ in range(2):
            with Measurer(option) as measurer:
                keys = set()
                for task in (*tasks, *tasks):
                    measured = measurer(task, [task.config_space.get(0)])
                    assert measured[0][1].error_no == 0
                    assert measured[0][0].task is task
                    keys.add(option["runner"].key)
                assert len(keys) == 1
            assert not autotvm.GLOBAL_SCOPE.in_tuning

    def test_a_local_server_that_died_is_replaced(self):
        tensors = [tvm.te.placeholder((16, 16)) for _ in range(2)]
        task = autotvm.task.create("dense_nopack.x86", args=(*tensors, None, "float32"), target="llvm")
        option = autotvm.measure_option(
            builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0, timeout=3)
        )
        with Measurer(option) as measurer:
            assert measurer(task, [task.config_space.get(0)])[0][1].error_no == 0
            server, tracker = measurer._measure.attach_objects
            server.terminate()
            tracker.terminate()
            assert measurer(task, [task.config_space.get(1)])[0][1].error_no != 0
            assert measurer(task, [task.config_space.get(2)])[0][1].error_no == 0


class TestStop:
    @pytest.mark.soak
    def test_ends_workers_that_are_busy_although_their_threads_end_them_too(self):
        """Ctrl-C in a trial. Whoever is second finds nothing to end: one time in four that was an error."""
        for _ in range(8):
            executor = PopenPoolExecutor(max_workers=2, timeout=20)
            start(executor, 1)
            processes = [worker._proc for worker in executor._worker_map.values()]
            asleep = [executor.submit(time.sleep, 10) for _ in processes]
            time.sleep(0.2)
            stop(executor)
            assert all(process.wait(5) for process in processes)
            assert all(future.exception(5) for future in asleep)


class TestDevice:
    @pytest.mark.skipif(tvm.cuda(0).exist, reason="this machine has a GPU")
    def test_one_that_this_machine_lacks_is_refused_before_anything_starts(self, tmp_path):
        with pytest.raises(ValueError, match="no cuda device"):
            tune_network(MOD, PARAMS, "cuda", tmp_path / "log.json", trials=4)
        assert not list(tmp_path.iterdir())

    def test_one_behind_a_tracker_need_not_be_here(self):
        check_device(tvm.target.Target("cuda"), autotvm.RPCRunner("gpu", "127.0.0.1", 9190))


class TestWithin:
    def test_returns_raises_or_gives_up(self):
        assert run_with_timeout(5, lambda: 7, "seven") == 7
        with pytest.raises(ZeroDivisionError):
            run_with_timeout(5, lambda: 1 // 0, "nothing")
        with pytest.raises(TimeoutError, match=r"waited 0.1 seconds for Godot"):
            run_with_timeout(0.1, lambda: time.sleep(10), "Godot")
