"""LocalRunner: one worker, which keeps its memory, and what happens to a candidate that hangs or
crashes.
"""

import os
import time
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from quick_network_tuning import tune_module
from quick_tuning import SMALL, TIMEOUT
from relax_modules import network_with
from sketches import TARGETS, decisions_of, first_candidate
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.builder import BuilderInput
from tvm.s_tir.meta_schedule.runner import EvaluatorConfig, RunnerInput

from autotvm_opevo.meta_schedule import LocalBuilder, LocalRunner, make_runner, worker
from autotvm_opevo.meta_schedule import local as module
from autotvm_opevo.meta_schedule.local import is_local
from autotvm_opevo.tuning.record_lines import seconds
from tests.helpers.local_rpc import local_rpc


@pytest.fixture(scope="module")
def candidate():
    """A small matrix product: what was built, and its tensors."""
    found = first_candidate(decisions_of(SMALL, TARGETS["llvm"]))
    builder = LocalBuilder(max_workers=1, timeout_sec=240, link=True)
    (built,) = builder.build([BuilderInput(found.sch.mod, TARGETS["llvm"])])
    yield RunnerInput(built.artifact_path, "cpu", found.args_info)
    builder.close()


@pytest.fixture
def runner():
    runner = LocalRunner(
        timeout_sec=240, evaluator_config=EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0)
    )
    yield runner
    runner.close()


def test_candidates_are_run_in_one_worker(runner, candidate, monkeypatch):
    results = [future.result() for future in runner.run([candidate] * 3)]
    assert [len(result.run_secs) for result in results] == [2] * 3
    assert all(0 < seconds(result.run_secs) < inf for result in results)
    monkeypatch.setattr(module, "run_artifact", lambda *_: [float(os.getpid())])
    pids = {
        float(future.result().run_secs[0]) for _ in range(2) for future in runner.run([candidate])
    }
    assert len(pids) == 1
    assert os.getpid() not in pids


@pytest.mark.parametrize(
    ("does", "message"),
    [
        (lambda *_: time.sleep(60), "LocalRunner: Timeout, killed after 0.1 seconds"),
        (lambda *_: os._exit(1), "LocalRunner: An exception occurred\nthe worker process died"),
        (lambda *_: 1 / 0, "LocalRunner: An exception occurred\ndivision by zero"),
    ],
)
def test_what_hangs_or_crashes_fails_and_the_next_one_runs(
    runner, candidate, monkeypatch, does, message
):
    runner.run([candidate])  # the worker has started
    with monkeypatch.context() as context:
        context.setattr(module, "run_artifact", does)
        runner.timeout_sec = 0.1 if "Timeout" in message else 240
        (future,) = runner.run([candidate])
    assert future.result().error_msg == message
    assert future.result().run_secs is None
    runner.timeout_sec = 240
    (future,) = runner.run([candidate])
    assert future.result().error_msg is None


def test_after_an_error_on_a_gpu_the_next_candidate_gets_a_new_process(
    runner, candidate, monkeypatch
):
    """A kernel that wrote out of bounds leaves a context in which all others fail, too."""
    pids = []
    for device in ("cpu", "cpu", "cuda", "cpu"):
        monkeypatch.setattr(module, "run_artifact", lambda *_: [float(os.getpid())])
        (future,) = runner.run([candidate])
        pids.append(float(future.result().run_secs[0]))
        monkeypatch.setattr(module, "run_artifact", lambda *_: 1 / 0)
        runner.run([RunnerInput(candidate.artifact_path, device, candidate.args_info)])
    assert pids[0] == pids[1] == pids[2] != pids[3]


@pytest.mark.parametrize(
    "given", [{"key": "board"}, {"host": "10.0.0.1", "port": 9190}, {"key": "board", "port": 9190}]
)
def test_a_tracker_has_a_key_a_host_and_a_port(given):
    with pytest.raises(ValueError, match="devices need a key and their tracker's host and port"):
        make_runner(10, **given)


