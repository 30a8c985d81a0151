"""Plain schedules change neither what a network computes nor functions that they do not fit."""

import numpy as np
import pytest
import tvm
from onnx_zoo import NETWORKS
from quick_tuning import outputs
from tvm import te
from unoptimized import cpu

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import build, lower
from autotvm_opevo.lowering.plain_schedules import with_plain_schedules
from autotvm_opevo.meta_schedule.evaluation import random_inputs
from autotvm_opevo.networks import relax as workloads


@pytest.mark.parametrize(
    "name",
    [
        "shufflenet",
        *(
            pytest.param(name, marks=pytest.mark.soak)
            for name in ("unet", "yolo_nms", "bert", "quantized")
        ),
    ],
)
def test_a_network_computes_the_same(tmp_path, name):
    network = NETWORKS[name]()
    lowered = lower(bind_params(*workloads.model_file(network.save(tmp_path), network.open)), cpu())
    scheduled = with_plain_schedules(lowered)
    assert scheduled.script().count("T.parallel") > lowered.script().count("T.parallel")
    actual, expected = outputs(
        [build(one, cpu()) for one in (scheduled, lowered)], random_inputs(lowered)
    )
    for x, y in zip(actual, expected):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


def test_loops_whose_extents_are_known_only_in_a_run_stay():
    n = tvm.tirx.Var("n", "int64")
    x = te.placeholder((n, 8))
    mod = tvm.IRModule({"main": te.create_prim_func([x, te.compute((n, 8), lambda i, j: x[i, j])])})
    tvm.ir.assert_structural_equal(with_plain_schedules(mod), mod)
