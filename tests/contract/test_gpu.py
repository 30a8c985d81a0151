"""What both adapters do with a GPU, by a simulated one: nothing here ran on a real one."""

import re
import sys
from importlib.util import find_spec

import pytest
import simulated_gpu

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux"),
    pytest.mark.skipif(not simulated_gpu.COMPILER, reason="needs a C compiler"),
]

HAS_AUTOTVM = find_spec("tvm.autotvm")
OPERATOR = ("nn.dense", (64, 512), (256, 512)) if HAS_AUTOTVM else ("matmul", (64, 512), (512, 256))
ADAPTER, NETWORKS = ("autotvm", "relay") if HAS_AUTOTVM else ("meta_schedule", "relax")
DENSE = ["--operator", OPERATOR[0]]
for rows, columns in OPERATOR[1:]:
    DENSE += ["--tensor", f"{rows}x{columns}"]
# The networks are not compared: they run in the process itself.
TUNE = f"""
from autotvm_opevo.{ADAPTER} import local_target
from autotvm_opevo.{ADAPTER}.network import tune_network
from autotvm_opevo.networks.{NETWORKS} import operator
mod, params = operator("{OPERATOR[0]}", {OPERATOR[1:]})
print(tune_network(mod, params, local_target(), "log.json", 8, evaluate=False, seed=0))
"""


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    """The environment of a process with a GPU."""
    return simulated_gpu.environment(tmp_path_factory.mktemp("gpu"))


@pytest.mark.soak
def test_a_gpu_is_taken_and_a_run_resumes_with_cuda_as_its_target(gpu, tmp_path):
    log, best = str(tmp_path / "log.json"), str(tmp_path / "log.best.json")
    tune = "-m", "autotvm_opevo", "tune", *DENSE, "--seed", "0", "--log", log
    printed, status = simulated_gpu.run(gpu, *tune, "--trials", "4")
    assert status == 0, printed
    assert re.search("no --target given, this machine's is .*cuda", printed)
    assert "4 trials, 4 of them now" in printed
    assert "outputs match" in printed
    printed, status = simulated_gpu.run(gpu, *tune, "--trials", "6", "--target", "cuda")
    assert status == 0, printed
    assert "6 trials, 2 of them now" in printed
    logs = [log, best] if HAS_AUTOTVM else [log, f"{log}/best"]
    compare = "-m", "autotvm_opevo", "compare", *logs, *DENSE, "--time-limit", "5s"
    printed, status = simulated_gpu.run(gpu, *compare)
    assert status == 0, printed
    assert "outputs match" in printed


def test_a_fault_of_the_gpu_costs_a_trial_and_not_the_run(gpu, tmp_path, monkeypatch):
    """All calls of its process fail then, so that another one has to go on."""
    monkeypatch.chdir(tmp_path)
    printed, status = simulated_gpu.run(gpu, "-c", TUNE, SIMULATED_FAULT="150000")
    assert status == 0, printed
    assert "8 trials, 8 of them now" in printed
    table = printed[printed.index("failed\n") :]
    assert 1 <= sum(map(int, re.findall(r"(?:run|runtime device) (\d+)$", table, re.M))) < 8
