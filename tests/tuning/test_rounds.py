"""Alternatives, timed in turn until one is known to be the fastest."""

import time
from math import inf

import numpy as np
import pytest
from scipy import stats

from autotvm_opevo.tuning import rounds as module
from autotvm_opevo.tuning.rounds import MIN_ROUNDS, Rounds, is_told_apart, time_in_rounds


class Program:
    """Latencies of a program that is put into memory again and again: the place of the memory matters, and the machine drifts."""

    def __init__(self, log, name, seconds, rng, place=0.0):
        self.log, self.name, self.latency, self.rng, self.place = log, name, seconds, rng, place

    def __call__(self):
        self.log.append(f"new {self.name}")
        factor = np.exp(self.rng.normal(0.0, self.place))

        class Instance:
            def seconds(_):
                self.log.append(self.name)
                return self.latency * factor * np.exp(self.rng.normal(0.0, 0.01))

        return Instance()


def programs(*latencies, place=0.0, seed=0):
    rng, log = np.random.default_rng(seed), []
    return [Program(log, "abcd"[i], latency, rng, place) for i, latency in enumerate(latencies)], log


def compare(*latencies, place=0.0, seed=0, max_rounds=40):
    rounds = Rounds(len(latencies))
    found, _ = programs(*latencies, place=place, seed=seed)
    return rounds, time_in_rounds(rounds, found, inf, max_rounds)


def test_a_difference_larger_than_the_noise_is_found_in_a_few_rounds():
    rounds, why = compare(1.0, 1.2, 1.5)
    assert why == "decided"
    assert len(rounds.latencies) == MIN_ROUNDS
    assert rounds.fastest == 0
    ratio, low, high = rounds.speedup(0, 1)
    assert low < 1.2 < high
    assert ratio == pytest.approx(1.2, rel=0.03)


def test_equal_programs_are_rarely_told_apart_although_each_round_is_looked_at():
    """The place of their memory makes one of them faster in every single round."""
    runs = 100
    wrong = sum(is_told_apart(compare(1.0, 1.0, place=0.05, seed=seed)[0].speedup(0, 1)) for seed in range(runs))
    assert wrong <= stats.binom.ppf(0.9999, runs, 0.05)


def test_three_equal_programs_are_told_apart_no_more_often_than_two():
    runs, wrong = 60, 0
    for seed in range(runs):
        rounds, _ = compare(1.0, 1.0, 1.0, place=0.05, seed=seed, max_rounds=20)
        wrong += any(is_told_apart(rounds.speedup(rounds.fastest, i)) for i in range(3) if i != rounds.fastest)
    assert wrong <= stats.binom.ppf(0.9999, runs, 0.05)


def test_what_is_equally_fast_within_one_percent_is_decided():
    rounds, why = compare(1.0, 1.0, max_rounds=1000)
    assert why == "decided"
    assert not is_told_apart(rounds.speedup(0, 1))
    assert rounds.speedup(0, 1).high < 1.01


def test_a_drift_of_the_machine_does_not_matter():
    rounds = Rounds(2)
    for slower in (1.0, 1.5, 2.0, 4.0, 3.0, 1.2):
        rounds.add([1.00 * slower, 1.10 * slower])
    ratio, low, high = rounds.speedup(0, 1)
    assert (low, high) == pytest.approx((ratio, ratio))
    assert rounds.latency(0).high > 2 * rounds.latency(0).value


def test_each_round_has_new_memory_and_begins_with_another_program():
    found, log = programs(1.0, 2.0, 3.0)
    rounds = Rounds(3)
    time_in_rounds(rounds, found, inf, max_rounds=2)
    first = ["new a", "new b", "new c"] + ["a", "b", "c"] * module._REPEATS
    second = ["new b", "new c", "new a"] + ["b", "c", "a"] * module._REPEATS
    assert log == first + second
    assert np.round(rounds.latencies).tolist() == [[1.0, 2.0, 3.0]] * 2


def test_only_contestants_decide_when_it_ends():
    found, _ = programs(1.0, 1.0, 2.0)  # the first two are untuned and a copy of it
    rounds = Rounds(3, contestants=[1, 2])
    assert time_in_rounds(rounds, found, inf) == "decided"
    assert len(rounds.latencies) == MIN_ROUNDS
    assert rounds.fastest == 1


def test_no_round_begins_when_the_time_is_over():
    found, log = programs(1.0, 1.0)
    rounds = Rounds(2)
    assert time_in_rounds(rounds, found, time.monotonic()) == "time limit"
    assert rounds.latencies == log == []


def test_complete_rounds_are_kept_after_ctrl_c():
    found, log = programs(1.0, 1.0)
    rounds = Rounds(2)

    class Interrupted(Program):
        def __call__(self):
            if len(rounds.latencies) == 3:
                raise KeyboardInterrupt
            return super().__call__()

    with pytest.raises(KeyboardInterrupt):
        time_in_rounds(rounds, [found[0], Interrupted(log, "b", 1.0, found[0].rng)], inf)
    assert len(rounds.latencies) == 3


def test_a_round_that_hangs_ends_with_an_error(monkeypatch):
    monkeypatch.setattr(module, "_ROUND_TIMEOUT", 0.1)
    with pytest.raises(TimeoutError, match="a round of timings"):
        time_in_rounds(Rounds(2), [lambda: time.sleep(60)] * 2, inf)
