"""Comparisons on a tiny landscape, and recording a real one."""

import csv
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tiny_landscape import landscape

from benchmarks import ablation, compare, record, replay, runs, sensitivity
from benchmarks.curves import curve
from benchmarks.landscape import dump, load
from benchmarks.resume import read
from benchmarks.runs import Job, run

OPERATOR = "registers-64"


@pytest.fixture
def tiny_file(tmp_path):
    (tmp_path / "tiny.npz").write_bytes(dump(landscape()))
    return tmp_path / "tiny.npz"


@pytest.fixture
def in_this_process(monkeypatch):
    """Run all jobs here: a worker process first imports TVM, and one test has them."""
    monkeypatch.setattr(
        runs, "ProcessPoolExecutor", lambda workers, mp_context: ThreadPoolExecutor(workers)
    )


def test_a_comparison_is_stored_and_resumed(tiny_file, tmp_path, capsys, request):
    arguments = [
        "--landscapes",
        tiny_file,
        "--trials",
        16,
        "--workers",
        1,
        "--out",
        tmp_path / "out",
    ]
    tuners = ["--tuners", "OpEvo-published", "Random", "Grid", "G-BFS"]
    compare.main([*map(str, arguments), *tuners, "--seeds", "2"])
    first = (tmp_path / "out" / "runs.jsonl").read_text().splitlines()
    with open(tmp_path / "out" / "runs.jsonl", "a") as file:
        file.write('{"landscape": "tiny", "torn')
    request.getfixturevalue("in_this_process")
    compare.main([*map(str, arguments), *tuners, "--seeds", "3"])
    second = (tmp_path / "out" / "runs.jsonl").read_text().splitlines()
    assert len(first) == 2 * 3 * 2  # known and hidden constraints; G-BFS needs splits
    assert second[: len(first)] == first
    assert len(second) == 2 * 3 * 3 + 1  # and the torn line

    with open(tmp_path / "out" / "runs.csv") as file:
        rows = list(csv.DictReader(file))
    assert {(row["landscape"], row["tuner"]) for row in rows} == {
        (name, tuner)
        for name in ("tiny", "tiny, hidden")
        for tuner in ("OpEvo-published", "Random", "Grid")
    }
    assert len(rows) == 2 * 3 * 3
    assert {path.name for path in (tmp_path / "out" / "pictures").iterdir()} == {
        "tiny.png",
        "tiny-hidden.png",
    }
    printed = capsys.readouterr().out
    assert (tmp_path / "out" / "tables.md").read_text() in printed
    assert "| OpEvo-published against |" in printed


def test_a_run_is_the_improvements_of_the_best_so_far(tiny_file):
    result = run(Job(str(tiny_file), True, "Grid", 0, 24))
    best, expected = curve(result), []
    whole = landscape()
    for index in range(24):
        milliseconds, error = whole.look_up(index)
        expected.append(0 if error else whole.optimum / milliseconds)
    np.testing.assert_allclose(best, np.maximum.accumulate(expected), rtol=1e-6)
    assert result["measured"] == 24
    times = [seconds for *_, seconds in result["steps"]]
    assert times == sorted(times)
    assert 0 < times[-1] <= result["seconds"] + 1e-4  # rounded


@pytest.mark.parametrize(
    ("tuner", "batch", "measured_at_once"), [("Grid", 2, 2), ("Grid", 8, 8), ("Droplet", 8, 16)]
)
def test_batches_are_as_large_as_asked_for_but_for_droplet(
    tiny_file, monkeypatch, tuner, batch, measured_at_once
):
    sizes = []
    look_up = replay.LookUp.run
    monkeypatch.setattr(
        replay.LookUp,
        "run",
        lambda self, *given: sizes.append(self.n_parallel) or look_up(self, *given),
    )
    run(Job(str(tiny_file), True, tuner, 0, 4, batch))
    assert set(sizes) == {measured_at_once}


def test_a_tuner_that_stops_early_keeps_its_best(tiny_file):
    result = run(Job(str(tiny_file), False, "OpEvo-published", 0, 100))
    assert result["measured"] == len(landscape())
    assert curve(result)[-1] == 1.0


@pytest.mark.usefixtures("in_this_process")
def test_parameters_change_the_search(tiny_file, tmp_path, capsys):
    arguments = [
        "--landscapes",
        tiny_file,
        "--trials",
        16,
        "--workers",
        1,
        "--seeds",
        2,
        "--out",
        tmp_path / "out",
    ]
    tuners = ["OpEvo-published mutation_rate=0.5", "OpEvo-published mutation_rate=0.1"]
    sensitivity.main(["q", *map(str, arguments), "--mode", "hidden", "--tuners", *tuners])
    found = [
        json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()
    ]
    assert {run["tuner"] for run in found} == set(tuners)
    assert len({json.dumps(run["steps"]) for run in found}) > 2
    assert "OpEvo-published mutation_rate=0.1" in capsys.readouterr().out


