"""The held-out comparison on a tiny landscape, and its times."""

import numpy as np
import pytest
from tiny_landscape import landscape

from benchmarks import heldout
from benchmarks.curves import curve_over_time, seconds_to
from benchmarks.landscape import dump
from benchmarks.runs import KNOBS


def test_the_comparison_draws_a_picture_and_prints_tables_of_stored_runs(tmp_path, capsys):
    (tmp_path / "tiny.npz").write_bytes(dump(landscape()))
    out = tmp_path / "out"
    heldout.main(
        [
            *("--landscapes", str(tmp_path)),
            *("--trials", "8"),
            *("--seeds", "1"),
            *("--out", str(out)),
        ]
    )
    first = capsys.readouterr().out
    assert (out / "heldout.png").stat().st_size > 0
    assert {line.split(" | ")[0] for line in first.splitlines()} >= {
        "| tiny",
        "| tiny, hidden",
        *map("| {}".format, heldout.TUNERS),
    }
    picture = tmp_path / "docs" / "again.png"
    heldout.main(["--show", str(out / "runs.jsonl"), "--picture", str(picture)])
    assert capsys.readouterr().out == first
    assert picture.read_bytes() == (out / "heldout.png").read_bytes()


def run(tuner, own, landscape="a"):
    """20% of the optimum after the first trial and all of it after the tenth, with the tuner's own
    seconds until then.
    """
    steps = [[1, 0.2, own[0]], [10, 1.0, own[1]]]
    return {
        "tuner": tuner,
        "landscape": landscape,
        "trials": 16,
        "measured": 16,
        "seconds": own[1],
        "steps": steps,
    }


def test_time_is_a_constant_per_trial_plus_the_tuner_s_own():
    slow = run("XGB", (1.0, 20.0))
    assert seconds_to(slow, 0.95, 0.5) == 25
    assert seconds_to(slow, 0.1, 0.5) == 1.5
    assert seconds_to({**slow, "steps": slow["steps"][:1]}, 0.95, 0.5) == np.inf
    assert curve_over_time(slow, np.array([0, 1.4, 1.5, 24.9, 25, 1e3]), 0.5).tolist() == [
        0,
        0,
        0.2,
        0.2,
        1,
        1,
    ]


@pytest.mark.parametrize("xgb", ["XGB", KNOBS])
def test_ratios_are_to_xgbtuner_whatever_its_features(xgb):
    runs = heldout.grouped(
        [run("OpEvo", (0, 0)), run("OpEvo-published", (0, 0)), run(xgb, (0, 15.0))]
    )
    text = heldout.tables(runs, seconds_per_trial=0.5)
    assert "| OpEvo | 10 | 1.00 (0.00 to inf) | 5 | 0.25 (0.00 to inf) |" in text
    assert "| XGB | 10 |  | 20 |  |" in text
    assert "| a | 10 | 10 | 10 | 5 | 5 | 20 |" in text


def test_averages_have_the_time_of_a_slow_tuner_and_all_that_a_run_spent_in_vain():
    slow, vain = run("XGB", (0, 95.0), "a"), run("XGB", (1.0, 30.0), "b")
    vain["steps"] = vain["steps"][:1]
    others = [run(t, (0, 0), landscape) for t in heldout.TUNERS[:2] for landscape in ("a", "b")]
    text = heldout.tables(heldout.grouped([*others, slow, vain]), seconds_per_trial=0.5)
    # 10 trials and 16; 5 + 95 seconds and 8 + 30
    assert "| average | 10 | 10 | >13 | 5 | 5 | >69 |" in text


def test_the_summary_tells_autotvm_s_operators_from_other_kernels():
    results = [
        run(tuner, (0, 0), landscape) for tuner in heldout.TUNERS[:2] for landscape in ("a", "b")
    ]
    results += [run("XGB", (0, 15.0), "a"), run(KNOBS, (0, 0), "b")]
    text = heldout.summary(heldout.grouped(results), seconds_per_trial=0.5, kernels={"b"})
    assert "| all: 2 | XGB | 10 |  | 12 |  |" in text
    assert "| AutoTVM's operators: 1 | XGB | 10 |  | 20 |  |" in text
    assert "| GPU, XGB by knobs: 1 | XGB | 10 |  | 5 |  |" in text


def test_rows_are_of_one_landscape_in_whatever_order_it_was_searched():
    searched = [
        ("XGB", "a"),
        ("XGB", "b"),
        ("OpEvo", "b"),
        ("OpEvo", "a"),
        ("OpEvo-published", "a"),
        ("OpEvo-published", "b"),
    ]
    results = [run(tuner, (0, 0), landscape) for tuner, landscape in searched]
    results[2]["steps"][1][0] = 5
    text = heldout.tables(heldout.grouped(results), seconds_per_trial=0.5)
    assert "| a | 10 | 10 | 10 |" in text
    assert "| b | 5 | 10 | 10 |" in text
