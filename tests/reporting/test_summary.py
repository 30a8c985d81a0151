"""What a report begins with: whether the latencies of two logs can be compared."""

import subprocess
import sys

import numpy as np
import pytest
from report_text import page_text
from synthetic_logs import autotvm_line, write_log

from autotvm_opevo import report
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.reporting.summary import compare_with_first, latency_ratio, summarize


def is_bad_news(*logs):
    ((_, bad),) = compare_with_first(logs)
    return bad


def write(path, latencies):
    """Write a log of one trial for each unroll factor, with these latencies."""
    return write_log(path, *(autotvm_line(i, unroll=i, latency=s) for i, s in enumerate(latencies)))


def logs(tmp_path, first, second):
    """Two logs with these latencies of the same configurations."""
    return open_logs([write(tmp_path / "a.json", first), write(tmp_path / "b.json", second)])


def test_a_machine_that_was_slower_is_found_by_the_configurations_that_both_logs_have(tmp_path):
    first, second = logs(
        tmp_path, [1e-3 * (i + 1) for i in range(8)], [1.2e-3 * (i + 1) for i in range(16)]
    )
    assert latency_ratio(second, first) == ((*[pytest.approx(1.2)] * 3,), 8)
    assert is_bad_news(first, second)
    assert not is_bad_news(first, first)


def test_a_wide_interval_around_1_is_no_proof_of_an_equal_machine(tmp_path):
    noise = np.exp(np.random.default_rng(0).normal(0, 0.4, 12))
    assert is_bad_news(*logs(tmp_path, [1e-3] * 12, 1e-3 * noise))
    assert not is_bad_news(*logs(tmp_path, [1e-3] * 12, 1e-3 * noise**0.1))
    page = report(
        tmp_path / "a.json", write(tmp_path / "b.json", 1e-3 * noise), out=tmp_path / "report.html"
    )
    assert "a.json and b.json: latencies may not be comparable, the same took" in page_text(page)


def test_the_interval_has_its_confidence(tmp_path):
    rng, inside = np.random.default_rng(1), 0
    for _ in range(200):
        found, _ = latency_ratio(
            *logs(
                tmp_path,
                1e-3 * np.exp(np.clip(rng.standard_cauchy(11), -50, 50) * 0.1),
                [1e-3] * 11,
            )
        )
        inside += found.low <= 1 <= found.high
    assert inside >= 180  # of 95%, by more than three standard deviations


def test_a_verdict_imports_nothing_that_takes_long(tmp_path):
    code = (
        "import sys; from autotvm_opevo.reporting import summarize; summarize(sys.argv[1]); "
        "print(*{'autotvm_opevo.topology', 'jinja2', 'matplotlib', 'scipy'} & set(sys.modules))"
    )
    log = write(tmp_path / "log.json", [1e-3])
    done = subprocess.run([sys.executable, "-c", code, log], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("\n", 0)


def test_logs_of_different_tasks_have_none_in_common(tmp_path):
    write(tmp_path / "a.json", [1e-3])
    (tmp_path / "b.json").write_text(autotvm_line(0, "conv2d"))
    text = summarize(tmp_path / "a.json", tmp_path / "b.json")
    assert text.startswith("a.json and b.json have no task in common\n")


def test_few_configurations_say_nothing_and_failures_do_not_count(tmp_path):
    assert latency_ratio(*logs(tmp_path, [1e-3] * 5, [1e-3] * 5)) == (None, 5)
    lines = (autotvm_line(i, unroll=i, error_no=4) for i in range(8))
    failed = write_log(tmp_path / "failed.json", *lines)
    first, second = open_logs([tmp_path / "a.json", failed])
    assert latency_ratio(first, second) == (None, 0)
