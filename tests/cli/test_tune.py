"""What the command makes of its options."""

import re
from unittest import mock

import pytest
from command_line import errors_of
from tvm.target import Target

from autotvm_opevo._utils import timeouts
from autotvm_opevo.autotvm import local_target
from autotvm_opevo.cli.main import main
from autotvm_opevo.networks import relay
from autotvm_opevo.tuning.result import UNLIMITED

TUNE = ["tune", "--network", "mlp", "--target", "llvm", "--log"]


def given(*options):
    """What the command would call `tune_network` with."""
    tune_network = mock.Mock(side_effect=ValueError("enough"))
    with mock.patch("autotvm_opevo.autotvm.tune_network", tune_network):
        assert main(["tune", "--network", "mlp", "--log", "log.json", *options]) == 2
    return tune_network.call_args


def test_history_can_be_given_several_times():
    given_twice = ["--history", "a.json", "--history", "b.json"]
    options = given("--target", "llvm", *given_twice).kwargs
    assert (options["history"], options["transfer"]) == (["a.json", "b.json"], True)


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
def test_a_time_limit_alone_is_the_only_limit_unless_trials_are_divided_beforehand(options, trials):
    assert given("--target", "llvm", *options).kwargs["trials"] == trials


def test_without_a_target_it_is_this_machines(monkeypatch, capsys):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    target = given().args[2]
    said = f"no --target given, this machine's is {local_target()}, with TVM_NUM_THREADS=1\n"
    assert said in capsys.readouterr().err
    assert str(target) == str(Target(local_target()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--history", "a.json", "--no-transfer"],
            "--history and --no-transfer exclude each other",
        ),
        (["--time-l", "1m"], "unrecognized arguments: --time-l 1m"),
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
