"""The demonstrations over seeds, and with a network."""

import pytest

from autotvm_opevo.autotvm import tune_network
from autotvm_opevo.tuning.comparison import Comparison
from benchmarks import demonstration, tune_alexnet, tune_matmul


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
    assert "known has 100.0 GFLOPS" in printed
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
        "known in 2 runs, after equal trials in 1, XGBTuner's in 1. It has 90% of what it "
        "had while tuning in 2." in printed
    )


def test_runs_that_are_there_are_not_repeated_and_their_configurations_are_timed(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(tune_matmul, "SHAPE", (32, 32, 32))
    monkeypatch.setattr(tune_matmul, "ROUNDS", 2)
    for seed in range(2):
        tune_matmul.main(["--trials", "2", "--seed", str(seed), "--out", str(tmp_path / str(seed))])
    capsys.readouterr()
    demonstration.main(
        ["--seeds", "2", "--out", str(tmp_path), "--picture", str(tmp_path / "pairs.png")]
    )
    assert (tmp_path / "pairs.png").stat().st_size > 0
    note, *_, first, second = capsys.readouterr().out.splitlines()
    assert note.startswith("The best that is known has ")
    assert (first.split()[1], second.split()[1]) == ("0", "1")
    assert max(float(row.split()[-2]) for row in (first, second)) <= 1


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (
            [10.0, 10.1, 9.9],
            [15.0, 15.1, 14.9],
            "tune_network's network is 1.50 times as fast as XGBTuner's, after 60 s",
        ),
        (
            [15.0, 15.1, 14.9],
            [10.0, 10.1, 9.9],
            "XGBTuner's network is 1.50 times as fast as tune_network's",
        ),
        ([10.0, 12.0, 9.0], [11.0, 10.0, 9.5], "tune_network and XGBTuner cannot be told apart"),
    ],
)
def test_it_says_which_network_is_faster(ours, theirs, said):
    comparison = Comparison(["ours", "theirs"])
    for row in zip([30.0, 30.1, 29.9], ours, theirs):
        comparison.race.add([one / 1e3 for one in row])
    assert tune_alexnet.conclusion(comparison, 60).startswith(said)


def test_a_small_network_is_tuned_with_both_for_as_long(tmp_path, capsys, monkeypatch):
    # a busy machine may finish none in seconds
    def few_trials(*arguments, trials, time_limit, **options):
        limits.append(time_limit)
        return tune_network(*arguments, trials=4, **options)

    limits = []
    monkeypatch.setattr(tune_alexnet, "tune_network", few_trials)
    monkeypatch.setattr(tune_alexnet, "COMPARISON_SECONDS", 3)
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    tune_alexnet.main(["--network", "mlp", "--seconds", "40", "--out", str(tmp_path)])
    *_, shown, next_command = lines = capsys.readouterr().out.splitlines()
    assert any("times can be gained" in line for line in lines[:3])  # before anything is tuned
    assert {"tune_network.best.json", "XGBTuner.best.json"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert "after 40 s of tuning each" in shown
    assert limits == [40.0, 40.0]
    assert f"report {tmp_path / 'tune_network.json'}" in next_command


def test_where_the_machine_s_limits_are_unknown_no_gain_is_said(tmp_path, capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_alexnet, "limits", lambda *arguments: (12.5, 0.0))
    monkeypatch.setattr(tune_alexnet, "tune_network", interrupt)
    with pytest.raises(SystemExit, match="130"):
        tune_alexnet.main(["--network", "mlp", "--target", "llvm", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "mlp for llvm" in printed
    assert "12.5 ms untuned" in printed
    assert "gained" not in printed


def test_invalid_arguments_are_refused_in_one_line(capsys):
    with pytest.raises(SystemExit):
        tune_alexnet.main(["--seconds", "0"])
    assert "--seconds must be positive, 0 given" in capsys.readouterr().err
