"""Run logs survive torn lines and full disks, and say what earlier runs did."""

import json
import math

import numpy as np
import pytest

from autotvm_opevo.tuning.run_log import (
    BestConfirmed,
    MachineMeasured,
    MeasuringBegan,
    RunEnded,
    RunLog,
    RunStarted,
    TrialEnded,
    read,
)


def test_overwriting_deletes_an_earlier_run_log(tmp_path):
    RunLog(tmp_path / "journal").write(TrialEnded("dense"))
    RunLog(tmp_path / "journal")
    assert (tmp_path / "journal").exists()
    RunLog(tmp_path / "journal", overwrite=True)
    assert not (tmp_path / "journal").exists()


def test_a_torn_line_does_not_corrupt_the_next_one(tmp_path):
    path = tmp_path / "journal"
    path.write_text('3\nnull\n{"task": "den')
    RunLog(path).write(TrialEnded("conv2d"))
    assert [event.task for event in read(path)] == ["conv2d"]


def test_a_write_error_is_logged_once(tmp_path, caplog):
    run_log = RunLog(tmp_path / "no folder" / "journal")
    for _ in range(3):
        run_log.write(TrialEnded("dense"))
    assert caplog.text.count("cannot write") == 1


@pytest.mark.parametrize(
    "event",
    [
        {"type": "NetworkCompared", "before": latency, "after": 1.0}
        for latency in (-1, 0, "x", math.inf, math.nan)
    ]
    + [
        {"type": "BestConfirmed", "task": "t", "record": "", "latencies": one}
        for one in ([], [0], [math.nan], ["x"])
    ]
    + [
        {"type": "MachineMeasured", "bounds": {"a": -1}},
        {"type": "RunEnded", "phases": {"running": "?"}},
    ]
    + [
        {"type": "ExtentsKnown", "extents": extents}
        for extents in (["a"], {"a": [8]}, {"a": {"b": []}})
    ]
    + [
        {"type": "NetworkCompared", "before": 1.0},
        {"type": "RunStarted", "operators": [[0, ["dense"]]], "tuner": "OpEvo"},
        {"type": "RunStarted", "operators": [[math.inf, ["dense"]]], "tuner": "OpEvo"},
        {"type": "Nonsense"},
        {"type": 3},
    ],
)
def test_nonsense_is_skipped(tmp_path, event):
    (tmp_path / "journal").write_text(json.dumps({"time": 1.0, **event}) + "\n")
    assert not list(read(tmp_path / "journal"))


def test_events_that_are_written_no_longer_are_skipped_in_silence(tmp_path, caplog):
    path = tmp_path / "journal"
    path.write_text('{"type": "YardstickTimed", "time": 1.0, "kernel": "k", "latency": 1e-3}\n' * 2)
    RunLog(path).write(TrialEnded("dense"))
    assert [event.task for event in read(path)] == ["dense"]
    assert not caplog.records


def test_events_with_what_is_written_no_longer_are_read(tmp_path):
    path = tmp_path / "journal"
    events = [
        {"type": "BestWritten", "aligned": 2, "kept_untuned": 3},
        {"type": "MachineMeasured", "bounds": {"dense": 1e-3}, "flops": 2e11, "threads": 2},
        {"type": "RunEnded", "phases": {"running": 1.5}, "learned_from": {"dense": {"a.json": 2}}},
    ]
    path.write_text("".join(json.dumps({"time": 1.0, **event}) + "\n" for event in events))
    runs = RunLog(path).runs
    assert (runs.bounds, runs.phases) == ({"dense": 1e-3}, {"running": 1.5})


@pytest.mark.parametrize("moment", [-1.0, 1e18, math.nan, math.inf, "now"])
def test_an_event_of_no_possible_time_is_skipped(tmp_path, moment):
    (tmp_path / "journal").write_text(json.dumps({"type": "MeasuringBegan", "time": moment}) + "\n")
    assert not list(read(tmp_path / "journal"))


def test_numpys_numbers_are_written(tmp_path):
    RunLog(tmp_path / "journal").write(
        RunEnded({"running": np.float64(1.5), "building": np.float32(2)})
    )
    (event,) = read(tmp_path / "journal")
    assert event.phases == {"running": 1.5, "building": 2.0}


def test_the_phases_of_all_runs_are_read_back(tmp_path):
    run_log = RunLog(tmp_path / "journal")
    for _ in range(2):
        run_log.write(RunEnded({"running": 1.5, "building": 2.0, "searching": 0.0}))
    runs = RunLog(run_log.path).runs
    assert (runs.phases, runs.runs_ended) == ({"running": 3.0, "building": 4.0}, 2)


def test_each_network_is_kept_once_and_the_last_one_last(tmp_path):
    run_log = RunLog(tmp_path / "journal")
    first, second = [(8, ["a"]), (1, ["b"])], [(1, ["a"]), (1, ["c"])]
    for operators in (first, second, first):
        run_log.write(RunStarted(operators, "OpEvo"))
    networks = [{("a",): 1, ("c",): 1}, {("a",): 8, ("b",): 1}]
    assert RunLog(run_log.path).runs.networks == networks


def test_what_a_run_was_asked_for_and_its_limits_are_read_back(tmp_path):
    run_log = RunLog(tmp_path / "journal")
    run_log.write(
        RunStarted(
            [(2, ["dense"])],
            "OpEvo",
            "autotvm-opevo tune",
            100,
            {"dense": 2e6, "pool": 0.0},
            {"dense": "dense 1x8"},
        )
    )
    run_log.write(MachineMeasured({"dense": 1e-3}, ["dense"], {"dense": 4e6}))
    run_log.write(MeasuringBegan())
    run_log.write(BestConfirmed("dense", "{}", [1.1e-3, 1.2e-3], ties=1))
    runs = RunLog(run_log.path).runs
    assert (runs.command, runs.budget) == ("autotvm-opevo tune", 100)
    assert runs.names == {"dense": "dense 1x8"}
    assert (runs.flop, runs.bounds) == ({"dense": 2e6}, {"dense": 1e-3})
    assert (runs.memory_bound, runs.sizes) == ({"dense"}, {"dense": 4e6})
    assert len(runs.measuring_since) == 1
    run_log.write(MachineMeasured({"dense": 1e-3}))
    runs = RunLog(run_log.path).runs
    assert runs.memory_bound == set()
    assert runs.confirmed["dense"].latencies == [1.1e-3, 1.2e-3]
    assert runs.confirmed["dense"].ties == 1
