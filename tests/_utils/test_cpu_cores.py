"""How many cores there are, and what is said if TVM uses fewer."""

import os
import subprocess
import sys

import pytest

from autotvm_opevo._utils import cpu_cores
from autotvm_opevo._utils.cpu_cores import (
    physical_cores,
    thread_mismatch,
    usable_cpus,
    use_all_cores,
    warn_of_thread_mismatch,
)


@pytest.fixture(autouse=True)
def no_quota(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu_cores, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(cpu_cores, "_OWN_CGROUPS", tmp_path / "own")


def siblings(monkeypatch, tmp_path, lists):
    for cpu, text in enumerate(lists):
        (tmp_path / str(cpu)).write_text(text)
    monkeypatch.setattr(cpu_cores, "_SIBLINGS", str(tmp_path / "{}"))
    monkeypatch.setattr(cpu_cores, "_MAX_FREQUENCY", str(tmp_path / "{}.frequency"))
    monkeypatch.setattr(cpu_cores, "_CAPACITY", str(tmp_path / "{}.capacity"))
    monkeypatch.setattr(cpu_cores, "_FAST", tmp_path / "fast")
    monkeypatch.setattr(cpu_cores, "_CPUS", set(range(len(lists))))
    monkeypatch.setattr(os, "cpu_count", lambda: len(lists))


def test_hyper_threads_of_one_core_count_once(monkeypatch, tmp_path):
    siblings(monkeypatch, tmp_path, ["0,2\n", "1,3\n", "0,2\n", "1,3\n"])
    assert physical_cores() == 2
    assert thread_mismatch(2) == ""
    assert thread_mismatch(1).startswith(
        "TVM runs kernels in 1 thread on 2 cores: TVM_NUM_THREADS=2 "
    )


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_cores_count_when_tvm_has_bound_the_process_since_the_package_was_imported():
    code = (
        "import os, autotvm_opevo; cpus = os.sched_getaffinity(0); "
        "os.sched_setaffinity(0, {min(cpus)}); "
        "from autotvm_opevo._utils.cpu_cores import affinity; assert affinity() == cpus"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_a_process_that_was_bound_before_is_warned():
    cpus = os.sched_getaffinity(0)
    code = (
        "import logging, os, sys; logging.basicConfig(); sys.modules['tvm'] = sys; "
        f"os.sched_setaffinity(0, {{{min(cpus)}}}); "
        "from autotvm_opevo._utils import cpu_cores; cpu_cores.warn_of_thread_mismatch(2)"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ("import autotvm_opevo before TVM runs" in ran.stderr) == (len(cpus) > 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_cores_count_when_the_main_thread_is_bound_to_one_of_them():
    cpus, cores = os.sched_getaffinity(0), physical_cores()
    os.sched_setaffinity(0, {min(cpus)})
    try:
        assert physical_cores() == cores
    finally:
        os.sched_setaffinity(0, cpus)


@pytest.mark.parametrize("threads", [0, 1, 64])
def test_where_the_cores_are_unknown_nothing_is_said(monkeypatch, tmp_path, threads):
    monkeypatch.setattr(cpu_cores, "_SIBLINGS", str(tmp_path / "missing{}"))
    assert physical_cores() == 0
    assert thread_mismatch(threads) == ""


def test_more_threads_than_cores_are_the_users_choice_or_tvms_which_knows_no_quota(
    monkeypatch, tmp_path
):
    siblings(monkeypatch, tmp_path, ["0\n", "1\n"])
    monkeypatch.setenv("TVM_NUM_THREADS", "3")
    assert thread_mismatch(3) == ""
    assert "uses each once, instead of TVM_NUM_THREADS=3; deploy" in thread_mismatch(1)
    monkeypatch.delenv("TVM_NUM_THREADS")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert "in 3 threads on 2 cores: TVM_NUM_THREADS=2" in thread_mismatch(3)


def test_cores_that_tvm_never_takes_since_others_are_faster_are_said(monkeypatch, tmp_path):
    """As where two of a kind are allowed a higher frequency."""
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    siblings(monkeypatch, tmp_path, ["0", "1", "2", "3"])
    for cpu, frequency in enumerate([1400, 1400, 1800, 1800]):
        (tmp_path / f"{cpu}.frequency").write_text(f"{frequency}\n")
    assert "in 2 threads on 4 cores: it takes only those of the highest" in thread_mismatch(2)
    monkeypatch.setenv("TVM_NUM_THREADS", "4")
    assert "whatever TVM_NUM_THREADS says" in thread_mismatch(2)
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    assert thread_mismatch(2) == ""


@pytest.mark.parametrize(
    ("fast", "cpus", "cores"),
    [
        ("0-3\n", range(6), 2),
        ("0-3\n", [0, 1, 4], 1),
        ("0-1,4\n", range(6), 2),
        ("0-3\n", [4, 5], 2),
    ],
)
def test_of_two_kinds_of_cores_the_fast_ones_count(monkeypatch, tmp_path, fast, cpus, cores):
    """As on Intel's: two fast ones, of two hyper-threads each, and two slow ones."""
    siblings(monkeypatch, tmp_path, ["0-1", "0-1", "2-3", "2-3", "4", "5"])
    (tmp_path / "fast").write_text(fast)
    monkeypatch.setattr(cpu_cores, "_CPUS", set(cpus))
    assert physical_cores() == cores


@pytest.mark.parametrize(
    ("capacities", "cores"), [([400, 400, 900, 1024], 2), ([1024] * 4, 4), ([400, 400, 900], 4)]
)
def test_of_arms_kinds_of_cores_the_slowest_do_not_count(monkeypatch, tmp_path, capacities, cores):
    """Unless the kind of one is unknown."""
    siblings(monkeypatch, tmp_path, ["0", "1", "2", "3"])
    for cpu, capacity in enumerate(capacities):
        (tmp_path / f"{cpu}.capacity").write_text(f"{capacity}\n")
    assert physical_cores() == cores


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 4), ("250000 100000", 2), ("50000 100000", 1), ("900000 100000", 4)],
)
@pytest.mark.parametrize("where", ["", "app", "app/job"])
def test_of_a_quota_whole_cores_count(monkeypatch, tmp_path, quota, cores, where):
    siblings(monkeypatch, tmp_path, ["0", "1", "2", "3"])
    (tmp_path / "own").write_text("0::/app/job\n")
    (tmp_path / "cgroup" / "app" / "job").mkdir(parents=True)
    (tmp_path / "cgroup" / where / "cpu.max").write_text(quota)
    assert physical_cores() == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", 4), ("200000", 2)])
def test_quotas_of_the_first_version_of_control_groups_count_too(
    monkeypatch, tmp_path, quota, cores
):
    siblings(monkeypatch, tmp_path, ["0", "1", "2", "3"])
    (tmp_path / "own").write_text("4:memory:/x\n2:cpu,cpuacct:/docker/1\n0::/\n")
    folder = tmp_path / "cgroup" / "cpu" / "docker" / "1"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text(quota)
    (folder / "cpu.cfs_period_us").write_text("100000")
    assert physical_cores() == cores


def test_hyper_threads_are_cpus_of_their_own(monkeypatch, tmp_path):
    siblings(monkeypatch, tmp_path, ["0,2", "1,3", "0,2", "1,3"])
    assert usable_cpus() == 4


def test_without_affinity_all_cpus_can_be_used(monkeypatch):
    monkeypatch.setattr(cpu_cores, "_CPUS", set())
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert usable_cpus() == 3
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cpus() == 1


def test_all_cores_are_used_unless_the_user_chose_otherwise(monkeypatch, tmp_path):
    siblings(monkeypatch, tmp_path, ["0,2", "1,3", "0,2", "1,3"])
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
        assert use_all_cores() == ""
        monkeypatch.delenv(name)
    assert use_all_cores().startswith("TVM_NUM_THREADS=2: ")
    assert os.environ["TVM_NUM_THREADS"] == "2"


def test_where_the_cores_are_unknown_nothing_is_set(monkeypatch, tmp_path):
    monkeypatch.setenv("TVM_NUM_THREADS", "")
    monkeypatch.setattr(cpu_cores, "_SIBLINGS", str(tmp_path / "missing{}"))
    assert (use_all_cores(), os.environ["TVM_NUM_THREADS"]) == ("", "")


@pytest.mark.parametrize("threads", ["", "2"])
@pytest.mark.parametrize(
    ("cpus", "quota", "binding"),
    [
        ({0, 1, 2, 3}, "max 100000", None),
        ({0, 1, 2, 3}, "400000 100000", None),
        ({2, 3}, "max 100000", "0"),
        ({0, 1, 2, 3}, "350000 100000", "0"),
    ],
)
def test_threads_are_not_bound_where_only_a_part_of_the_machine_may_be_used(
    monkeypatch, tmp_path, threads, cpus, quota, binding
):
    """TVM would bind those of every process to the same CPUs."""
    siblings(monkeypatch, tmp_path, ["0", "1", "2", "3"])
    monkeypatch.setattr(cpu_cores, "_CPUS", cpus)
    (tmp_path / "own").write_text("0::/\n")
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "cpu.max").write_text(quota)
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    monkeypatch.delenv("TVM_BIND_THREADS", raising=False)
    said = use_all_cores()
    assert os.environ.get("TVM_BIND_THREADS") == binding
    assert ("TVM_BIND_THREADS=0: " in said) == (binding is not None)
    assert ("TVM_NUM_THREADS=" in said) == (threads == "")


