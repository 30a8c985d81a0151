"""``compare`` with AutoTVM."""

import os
import re
import signal

import pytest
from command_line import errors_of
from compared_networks import time_two_rounds
from instant_measuring import instant

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import comparison
from autotvm_opevo.cli.main import main
from autotvm_opevo.networks import relay as workloads
from autotvm_opevo.tuning import comparison as timing
from autotvm_opevo.tuning.programs import Timed

DENSE = ["--operator", "nn.dense", "--tensor", "4x256", "--tensor", "96x256"]

# A busy machine takes several times as long.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two logs of a dense layer, with made-up latencies."""
    folder = tmp_path_factory.mktemp("logs")
    mod, params = workloads.operator("nn.dense", [(4, 256), (96, 256)])
    for seed, name in enumerate("ab"):
        option = instant(lambda config: 1e-3 * (1 + config.index % 97))
        tune_network(
            mod, params, "llvm", folder / f"{name}.json", 8, option, seed=seed, evaluate=False
        )
    return folder


def test_an_operator_is_compared_with_both_logs(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    time_two_rounds(monkeypatch)
    assert main(["compare", "a.best.json", "b.json", *DENSE]) == 0
    printed = capsys.readouterr()
    assert "2 rounds, interleaved" in printed.out
    assert "outputs match" in printed.out
    assert "building 3 networks for llvm" in printed.err


def test_other_outputs_are_a_failure(folder, capsys, monkeypatch):
    monkeypatch.setattr(timing, "compare_outputs", lambda *_: (0.5, False))
    assert main(["compare", str(folder / "a.json"), *DENSE, "--target", "llvm"]) == 1
    assert "outputs DIFFER" in capsys.readouterr().out


def test_ctrl_c_prints_what_is_known(folder, monkeypatch, capsys):
    """It comes after a round, while a thread times the next."""
    seconds, timed = Timed.seconds, []

    def interrupt(instance):
        timed.append(seconds(instance))
        if len(timed) == 10:  # a round times each of three networks three times at most
            os.kill(os.getpid(), signal.SIGINT)
        return timed[-1]

    monkeypatch.setattr(Timed, "seconds", interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job may ignore it
    try:
        logs = [str(folder / name) for name in ("a.json", "b.json")]
        assert main(["compare", *logs, *DENSE]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    said = capsys.readouterr().err
    assert re.search(r"^[1-3] rounds?, interleaved; ended by: interrupted$", said, re.MULTILINE)
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["missing.json", *DENSE], 1, "missing.json: No such file or directory"),
        (["a.json", "./a.json", *DENSE], 2, "logs must differ, a.json is given twice"),
        ([".", *DENSE], 2, "is a folder, not a log of AutoTVM"),
        (
            ["a.json", "--network", "mlp"],
            2,
            "a.json has no successful record of this network: it has 2 tasks, such as dense_",
        ),
        (["a.json", *DENSE, "--target", "llvm -mcpu=core-avx2"], 2, "choose with --target"),
        (["a.json"], 2, "one of the arguments --network --model --operator is required"),
        (DENSE, 2, "the following arguments are required: LOG"),
    ],
)
def test_errors_are_one_line_before_anything_is_built(
    folder, monkeypatch, capfd, arguments, status, message
):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(comparison, "build_networks", lambda *_: pytest.fail("built"))
    code, errors = errors_of(["compare", *arguments], capfd)
    assert code == status
    assert message in errors
