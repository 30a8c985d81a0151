"""Comparisons on a tiny landscape, and recording a real one."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tiny_landscape import landscape
from tvm import TVMError
from tvm.autotvm.measure import MeasureResult

from benchmarks import ablation, compare, operators, record, replay, runs, sensitivity, tables
from benchmarks.landscape import dump, load
from benchmarks.resume import read
from benchmarks.runs import Job, run
from benchmarks.tables import curve

OPERATOR = "registers-64"


@pytest.fixture
def tiny_file(tmp_path):
    (tmp_path / "tiny.npz").write_bytes(dump(landscape()))
    return tmp_path / "tiny.npz"


@pytest.fixture
def in_this_process(monkeypatch):
    """Run all jobs here: a worker process first imports TVM, and `make soak` has them."""
    monkeypatch.setattr(
        runs, "ProcessPoolExecutor", lambda workers, mp_context: ThreadPoolExecutor(workers)
    )


def options(file, out, seeds=1, trials=16):
    """Of every comparison here, on the landscape in a file."""
    given = f"--landscapes {file} --out {out} --seeds {seeds} --trials {trials} --workers 1"
    return given.split()


@pytest.mark.usefixtures("in_this_process")
def test_a_comparison_is_stored_and_resumed(tiny_file, tmp_path, capsys):
    tuners = ["--tuners", "OpEvo-published", "Random", "Grid", "G-BFS"]
    compare.main([*options(tiny_file, tmp_path / "out", seeds=2), *tuners])
    first = (tmp_path / "out" / "runs.jsonl").read_text().splitlines()
    with open(tmp_path / "out" / "runs.jsonl", "a") as file:
        file.write('{"landscape": "tiny", "torn')
    compare.main([*options(tiny_file, tmp_path / "out", seeds=3), *tuners])
    second = (tmp_path / "out" / "runs.jsonl").read_text().splitlines()
    assert len(first) == 2 * 3 * 2  # known and hidden constraints; G-BFS needs splits
    assert second[: len(first)] == first
    assert len(second) == 2 * 3 * 3 + 1  # and the torn line

    assert {(run["landscape"], run["tuner"]) for run in read(tmp_path / "out" / "runs.jsonl")} == {
        (name, tuner)
        for name in ("tiny", "tiny, hidden")
        for tuner in ("OpEvo-published", "Random", "Grid")
    }
    assert {path.name for path in (tmp_path / "out" / "pictures").iterdir()} == {
        "tiny.png",
        "tiny-hidden.png",
    }
    printed = capsys.readouterr().out
    assert (tmp_path / "out" / "tables.md").read_text() in printed
    assert "| OpEvo-published against |" in printed


@pytest.mark.soak
def test_runs_have_worker_processes(tiny_file, tmp_path):
    jobs = [Job(str(tiny_file), True, "Grid", seed, 4) for seed in range(2)]
    results = runs.run_all(jobs, tmp_path / "runs.jsonl", workers=1)
    assert [(result["seed"], result["measured"]) for result in results] == [(0, 4), (1, 4)]


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
    given = options(tiny_file, tmp_path / "out", seeds=2)
    tuners = ["OpEvo-published mutation_rate=0.5", "OpEvo-published mutation_rate=0.1"]
    sensitivity.main(["q", *given, "--mode", "hidden", "--tuners", *tuners])
    found = [
        json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()
    ]
    assert {run["tuner"] for run in found} == set(tuners)
    assert len({json.dumps(run["steps"]) for run in found}) > 2
    assert "OpEvo-published mutation_rate=0.1" in capsys.readouterr().out


@pytest.mark.usefixtures("in_this_process")
def test_the_ablation_has_a_row_for_each_part(tiny_file, tmp_path, capsys):
    ablation.main([*options(tiny_file, tmp_path), "--tuners", "OpEvo", "CategoricalKernel"])
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
    given = options(tiny_file, tmp_path / "out", trials=8)
    for factor in (1, 2):
        whole = landscape()
        whole.time *= factor
        tiny_file.write_bytes(dump(whole))
        compare.main([*given, "--tuners", "Grid", "--mode", "hidden"])
    assert len(read(tmp_path / "out" / "runs.jsonl")) == 2


class TestRecord:
    @pytest.fixture
    def tiny_operator(self, monkeypatch, tmp_path):
        """A space of TOPI's with 6 configurations, and the folder of recordings."""
        group = {"tiny": operators._dense("dense_nopack.x86", 1, 2, 4)}
        for names in (operators.TOPI, operators._CPU):
            monkeypatch.setitem(names, "tiny", group["tiny"])
        monkeypatch.setattr(record, "_GROUPS", {"topi": group})
        monkeypatch.setattr(record, "FOLDER", tmp_path)
        monkeypatch.setattr(record, "_MIN_REPEAT_MS", 0)
        return tmp_path

    def test_the_command_records_a_group_that_all_tuners_can_search(
        self, tiny_operator, tmp_path, capsys
    ):
        record.main(["topi"])
        path = tiny_operator / "topi" / "tiny.npz"
        whole = load(path)
        assert f"{path}: 6 configurations, 0% failed, best " in capsys.readouterr().out
        assert len(whole) == whole.size
        assert whole.metadata["device"]
        assert whole.metadata["best_timed_again"]
        for tuner in ("OpEvo", "XGB"):
            assert curve(run(Job(str(path), False, tuner, 0, 512)))[-1] == 1.0

    def test_the_best_are_timed_again_except_for_those_that_then_fail(self):
        whole = landscape()
        best = np.argsort(whole.time)[:3]
        kept = float(whole.time[best[1]])
        record._time_again(whole, best, np.array([[1, 2, 3], [2, np.nan, 3], [9, 2, 3]]))
        assert whole.time[best].tolist() == [2, kept, 3]
        assert np.isnan(whole.time[whole.error > 0]).all()

    def test_recording_stops_if_the_first_configurations_all_fail(self, tiny_operator, monkeypatch):
        monkeypatch.setattr(
            record.LocalRunner,
            "run",
            lambda self, inputs, builds: [
                MeasureResult(("", TVMError("no device")), 4, 0, 0) for _ in inputs
            ],
        )
        with pytest.raises(SystemExit, match=r"the first 6 configurations failed.* no device"):
            record.main(["tiny"])
        assert not (tiny_operator / "topi" / "tiny.npz").exists()

    def test_a_stopped_recording_resumes(self, tiny_operator, monkeypatch):
        path = tiny_operator / "topi" / "tiny.npz"
        run, asked = record.LocalRunner.run, []

        def stop_in_the_second_batch(self, inputs, builds):
            if len(asked) == 4:
                asked.clear()
                raise KeyboardInterrupt
            asked.extend(measured.config.index for measured in inputs)
            return run(self, inputs, builds)

        monkeypatch.setattr(record, "_BATCH", 4)
        monkeypatch.setattr(record.LocalRunner, "run", stop_in_the_second_batch)
        with pytest.raises(KeyboardInterrupt):
            record.main(["tiny"])
        first = load(path)
        assert len(first) == 4
        assert not first.metadata.get("best_timed_again")
        record.main(["tiny"])
        whole = load(path)
        assert len(whole) == 6
        np.testing.assert_array_equal(whole.knob_indices[:4], first.knob_indices)
        rest = set(range(6)) - set(first.config_indices(first.knob_indices))
        assert set(asked[:2]) == rest  # then the best, again
        before = path.read_bytes()
        record.main(["tiny"])
        assert path.read_bytes() == before

    def test_the_file_of_another_operator_is_rejected(self, tiny_file):
        with pytest.raises(SystemExit, match="is the landscape of another operator"):
            record.main([OPERATOR, "--out", str(tiny_file)])


