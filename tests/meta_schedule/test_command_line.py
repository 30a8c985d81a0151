"""The command line and the tutorial with MetaSchedule."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import TensorProto, helper
from onnx_files import save_nodes

from autotvm_opevo.cli.main import main
from autotvm_opevo.meta_schedule import open_database
from tests.helpers.local_rpc import local_rpc

ROOT = Path(__file__).parents[2]
OPERATOR = ["--operator", "matmul", "--tensor", "32x32", "--tensor", "32x32"]
# Seconds for one build or run, also on a busy machine.
TIMEOUT = ["--timeout", "200"]
# A busy machine takes several times as long.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.usefixtures("two_rounds")]


def run(*arguments):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
    )


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_network_is_tuned_and_the_same_command_resumes(tmp_path):
    tune = ["-m", "autotvm_opevo", "tune", "--network", "mlp", "--target", "llvm"]
    tune += ["--log", tmp_path / "mlp", "--seed", 0, *TIMEOUT]
    for tuner, trials, now in (("opevo", 8, 8), ("opevo-published", 12, 4)):
        done = run(*tune, "--trials", trials, "--tuner", tuner)
        assert done.returncode == 0, done.stderr
        assert f"{trials} trials, {now} of them now" in done.stdout
        assert "outputs match" in done.stdout


@pytest.mark.parametrize("tuner", ["opevo", pytest.param("evolutionary", marks=pytest.mark.soak)])
def test_an_operator_is_tuned(tmp_path, capsys, tuner):
    command = ["tune", *OPERATOR, "--target", "llvm", "--trials", "4", "--tvm", "meta-schedule"]
    assert main([*command, "--log", str(tmp_path / "log"), "--tuner", tuner, *TIMEOUT]) == 0
    assert "4 trials, 4 of them now" in capsys.readouterr().out


@pytest.fixture
def no_garbage_collection():
    """A device must be free again without it."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
def test_a_model_file_is_tuned_and_compared_on_a_trackers_devices(tmp_path, capsys):
    nodes = [helper.make_node("MatMul", ["x", "y"], ["z"])]
    inputs = {"x": (TensorProto.FLOAT, ["n", 32]), "y": (TensorProto.FLOAT, [32, 32])}
    path = save_nodes(tmp_path / "model.onnx", nodes, inputs)
    model = ["--model", str(path), "--shape", "x=16x32"]
    with local_rpc() as rpc:
        address = f"{rpc.tracker_host}:{rpc.tracker_port}"
        devices = ["--rpc-tracker", address, "--rpc-key", rpc.tracker_key]
        tune = ["tune", *model, "--target", "llvm", "--trials", "4", *devices, *TIMEOUT]
        assert main([*tune, "--log", str(tmp_path)]) == 0
        out = capsys.readouterr().out
        assert "4 trials, 4 of them now" in out
        assert "outputs match" in out
        assert len(open_database(tmp_path)) == 4
        other = str(tmp_path / "other")
        random = ["--tuner", "opevo-published", "--seed", "1"]  # finds another schedule
        assert main([*tune, *random, "--log", other]) == 0
        compare = ["compare", str(tmp_path / "best"), other, *model, "--time-limit", "2"]
        assert main([*compare, *devices]) == 0
    out = capsys.readouterr().out
    assert "outputs match" in out
    assert "interleaved, each alone" in out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ["--network", "vgg-16"],
            2,
            "network must be one of alexnet, bert-small, mlp, resnet-18; 'vgg-16' given",
        ),
        (["--network", "mlp", "--target", "abacus"], 2, "target must be a target of TVM"),
        (
            ["--network", "mlp", "--tuner", "xgb"],
            2,
            "--tuner must be one of opevo, opevo-published, evolutionary with",
        ),
        (
            ["--network", "mlp", "--tuner", "evolutionary", "--no-transfer"],
            2,
            "--history and --no-transfer require --tuner opevo",
        ),
        (
            ["--network", "mlp", "--history", "nowhere"],
            2,
            "nowhere has no record: leave it out, or check its name",
        ),
        (
            ["--network", "mlp", "--early-stopping", "3"],
            2,
            "--early-stopping requires AutoTVM, this TVM has MetaSchedule",
        ),
        (
            ["--model", "m.onnx", "--layout", "NCHW"],
            2,
            "--layout requires AutoTVM, this TVM has MetaSchedule",
        ),
        (
            ["--network", "mlp", "--rpc-tracker", "127.0.0.1:1", "--rpc-key", "x"],
            1,
            "cannot reach the tracker at 127.0.0.1:1",
        ),
        (
            ["--network", "mlp", "--rpc-key", "cpu"],
            2,
            "--rpc-tracker and --rpc-key require each other",
        ),
        (
            ["--network", "mlp", "--tvm", "autotvm"],
            1,
            "which has no AutoTVM: it was removed in TVM 0.20",
        ),
        (["--model", "missing.onnx"], 2, "cannot read missing.onnx"),
    ],
)
def test_errors_are_one_line(tmp_path, capsys, arguments, status, message):
    given = ["tune", *arguments, "--log", str(tmp_path / "log"), "--trials", "4"]
    assert main(given if "--target" in arguments else [*given, "--target", "llvm"]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("autotvm_opevo: ")
    assert message in line
    assert not (tmp_path / "log").exists()


def test_logs_are_compared(tmp_path, capsys):
    for seed, name in enumerate("ab"):
        tune = ["tune", *OPERATOR, "--target", "llvm", "--trials", "2", "--seed", str(seed)]
        assert main([*tune, "--log", str(tmp_path / name), *TIMEOUT]) == 0
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b" / "best"), *OPERATOR]) == 0
    text = capsys.readouterr().out
    assert "2 rounds, interleaved" in text
    assert "outputs match" in text


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["missing"], 1, "missing: No such file or directory"),
        (["log", "log"], 2, "logs must differ, log is given twice"),
        (["log"], 2, "log has no database of MetaSchedule"),
        (
            ["log", "--rpc-tracker", ":1", "--rpc-key", "x"],
            1,
            "cannot reach the tracker at 127.0.0.1:1",
        ),
    ],
)
def test_errors_of_compare_are_one_line(tmp_path, capsys, monkeypatch, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").mkdir()
    assert main(["compare", *arguments, "--network", "mlp"]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("autotvm_opevo: ")
    assert message in line


def test_a_log_of_autotvm_is_rejected_untouched(tmp_path, capsys):
    log = tmp_path / "alexnet.json"
    log.write_text("a line")
    assert main(["tune", "--network", "mlp", "--target", "llvm", "--log", str(log)]) == 2
    expected = "work_dir must be a work directory of MetaSchedule or a new one"
    assert expected in capsys.readouterr().err
    assert log.read_text() == "a line"


def test_importing_autotvms_tuner_recommends_the_strategy():
    done = run("-c", "from autotvm_opevo import OpEvoTuner")
    assert done.returncode == 1
    assert "which has no AutoTVM: it was removed in TVM 0.20" in done.stderr
    assert "from autotvm_opevo.meta_schedule import OpEvoStrategy" in done.stderr


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_tutorial_tunes_alexnet(tmp_path):
    done = run("tutorials/tune_alexnet_relax.py", "--trials", 21, "--work-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "21 tasks, 21 trials" in done.stderr
    assert "outputs match" in done.stdout
    assert "of 1000, with probability" in done.stdout
    assert "8 trials" in done.stdout.splitlines()[-1]
