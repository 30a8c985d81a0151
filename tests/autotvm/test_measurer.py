"""Builders and runners shared by the tasks of a network."""

import pytest
import tvm
from instant_measuring import for_real
from tvm import autotvm

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import workloads
from autotvm_opevo.autotvm.measurer import Measurer, check_device


def dense_task(extent=16):
    tensors = [tvm.te.placeholder((extent, extent)) for _ in range(2)]
    return autotvm.task.create("dense_nopack.x86", args=(*tensors, None, "float32"), target="llvm")


class TestMeasurer:
    def test_starts_once_for_many_tasks_and_is_reusable(self):
        tasks = [dense_task(16), dense_task(32)]
        option = for_real()
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

    @pytest.mark.soak
    def test_a_local_server_that_died_is_replaced(self, monkeypatch):
        task, option = dense_task(), for_real(autotvm)
        with Measurer(option) as measurer:
            assert measurer(task, [task.config_space.get(0)])[0][1].error_no == 0
            server, tracker = measurer._measure.attach_objects
            server.terminate()
            tracker.terminate()
            with monkeypatch.context() as patch:  # there is no server to wait for, however slow the machine
                patch.setattr(option["runner"].executor, "_timeout", 3)
                assert measurer(task, [task.config_space.get(1)])[0][1].error_no == autotvm.MeasureErrorNo.RUN_TIMEOUT
            assert measurer(task, [task.config_space.get(2)])[0][1].error_no == 0


class TestDevice:
    @pytest.mark.skipif(tvm.cuda(0).exist, reason="this machine has a GPU")
    def test_a_device_that_this_machine_lacks_is_refused_before_anything_starts(self, tmp_path):
        mod, params = workloads.operator("nn.dense", [(1, 16), (16, 16)])
        with pytest.raises(ValueError, match="no cuda device"):
            tune_network(mod, params, "cuda", tmp_path / "log.json", trials=4)
        assert not list(tmp_path.iterdir())

    def test_a_device_behind_a_tracker_may_be_missing_here(self):
        check_device(tvm.target.Target("cuda"), autotvm.RPCRunner("gpu", "127.0.0.1", 9190))
