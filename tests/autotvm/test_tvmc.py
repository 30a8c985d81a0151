"""TVM's real command line with OpEvo among its tuners."""

import json
import subprocess
import sys

import pytest
from instant_measuring import instant
from onnx_files import save_onnx
from tvm import autotvm
from tvm.driver.tvmc import autotuner

from autotvm_opevo.tvmc import main


@pytest.fixture(autouse=True)
def _no_download(monkeypatch):
    # of pre-tuned configurations, which tvmc tries for every model
    monkeypatch.setenv("TOPHUB_LOCATION", "NONE")


def seconds(config):
    return 1e-3 * (2 + config.index % 7)


@pytest.fixture
def tune(tmp_path, monkeypatch, capfd):
    """Runs ``tvmc tune`` on a model of one convolution, whose single task has a small space;
    returns its output.
    """
    save_onnx(tmp_path / "model.onnx")
    measure_option = instant(seconds)
    monkeypatch.setattr(autotvm, "measure_option", lambda **_: measure_option)

    def run(output, *arguments, tuner="opevo", trials=5):
        options = ["--target", "llvm", "--number", 1, "--tuner", tuner, "--trials", trials]
        options += ["--output", tmp_path / output]
        capfd.readouterr()
        assert not main(
            [str(argument) for argument in ("tune", *options, *arguments, tmp_path / "model.onnx")]
        )
        return "".join(capfd.readouterr())

    return run


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def entities(path):
    return [json.dumps(row["config"]["entity"]) for row in rows(path)]


@pytest.mark.soak
def test_tunes_a_model_for_real(tmp_path):
    save_onnx(tmp_path / "model.onnx")
    quick = ["--number", "1", "--repeat", "1", "--min-repeat-ms", "1", "--timeout", "60"]
    options = ["--target", "llvm", *quick, "--tuner", "opevo", "--trials", "3"]
    command = [sys.executable, "-m", "autotvm_opevo.tvmc", "tune", *options]
    command += ["--output", "log.json", "model.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(set(entities(tmp_path / "log.json"))) == len(rows(tmp_path / "log.json")) == 3


def test_help_lists_the_tuners_beside_tvms_own(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["tune", "--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for name in (",opevo}", "--seed", "xgb_rank_binary", "gridsearch"):
        assert name in printed


@pytest.mark.parametrize("tuner", ["opevo", "random"])
def test_measures_as_many_trials_as_asked(tune, tmp_path, tuner):
    tune("log.json", tuner=tuner, trials=20)
    assert len(set(entities(tmp_path / "log.json"))) == 20


def test_a_seed_makes_the_search_reproducible(tune, tmp_path):
    for output, seed in [("a", 7), ("b", 7), ("c", 8)]:
        tune(output, "--seed", seed, trials=24)
    first, again, other_seed = (entities(tmp_path / name) for name in "abc")
    assert first == again
    assert first != other_seed


def test_nothing_stays_replaced_in_tvm(tune):
    before = autotuner.tune_tasks, autotuner.RandomTuner
    tune("log.json")
    assert (autotuner.tune_tasks, autotuner.RandomTuner) == before


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["--tuner", "xgb", "--seed", "1"],
                "argument --seed: must be at least 0, and is only for --tuner opevo",
            ),
            (["--seed", "1"], "argument --seed: must be at least 0, and is only for --tuner opevo"),
            (
                ["--tuner", "opevo", "--enable-autoscheduler", "--seed", "1"],
                "without AutoScheduler",
            ),
            (["--tuner", "opevo", "--seed", "-1"], "argument --seed: must be at least 0"),
            (["--tuner", "opevolution"], "argument --tuner: invalid choice: 'opevolution'"),
        ],
    )
    def test_invalid_ones_are_refused(self, tmp_path, capfd, arguments, message):
        output = ["--target", "llvm", "--output", str(tmp_path / "log.json")]
        with pytest.raises(SystemExit) as caught:
            main(["tune", *output, *arguments, "model.onnx"])
        assert caught.value.code == 2
        assert message in capfd.readouterr().err
        assert not list(tmp_path.iterdir())

    def test_without_autotvm_the_error_says_which_tvm_it_found(self, tmp_path):
        (tmp_path / "tvm.py").write_text("__version__ = '0.27.0'")
        script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import autotvm_opevo.tvmc"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 1
        assert "found TVM 0.27.0" in done.stderr.splitlines()[-1]


class TestTuningRecords:
    """``--tuning-records OLD --output NEW``: NEW alone must hold the best that is known."""

    @pytest.fixture
    def old(self, tune, tmp_path):
        """Records of twelve configurations, the fourth of which nothing beats."""
        tune("old.json", trials=12)
        records = rows(tmp_path / "old.json")
        records[3]["result"][0] = [1e-9]
        (tmp_path / "old.json").write_text("".join(json.dumps(row) + "\n" for row in records))
        return tmp_path / "old.json"

    def test_the_best_known_record_is_written_to_the_output(self, tune, old, tmp_path):
        new = tmp_path / "new.json"
        printed = tune("new.json", "--tuning-records", old, trials=4)
        assert rows(new)[0] == rows(old)[3]
        assert len(rows(new)) == 1 + 4  # it is not a trial
        assert not set(entities(new)[1:]) & set(entities(old))
        assert "Progress: (4/4)" in printed
        assert "loaded records" not in printed

        tune("new.json", "--tuning-records", old, trials=2)
        assert entities(new).count(entities(old)[3]) == 1  # not added again
        assert len(rows(new)) == 1 + 4 + 2

    def test_the_output_is_written_although_nothing_is_left_to_measure(
        self, tune, tmp_path, caplog
    ):
        tune("old.json", trials=10_000)
        caplog.clear()
        tune("new.json", "--tuning-records", tmp_path / "old.json")
        (best,) = rows(tmp_path / "new.json")
        assert best in rows(tmp_path / "old.json")
        assert best["result"][0] == [0.002]
        (line,) = (record.getMessage() for record in caplog.records if record.name == "autotvm")
        assert line.startswith(
            "OpEvoTuner: search space exhausted for conv2d_NCHWc.x86. Best configuration: 2.000 ms"
        )

    def test_an_output_that_lacks_the_last_line_end_stays_readable(self, tune, old, tmp_path):
        new = tmp_path / "new.json"
        new.write_text(old.read_text().splitlines()[0])
        tune("new.json", "--tuning-records", old, trials=1)
        assert len(rows(new)) == 3

    def test_one_file_for_both_gets_no_duplicate(self, tune, old):
        tune(old.name, "--tuning-records", old, trials=4)
        assert len(rows(old)) == len(set(entities(old))) == 16
