"""What `make tune` runs, from the command line."""

import json
import subprocess
import sys

import pytest
import tvm

from benchmarks import tune_matmul


def test_it_compares_the_tuners_and_writes_logs_plot_and_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tune_matmul, "SHAPE", (32, 32, 32))
    tune_matmul.main(["--trials", "2", "--out", str(tmp_path)])
    for name in ("opevotuner", "xgbtuner"):
        records = [json.loads(line) for line in (tmp_path / f"{name}.json").read_text().splitlines()]
        assert len(records) == 2
    assert (tmp_path / "best_so_far.png").stat().st_size > 5_000
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["now"].keys() == figures["best"].keys() == {"OpEvoTuner", "XGBTuner"}
    *_, shown, next_command = lines = capsys.readouterr().out.splitlines()
    rows = {words[0]: words[1:] for line in lines if (words := line.split())}
    assert all(float(rows[name][0]) > 0 for name in ("untuned", "OpEvoTuner"))
    assert "all three outputs match numpy's" in "\n".join(lines)
    assert shown.startswith(("OpEvoTuner is", "XGBTuner is", "OpEvoTuner and", "XGBTuner and"))
    assert "make tune-network" in next_command


def test_it_says_which_is_faster_by_how_much_and_after_how_long():
    seconds = {"OpEvoTuner": 21.4, "XGBTuner": 85.0}
    said = tune_matmul.conclusion({"OpEvoTuner": 90.0, "XGBTuner": 75.0}, seconds)
    assert said == "OpEvoTuner is 1.20 times as fast as XGBTuner: 90.0 and 75.0 GFLOPS, after 21 s of tuning and 85 s."
    said = tune_matmul.conclusion({"OpEvoTuner": 75.0, "XGBTuner": 90.0}, seconds)
    assert said == "XGBTuner is 1.20 times as fast as OpEvoTuner: 90.0 and 75.0 GFLOPS, after 85 s of tuning and 21 s."
    assert "equally fast, within 2%" in tune_matmul.conclusion({"OpEvoTuner": 90.0, "XGBTuner": 89.0}, seconds)


def test_it_notices_that_the_machine_was_busy():
    calm = {"OpEvoTuner": 90.0, "XGBTuner": 75.0}
    assert tune_matmul.interference(calm, {"OpEvoTuner": 80.0, "XGBTuner": 70.0}) == ""
    said = tune_matmul.interference(calm, {"OpEvoTuner": 60.0, "XGBTuner": 70.0})
    assert "OpEvoTuner's best had 90.0 GFLOPS while tuning and has 60.0 now" in said
    assert "XGBTuner" not in said
    assert "XGBTuner's best had 75.0" in tune_matmul.interference(calm, {"OpEvoTuner": 90.0, "XGBTuner": 100.0})


@pytest.mark.skipif(tvm.cuda(0).exist, reason="needs a machine without a GPU")
def test_it_refuses_cuda_without_a_gpu(capsys):
    with pytest.raises(SystemExit) as ended:
        tune_matmul.main(["--target", "cuda"])
    assert ended.value.code == 1
    assert capsys.readouterr() == ("", "tune_matmul: TVM finds no NVIDIA GPU: omit --target to tune for the CPU\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "0"], "--trials must be at least 1, 0 given"),
        (["--seed", "-1"], "--seed must be at least 0, -1 given"),
        (["--target", "abacus"], "--target must be a TVM target, such as llvm or cuda, 'abacus' given"),
    ],
)
def test_it_rejects_invalid_arguments_in_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        tune_matmul.main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: {message}")


def test_it_is_a_command():
    command = [sys.executable, "-m", "benchmarks.tune_matmul", "--help"]
    assert "--trials" in subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
