"""Candidates that remember their measurements, in TVM's own loop."""

import numpy as np
import pytest

from benchmarks import meta_schedule_replay
from benchmarks.recorded_candidates import RecordedCandidates
from benchmarks.workloads import matmul


def searched(landscape, method="OpEvo", seed=0, trials=8):
    options = meta_schedule_replay.METHODS[method](seed)
    return meta_schedule_replay.replay(matmul(16, 16, 16), landscape, options, {"seed": seed, "trials": trials})


def test_what_was_measured_once_is_looked_up(tmp_path):
    first = searched(RecordedCandidates(tmp_path / "MM.jsonl"))
    again = searched(RecordedCandidates(tmp_path / "MM.jsonl"))
    assert first["new"] == len(first["latencies"]) == 8
    assert again["new"] == 0
    assert again["latencies"] == first["latencies"]


def test_a_candidate_that_failed_fails_again_without_a_build(tmp_path):
    landscape = RecordedCandidates(tmp_path / "MM.jsonl")
    searched(landscape)
    (tmp_path / "MM.jsonl").write_text((tmp_path / "MM.jsonl").read_text().replace('"seconds": ', '"seconds": null, "was": '))
    failed = searched(RecordedCandidates(tmp_path / "MM.jsonl"))
    assert failed["new"] == 0
    assert failed["latencies"] == [None] * 8


@pytest.mark.soak
def test_tvm_s_search_is_replayed_as_well(tmp_path):
    landscape = RecordedCandidates(tmp_path / "MM.jsonl")
    runs = [searched(landscape, method) for method in (meta_schedule_replay.BASELINE, "random")]
    assert all(len(run["latencies"]) >= 8 for run in runs)


def test_the_tables_show_quality_and_speedups():
    def run(method, latency):
        return {"workload": "MM", "method": method, "seed": 0, "trials": 32, "latencies": [latency] * 32, "new": 8}

    runs = [run(method, latency) for method, latency in (("slow", 2e-3), ("fast", 1e-3)) for _ in range(3)]
    text = meta_schedule_replay.tables(runs, {"MM": 1e-3}, ["slow", "fast"])
    assert "| MM | slow | 0.500 | 0.500 | 2 | 0% | 25% |" in text
    assert "| fast | 32 | 2.000 (2.000 to 2.000) | 2.00 |" in text
    assert np.isfinite(meta_schedule_replay._curve({"latencies": [None, 1.0]}, [2])[0])
