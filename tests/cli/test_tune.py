"""What the command makes of its options."""

import re

import pytest
from command_line import errors_of

import autotvm_opevo.autotvm
from autotvm_opevo._utils import timeouts
from autotvm_opevo.cli.main import main
from autotvm_opevo.networks import relay
from autotvm_opevo.tuning.result import UNLIMITED

TUNE = ["tune", "--network", "mlp", "--target", "llvm", "--log"]


def test_history_can_be_given_several_times(monkeypatch, tmp_path):
    given = []

    def tune_network(*_, history, transfer, **__):
        given.append(([str(path) for path in history], transfer))
        raise ValueError("enough")

    monkeypatch.setattr(autotvm_opevo.autotvm, "tune_network", tune_network)
    options = ["--history", "a.json", "--history", "b.json"]
    main([*TUNE, str(tmp_path / "log.json"), *options])
    assert given == [(["a.json", "b.json"], True)]


@pytest.mark.parametrize(
    ("options", "trials"),
    [
        ([], 1000),
        (["--trials", "8"], 8),
        (["--trials", "8", "--time-limit", "1m"], 8),
        (["--time-limit", "1m"], UNLIMITED),
        (["--time-limit", "1m", "--task-scheduler", "equal"], 1000),
    ],
)
def test_a_time_limit_alone_is_the_only_limit_unless_trials_are_divided_beforehand(
    monkeypatch, tmp_path, options, trials
):
    given = []

    def tune_network(*_, trials, **__):
        given.append(trials)
        raise ValueError("enough")

    monkeypatch.setattr(autotvm_opevo.autotvm, "tune_network", tune_network)
    main([*TUNE, str(tmp_path / "log.json"), *options])
    assert given == [trials]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--history", "a.json", "--no-transfer"],
            "--history and --no-transfer exclude each other",
        ),
        (["--time-l", "1m"], "unrecognized arguments: --time-l 1m"),
        (
            ["--rpc-tracker", "127.0.0.1:91900", "--rpc-key", "x"],
            "must be a host and a port, such as 127.0.0.1:9190",
        ),
    ],
)
def test_options_that_cannot_be_meant_are_refused_before_anything_begins(
    tmp_path, capsys, options, message
):
    status, errors = errors_of([*TUNE, str(tmp_path / "log.json"), *options], capsys)
    assert status == 2
    assert message in errors
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "what"), [(["--model", "big.onnx"], "big.onnx"), (["--network", "mlp"], "mlp")]
)
def test_what_is_read_is_said_if_it_takes_long(monkeypatch, capsys, options, what):
    text = ""

    def read(*_):
        nonlocal text
        while "\n" not in text:
            text += capsys.readouterr().err
        raise ValueError("enough")

    monkeypatch.setattr(timeouts, "SILENT", 0.01)
    monkeypatch.setattr(relay, "model_file", read)
    monkeypatch.setattr(relay, "network", read)
    assert main(["tune", *options, "--target", "llvm", "--log", "log.json"]) == 2
    assert re.match(rf"reading {what}: \d+ s so far\n", text)


def test_of_an_error_of_tvm_only_its_last_line_is_printed(monkeypatch, capsys):
    def fail(*_):
        raise ValueError(
            "Traceback (most recent call last):\n  3: tvm::Map()\nKeyError: no layout\n"
        )

    monkeypatch.setattr(relay, "network", fail)
    assert main([*TUNE, "log.json"]) == 2
    assert capsys.readouterr().err == "autotvm_opevo: KeyError: no layout\n"
