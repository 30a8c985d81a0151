"""Whether two logs' latencies can be compared."""

import argparse
import math
import shlex

import numpy as np
import pytest
from report_text import page_text
from synthetic_logs import autotvm_line, meta_schedule_folder

from autotvm_opevo import report
from autotvm_opevo._utils.command_line import program
from autotvm_opevo.cli import compare as compare_parser
from autotvm_opevo.reporting.commands import WORKLOAD, compare_command
from autotvm_opevo.reporting.comparability import compare
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.tuning.journal import JOURNAL, Journal, RunStarted, YardstickTimed


def write(path, latencies):
    """Write a log of one trial for each unroll factor, with these latencies."""
    path.write_text("\n".join(autotvm_line(i, unroll=i, latency=latency) for i, latency in enumerate(latencies)))
    return path


def logs(tmp_path, first, second):
    """Two logs with these latencies of the same configurations."""
    return open_logs([write(tmp_path / "a.json", first), write(tmp_path / "b.json", second)])


def test_a_machine_that_was_slower_is_found_by_the_configurations_that_both_logs_have(tmp_path):
    first, second = logs(tmp_path, [1e-3 * (i + 1) for i in range(8)], [1.2e-3 * (i + 1) for i in range(16)])
    found = compare(second, first)
    assert (found.ratio, found.low, found.high, found.differs) == (*[pytest.approx(1.2)] * 3, True)
    assert found.basis == "8 configurations that both have"
    assert not compare(first, first).differs


def test_noise_is_no_difference(tmp_path):
    noise = np.exp(np.random.default_rng(0).normal(0, 0.2, 12))
    assert not compare(*logs(tmp_path, [1e-3] * 12, 1e-3 * noise)).differs


def test_a_wide_interval_around_1_is_no_proof_of_an_equal_machine(tmp_path):
    noise = np.exp(np.random.default_rng(0).normal(0, 0.4, 12))
    assert compare(*logs(tmp_path, [1e-3] * 12, 1e-3 * noise)).is_unclear
    assert not compare(*logs(tmp_path, [1e-3] * 12, 1e-3 * noise**0.1)).is_unclear
    page = report(tmp_path / "a.json", write(tmp_path / "b.json", 1e-3 * noise), out=tmp_path / "report.html")
    assert "a.json and b.json are hard to compare: the same took" in page_text(page)


def test_the_interval_has_its_confidence(tmp_path):
    rng, inside = np.random.default_rng(1), 0
    for _ in range(200):
        found = compare(*logs(tmp_path, 1e-3 * np.exp(np.clip(rng.standard_cauchy(11), -50, 50) * 0.1), [1e-3] * 11))
        inside += found.low <= 1 <= found.high
    assert inside >= 180  # of 95%, by more than three standard deviations


def test_few_configurations_say_nothing_and_failures_do_not_count(tmp_path):
    found = compare(*logs(tmp_path, [1e-3] * 5, [1e-3] * 5))
    assert math.isnan(found.ratio)
    assert found.basis == "5 configurations that both have"
    assert not found.differs
    failed = tmp_path / "failed.json"
    failed.write_text("\n".join(autotvm_line(i, unroll=i, error_no=4) for i in range(8)))
    first, second = open_logs([tmp_path / "a.json", failed])
    assert compare(first, second).basis.startswith("0 configurations")


def test_without_common_configurations_the_journals_yardstick_tells(tmp_path):
    for name, latency in (("a.json", 1e-3), ("b.json", 1.5e-3)):
        journal = Journal(tmp_path / f"{name}.journal")
        for _ in range(8):
            journal.write(YardstickTimed("llvm, 2 threads", latency))
    first, second = logs(tmp_path, [1e-3], [1e-3])
    found = compare(second, first)
    assert found.ratio == pytest.approx(1.5)
    assert found.differs
    assert "a kernel" in found.basis


def test_another_kernel_tells_nothing(tmp_path):
    for name in ("a.json", "b.json"):
        journal = Journal(tmp_path / f"{name}.journal")
        for _ in range(8):
            journal.write(YardstickTimed(name, 1e-3))
    assert math.isnan(compare(*logs(tmp_path, [1e-3], [1e-3])).ratio)


