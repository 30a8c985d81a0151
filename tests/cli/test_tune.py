"""What the command makes of its options."""

from contextlib import suppress

import pytest

import autotvm_opevo.autotvm
from autotvm_opevo.cli.main import main


def test_history_can_be_given_several_times(monkeypatch, tmp_path):
    given = []

    def tune_network(*_, history, transfer, **__):
        given.append(([str(path) for path in history], transfer))
        raise ValueError("enough")

    monkeypatch.setattr(autotvm_opevo.autotvm, "tune_network", tune_network)
    options = ["--history", "a.json", "--history", "b.json"]
    with suppress(SystemExit):
        main(["tune", "--network", "mlp", "--target", "llvm", "--log", str(tmp_path / "log.json"), *options])
    assert given == [(["a.json", "b.json"], True)]


@pytest.mark.parametrize(
    ("options", "trials"),
    [
        ([], 1000),
        (["--trials", "8"], 8),
        (["--trials", "8", "--time-limit", "1m"], 8),
        (["--time-limit", "1m"], 100_000),
        (["--time-limit", "1m", "--task-scheduler", "equal"], 1000),
    ],
)
def test_a_time_limit_alone_is_the_only_limit_unless_trials_are_divided_beforehand(monkeypatch, tmp_path, options, trials):
    given = []

    def tune_network(*_, trials, **__):
        given.append(trials)
        raise ValueError("enough")

    monkeypatch.setattr(autotvm_opevo.autotvm, "tune_network", tune_network)
    with suppress(SystemExit):
        main(["tune", "--network", "mlp", "--target", "llvm", "--log", str(tmp_path / "log.json"), *options])
    assert given == [trials]
