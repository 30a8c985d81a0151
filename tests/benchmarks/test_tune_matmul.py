"""What `make tune` runs, from the command line, and how the demonstration uses such runs."""

import io
import json
import shutil
import subprocess
import sys
from contextlib import redirect_stdout

import pytest
import tvm
from tvm import autotvm

from benchmarks import demonstration, tune_matmul


def shorten(monkeypatch):
    """A small product, timed twice."""
    monkeypatch.setattr(tune_matmul, "SHAPE", (32, 32, 32))
    monkeypatch.setattr(tune_matmul, "ROUNDS", 2)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The folder of a run, and what it printed."""
    folder = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        shorten(patch)
        tune_matmul.main(["--trials", "2", "--out", str(folder)])
    return folder, printed.getvalue()


def test_it_compares_the_tuners_and_writes_logs_and_figures(tuned):
    folder, printed = tuned
    trials = {
        name: len((folder / f"{name.lower()}.json").read_text().splitlines())
        for name in ("OpEvoTuner", "XGBTuner")
    }
    assert trials["XGBTuner"] == 2 <= trials["OpEvoTuner"]
    figures = json.loads((folder / "figures.json").read_text())
    assert figures["trials"] == {**trials, "OpEvoTuner, as many trials": 2}
    assert (
        figures["now"].keys()
        == figures["best"].keys()
        == figures["seconds"].keys()
        == figures["trials"].keys()
    )
    assert (
        figures["seconds"]["OpEvoTuner"]
        >= figures["seconds"]["XGBTuner"]
        > figures["seconds"]["OpEvoTuner, as many trials"] / 2
    )
    *_, as_long, as_many, next_command = lines = printed.splitlines()
    rows = {words[0]: words[1:] for line in lines if (words := line.split())}
    assert all(float(rows[name][0]) > 0 for name in ("untuned", "OpEvoTuner", "XGBTuner"))
    assert "all outputs match numpy's" in "\n".join(lines)
    assert as_long.startswith("After ")
    assert as_many.startswith("After 2 trials each")
    assert "make tune-network" in next_command


def test_the_demonstration_times_the_configurations_of_runs_that_are_there(
    tuned, tmp_path, capsys, monkeypatch
):
    shorten(monkeypatch)
    monkeypatch.setattr(demonstration, "subprocess", None)  # none is repeated
    for seed in range(2):
        copy = shutil.copytree(tuned[0], tmp_path / str(seed))
        figures = json.loads((copy / "figures.json").read_text())
        (copy / "figures.json").write_text(json.dumps({**figures, "seed": seed}))
    demonstration.main(
        ["--seeds", "2", "--out", str(tmp_path), "--picture", str(tmp_path / "pairs.png")]
    )
    assert (tmp_path / "pairs.png").stat().st_size > 0
    note, *_, first, second = capsys.readouterr().out.splitlines()
    assert note.startswith("The best known configuration reaches ")
    assert (first.split()[1], second.split()[1]) == ("0", "1")
    assert max(float(row.split()[-2]) for row in (first, second)) <= 1


def test_it_says_by_how_much_the_configuration_is_faster_after_as_long_and_after_as_many_trials():
    as_many = "OpEvoTuner, as many trials"
    said = tune_matmul.conclusion(
        {"OpEvoTuner": 90.0, "XGBTuner": 75.0, as_many: 74.0},
        {"OpEvoTuner": 300, "XGBTuner": 96, as_many: 96},
        {"OpEvoTuner": 85.4, "XGBTuner": 85.0, as_many: 21.4},
    )
    assert said == (
        "After 85 s of tuning each, OpEvoTuner's configuration is 1.20 times as fast as "
        "XGBTuner's: 90.0 and 75.0 GFLOPS.\n"
        "After 96 trials each, 21 s and 85 s, it is as fast as XGBTuner's, within 2%: 74.0 "
        "and 75.0 GFLOPS."
    )


def test_it_notices_that_the_machine_was_busy():
    calm = {"OpEvoTuner": 90.0, "XGBTuner": 75.0}
    assert tune_matmul.interference(calm, {"OpEvoTuner": 80.0, "XGBTuner": 70.0}) == ""
    said = tune_matmul.interference(calm, {"OpEvoTuner": 60.0, "XGBTuner": 70.0})
    assert "OpEvoTuner: 90.0 GFLOPS while tuning and 60.0 now." in said
    assert "XGBTuner" not in said
    assert "XGBTuner: 75.0 GFLOPS" in tune_matmul.interference(
        calm, {"OpEvoTuner": 90.0, "XGBTuner": 100.0}
    )


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_90"])
def test_operands_are_in_the_order_that_the_task_has(target):
    task = tune_matmul.make_task(tvm.target.Target(target))
    with task.target:
        _, tensors = task.instantiate(autotvm.task.space.FallbackConfigEntity())
    arrays, product, expected = tune_matmul.inputs(task, tvm.cpu())
    assert [array.shape for array in arrays] == [
        tuple(map(int, tensor.shape)) for tensor in tensors
    ]
    assert isinstance(tensors[product].op, tvm.te.ComputeOp)
    assert expected.shape == arrays[product].shape


@pytest.mark.skipif(tvm.cuda(0).exist, reason="needs a machine without a GPU")
def test_it_refuses_cuda_without_a_gpu(capsys):
    with pytest.raises(SystemExit) as ended:
        tune_matmul.main(["--target", "cuda"])
    assert ended.value.code == 2
    assert "error: this machine has no cuda device" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "0"], "--trials must be at least 1, 0 given"),
        (["--seed", "-1"], "--seed must be at least 0, -1 given"),
    ],
)
def test_it_rejects_invalid_arguments_in_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        tune_matmul.main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: {message}")


@pytest.mark.soak
def test_it_is_a_command():
    command = [sys.executable, "-m", "benchmarks.tune_matmul", "--help"]
    assert (
        "--trials"
        in subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    )