class TestRatios:
    def runs(self, tuner, landscape, trial, seconds):
        """Of two seeds, which find the optimum at a trial and after the tuner's own seconds."""
        steps = [[1, 0.5, 0.0], [trial, 1.0, seconds]] if trial else [[1, 0.5, 0.0]]
        key = {"tuner": tuner, "landscape": landscape, "trials": 40, "measured": 40}
        return [{**key, "seed": seed, "seconds": seconds, "steps": steps} for seed in range(2)]

    def test_ratios_are_to_xgbtuner_of_each_space_and_pooled(self):
        results = [
            *self.runs("OpEvo", "a", 10, 1.0),
            *self.runs(runs.KNOBS, "a", 20, 12.0),
            *self.runs("OpEvo", "b", 20, 1.0),
            *self.runs("XGB", "b", None, 20.0),
        ]
        pooled, each = tables.ratios(results)
        half, quarter = "0.50 (0.50 to 0.50)", "0.25 (0.25 to 0.25)"
        assert f"| OpEvo | {half} | {half} | {half} | {quarter} |" in pooled
        assert f"| b | OpEvo | {half} | {half} | {half} | {quarter} |" in each
        assert f" | {half} | {quarter} |" in tables.summary(results)
        assert each in tables.tables(results, ["OpEvo"])
        assert tables.ratios(self.runs("OpEvo", "a", 10, 1.0)) == ("", "")
