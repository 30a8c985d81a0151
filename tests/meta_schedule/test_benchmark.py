"""The comparison with TVM's evolutionary search, on a tiny workload with few trials."""

import time

import pytest

from benchmarks import meta_schedule, meta_schedule_overhead, relax_network, relax_time_to_quality
from benchmarks.network_table import table
from benchmarks.workloads import CPU, matmul


@pytest.mark.soak
def test_a_repetition_times_every_strategy_s_best_schedules(monkeypatch):
    monkeypatch.setitem(CPU, "MM1", lambda: matmul(32, 32, 32))
    runs = [
        {"workload": "MM1", "results": meta_schedule.repetition("MM1", seed, [2, 4], "quick")}
        for seed in range(2)
    ]
    for run in runs:
        assert list(run["results"]) != list(meta_schedule.STRATEGIES) or run is runs[0]
        for result in run["results"].values():
            assert len(result["latencies"]) >= 4
            assert set(result["retimed"]) == {"2", "4"}
            assert all(0 < latency < 1 for latency in result["retimed"].values())
    text = "\n\n".join(meta_schedule.tables(runs))
    assert "| MM1 | 2 |" in text
    assert "geometric mean" in text


def test_the_tables_show_speedups():
    def results(factor):
        return {
            name: {
                "retimed": {"32": 1e-3 * (factor if name == meta_schedule.BASELINE else 1.0)},
                "seconds": 1.0,
            }
            for name in meta_schedule.STRATEGIES
        }

    latencies, ratios, times = meta_schedule.tables(
        [{"workload": "MM1", "results": results(2.0)} for _ in range(5)]
    )
    assert "| MM1 | 32 | 2 (2 to 2) | 1 (1 to 1) | 2.00 |" in latencies
    assert "| OpEvo | speedup after 32 trials | 2.000 | 2.000 to 2.000 |" in ratios
    assert "| OpEvo | ratio of tuning times | 1.000 | 1.000 to 1.000 |" in ratios
    assert "| MM1 | 1 ± 0 | 1 ± 0 |" in times


@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_the_parts_of_the_overhead_are_within_the_whole(target):
    time_spent, tried = meta_schedule_overhead.run("MM1", target, None, 8)
    assert 0 < time_spent["apply"] < time_spent["candidate"] < time_spent["in all"]
    assert tried >= 8


@pytest.mark.soak
def test_networks_are_tuned_by_each_method_and_their_outputs_agree():
    methods = list(relax_network.METHODS)
    run = {"network": "mlp", "trials": 8, "relax_trials": 8, "seed": 1, "methods": methods}
    run.update(relax_network.repetition(run))
    assert run["seconds"].keys() == relax_network.METHODS.keys()
    assert run["milliseconds"].keys() == {"untuned", *relax_network.METHODS}
    assert "| mlp | tune_network |" in table([run])


def test_records_are_counted_while_they_are_written(tmp_path):
    records = tmp_path / "records"

    def write():
        for count in (2, 5):
            time.sleep(0.05)
            records.write_text("{}\n" * count)

    counts, seconds = relax_time_to_quality.count_over_time(write, records, interval=0.001)
    assert counts[-1][1] == 5
    assert sorted({count for _, count in counts}) == [count for _, count in counts]
    assert 0.1 <= counts[-1][0] <= seconds + 1


def test_stages_hold_what_was_found_by_then_and_the_last_is_confirmed(tmp_path):
    folder = tmp_path / "database"
    folder.mkdir()
    (folder / relax_time_to_quality.WORKLOADS).write_text("workloads")
    (folder / relax_time_to_quality.RECORDS).write_text("".join(f"{i}\n" for i in range(10)))
    counts = [(8.0, 4), (45.0, 10)]

    def found(seconds, total):
        rows = relax_time_to_quality.stages(folder, counts, seconds, total)
        return [
            (
                row["seconds"],
                row["trials"],
                (row["database"] / relax_time_to_quality.RECORDS).read_text(),
            )
            for row in rows
        ]

    four, ten = "0\n1\n2\n3\n", "".join(f"{i}\n" for i in range(10))
    assert found(50, 100) == [(10, 4, four), (20, 4, four), (50, 10, ten)]  # nothing yet after 5 s
    (folder / "best").mkdir()
    (folder / "best" / relax_time_to_quality.RECORDS).write_text("best")
    assert found(33, 100) == [(10, 4, four), (20, 4, four), (33, 4, "best")]