def test_the_command_that_decides_has_what_was_tuned(tmp_path):
    both = logs(tmp_path, [1e-3], [1e-3])
    paths = f"{tmp_path}/a.json {tmp_path}/b.json"
    assert compare_command(both) == f"{program()} compare {paths} --network NAME"
    command = "autotvm-opevo tune --operator nn.dense --tensor 8x16 --tensor 4x16 --target 'llvm -mcpu=core-avx2' --log b.json"
    Journal(tmp_path / "b.json.journal").write(RunStarted([], "OpEvo", command))
    tuned = "--operator nn.dense --tensor 8x16 --tensor 4x16 --target 'llvm -mcpu=core-avx2'"
    assert compare_command(open_logs([log.path for log in both])) == f"autotvm-opevo compare {paths} {tuned}"


def test_the_command_that_decides_is_one_of_the_command_line(tmp_path):
    """Every option that says what was tuned is an option of ``compare``, too."""
    both = logs(tmp_path, [1e-3], [1e-3])
    options = [word for name in WORKLOAD for word in (name, "8x16" if name == "--tensor" else "1")]
    Journal(tmp_path / "a.json.journal").write(RunStarted([], "OpEvo", shlex.join(["tune", *options, "--log", "a.json"])))
    commands = argparse.ArgumentParser().add_subparsers()
    compare_parser.add(commands)
    known = commands.choices["compare"]._option_string_actions
    words = shlex.split(compare_command(open_logs([log.path for log in both])))
    assert {word for word in words if word.startswith("--")} == set(WORKLOAD) <= known.keys()


def test_the_command_that_decides_names_the_best_records_where_there_are_any(tmp_path):
    both = logs(tmp_path, [1e-3], [1e-3])
    (tmp_path / "b.best.json").write_text("")
    Journal(tmp_path / "b.json.journal").write(
        RunStarted([], "OpEvo", "autotvm-opevo tune --network=mlp --rpc-key=pi --log=b.json")
    )
    paths = f"{tmp_path}/a.json {tmp_path}/b.best.json"
    expected = f"autotvm-opevo compare {paths} --network mlp --rpc-key pi"
    assert compare_command(open_logs([log.path for log in both])) == expected


def test_the_command_that_decides_names_the_devices_of_work_directories_too(tmp_path):
    both = [meta_schedule_folder(tmp_path / name) for name in "ab"]
    Journal(tmp_path / "a" / JOURNAL).write(RunStarted([], "OpEvo", "autotvm-opevo tune --network mlp --rpc-key pi --log a"))
    assert compare_command(open_logs(both)) == f"autotvm-opevo compare {tmp_path}/a {tmp_path}/b --network mlp --rpc-key pi"


def test_logs_of_different_networks_have_no_command_that_decides(tmp_path):
    other = tmp_path / "b.json"
    other.write_text(autotvm_line(0, "conv2d", latency=1e-3) + "\n")
    assert compare_command(open_logs([write(tmp_path / "a.json", [1e-3]), other])) == ""
    assert "timing them in turn" not in page_text(report(tmp_path / "a.json", other, out=tmp_path / "report.html"))


def test_the_command_that_decides_begins_as_the_one_that_tuned(tmp_path):
    both = logs(tmp_path, [1e-3], [1e-3])
    Journal(tmp_path / "a.json.journal").write(RunStarted([], "OpEvo", "python -m autotvm_opevo tune --network mlp --log a.json"))
    command = compare_command(open_logs([log.path for log in both]))
    assert command == f"python -m autotvm_opevo compare {tmp_path}/a.json {tmp_path}/b.json --network mlp"


def test_a_database_is_named_by_its_folder(tmp_path):
    both = [meta_schedule_folder(tmp_path / name) / "database_tuning_record.json" for name in "ab"]
    assert f"compare {tmp_path}/a {tmp_path}/b " in compare_command(open_logs(both))