@pytest.mark.parametrize(
    ("timeout", "seconds"), [(0.5, 1), (1.9, 2), (30, 30), (float("inf"), 86_400)]
)
def test_a_session_on_a_device_has_a_limit_of_whole_seconds(monkeypatch, timeout, seconds):
    configs = []
    monkeypatch.setattr(module, "RPCRunner", lambda config, **_: configs.append(config))
    monkeypatch.setattr(module, "count_devices", lambda config: 2)
    monkeypatch.setattr(
        module.socket, "create_connection", lambda *_, **__: SimpleNamespace(close=lambda: None)
    )
    make_runner(timeout, "board", "127.0.0.1", 9190)
    assert [config.session_timeout_sec for config in configs] == [seconds]


def test_timeouts_are_positive():
    with pytest.raises(
        ValueError, match="timeout_sec must be a positive number of seconds, -1 given"
    ):
        LocalRunner(timeout_sec=-1)


def test_other_devices_than_a_cpu_are_timed_as_long_as_by_tvm(candidate, monkeypatch):
    runner, asked = LocalRunner(), []
    monkeypatch.setattr(
        runner._worker, "call", lambda *arguments, timeout: asked.append(arguments[-1]) or [1.0]
    )
    for device in ("cpu", "cuda"):
        runner.run([RunnerInput(candidate.artifact_path, device, candidate.args_info)])
    assert [config.min_repeat_ms for config in asked] == [10, EvaluatorConfig().min_repeat_ms]


def test_tensors_share_memory_and_only_outputs_are_written():
    device = tvm.cpu()
    small = worker.kept_tensors(
        "cpu", device, [("TENSOR", "float32", (4, 4)), ("TENSOR", "float32", (2,))]
    )
    again = worker.kept_tensors(
        "cpu",
        device,
        [("TENSOR", "float32", (2, 2)), ("TENSOR", "float32", (3, 3)), ("TENSOR", "float32", (2,))],
    )
    first, output = (tensor.numpy() for tensor in small)
    np.testing.assert_array_equal(again[0].numpy().ravel(), first.ravel()[:4])
    small[1].copyfrom(output + 1)
    np.testing.assert_array_equal(again[2].numpy(), output + 1)
    assert again[1].numpy().ravel()[:2].tolist() != (output + 1).tolist()
    assert not np.isnan(first).any()


# What reads or writes where integers say, of a table of 6 rows, or divides by them; dtype and shape
# of the integers.
INDEXED = {
    "take": (lambda x, i: relax.op.take(x, i, axis=0), "int64", (5,)),
    "scatter_nd": (lambda x, i: relax.op.scatter_nd(x, i, x), "int64", (6, 1)),
    "floor_divide": (
        lambda x, i: relax.op.floor_divide(relax.op.astype(x, "int32"), i),
        "int32",
        (6, 16),
    ),
}


def tune_indexed(name, runner, folder):
    operator, dtype, shape = INDEXED[name]
    mod = network_with((6, 16), relax.TensorType(shape, dtype))(
        lambda emit, x, indices: operator(x, indices)
    )
    return tune_module(mod, None, folder, 2, runner=runner, evaluate=False)


@pytest.mark.parametrize("name", INDEXED)
def test_indices_are_within_their_tensor(runner, tmp_path, name):
    assert all(row.works for row in tune_indexed(name, runner, tmp_path).rows)


def test_indices_are_within_their_tensor_on_remote_devices(tmp_path):
    with local_rpc() as rpc:
        runner = make_runner(TIMEOUT, rpc.tracker_key, rpc.tracker_host, rpc.tracker_port)
        assert all(row.works for row in tune_indexed("take", runner, tmp_path).rows)


def test_integers_that_another_kernel_has_written_are_no_indices():
    device, two = tvm.cpu(), [("TENSOR", "int64", (4,)), ("TENSOR", "int64", (4,))]
    for _ in range(2):
        tensors = worker.kept_tensors("cpu", device, two)
        assert all((tensor.numpy() == 1).all() for tensor in tensors)
        for tensor in tensors:
            tensor.copyfrom(np.full(4, 10**12))


def test_a_table_of_one_row_has_room_for_what_an_index_reads():
    worker.kept_tensors(
        "cpu",
        tvm.cpu(),
        [("TENSOR", "float64", (1, 64)), ("TENSOR", "int64", (4,)), ("TENSOR", "float64", (4, 64))],
    )
    assert worker._memory["cpu", 0, "float64"].shape[0] >= 2 * 64


def test_both_local_runners_are_local():
    assert is_local(LocalRunner())
    assert is_local(make_runner(10))
    assert is_local(ms.runner.LocalRunner())
    assert not is_local(object())
