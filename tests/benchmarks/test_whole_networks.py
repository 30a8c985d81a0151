"""The network benchmark, on small networks."""

import pytest
import xgboost
from tvm import relay
from tvm.relay import testing

from autotvm_opevo.networks import relay as workloads
from benchmarks import network
from benchmarks.network_table import UNTUNED


def two_convolutions(batch):
    """One after the other, for which the graph tuner chooses layouts."""
    data = relay.var("data", shape=(batch, 16, 14, 14))
    hidden = relay.nn.relu(
        relay.nn.conv2d(data, relay.var("first_weight"), channels=16, kernel_size=(3, 3))
    )
    last = relay.nn.conv2d(hidden, relay.var("last_weight"), channels=16, kernel_size=(3, 3))
    body = relay.nn.batch_flatten(relay.nn.relu(last))
    return testing.create_workload(relay.Function(relay.analysis.free_vars(body), body))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_each_method_tunes_and_a_second_run_measures_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(workloads.NETWORKS, "convolutions", two_convolutions)
    methods = [*network.METHODS]
    if not hasattr(xgboost, "rabit"):  # which the cost model of this TVM's MetaSchedule imports
        methods.remove("MetaSchedule")
    command = ["--networks", "convolutions", "--trials-per-task", "4", "--seeds", "1"]
    command += ["--methods", *methods, "--out", str(tmp_path / "runs.jsonl")]
    network.main(command)
    first, runs = capsys.readouterr().out, (tmp_path / "runs.jsonl").read_bytes()
    rows = [
        line.split(" | ") for line in first.splitlines() if line.startswith("| convolutions | ")
    ]
    assert [row[1] for row in rows] == [UNTUNED, *methods]
    assert all(float(row[2].partition(" ")[0]) > 0 for row in rows)
    network.main(command)
    assert capsys.readouterr().out == first
    assert (tmp_path / "runs.jsonl").read_bytes() == runs
