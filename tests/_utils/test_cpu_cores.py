"""How many cores there are, and what is said if TVM uses fewer."""

import os

import pytest

from autotvm_opevo._utils import cpu_cores
from autotvm_opevo._utils.cpu_cores import idle_cores, physical_cores


def siblings(monkeypatch, tmp_path, lists):
    for cpu, text in enumerate(lists):
        (tmp_path / str(cpu)).write_text(text)
    monkeypatch.setattr(cpu_cores, "_SIBLINGS", str(tmp_path / "{}"))
    monkeypatch.setattr(cpu_cores, "_CPUS", set(range(len(lists))))


def test_hyper_threads_of_one_core_count_once(monkeypatch, tmp_path):
    siblings(monkeypatch, tmp_path, ["0,2\n", "1,3\n", "0,2\n", "1,3\n"])
    assert physical_cores() == 2
    assert idle_cores(2) == ""
    assert idle_cores(1).startswith("TVM runs kernels on 1 of 2 cores: TVM_NUM_THREADS=2 uses all")


def test_every_cpu_is_a_core_without_hyper_threads(monkeypatch, tmp_path):
    siblings(monkeypatch, tmp_path, ["0\n", "1\n"])
    assert physical_cores() == 2


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
    assert idle_cores(threads) == ""


def test_more_threads_than_cores_are_the_users_choice(monkeypatch, tmp_path):
    siblings(monkeypatch, tmp_path, ["0\n", "1\n"])
    assert idle_cores(3) == ""
