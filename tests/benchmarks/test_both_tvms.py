"""The comparison of both TVMs: what it reads from the command line, and its table."""

from compared_networks import compared

from benchmarks import both_tvms


def test_latencies_are_read_from_what_compare_prints():
    comparison = compared(0.020, 0.010, noise=0)
    for name in ("log.best.json", "best"):
        comparison.logs[0] = name
        assert both_tvms.milliseconds(str(comparison)) == [20.0, 10.0]


def test_the_table_has_geometric_means_and_the_range_of_the_seeds():
    def run(seed, factor, target="llvm"):
        methods = {name: {"timed": [[20.0, 10.0 * factor], [20.0, 10.0 * factor]], "seconds": 60.0} for name in both_tvms.PYTHONS}
        return {"network": "alexnet", "target": target, "seed": seed, **methods}

    text = both_tvms.table([run(0, 1.0), run(1, 4.0), run(0, 2.0, target="")])
    assert "| alexnet | llvm | AutoTVM (0.17) | 20 | 20 (10 to 40) | 60 |" in text
    assert "| alexnet | this machine's | AutoTVM (0.17) | 20 | 20 (20 to 20) | 60 |" in text


def test_the_lead_is_that_of_each_seeds_networks():
    def run(seed, *tuned):
        methods = {name: {"timed": [[20.0, ms]], "seconds": 1.0} for name, ms in zip(both_tvms.PYTHONS, tuned)}
        return {"network": "alexnet", "target": "", "seed": seed, **methods}

    text = both_tvms.table([run(0, 12.0, 10.0), run(1, 24.0, 20.0)])
    assert "MetaSchedule (0.27) is as AutoTVM (0.17): alexnet, this machine's: 1.20 times (1.20 to 1.20; 2 seeds); " in text
    assert "times (" not in both_tvms.table([run(0, 12.0, 10.0)])
