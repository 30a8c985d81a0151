"""The benchmarks measure what they say, on less."""

import subprocess
import sys

import pytest

from benchmarks import overhead


def test_overhead_times_every_tuner_and_counts_its_trials():
    task = overhead.SPACES["MM1"]()
    for name in ("OpEvo", "Random", "GA"):
        seconds = overhead.seconds_until(overhead.TUNERS[name](task), task, (8, 24))
        assert 0 < seconds[0] < seconds[1]


def test_overhead_weighs_what_a_trial_leaves():
    assert 10 < overhead.bytes_per_trial(overhead.SPACES["C2"](), 200) < 10_000


@pytest.mark.soak
def test_network_compares_all_rivals_and_goes_on_from_its_logs(tmp_path):
    command = [sys.executable, "-m", "benchmarks.network", "--networks", "mlp", "--trials", "6", "--repetitions", "1"]
    for _ in range(2):
        done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        rows = [line for line in done.stdout.splitlines() if line.startswith("mlp  ")]
        assert [row[12:36].strip() for row in rows] == [
            "untuned",
            "equal + XGBTuner",
            "equal + OpEvoTuner",
            "gradient + OpEvoTuner",
        ]
        assert all(float(row[36:46]) > 0 for row in rows)
