"""The network benchmark, on the smallest network."""

import subprocess
import sys

import pytest


@pytest.mark.soak
def test_network_compares_all_methods_and_resumes_from_its_logs(tmp_path):
    command = [
        sys.executable,
        "-m",
        "benchmarks.network",
        "--networks",
        "mlp",
        "--trials",
        "6",
        "--repetitions",
        "1",
    ]
    logs = []
    for _ in range(2):
        done = subprocess.run(
            [*command, "--out", str(tmp_path)], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        rows = [
            line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| mlp | ")
        ]
        assert [row[1] for row in rows] == [
            "untuned",
            "tutorial",
            "equal+xgb",
            "equal+opevo",
            "gradient+opevo",
            "gradient+opevo, no transfer",
        ]
        assert all(float(row[2].partition(" ")[0]) > 0 for row in rows)
        logs.append({log.name: log.read_bytes() for log in tmp_path.glob("*-0.json")})
    first, second = logs
    assert len(first) == 5
    assert first == second
