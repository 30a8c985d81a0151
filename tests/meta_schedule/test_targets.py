"""The number of cores of a target."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from autotvm_opevo.meta_schedule.targets import as_target


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs CPU affinity")
def test_counting_cores_leaves_all_of_them_to_what_is_started_later(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")

    def cores():
        before = os.sched_getaffinity(0)
        assert as_target("llvm").attrs["num-cores"] == 1
        return before, os.sched_getaffinity(0)

    with ThreadPoolExecutor(1) as thread:  # TVM binds each thread once
        before, after = thread.submit(cores).result()
    assert before == after
