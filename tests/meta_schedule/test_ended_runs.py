"""tune_network in processes that are killed or interrupted, or whose disk fills up."""

import os
import signal
import subprocess
import sys
import time

import pytest
from quick_network_tuning import tune, tune_operator

from autotvm_opevo.meta_schedule import open_database

# A busy machine takes several times as long.
pytestmark = pytest.mark.timeout(900)


# for no record, and for a part of one
@pytest.mark.parametrize("room", [pytest.param(0, marks=pytest.mark.soak), 100])
def test_a_disk_that_fills_up_ends_the_run_instead_of_losing_its_trials(tmp_path, room):
    """TVM does not say when it could not write a record."""
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from quick_network_tuning import tune_operator\n"
        "from autotvm_opevo.meta_schedule.store import TrialStore\n"
        "append = TrialStore.append\n"
        "def full(*arguments):\n"
        "    append(*arguments)\n"
        "    size = (Path(sys.argv[1]) / 'database_tuning_record.json').stat().st_size\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (size + int(sys.argv[2]), "
        "resource.RLIM_INFINITY))\n"
        "TrialStore.append = full\n"
        "tune_operator(Path(sys.argv[1]), 8)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), str(room)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=800)
    assert done.returncode == 1
    assert (
        f"\nOSError: {tmp_path} does not have the last trials: make room on its disk" in done.stderr
    )
    result = tune_operator(tmp_path, 8)
    assert 1 <= result.trials - result.measured < 8


def test_after_a_kill_in_the_first_round_no_measurement_is_lost(tmp_path):
    """TVM alone measures a batch of every task before it writes a record."""
    script = (
        "import sys\nfrom pathlib import Path\nfrom quick_network_tuning import "
        "tune\ntune(Path(sys.argv[1]), 64)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    log = tmp_path / "database_tuning_record.json"
    deadline = time.monotonic() + 400
    while not (log.exists() and log.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = log.read_bytes().count(b"\n")
    assert kept <= 24  # of the 32 of the first round
    result = tune(tmp_path, kept + 4, evaluate=False)
    assert result.trials - result.measured == kept


@pytest.mark.parametrize(
    "wait", [0.0, 1.5], ids=["while results are stored", "during a build or run"]
)
def test_ctrl_c_prints_the_result_and_exits_with_130(tmp_path, wait):
    operator = [
        "--operator",
        "matmul",
        "--tensor",
        "64x64",
        "--tensor",
        "64x64",
        "--target",
        "llvm",
    ]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "autotvm_opevo",
            "tune",
            *operator,
            "--log",
            str(tmp_path),
            "--seed",
            "0",
            "--timeout",
            "200",
        ],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a background shell ignores it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for line in process.stderr:
        if "trials, network" in line:
            break
    time.sleep(wait)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "ended by: interrupted" in errors
    assert len(open_database(tmp_path)) >= 1
