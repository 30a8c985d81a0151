"""The yardstick: when it is timed, and what it says of the trials."""

import time

import numpy as np
import pytest

from autotvm_opevo.tuning.drift import Drift


def every_five_seconds(*latencies):
    return [(5.0 * i, latency) for i, latency in enumerate(latencies)]


def test_a_steady_machine_needs_no_correction():
    noisy = np.random.default_rng(0).lognormal(0, 0.02, 100)
    drift = Drift(every_five_seconds(*noisy))
    assert {drift.factor(moment) for moment in range(500)} == {1.0}
    assert drift.range == 1


def test_the_factor_is_how_much_longer_things_take_than_at_first():
    drift = Drift(every_five_seconds(*[2.0] * 10, *[3.0] * 10, *[1.0] * 10))
    assert [drift.factor(moment) for moment in (20, 70, 120)] == [1.0, 1.5, 0.5]
    assert drift.range == 3


def test_far_from_any_timing_nothing_is_known():
    drift = Drift(every_five_seconds(*[1.0] * 10, *[2.0] * 10))
    assert [drift.factor(moment) for moment in (95, 140, 150, 1e9, -1e9)] == [2.0, 2.0, 1.0, 1.0, 1.0]


def test_a_night_s_journal_is_read_in_a_moment():
    drift = Drift(every_five_seconds(*np.random.default_rng(0).lognormal(0, 0.02, 20_000)))
    assert drift.range < 1.2  # a quadratic one would meet the limit of a test


def test_one_disturbed_timing_does_not_count():
    drift = Drift(every_five_seconds(*[1.0] * 5, 4.0, *[1.0] * 5))
    assert drift.range == 1


def test_between_slow_and_fast_timings_a_trial_counts_as_fast():
    drift = Drift(every_five_seconds(*[1.0] * 6, *[2.0] * 3, *[1.0] * 6))
    assert [drift.factor(moment) for moment in (27.0, 42.0)] == [1.0, 1.0]


def test_a_few_timings_say_nothing():
    assert Drift().factor(time.time()) == Drift().range == 1
    assert Drift(every_five_seconds(1.0, 2.0, 3.0, 4.0, 5.0)).range == 1


def test_it_is_due_every_two_seconds_whatever_the_clock_does():
    now = time.time()
    assert Drift().due
    assert not Drift([(now, 1.0)]).due
    assert Drift([(now - 6, 1.0)]).due
    assert Drift([(now + 3600, 1.0)]).due


def test_what_is_added_is_written_and_a_change_is_noticed():
    written = []
    drift = Drift(write=written.append)
    assert [drift.add(latency) for latency in (0.5, 0.52, 0.6, 0.6, 0.5)] == [False, False, True, False, True]
    assert written == [0.5, 0.52, 0.6, 0.6, 0.5]
    assert not drift.due


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_the_order_of_a_journal_does_not_matter(order):
    timed = every_five_seconds(1.0, 1.0, 1.0, 2.0, 2.0, 2.0)
    assert Drift(timed[order]).factor(30) == 2
