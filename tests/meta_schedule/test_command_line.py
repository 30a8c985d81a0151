"""The command line and the tutorial with MetaSchedule."""

import gc
from math import inf

import pytest
from onnx import TensorProto, helper
from onnx_files import save_nodes
from tutorial_scripts import run

from autotvm_opevo.cli.main import main
from autotvm_opevo.meta_schedule import open_database
from autotvm_opevo.meta_schedule.database import commit
from autotvm_opevo.tuning.record_lines import seconds
from tests.helpers.local_rpc import local_rpc

OPERATOR = ["--operator", "matmul", "--tensor", "32x32", "--tensor", "32x32"]
# Seconds for one build or run, also on a busy machine.
TIMEOUT = ["--timeout", "200"]
# A busy machine takes several times as long.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.usefixtures("two_rounds")]


@pytest.fixture
def no_garbage_collection():
    """A device must be free again without it."""
    gc.disable()
    yield
    gc.enable()


def copy_another(log, folder):
    """A database with a schedule that is not the best of a log with one task."""
    (best,) = open_database(log / "best").get_all_tuning_records()
    another = next(
        record
        for record in open_database(log).get_all_tuning_records()
        if seconds(record.run_secs) < inf and str(record.trace) != str(best.trace)
    )
    commit(open_database(folder), another)
    return str(folder)


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
        tuner = ["--tuner", "opevo-published", "--seed", "1"]
        assert main([*tune, *tuner, "--log", str(tmp_path)]) == 0
        out = capsys.readouterr().out
        assert "4 trials, 4 of them now" in out
        assert "outputs match" in out
        assert len(open_database(tmp_path)) == 4
        logs = [str(tmp_path / "best"), copy_another(tmp_path, tmp_path / "other")]
        assert main(["compare", *logs, *model, "--time-limit", "2", *devices]) == 0
    out = capsys.readouterr().out
    assert "outputs match" in out
    assert "interleaved, each alone" in out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
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
            ["--network", "mlp", "--tvm", "autotvm"],
            1,
            "use `from autotvm_opevo.meta_schedule import OpEvoStrategy`",
        ),
        (["--model", "missing.onnx"], 2, "cannot read missing.onnx"),
    ],
)
def test_errors_are_one_line(tmp_path, capsys, arguments, status, message):
    log = ["--log", str(tmp_path / "log")]
    assert main(["tune", *arguments, "--target", "llvm", *log, "--trials", "4"]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("autotvm_opevo: ")
    assert message in line
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("tuner", ["opevo", pytest.param("evolutionary", marks=pytest.mark.soak)])
def test_logs_are_compared(tmp_path, capsys, tuner):
    log = tmp_path / "log"
    tune = ["tune", *OPERATOR, "--target", "llvm", "--trials", "4", "--tvm", "meta-schedule"]
    assert main([*tune, "--log", str(log), "--tuner", tuner, "--seed", "0", *TIMEOUT]) == 0
    assert "4 trials, 4 of them now" in capsys.readouterr().out
    assert main(["compare", str(log), copy_another(log, tmp_path / "other"), *OPERATOR]) == 0
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


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_tutorial_tunes_alexnet(tmp_path):
    done = run("tune_alexnet_relax.py", "--trials", 21, "--work-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "21 tasks, 21 trials" in done.stderr
    assert "outputs match" in done.stdout
    assert "of 1000, with probability" in done.stdout
    assert "8 trials" in done.stdout.splitlines()[-1]
