"""The comparison with TVM's evolutionary search, on a tiny workload with few trials."""

import pytest

from autotvm_opevo.meta_schedule import as_target
from autotvm_opevo.meta_schedule.strategy import prior
from benchmarks import layers, meta_schedule, meta_schedule_overhead, relax_network
from benchmarks.network_table import table
from benchmarks.workloads import WORKLOADS, matmul


@pytest.mark.soak
def test_a_repetition_times_every_strategy_s_best_schedules(monkeypatch):
    monkeypatch.setitem(WORKLOADS, "MM1", lambda: matmul(32, 32, 32))
    runs = [
        {"workload": "MM1", "seed": seed, "trials": [2, 4], "builder": "quick"} for seed in range(2)
    ]
    for run in runs:
        run.update(meta_schedule.repetition(run))
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
    assert "| MM1 | 32 | 2 (2 to 2) | 1 (1 to 1) | 1 (1 to 1) | 2.00 | 2.00 |" in latencies
    assert "| OpEvo | speedup after 32 trials | 2.000 | 2.000 to 2.000 |" in ratios
    assert "| OpEvo | ratio of tuning times | 1.000 | 1.000 to 1.000 |" in ratios
    assert "| MM1 | 1 ± 0 | 1 ± 0 | 1 ± 0 |" in times


@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_the_parts_of_the_overhead_are_within_the_whole(target):
    time_spent, tried = meta_schedule_overhead.run("MM1", target, None, 8)
    assert 0 < time_spent["apply"] < time_spent["candidate"] < time_spent["in all"]
    assert tried >= 8


@pytest.mark.soak
def test_networks_are_tuned_by_each_method_and_their_outputs_agree(monkeypatch):
    monkeypatch.setattr(relax_network, "DEFAULT_TRIALS", 8)
    methods = list(relax_network.METHODS)
    run = {"network": "mlp", "trials": 8, "seed": 1, "methods": methods}
    run.update(relax_network.repetition(run))
    assert run["seconds"].keys() == relax_network.METHODS.keys()
    assert run["milliseconds"].keys() == {"untuned", *relax_network.METHODS}
    assert "| mlp | tune_network |" in table([run])


@pytest.mark.parametrize("cpu", ["core-avx2", "skylake-avx512"])
def test_larger_convolutions_are_left_out_and_the_others_stay(cpu):
    kept = [
        source
        for source in prior(as_target(f"llvm -mcpu={cpu}"))
        if not relax_network.has_window(source.space.knobs)
    ]
    small = [layer for layer in layers.CONVOLUTIONS if layer[3] == 1]
    others = layers.DENSE, layers.MATMUL, layers.POOLS, layers.SOFTMAX, layers.MEANS
    assert len(kept) == len(small) + sum(map(len, others))
