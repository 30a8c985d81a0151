"""The demonstration over seeds."""

import json
from pathlib import Path
from types import SimpleNamespace

from benchmarks import demonstration


def run(seed, ours, as_many, theirs, while_tuning):
    names = ("OpEvoTuner", "OpEvoTuner, as many trials", "XGBTuner")
    trials, seconds = dict(zip(names, (40, 8, 8))), dict(zip(names, (20.0, 4.0, 20.0)))
    rebuilt = dict(zip(names, (ours, as_many, theirs)))
    return rebuilt, {
        "seed": seed,
        "best": dict.fromkeys(names, while_tuning),
        "trials": trials,
        "seconds": seconds,
    }


def test_runs_are_counted():
    figures = [(100, 90, 80, 105), (80, 80, 85, 100), (95, 89, 91, 96)]
    rebuilt, runs = zip(*(run(seed, *row) for seed, row in enumerate(figures)))
    printed = demonstration.table(runs, rebuilt)
    assert "The best known configuration reaches 100.0 GFLOPS." in printed
    assert (
        "| 1 | 20 | 8 | 100.0 | 85.0 | 4 | 8 | 100.0 | 80.0 | 20 | 40 | 100.0 | 80.0 | 0.94 | "
        "0.94 | 0.80 |" in printed
    )
    printed = printed.replace("\n", " ")
    assert (
        "Against XGBTuner's, OpEvoTuner's is faster in 2, within 2% in 0, slower in 1 after "
        "equal time." in printed
    )
    assert "After equal trials it is faster in 1, within 2% in 0, slower in 2." in printed
    assert (
        "known in 2 runs, after equal trials in 1, XGBTuner's in 1. When rebuilt, 2 of 3 keep 90% "
        "of their tuning-time speed." in printed
    )


def test_every_run_has_the_target_that_is_given(tmp_path, monkeypatch):
    rebuilt, runs = zip(*(run(seed, 100, 90, 80, 105) for seed in range(2)))
    targets = []

    def tune(command, check):
        options = dict(zip(command[3::2], command[4::2]))
        targets.append(options["--target"])
        folder = Path(options["--out"])
        folder.mkdir()
        (folder / "figures.json").write_text(json.dumps(runs[int(options["--seed"])]))

    monkeypatch.setattr(demonstration, "subprocess", SimpleNamespace(run=tune))
    monkeypatch.setattr(demonstration, "rebuilt", lambda out, runs: rebuilt)
    demonstration.main(["--seeds", "2", "--out", str(tmp_path), "--target", "llvm -mcpu=core-avx2"])
    assert targets == ["llvm -mcpu=core-avx2"] * 2