@pytest.mark.parametrize(
    ("lists", "frequencies", "binding"),
    [
        (["0,2", "1,3", "0,2", "1,3"], [], None),
        (["0-1", "0-1", "2-3", "2-3"], [], "0"),
        (["0,2", "1,3", "0,2", "1,3"], [3, 3, 3, 3], None),
        (["0,2", "1,3", "0,2", "1,3"], [3, 4, 3, 4], "0"),
    ],
    ids=["halves", "pairs", "equally fast", "one is faster"],
)
def test_threads_are_not_bound_to_hyper_threads_of_the_same_cores(
    monkeypatch, tmp_path, lists, frequencies, binding
):
    """TVM binds them to the first CPUs, the fastest ones before all others."""
    siblings(monkeypatch, tmp_path, lists)
    for cpu, frequency in enumerate(frequencies):
        (tmp_path / f"{cpu}.frequency").write_text(f"{frequency}\n")
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    monkeypatch.delenv("TVM_BIND_THREADS", raising=False)
    use_all_cores()
    assert os.environ.get("TVM_BIND_THREADS") == binding


def test_whether_threads_are_bound_is_the_users_choice(monkeypatch, tmp_path):
    siblings(monkeypatch, tmp_path, ["0", "1"])
    monkeypatch.setattr(cpu_cores, "_CPUS", {1})
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    monkeypatch.setenv("TVM_BIND_THREADS", "1")
    assert (use_all_cores(), os.environ["TVM_BIND_THREADS"]) == ("", "1")


def test_a_thread_mismatch_is_warned_of_once(monkeypatch, tmp_path, caplog):
    siblings(monkeypatch, tmp_path, ["0", "1", "2"])
    warn_of_thread_mismatch.cache_clear()
    for _ in range(2):
        warn_of_thread_mismatch(1)
    assert caplog.text.count("TVM runs kernels in 1 thread on 3 cores") == 1
