"""What `make tune` runs, from the command line."""

import json
import subprocess
import sys

import pytest
import tvm

# Half a minute on an idle machine; builds take many times as long on a busy one.
pytestmark = pytest.mark.timeout(2000)


def run(*arguments):
    command = [sys.executable, "-m", "benchmarks.tune_matmul", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


def test_it_compares_the_tuners_and_writes_logs_and_plot(tmp_path):
    done = run("--trials", 2, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("opevo", "xgb"):
        records = [json.loads(line) for line in (tmp_path / f"{name}.json").read_text().splitlines()]
        assert len(records) == 2
    assert (tmp_path / "best_so_far.png").stat().st_size > 5_000
    rows = {words[0]: words[1:] for line in done.stdout.splitlines() if (words := line.split())}
    assert all(float(rows[name][0]) > 0 for name in ("untuned", "OpEvo", "XGB"))
    assert "all three outputs match numpy's" in done.stdout


@pytest.mark.skipif(tvm.cuda(0).exist, reason="needs a machine without a GPU")
def test_it_refuses_cuda_without_a_gpu():
    done = run("--target", "cuda")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "tune_matmul: TVM finds no NVIDIA GPU: omit --target to tune for the CPU\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "0"], "--trials must be at least 1, 0 given"),
        (["--seed", "-1"], "--seed must be at least 0, -1 given"),
        (["--target", "abacus"], "--target must be a TVM target, such as llvm or cuda, 'abacus' given"),
    ],
)
def test_it_rejects_invalid_arguments_in_one_line(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"tune_matmul.py: error: {message}"
