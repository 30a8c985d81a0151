"""Remote devices that do not answer."""

import time
from types import SimpleNamespace

import pytest
from quick_tuning import SMALL, builder
from tvm.rpc.tracker import Tracker
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.runner import RPCConfig, RPCRunner
from unoptimized import cpu

from autotvm_opevo.meta_schedule import open_database, tune_network
from autotvm_opevo.meta_schedule.measurer import Measurer
from autotvm_opevo.meta_schedule.space import DecisionSpace
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
    context = ms.TuneContext(SMALL, target=cpu(), space_generator="post-order-apply", rand_state=1)
    sketches = context.generate_design_space()
    decisions = DecisionSpace(SMALL, sketches, list(context.space_generator.postprocs))
    candidate, _ = decisions.candidate(next(iter(next(decisions.seed_configurations()))))
    building = builder()
    with Measurer(building, runner, cpu(), 1) as measuring:
        assert runner.pool._timeout == runner.rpc_config.session_timeout_sec + REQUEST_TIMEOUT
        (trial,) = measuring.submit(SimpleNamespace(dispatched=[SMALL]), [candidate])
        while not trial.running():
            time.sleep(0.1)
    assert trial.result().failure == "run"  # it did not wait until it timed out
    building.close()
