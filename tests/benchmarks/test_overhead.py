"""What the tuners themselves cost is measured as it says, on less."""

from benchmarks import overhead


def test_overhead_times_every_tuner_and_counts_its_trials():
    task = overhead.SPACES["MM1"]()
    for name in ("OpEvo", "Random", "GA"):
        seconds = overhead.seconds_until(overhead.TUNERS[name](task), task, (8, 24))
        assert 0 < seconds[0] < seconds[1]


def test_overhead_weighs_what_a_trial_leaves():
    assert 10 < overhead.bytes_per_trial(overhead.SPACES["C2"](), 200) < 10_000
