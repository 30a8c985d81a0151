"""Builders and runners shared by the tasks of a network."""

import pytest
import tvm
from instant_measuring import for_real
from tvm import autotvm

from autotvm_opevo.autotvm.measurer import Measurer


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
            server, tracker = measurer._measure_batch.attach_objects
            server.terminate()
            tracker.terminate()
            with monkeypatch.context() as patch:  # there is no server to wait for, however slow the machine
                patch.setattr(option["runner"].executor, "_timeout", 3)
                assert measurer(task, [task.config_space.get(1)])[0][1].error_no == autotvm.MeasureErrorNo.RUN_TIMEOUT
            assert measurer(task, [task.config_space.get(2)])[0][1].error_no == 0
