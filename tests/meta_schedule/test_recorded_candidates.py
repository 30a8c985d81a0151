"""Candidates that remember their measurements, in TVM's own loop."""

from unittest import mock

import pytest
import tvm
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.builder import BuilderInput
from tvm.s_tir.meta_schedule.runner import RunnerInput

from benchmarks import meta_schedule_replay
from benchmarks.recorded_candidates import RecordedCandidates
from benchmarks.workloads import cpu, matmul


@pytest.fixture
def file(tmp_path):
    return tmp_path / "MM.jsonl"


def landscape(file, device="this"):
    return RecordedCandidates(file, {"device": device})


def searched(landscape, method="OpEvo", trials=8):
    options = meta_schedule_replay.METHODS[method](0)
    return meta_schedule_replay.replay(
        matmul(16, 16, 16), landscape, options, {"seed": 0, "trials": trials}
    )


def run_twice(landscape):
    """The results of a batch that has a candidate twice."""
    mod = tvm.IRModule({"main": matmul(16, 16, 16)})
    built = landscape.builder.build([BuilderInput(mod, cpu())] * 2)
    if any(one.error_msg for one in built):
        return [one.error_msg for one in built]
    arguments = ArgInfo.from_entry_func(mod, remove_preproc=True)
    return [
        one.result()
        for one in landscape.runner.run(
            [RunnerInput(one.artifact_path, "cpu", arguments) for one in built]
        )
    ]


def test_what_was_measured_once_is_looked_up(file):
    first = searched(landscape(file))
    assert first["new"] == len(first["latencies"]) == 8
    with mock.patch("autotvm_opevo.meta_schedule.local.build_artifact", side_effect=AssertionError):
        again = searched(landscape(file))
    assert again == {"latencies": first["latencies"], "new": 0}


def test_another_device_measures_anew(file):
    searched(landscape(file), trials=4)
    assert searched(landscape(file, device="other"), trials=4)["new"] == 4
    assert len(landscape(file).seconds) == 4


def test_a_candidate_that_a_batch_has_twice_is_measured_once(file):
    recorded = landscape(file)
    first, second = run_twice(recorded)
    assert recorded.measured == 1
    assert [*map(float, first.run_secs)] == [*map(float, second.run_secs)]


def test_a_candidate_that_cannot_be_built_fails_again_without_a_build(file):
    recorded = landscape(file)
    # which takes no module
    with mock.patch("autotvm_opevo.meta_schedule.local.build_artifact", int):
        run_twice(recorded)
    assert recorded.measured == 1
    assert all(one.error_msg for one in run_twice(landscape(file)))


def test_the_tables_show_quality_and_speedups():
    def run(method, latency):
        return {
            "workload": "MM",
            "method": method,
            "seed": 0,
            "trials": 32,
            "latencies": [None, *[latency] * 31],
            "new": 8,
        }

    runs = [
        run(method, latency)
        for method, latency in (("slow", 2e-3), ("fast", 1e-3))
        for _ in range(3)
    ]
    qualities, speedups = meta_schedule_replay.tables(runs, {"MM": 1e-3}, ["slow", "fast"])
    assert "| MM | slow | 0.500 | 0.500 | 2 | 3% | 25% |" in qualities
    assert "| fast | 32 | 2.000 (2.000 to 2.000) | 2.00 |" in speedups


def test_the_best_that_is_known_is_of_the_landscape_or_of_a_run(file):
    runs = [{"workload": "MM", "latencies": [None, 2.0]}, {"workload": "other", "latencies": [0.5]}]
    assert meta_schedule_replay.best(landscape(file), runs, "MM") == 2.0
    landscape(file).add("a", 1.0)
    assert meta_schedule_replay.best(landscape(file), runs, "MM") == 1.0
