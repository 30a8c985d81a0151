"""What is known of a machine's limits, as a function of operations and bytes."""

import math
from types import SimpleNamespace

from autotvm_opevo.tuning.journal import Journal, read
from autotvm_opevo.tuning.roofline import Roofline
from autotvm_opevo.tuning.session import Session


def test_what_caches_hold_is_read_faster():
    roofline = Roofline(bandwidths=((1e3, 1e9), (1e6, 1e6)))
    assert [roofline.latency(0, size) for size in (999, 1e3, 1e5, 1e6, 2e6)] == [0, 1e-6, 1e-4, 1.0, 2.0]


def test_tasks_whose_operations_do_not_limit_them_are_memory_bound(tmp_path):
    work, progress = [(2e9, 1e6), (1e6, 2e9), (0.0, 0.0)], [SimpleNamespace(limit=math.nan) for _ in range(3)]
    tasks = [SimpleNamespace(progress=one) for one in progress]
    session = SimpleNamespace(_keys=["compute", "memory", "none"], _tasks=tasks, _journal=Journal(tmp_path / "journal"))
    roofline = Roofline(flops=1e9, bandwidths=((1.0, 1e9),))
    Session.set_limits(session, roofline, lambda i, roofline: roofline.latency(*work[i]))
    assert [one.limit for one in progress] == [2.0, 2.0, 0.0]
    (entry,) = read(tmp_path / "journal")
    limits = {"compute": 2.0, "memory": 2.0}
    assert entry.network == {"limits": limits, "memory_bound": ["memory"], "bandwidth": 1e9}
