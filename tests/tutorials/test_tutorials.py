"""The tutorials run as a reader runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm

ROOT = Path(__file__).parents[2]


def run(script, *arguments):
    command = [sys.executable, str(ROOT / "tutorials" / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


def test_tune_matmul_leaves_what_it_promises(tmp_path):
    done = run("tune_matmul.py", "--trials", 4, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("opevo", "xgb"):
        records = [json.loads(line) for line in (tmp_path / f"{name}.json").read_text().splitlines()]
        assert len(records) == 4
    assert (tmp_path / "best_so_far.png").stat().st_size > 5_000
    rows = {words[0]: words[1:] for line in done.stdout.splitlines() if (words := line.split())}
    assert all(float(rows[name][0]) > 0 for name in ("untuned", "OpEvo", "XGB"))
    assert "all three compute what numpy does" in done.stdout


@pytest.mark.skipif(tvm.cuda(0).exist, reason="there is a GPU here")
def test_tune_matmul_says_at_once_that_there_is_no_gpu():
    done = run("tune_matmul.py", "--target", "cuda")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "tune_matmul: there is no NVIDIA GPU that TVM can use: without --target this tunes for the CPU\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "0"], "--trials must be at least 1, 0 given"),
        (["--seed", "-1"], "--seed must be at least 0, -1 given"),
        (["--target", "abacus"], "--target must be a target of TVM, such as llvm or cuda, 'abacus' given"),
    ],
)
def test_tune_matmul_refuses_wrong_arguments_in_one_line(arguments, message):
    done = run("tune_matmul.py", *arguments)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"tune_matmul.py: error: {message}"


def test_draw_topologies_draws_figures_1_and_2(tmp_path):
    done = run("draw_topologies.py", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "q = 0.5: 8x1x1 0.541, 4x2x1 0.163, 4x1x2 0.163, 2x2x2 0.050" in done.stdout
    assert set(os.listdir(tmp_path)) == {"topologies.png", "walks.png"}


def test_tune_a_c_program_makes_it_faster():
    done = run("tune_a_c_program.py", "--trials", 24)
    assert done.returncode == 0, done.stderr
    assert "839,808 configurations" in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("before "))
    assert float(line.split()[-4]) > 1


def test_the_graph_of_the_c_programs_flags_is_a_hypercube():
    from tune_a_c_program import Subset

    flags = Subset("abcd")
    assert [flags.index(value) for value in flags] == list(range(16))
    for value in flags:
        neighbours = flags.neighbours(value)
        assert len(set(neighbours)) == 4
        assert all(len(value ^ neighbour) == 1 and value in flags.neighbours(neighbour) for neighbour in neighbours)
        here = np.array(flags.coordinates(value))
        assert all(np.abs(here - flags.coordinates(neighbour)).sum() == 1 for neighbour in neighbours)
    with pytest.raises(ValueError, match="allowed are the 16 vertices"):
        flags.index(frozenset("e"))


def test_tune_on_a_farm_proves_that_both_devices_worked():
    done = run("tune_on_a_farm.py")
    assert done.returncode == 0, done.stderr
    *_, used = done.stdout.splitlines()
    first, second = json.loads(used.removeprefix("sessions on each device: "))
    assert min(first, second) > 0
    assert "24 trials, 24 of them now" in done.stdout
    assert "outputs match" in done.stdout


@pytest.mark.soak
def test_tune_alexnet_goes_on_and_uses_what_it_found(tmp_path):
    for trials in (13, 22):
        done = run("tune_alexnet.py", "--trials", trials, "--target", "llvm", "--log", tmp_path / "alexnet.json")
        assert done.returncode == 0, done.stderr
        assert f"{trials} trials" in done.stdout
        assert "outputs match" in done.stdout
        assert done.stdout.splitlines()[-1].startswith("classes: [")
