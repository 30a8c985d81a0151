"""The benchmark of runtimes, without one: which options, runs and processes count."""

import json
from argparse import Namespace
from types import SimpleNamespace

import pytest

from benchmarks import runtimes

OPTIONS = Namespace(time_limit=60.0, threads=2, target="")


def test_a_folder_with_results_of_other_options_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runtimes, "compare", lambda network, options: [network] * 10)
    monkeypatch.setattr(runtimes, "version", lambda package: "1.0")
    arguments = ["--out", str(tmp_path), "--networks", "alexnet", "--time-limit"]
    runtimes.main([*arguments, "60"])
    runtimes.main([*arguments, "60", "--processes", "3"])  # more of the same
    capsys.readouterr()
    with pytest.raises(SystemExit):
        runtimes.main([*arguments, "90"])
    assert "has results with other options" in capsys.readouterr().err


def test_tuning_that_was_stopped_begins_anew_and_what_ended_is_not_repeated(tmp_path, monkeypatch):
    folder, said = tmp_path / "tune_network" / "0", {"trials": 8.0}
    (folder / "log").mkdir(parents=True)
    runs = []

    def run(command, **options):
        assert not [*folder.iterdir()]
        runs.append(command)
        (folder / "tuned.json").write_text(json.dumps(said))

    monkeypatch.setattr(runtimes.subprocess, "run", run)
    for _ in range(2):
        assert runtimes.tune(tmp_path / "alexnet.onnx", folder, 0, OPTIONS) == said
    assert len(runs) == 1


def test_processes_with_far_cores_are_counted_those_before_any_were_near_too(monkeypatch):
    attempts = [(180, 180), (30, 180), (35, 40), *[(180, 35)] * 5]
    distances = iter([float(one) for pair in attempts for one in pair])
    monkeypatch.setattr(runtimes, "core_to_core", lambda: next(distances))
    monkeypatch.setattr(runtimes, "_distances", [])
    monkeypatch.setattr(runtimes, "_counted", [])
    monkeypatch.setattr(
        runtimes.subprocess, "run", lambda *_, **options: SimpleNamespace(stdout="0.5\n")
    )
    for _ in range(3):
        seconds, distance = runtimes.time_process("OpenVINO", "network.onnx", OPTIONS)
        runtimes._counted.append(distance)
        assert seconds == 0.5
    assert runtimes.count_far() == 2
    assert next(distances, None) is None


def test_processes_that_were_timed_are_not_timed_again_and_far_ones_still_count(
    tmp_path, monkeypatch
):
    options = Namespace(out=tmp_path, repeats=2, processes=4, **vars(OPTIONS))
    tuned = {"trials": 8.0, "seconds": 60.0, "bound": 0.0, "operators": 0.5}
    monkeypatch.setattr(runtimes.onnx_networks, "save", lambda network, model: None)
    monkeypatch.setattr(runtimes, "tune", lambda *_: tuned)
    processes = iter(range(1, 12))

    def time_process(name, file, options):
        ended = next(processes, None)
        if ended is None:
            raise KeyboardInterrupt
        return 0.001 * ended, 9e-8 if ended == 3 else 3e-8

    monkeypatch.setattr(runtimes, "time_process", time_process)
    with pytest.raises(KeyboardInterrupt):
        runtimes.compare("alexnet", options)
    processes = iter(range(12, 17))
    monkeypatch.setattr(runtimes, "_distances", [])
    monkeypatch.setattr(runtimes, "_counted", [])
    row = runtimes.compare("alexnet", options)
    assert row[-5:-1] == [
        "7.0 (1.0 to 13.0)",
        "8.0 (2.0 to 14.0)",
        "9.0 (3.0 to 15.0)",
        "10.0 (4.0 to 16.0)",
    ]
    assert runtimes.count_far() == 1
    assert next(processes, None) is None
