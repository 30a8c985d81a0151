"""The benchmark of the tuners' own cost, on less."""

from benchmarks import overhead


def test_overhead_times_every_tuner_and_counts_its_trials():
    task = overhead.SPACES["MM1"]()
    for name in ("OpEvo", "OpEvo-published", "Random", "GA"):
        seconds = overhead.seconds_until(overhead.TUNERS[name](task), task, (8, 24))
        assert 0 < seconds[0] < seconds[1]


def test_overhead_counts_the_bytes_kept_per_trial():
    assert 10 < overhead.bytes_per_trial(overhead.SPACES["C2"](), 200) < 10_000


def test_overhead_times_a_search_with_pauses_by_the_wall_and_by_its_process():
    wall, cpu = overhead.paused(overhead.SPACES["C2"](), trials=16)
    assert cpu > 0
    assert 0 < wall < 1e3 * overhead.PAUSE  # the pauses are left out
