"""The comparison with TVM's own search, on so little that it says nothing."""

import pytest

from benchmarks import meta_schedule, meta_schedule_overhead
from benchmarks.workloads import CPU, matmul


def test_a_repetition_times_what_every_strategy_found_and_the_tables_compare_it(monkeypatch):
    monkeypatch.setitem(CPU, "MM1", lambda: matmul(32, 32, 32))
    runs = [{"workload": "MM1", "results": meta_schedule.repetition("MM1", seed, [2, 4], "quick")} for seed in range(2)]
    for run in runs:
        assert list(run["results"]) != list(meta_schedule.STRATEGIES) or run is runs[0]
        for result in run["results"].values():
            assert len(result["latencies"]) >= 4
            assert set(result["again"]) == {"2", "4"}
            assert all(0 < latency < 1 for latency in result["again"].values())
    text = meta_schedule.tables(runs)
    assert "| MM1 | 2 |" in text
    assert "geometric mean" in text


def test_the_tables_say_how_many_times_as_fast():
    def results(factor):
        return {
            name: {"again": {"32": 1e-3 * (factor if name == meta_schedule.RIVAL else 1.0)}, "seconds": 1.0}
            for name in meta_schedule.STRATEGIES
        }

    text = meta_schedule.tables([{"workload": "MM1", "results": results(2.0)} for _ in range(5)])
    assert "| MM1 | 32 | 2 (2 to 2) | 1 (1 to 1) | 1 (1 to 1) | 2.00 | 2.00 |" in text
    assert "| operators | OpEvo | times as fast after 32 trials | 2.000 | 2.000 to 2.000 |" in text
    assert "| operators | OpEvo | part of the time for all trials | 1.000 | 1.000 to 1.000 |" in text


@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_the_parts_of_the_cost_are_within_the_whole(target):
    time_spent, tried = meta_schedule_overhead.run("MM1", target, None, 8)
    assert 0 < time_spent["applied"] < time_spent["candidate"] < time_spent["in all"]
    assert tried >= 8
