"""Real RPC trackers and servers on the loopback interface: some are killed, some hang, some are
missing.
"""

import gc
import os
import signal
import threading
import time
import weakref
from unittest.mock import Mock

import numpy as np
import pytest
from compared_networks import time_two_rounds
from instant_measuring import TIMEOUT
from rpc_farm import KEY, farm, free_port, kill, proxied_farm, sessions
from small_templates import matmul_task
from tvm import TVMError, autotvm, nd
from tvm.autotvm.measure import MeasureInput
from tvm.autotvm.measure.measure_methods import BuildResult
from tvm.contrib.popen_pool import PopenPoolExecutor
from tvm.rpc import client
from tvm.target import Target

import autotvm_opevo.autotvm
from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import compare_logs, rpc
from autotvm_opevo.autotvm.evaluation import open_device
from autotvm_opevo.autotvm.log import Record, seconds
from autotvm_opevo.autotvm.rpc import DevicePoolError
from autotvm_opevo.networks import relay as workloads
from autotvm_opevo.tuning import measurer as measurer_module
from autotvm_opevo.tuning import programs, race, run
from autotvm_opevo.tuning.run_log import RunLog
from autotvm_opevo.tuning.workers import stop_tvm_pool

SHAPES = [(1, 16, 8, 8), (16, 16, 3, 3)]
MOD, PARAMS = workloads.operator(
    "nn.conv2d", SHAPES, attributes={"padding": (1, 1), "channels": 16, "kernel_size": (3, 3)}
)


def measure_option(port, n_parallel=2, package=autotvm, key=KEY, **options):
    """With AutoTVM's builder, one batch after the other; with this package's, what runs next is
    built meanwhile.
    """
    options = {
        "number": 1,
        "repeat": 2,
        "min_repeat_ms": 100,
        "timeout": TIMEOUT,
        "cooldown_interval": 0,
        **options,
    }
    return autotvm.measure_option(
        builder=package.LocalBuilder(timeout=TIMEOUT),
        runner=autotvm.RPCRunner(key, "127.0.0.1", port, n_parallel=n_parallel, **options),
    )


def records(log) -> list[Record]:
    return list(autotvm.record.load_from_file(str(log)))


def when(log, lines, action):
    """Call `action` as soon as a log has this many lines."""

    def watch():
        while not log.exists() or log.read_bytes().count(b"\n") < lines:
            time.sleep(0.05)
        action()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """The port of a tracker with one device, which no test harms."""
    with farm(tmp_path_factory.mktemp("board"), count=1) as (port, _):
        yield port


@pytest.fixture(scope="module")
def confirmed(board, tmp_path_factory):
    """The log and the result of a run whose best trials are timed again, and the network."""
    log = tmp_path_factory.mktemp("confirmed") / "log.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "CONFIRMATION_SHARE", 10.0)
        # each timing of a finalist starts a process
        patch.setattr(race, "_LAST_ROUND", race.MIN_ROUNDS)
        patch.setattr(measurer_module, "FINALISTS", 2)
        patch.setattr(measurer_module, "MAX_RATIO", 1e6)
        option = measure_option(
            board, n_parallel=1, package=autotvm_opevo.autotvm, min_repeat_ms=20
        )
        time_two_rounds(patch)
        return log, tune(log, option, trials=6, evaluate=True)


def tune(log, option, trials=24, evaluate=False):
    options = {"measure_option": option, "seed": 0, "evaluate": evaluate}
    return tune_network(MOD, PARAMS, "llvm", log, trials, **options)


