"""The tutorials, run from the command line or, with fewer trials, in this process."""

import os
import sys

import numpy as np
import pytest
from compared_networks import time_two_rounds
from instant_measuring import instant
from tutorial_scripts import outline, recorded_output, run, run_here
from tvm.autotvm.task.task import TASK_TABLE

# Half a minute each on an idle machine; builds take many times as long on a busy one.
pytestmark = pytest.mark.timeout(2000)


def test_draw_topologies_draws_figures_1_and_2(tmp_path):
    done = run("draw_topologies.py", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "q = 0.5: 8x1x1 0.541, 4x2x1 0.163, 4x1x2 0.163, 2x2x2 0.050" in done.stdout
    assert set(os.listdir(tmp_path)) == {"topologies.png", "walks.png"}


def test_tune_a_c_program_times_what_it_found_and_the_plain_loops_for_two_sizes(
    monkeypatch, capsys
):
    import tune_a_c_program

    once = tune_a_c_program.PROGRAM.replace("run < 3", "run < 1")
    monkeypatch.setattr(tune_a_c_program, "PROGRAM", once)
    monkeypatch.setattr(sys, "argv", ["tune_a_c_program.py", "--trials", "9"])
    tune_a_c_program.main()
    printed = capsys.readouterr().out
    assert "256 x 256: 839,808 configurations" in printed
    assert "384 x 384: " in printed
    lines = [line for line in printed.splitlines() if line.startswith("before ")]
    assert len(lines) == 2
    # beside other tests, timings say nothing
    assert all(float(line.split()[-4]) > 0 for line in lines)


def test_the_flags_of_the_c_program_form_a_hypercube():
    """The tutorial itself checks that they form a graph."""
    from tune_a_c_program import Subset

    flags = Subset("abcd")
    for value in flags:
        neighbours = flags.neighbours(value)
        assert [len(value ^ neighbour) for neighbour in neighbours] == [1] * 4
        here = np.array(flags.coordinates(value))
        assert all(np.abs(here - flags.coordinates(one)).sum() == 1 for one in neighbours)
    with pytest.raises(ValueError, match="allowed are the 16 vertices"):
        flags.index(frozenset("e"))


def test_tune_your_template_prints_what_its_page_says_and_resumes(tmp_path, monkeypatch, capsys):
    log, said = tmp_path / "log.json", outline(recorded_output("tune_your_template.py"))
    for trials in (4, 8):
        run_here(monkeypatch, "tune_your_template.py", "--trials", 4, "--log", log)
        assert outline(capsys.readouterr().out.splitlines()[-1:]) == said
        assert len(log.read_text().splitlines()) == trials
        del TASK_TABLE["my/matmul"]  # or a second template of this name would be refused


@pytest.mark.soak
def test_tune_on_a_farm_prints_what_its_page_says():
    done = run("tune_on_a_farm.py")
    assert done.returncode == 0, done.stderr
    assert outline(done.stdout.splitlines()) == outline(recorded_output("tune_on_a_farm.py"))
    assert "24 trials, 24 of them now" in done.stdout
    assert "outputs match" in done.stdout


def test_decide_by_a_report_prints_two_verdicts_and_a_comparison(monkeypatch, capsys):
    import decide_by_a_report

    monkeypatch.setattr(decide_by_a_report, "tune_network", with_made_up_trials({8: 4, 48: 12}))
    time_two_rounds(monkeypatch)
    decide_by_a_report.main()
    check_the_verdicts(capsys.readouterr().out.splitlines(), 4, 12)
    check_the_verdicts(recorded_output("decide_by_a_report.py"), 8, 48)


@pytest.mark.soak
def test_decide_by_a_report_prints_two_verdicts_and_a_comparison_with_all_its_trials():
    done = run("decide_by_a_report.py")
    assert done.returncode == 0, done.stderr
    check_the_verdicts(done.stdout.splitlines(), 8, 48)


def check_the_verdicts(printed, *trials):
    begun = [line.partition(" of 1 task in ")[0] for line in printed if " of 1 task in " in line]
    assert begun == [f"conv2d.json: {count} trials" for count in trials]
    questions = [line.partition("?")[0] for line in printed if "? " in line]
    expected = ["Converged", "How good", "How sure", "Where did the time go", "What next"]
    assert questions == 2 * expected
    assert any(line.startswith("outputs match") for line in printed)


def with_made_up_trials(counts):
    """Tunes without building anything, with other numbers of trials, by those asked for."""
    from autotvm_opevo import tune_network

    return lambda *arguments, trials, **options: tune_network(
        *arguments,
        trials=counts[trials],
        measure_option=instant(lambda config: 1e-3 * (1 + config.index % 97)),
        **options,
    )


@pytest.mark.soak
def test_tune_alexnet_resumes_and_runs_the_tuned_network(tmp_path):
    options = ["--target", "llvm", "--log", tmp_path / "alexnet.json"]
    for trials in (13, 22):
        done = run("tune_alexnet.py", "--trials", trials, *options)
        assert done.returncode == 0, done.stderr
        assert f"{trials} trials" in done.stdout
        assert "outputs match" in done.stdout
        assert done.stdout.splitlines()[-1].startswith("classes: [")