@pytest.mark.usefixtures("in_this_process")
def test_the_ablation_has_a_row_for_each_part(tiny_file, tmp_path, capsys):
    arguments = [
        "--landscapes",
        tiny_file,
        "--trials",
        16,
        "--workers",
        1,
        "--seeds",
        1,
        "--out",
        tmp_path,
    ]
    ablation.main([*map(str, arguments), "--tuners", "OpEvo", "CategoricalKernel"])
    assert "| CategoricalKernel |" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["rho"]])
def test_an_unknown_parameter_is_rejected(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sensitivity", *arguments])
    with pytest.raises(SystemExit, match="must be q or lambda"):
        sensitivity.main()


def test_a_folder_without_landscapes_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as exit:
        compare.main(["--landscapes", str(tmp_path)])
    assert exit.value.code == 2
    assert f"no landscapes (*.npz) in {tmp_path}" in capsys.readouterr().err


@pytest.mark.usefixtures("in_this_process")
def test_runs_on_an_earlier_recording_are_repeated(tiny_file, tmp_path):
    arguments = [
        "--landscapes",
        tiny_file,
        "--trials",
        8,
        "--workers",
        1,
        "--seeds",
        1,
        "--tuners",
        "Grid",
        "--mode",
        "hidden",
    ]
    for factor in (1, 2):
        whole = landscape()
        whole.time *= factor
        tiny_file.write_bytes(dump(whole))
        compare.main([*map(str, arguments), "--out", str(tmp_path / "out")])
    assert len(read(tmp_path / "out" / "runs.jsonl")) == 2


class TestRecord:
    def test_the_command_measures(self, tmp_path):
        """In a process of its own, since its worker must be able to import what it is sent."""
        path = tmp_path / "part.npz"
        command = [
            sys.executable,
            "-m",
            "benchmarks.record",
            OPERATOR,
            "--part",
            "0.0006",
            "--out",
            str(path),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert set(load(path).error) <= {0, 1}
        assert "best nan" not in done.stdout

    def test_the_best_are_timed_again_except_for_those_that_then_fail(self, monkeypatch):
        whole = landscape()
        first = int(np.nanargmin(whole.time))
        kept, index = float(whole.time[first]), whole.config_indices(whole.knob_indices[[first]])[0]
        monkeypatch.setattr(
            record,
            "_measure",
            lambda *given: (float("nan"), 4) if given[-1] == index else (100.0, 0),
        )
        record._time_again(whole, None, OPERATOR, "llvm")
        assert whole.time[first] == kept
        assert set(whole.time[(whole.error == 0) & (np.arange(len(whole)) != first)]) == {100.0}
        assert np.isnan(whole.time[whole.error > 0]).all()

    def test_recording_stops_if_the_first_configurations_all_crash(self, tmp_path, monkeypatch):
        monkeypatch.setattr(record, "_measure", lambda *_: (float("nan"), 4))
        with pytest.raises(SystemExit, match="the first 8 configurations crashed"):
            record.main([OPERATOR, "--part", "0.01", "--out", str(tmp_path / "part.npz")])

    def test_a_stopped_recording_resumes(self, tmp_path, monkeypatch, capsys):
        path = tmp_path / "part.npz"
        measure = record._measure
        asked = []

        def stop_after_three(*arguments):
            asked.append(arguments[-1])
            if len(asked) == 4:
                raise KeyboardInterrupt
            return measure(*arguments)

        monkeypatch.setattr(record, "_measure", stop_after_three)
        with pytest.raises(KeyboardInterrupt):
            record.main([OPERATOR, "--part", "0.0006", "--out", str(path)])
        first = load(path)
        assert len(first) == 3
        record.main([OPERATOR, "--part", "0.0006", "--out", str(path)])
        whole = load(path)
        assert len(whole) == 7
        np.testing.assert_array_equal(whole.knob_indices[:3], first.knob_indices)
        assert asked[4] == asked[3]
        assert not set(asked[:3]) & set(asked[4:8])  # the rest are the best, timed again
        assert len(set(asked)) == 7
        assert "7 configurations" in capsys.readouterr().out
        assert set(whole.error[np.isnan(whole.time)]) <= {1}
        assert (whole.time[whole.error == 0] > 0).all()
        assert whole.metadata["device"]

    def test_crashes_and_timeouts_are_failures(self):
        class Executor:
            def __init__(self, error):
                self.error = error

            def submit(self, *_):
                return self

            def result(self):
                raise self.error

        assert record._measure(Executor(TimeoutError()), OPERATOR, "llvm", 0)[1] == 7
        assert record._measure(Executor(ChildProcessError()), OPERATOR, "llvm", 0)[1] == 4

    def test_the_file_of_another_operator_is_rejected(self, tiny_file):
        with pytest.raises(SystemExit, match="is the landscape of another operator"):
            record.main([OPERATOR, "--out", str(tiny_file)])