class TestDevicePool:
    @pytest.mark.parametrize(
        "package", [pytest.param(autotvm, marks=pytest.mark.soak), autotvm_opevo.autotvm]
    )
    @pytest.mark.parametrize(
        "harm", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.soak)]
    )
    def test_a_server_that_dies_or_hangs_costs_time_but_no_trial(self, tmp_path, harm, package):
        log = tmp_path / "log.json"
        with farm(tmp_path) as (port, servers):
            watcher = when(log, 6, lambda: os.killpg(servers[0].pid, harm))
            # What hangs is given up after three times this timeout.
            timeout = 40 if harm == signal.SIGSTOP else TIMEOUT
            report = tune(log, measure_option(port, package=package, timeout=timeout), trials=12)
            watcher.join()
            before, after = sessions(tmp_path)
        assert report.trials == len(records(log)) == 12
        assert [result.error_no for _, result in records(log)] == [0] * 12
        assert before >= 3
        assert after > before

    def test_a_device_that_leaves_is_named(self, monkeypatch, caplog):
        present = ["10.0.0.7:9090", "10.0.0.8:9090"]
        monkeypatch.setattr(rpc, "addresses", lambda *tracker: present)
        pool = rpc.DevicePool(autotvm.RPCRunner(KEY, "127.0.0.1", 9190))
        assert not caplog.text
        present.pop()
        pool.refresh()
        assert "the device at 10.0.0.8:9090 has left the tracker at 127.0.0.1:9190" in caplog.text

    @pytest.mark.soak
    def test_more_devices_than_cores(self, tmp_path):
        with farm(tmp_path, count=3) as (port, _):
            wide = 2 * (os.cpu_count() or 1)
            report = tune(tmp_path / "log.json", measure_option(port, n_parallel=wide))
            used = sessions(tmp_path, count=3)
        assert report.trials == 24
        assert sum(used) >= 24  # the confirmation has sessions, too
        assert min(used) >= 3

    @pytest.mark.soak
    @pytest.mark.parametrize("package", [autotvm, autotvm_opevo.autotvm])
    def test_the_loss_of_the_last_device_ends_the_run_and_fails_no_configuration(
        self, tmp_path, monkeypatch, package
    ):
        monkeypatch.setattr(rpc, "_DEVICE_TIMEOUT", 15.0)
        log = tmp_path / "log.json"
        with farm(tmp_path) as (port, servers):
            option = measure_option(port, package=package)
            # a trial that waits for a device, without one, waits this long
            option["runner"].executor._timeout = 20
            when(log, 6, lambda: [os.killpg(server.pid, signal.SIGKILL) for server in servers])
            with pytest.raises(
                DevicePoolError,
                match=f"last device of key '{KEY}' has left the tracker at 127.0.0.1:{port}",
            ):
                tune(log, option)
        assert 6 <= len(records(log)) < 24
        assert all(result.error_no == 0 for _, result in records(log))
        assert not autotvm.GLOBAL_SCOPE.in_tuning

    def test_a_tracker_without_devices_is_refused(self, board, tmp_path):
        with pytest.raises(DevicePoolError) as caught:
            tune(tmp_path / "log.json", measure_option(board, key="phone"))
        assert "has no device of key 'phone': start one with python -m tvm.exec.rpc_server" in str(
            caught.value
        )

    @pytest.mark.parametrize("host", [None, "127.0.0.1"])
    def test_a_runner_without_a_tracker_s_address_is_refused(self, monkeypatch, host):
        for name in ("TVM_TRACKER_HOST", "TVM_TRACKER_PORT"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(ValueError, match=f"or TVM_TRACKER_HOST.*; '{KEY}', {host!r} and None"):
            rpc.DevicePool(autotvm.RPCRunner(KEY, host, None))

    def test_no_tracker_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(programs, "_TRACKER_TIMEOUT", 2.0)
        port = free_port()
        with pytest.raises(
            DevicePoolError,
            match=f"no tracker answers at 127.0.0.1:{port} .*rpc_tracker --port {port}",
        ):
            tune(tmp_path / "log.json", measure_option(port))


class TestProxy:
    """Devices that cannot be reached by their address connect to a proxy, which registers them with
    the tracker.
    """

    @pytest.mark.soak
    def test_devices_behind_a_proxy_are_used_also_if_it_has_others(self, tmp_path):
        with proxied_farm(tmp_path, "board", KEY) as (port, *_):
            assert [
                len(rpc.addresses(key, "127.0.0.1", port)) for key in (KEY, "board", "cp", "proxy")
            ] == [1, 1, 0, 0]
            result = tune(
                tmp_path / "log.json",
                measure_option(port, n_parallel=1, min_repeat_ms=20),
                trials=2,
            )
            runner = autotvm.RPCRunner(KEY, "127.0.0.1", port, timeout=TIMEOUT)
            comparison = compare_logs(
                MOD, PARAMS, "llvm", [result.best_file], time_limit=2, runner=runner
            )
        assert [result.error_no for _, result in records(tmp_path / "log.json")] == [0, 0]
        assert comparison.outputs_match

    @pytest.mark.soak
    def test_a_device_that_leaves_its_proxy_and_comes_back_costs_no_trial(self, tmp_path):
        log = tmp_path / "log.json"
        with proxied_farm(tmp_path, KEY) as (port, behind, start_device):

            def replace():
                kill(behind[0])
                time.sleep(2)
                start_device()

            watcher = when(log, 3, replace)
            tune(log, measure_option(port, n_parallel=1), trials=8)
            watcher.join()
        assert [result.error_no for _, result in records(log)] == [0] * 8

    @pytest.mark.soak
    def test_the_loss_of_the_last_device_behind_a_proxy_ends_the_run_and_fails_no_configuration(
        self, tmp_path, monkeypatch
    ):
        """The tracker still has the proxy."""
        monkeypatch.setattr(rpc, "REQUEST_TIMEOUT", 8.0)
        log = tmp_path / "log.json"
        with proxied_farm(tmp_path, KEY) as (port, behind, _):
            when(log, 3, lambda: kill(*behind))
            with pytest.raises(DevicePoolError, match=f"no device of key '{KEY}' answers any more"):
                tune(log, measure_option(port, n_parallel=1, timeout=20))
        assert 3 <= len(records(log)) < 24
        assert all(result.error_no == 0 for _, result in records(log))

    @pytest.mark.parametrize(
        ("server", "key", "found"),
        [
            ("server:proxy[phone]", "phone", True),
            ("server:proxy[board,phone]", "board", True),
            ("server:proxy[board,phone]", "phone", True),
            ("server:proxy[phone2]", "phone", False),
            ("server:proxy[my phone, blue]", "my phone, blue", True),
            ("server:proxy", "phone", False),
            ("client:proxy[phone]", "phone", False),
            ("server:proxy[[a]]", "[a]", True),
        ],
    )
    def test_a_proxy_is_known_by_the_keys_in_its_name(self, server, key, found, monkeypatch):
        tracker = Mock()
        tracker.summary.return_value = {"server_info": [{"key": server, "addr": ("lab", 9090)}]}
        monkeypatch.setattr(rpc.rpc, "connect_tracker", lambda host, port: tracker)
        assert rpc.addresses(key, "lab", 9190) == (["lab:9090 (proxy)"] if found else [])


class BreakingRunner:
    """Its session breaks if `is_broken` says so, given how many times it has run."""

    key, host, port, n_parallel, timeout, module_loader = KEY, "127.0.0.1", 1, 1, 1, "own"

    def __init__(self, is_broken):
        self.is_broken, self.runs = is_broken, 0

    def run(self, inputs, builds):
        broke = self.is_broken(self.runs)
        self.runs += 1
        error_no = autotvm.MeasureErrorNo.RUN_TIMEOUT if broke else 0
        costs = ("", TimeoutError()) if broke else (1.0,)
        return [autotvm.MeasureResult(costs, error_no, 1.0, float(self.runs))]


class PoolOfOne(rpc.DevicePool):
    """A device that the tracker always has."""

    def refresh(self):
        self._known = {"127.0.0.1:1"}


def run_one(pool, folder):
    """Run a trial; returns its result."""
    task = matmul_task(16)
    (folder / "built.so").write_text("")
    build = BuildResult(str(folder / "built.so"), (), None, 0.0)
    (result,) = pool.run([MeasureInput(task.target, task, task.config_space.get(0))], [build])
    return result


@pytest.mark.parametrize(
    ("n_parallel", "devices", "size"),
    [
        (64, ["lab:1", "lab:2"], 2),
        (64, ["lab:1 (proxy)"], 64),
        pytest.param(8, ["lab:1"], 8, id="as set"),
    ],
)
def test_by_default_there_are_as_many_trials_at_once_as_devices(
    n_parallel, devices, size, monkeypatch
):
    """Not as many as cores, or a search would be far ahead of its results."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(rpc, "addresses", lambda *_: devices)
    runner = BreakingRunner(lambda _: False)
    runner.n_parallel = n_parallel
    assert rpc.DevicePool(runner).size == size


class TestBrokenSession:
    """Which failures are the session's, not the configuration's, and deserve a second run."""

    @pytest.mark.parametrize(
        ("error", "text", "broke"),
        [
            ("RUN_TIMEOUT", "TimeoutError", True),
            ("RUNTIME_DEVICE", "Check failed: (code == RPCCode::kReturn) is false: code=1", True),
            ("RUNTIME_DEVICE", "RPCError: Error caught from RPC call:\nCUDA: out of memory", False),
            ("RUNTIME_DEVICE", "RPCSessionTimeoutError: Error\nRPCCode::kReturn", False),
            ("INSTANTIATION_ERROR", "too many threads", False),
            ("BUILD_TIMEOUT", "TimeoutError", False),
        ],
    )
    def test_is_told_by_the_error(self, error, text, broke):
        costs, error_no = (text, RuntimeError(text)), autotvm.MeasureErrorNo[error]
        assert rpc._is_session_broken(autotvm.MeasureResult(costs, error_no, 1.0, 1.0)) is broke

    @pytest.mark.parametrize(("failures", "runs"), [(0, 1), (1, 2), (2, 2)])
    def test_is_retried_once_and_the_last_result_counts(
        self, failures, runs, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(rpc, "request_remote", lambda *_, **__: None)
        runner = BreakingRunner(lambda before: before < failures)
        result = run_one(PoolOfOne(runner), tmp_path)
        assert os.listdir(tmp_path) == ["built.so"]
        assert runner.runs == runs
        assert result.timestamp == runs

    def test_is_retried_once_a_device_that_another_user_has_is_free(self, tmp_path, monkeypatch):
        free = threading.Event()
        monkeypatch.setattr(rpc, "request_remote", lambda *_, **__: free.wait(TIMEOUT))
        runner = BreakingRunner(lambda _: not free.is_set())
        threading.Timer(1.0, free.set).start()
        assert run_one(PoolOfOne(runner), tmp_path).error_no == 0
        assert runner.runs == 2

    def test_is_an_error_where_a_device_stays_busy(self, tmp_path, monkeypatch):
        never = threading.Event()
        monkeypatch.setattr(rpc, "REQUEST_TIMEOUT", 0.2)
        monkeypatch.setattr(rpc, "_POLL_INTERVAL", 0.1)
        monkeypatch.setattr(rpc, "request_remote", lambda *_, **__: never.wait(TIMEOUT))
        with pytest.raises(
            DevicePoolError, match=f"no device of key '{KEY}' answers any more: busy or hanging"
        ):
            run_one(PoolOfOne(BreakingRunner(lambda _: True)), tmp_path)
        never.set()

    def test_a_run_that_ends_does_not_wait_for_a_busy_device(self, tmp_path, monkeypatch):
        never = threading.Event()
        monkeypatch.setattr(rpc, "request_remote", lambda *_, **__: never.wait(TIMEOUT))
        pool = PoolOfOne(BreakingRunner(lambda _: True))
        threading.Timer(0.5, pool.abort).start()
        start = time.monotonic()
        run_one(pool, tmp_path)
        assert time.monotonic() < start + 30
        never.set()

    @pytest.mark.soak
    @pytest.mark.parametrize("package", [autotvm, autotvm_opevo.autotvm])
    def test_a_last_device_that_hangs_ends_the_run_and_fails_no_configuration(
        self, tmp_path, monkeypatch, package
    ):
        monkeypatch.setattr(rpc, "REQUEST_TIMEOUT", 3.0)
        log = tmp_path / "log.json"
        with farm(tmp_path, count=1) as (port, servers):
            when(log, 6, lambda: os.killpg(servers[0].pid, signal.SIGSTOP))
            with pytest.raises(DevicePoolError, match=f"no device of key '{KEY}' answers any more"):
                tune(log, measure_option(port, n_parallel=1, package=package, timeout=20))
        assert 6 <= len(records(log)) < 24
        assert all(result.error_no == 0 for _, result in records(log))


class TestLoader:
    def test_a_session_that_follows_a_failed_request_ends_with_its_trial(self, monkeypatch):
        """As the garbage collector may come much later."""
        attempts = []

        class Session:
            def __getattr__(self, name):
                return lambda *_: None

        def connect(*_, **__):
            attempts.append(len(attempts))
            if len(attempts) == 1:
                raise TVMError("connection refused: the device has died")
            return Session()

        monkeypatch.setattr(client, "connect", connect)
        monkeypatch.setattr(client.TrackerSession, "_connect", lambda self: None)
        monkeypatch.setattr(client.base, "sendjson", lambda *_: None)
        monkeypatch.setattr(
            client.base,
            "recvjson",
            lambda *_: [client.base.TrackerCode.SUCCESS, ["127.0.0.1", 1, KEY]],
        )
        device = {"device_key": KEY, "host": "127.0.0.1", "port": 1}
        gc.disable()
        try:
            with rpc._LOADER(device, BuildResult("built.so", (), None, 0.0)) as (session, _):
                alive = weakref.ref(session)
            del session
            assert len(attempts) == 2
            assert alive() is None
        finally:
            gc.enable()


class TestConfirmation:
    def test_the_best_trials_are_timed_again_on_the_devices(self, confirmed):
        log, result = confirmed
        (one,) = RunLog(f"{log}.journal").runs.confirmed.values()
        assert set(result.best_file.read_text().splitlines()) >= {one.record}
        assert len(one.latencies) >= 3
        assert len(records(log)) == 6  # trials only

    def test_the_network_is_compared_on_a_device_too(self, confirmed):
        _, result = confirmed
        assert result.comparison.outputs_match
        assert len(result.comparison.race.latencies) == 2

    def test_logs_and_their_operators_are_compared_on_a_device_too(
        self, confirmed, board, tmp_path, monkeypatch
    ):
        time_two_rounds(monkeypatch)
        log, _ = confirmed
        succeeded = [record for record in records(log) if record[1].error_no == 0]
        slowest = max(succeeded, key=lambda record: seconds(record[1]))
        (tmp_path / "slow.json").write_text(autotvm.record.encode(*slowest) + "\n")
        logs = [log, tmp_path / "slow.json"]
        runner = autotvm.RPCRunner(KEY, "127.0.0.1", board, timeout=TIMEOUT)
        comparison = compare_logs(MOD, PARAMS, "llvm", logs, runner=runner)
        assert comparison.outputs_match
        assert np.shape(comparison.race.latencies) == (2, 3)
        (operator,) = comparison.differing
        assert np.shape(operator.race.latencies) == (2, 2)


def test_a_device_is_given_back_although_something_of_it_is_left(board, monkeypatch):
    """Such as what an error refers to."""
    monkeypatch.setattr(programs, "REQUEST_TIMEOUT", 60)
    runner = autotvm.RPCRunner(KEY, "127.0.0.1", board)
    left = []
    for _ in range(2):
        with open_device(Target("llvm"), runner) as (device, _):
            left.append(nd.array(np.ones(4, "float32"), device))
    assert len(left) == 2


class TestProcesses:
    """Of TVM's pools."""

    @pytest.mark.soak
    def test_stop_ends_busy_workers_although_their_threads_do_so_too(self):
        """As after Ctrl-C in a trial: whoever is second finds no process, which was an error."""
        for _ in range(8):
            executor = PopenPoolExecutor(max_workers=2, timeout=600)
            for future in [executor.submit(int), executor.submit(int)]:
                future.result()
            processes = [worker._proc for worker in executor._worker_map.values()]
            asleep = [executor.submit(time.sleep, 600) for _ in processes]
            time.sleep(0.2)
            stop_tvm_pool(executor)
            assert all(process.wait(60) for process in processes)
            assert all(future.exception(60) for future in asleep)

    def test_what_hangs_is_killed_and_fails(self):
        executor = PopenPoolExecutor(max_workers=1)
        with rpc.killed_after(1, executor, None), pytest.raises(ChildProcessError):
            executor.submit(time.sleep, 600).result(120)
