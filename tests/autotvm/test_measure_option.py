"""Devices that this machine lacks."""

import pytest
import tvm
from tvm import autotvm

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm.measure_option import check_device
from autotvm_opevo.networks import relay as workloads


class TestDevice:
    @pytest.mark.skipif(tvm.cuda(0).exist, reason="this machine has a GPU")
    def test_a_device_that_this_machine_lacks_is_refused_before_anything_starts(self, tmp_path):
        mod, params = workloads.operator("nn.dense", [(1, 16), (16, 16)])
        with pytest.raises(ValueError, match="no cuda device"):
            tune_network(mod, params, "cuda", tmp_path / "log.json", trials=4)
        assert not list(tmp_path.iterdir())

    def test_a_device_behind_a_tracker_may_be_missing_here(self):
        check_device(tvm.target.Target("cuda"), autotvm.RPCRunner("gpu", "127.0.0.1", 9190))
