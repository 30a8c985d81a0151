"""Remote devices that do not answer, and those behind a proxy."""

import time
from types import SimpleNamespace

import pytest
from quick_tuning import SMALL, builder
from sketches import decisions_of, first_candidate
from tvm.rpc.tracker import Tracker
from tvm.s_tir.meta_schedule.runner import RPCConfig, RPCRunner
from unoptimized import cpu

from autotvm_opevo.meta_schedule import local as module
from autotvm_opevo.meta_schedule import make_runner, open_database, tune_network
from autotvm_opevo.meta_schedule.measurer import Measurer
from autotvm_opevo.networks import relax as workloads
from autotvm_opevo.tuning.programs import REQUEST_TIMEOUT


@pytest.fixture
def runner():
    """Of a tracker without a device."""
    tracker = Tracker("127.0.0.1", 9190, 12345, silent=True)
    runner = RPCRunner(RPCConfig("127.0.0.1", tracker.port, "board"))
    yield runner
    tracker.terminate()


def test_a_run_ends_if_no_device_answers(runner, tmp_path):
    runner.pool._timeout = 1.0
    operator = workloads.operator("matmul", [(32, 32), (32, 32)])
    with pytest.raises(RuntimeError, match="no device of key 'board' has answered for"):
        tune_network(*operator, cpu(), tmp_path, 4, builder=builder(), runner=runner)
    assert len(open_database(tmp_path)) == 0


def test_a_trial_that_waits_for_a_device_ends_with_the_run(runner):
    candidate, building = first_candidate(decisions_of(SMALL, cpu())), builder()
    with Measurer(building, runner, cpu(), 1) as measuring:
        assert runner.pool._timeout == runner.rpc_config.session_timeout_sec + REQUEST_TIMEOUT
        (trial,) = measuring.submit(SimpleNamespace(dispatched=[candidate.sch.mod]), [candidate])
        while not (trial.running() or trial.done()):
            time.sleep(0.1)
    assert trial.result().failure == "run"  # it did not wait until it timed out
    building.close()


def test_a_device_behind_a_proxy_is_found(monkeypatch):
    """TVM counts none: a proxy registers with the keys of all devices behind it."""
    servers = [{"key": "server:proxy[phone,board]", "addr": ["10.0.0.1", 9090]}]
    tracker = SimpleNamespace(summary=lambda: {"server_info": servers}, close=lambda: None)
    monkeypatch.setattr(module.RPCConfig, "connect_tracker", lambda config: tracker)
    monkeypatch.setattr(
        module.socket, "create_connection", lambda *_, **__: SimpleNamespace(close=lambda: None)
    )
    monkeypatch.setattr(module, "RPCRunner", lambda config, max_workers, **_: max_workers)
    assert make_runner(10, "board", "127.0.0.1", 9190) == 1
    with pytest.raises(RuntimeError, match="has no device of key 'tablet'"):
        make_runner(10, "tablet", "127.0.0.1", 9190)
