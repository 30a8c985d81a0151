"""The benchmark of runtimes, without one: which options, runs and processes count."""

import json
from argparse import Namespace
from types import SimpleNamespace

import pytest

from benchmarks import runtimes

OPTIONS = Namespace(time_limit=60.0, trials=0, threads=2, target="")


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
        assert runtimes.time_process("OpenVINO", "network.onnx", OPTIONS) == 0.5
    assert (runtimes.count_far(), len(runtimes._counted)) == (2, 3)
    assert next(distances, None) is None
