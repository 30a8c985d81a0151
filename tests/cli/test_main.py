"""The command line with AutoTVM."""

from shlex import split

import pytest
from command_line import errors_of
from compared_networks import time_two_rounds

from autotvm_opevo.autotvm.store import TrialStore
from autotvm_opevo.cli.main import main
from autotvm_opevo.reporting.logs import open_logs

CONV = split(
    "--operator nn.conv2d --tensor 1x16x8x8 --tensor 16x16x3x3 --target llvm "
    "--attribute padding=[1,1] --attribute channels=16 --attribute kernel_size=[3,3]"
)

# A busy machine takes several times as long.
pytestmark = pytest.mark.timeout(1800)
TIMEOUT = ["--timeout", "200"]


@pytest.fixture(autouse=True)
def two_rounds(monkeypatch):
    """Time networks for a moment, where the command runs in this process."""
    time_two_rounds(monkeypatch)


def test_an_operator_is_tuned_and_the_same_command_resumes(tmp_path, capfd):
    log = tmp_path / "conv.json"
    for now in (4, 0):
        options = ["--trials", "4", "--log", str(log), "--seed", "0", *TIMEOUT]
        assert main(["tune", *CONV, *options]) == 0
        printed, errors = capfd.readouterr()
        assert f"4 trials, {now} of them now" in printed
        assert "outputs match" in printed
        assert "Cannot find" not in errors  # AutoTVM's warning that a record was not applied
    assert len(log.read_text().splitlines()) == 4
    assert len(open_logs([log])[0].runs.starts) == 1  # the second had nothing to do
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "conv.best.json",
        "conv.json",
        "conv.json.journal",
    ]


MLP = "--network mlp --target llvm"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (f"{MLP} --rpc-key cpu", "--rpc-tracker and --rpc-key require each other"),
        ("--network mlp --rpc-tracker here:1 --rpc-key cpu", "--rpc-key requires --target"),
        (f"{MLP} --tensor 8xx", "argument --tensor"),
        (f"{MLP} --attribute a", "argument --attribute: must be a name and a value"),
        (f"{MLP} --rpc-tracker here", "argument --rpc-tracker: must be a host and a port"),
        (f"{MLP} --rpc-tracker here:91900", "argument --rpc-tracker: must be a host and a port"),
        (
            "--model m.onnx --target llvm --shape x",
            "argument --shape: must be an input's name and shape",
        ),
        (f"{MLP} --tensor 8x8", "--tensor requires --operator"),
        (f"{MLP} --layout NCHW", "--layout requires --model"),
        ("--network mlp --target 'llvm -mtriple=riscv64-linux-gnu'", "cannot run code for riscv64"),
        ("--operator nn.relu --target llvm --batch 2", "--batch requires --network"),
        (f"{MLP} --time-limit -3", "--time-limit: must be a positive number of seconds"),
        (f"{MLP} --timeout 0", "--timeout: must be a positive number of seconds"),
        ("--network mlp --target 'llvm -mcpu=znver9'", "knows, 'znver9' given: such as znver"),
        (
            "--operator nn.relu --tensor 8 --dtype floaty --target llvm",
            "dtype must be one of TVM's",
        ),
        (
            "--operator nn.dense --tensor 8x16 --tensor 8x15 --target llvm",
            "takes tensors with equally many columns",
        ),
        ("--model notes.txt --target llvm", "cannot read notes.txt with TVM's frontends"),
        ("--model m.onnx --target llvm --shape x=1x", "such as 1x3x224x224, '1x' given for x"),
    ],
)
def test_errors_are_one_line_before_anything_is_measured(tmp_path, options, message, capfd):
    code, errors = errors_of(["tune", *split(options), "--log", "log.json"], capfd)
    assert code == 2
    assert message in errors
    assert not (tmp_path / "log.json").exists()


def test_a_locked_log_is_one_line(tmp_path, capfd):
    with TrialStore(tmp_path / "log.json"):
        assert main(["tune", *CONV, "--log", str(tmp_path / "log.json")]) == 1
    assert "is being written by the process with pid" in capfd.readouterr().err
