"""Races between alternatives whose true latencies are known, and the intervals that decide them."""

import time
from math import inf, log

import numpy as np
import pytest
from scipy import integrate, stats

from autotvm_opevo.tuning import race as module
from autotvm_opevo.tuning.race import MIN_ROUNDS, Race, confirm, geometric_mean


class TestGeometricMean:
    length = 50

    def measurements(self, runs):
        """Runs whose mean is 0."""
        return np.random.default_rng(0).normal(0.0, 0.05, (runs, self.length))

    @pytest.mark.parametrize("runs", [200, pytest.param(1000, marks=pytest.mark.soak)])
    @pytest.mark.parametrize("alpha", [0.05, 0.2])
    def test_who_looks_after_each_measurement_is_misled_no_more_often_than_alpha(self, alpha, runs):
        def holds(values):
            found = geometric_mean(np.exp(values), alpha)
            return found.low <= 1.0 <= found.high

        misled = sum(
            any(not holds(run[:n]) for n in range(2, self.length + 1))
            for run in self.measurements(runs)
        )
        assert misled <= stats.binom.ppf(0.9999, runs, alpha)

    def test_the_ends_are_where_the_bayes_factor_is_one_over_alpha(self):
        """The closed form against the integral that it comes from: a t statistic under a Gaussian
        prior on the effect size.
        """
        values, alpha = np.array([0.11, 0.13, 0.12, 0.16, 0.10, 0.11, 0.14]), 0.05
        n, prior = len(values), module._PRIOR_VARIANCE
        end = log(geometric_mean(np.exp(values), alpha).low)
        t = (values.mean() - end) / stats.sem(values)

        def density(effect):
            return stats.nct.pdf(t, n - 1, effect * n**0.5) * stats.norm.pdf(
                effect, 0.0, prior**0.5
            )

        alternative, _ = integrate.quad(density, -40, 40, points=[0, 2, 4, 8], limit=200)
        assert alternative / stats.t.pdf(t, n - 1) == pytest.approx(1 / alpha, rel=1e-3)

    @pytest.mark.parametrize("values", [[2.0], [2.0, 3.0]])
    def test_few_measurements_leave_everything_open(self, values):
        _, low, high = geometric_mean(values)
        assert (low, high) == (0.0, inf)


class Program:
    """Latencies of a program that is put into memory again and again: the place of the memory
    matters, and the machine drifts.
    """

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
    return [
        Program(log, "abcd"[i], latency, rng, place) for i, latency in enumerate(latencies)
    ], log


def compare(*latencies, place=0.0, seed=0, max_rounds=40):
    race = Race(len(latencies))
    found, _ = programs(*latencies, place=place, seed=seed)
    return race, race.run(found, inf, max_rounds)


@pytest.fixture
def in_this_thread(monkeypatch):
    """A thread for each round takes longer than a round of latencies that are made up."""
    monkeypatch.setattr(module, "run_with_timeout", lambda seconds, function, *_: function())


class TestPrograms:
    def test_a_difference_larger_than_the_noise_is_found_in_a_few_rounds(self):
        race, why = compare(1.0, 1.2, 1.5)
        assert why == "decided"
        assert len(race.latencies) == MIN_ROUNDS
        assert (race.fastest, race.racing) == (0, [0])
        ratio, low, high = race.speedup(0, 1)
        assert low < 1.2 < high
        assert ratio == pytest.approx(1.2, rel=0.03)

    @pytest.mark.usefixtures("in_this_thread")
    @pytest.mark.parametrize("runs", [40, pytest.param(100, marks=pytest.mark.soak)])
    def test_equal_programs_are_rarely_told_apart_although_each_round_is_looked_at(self, runs):
        """The place of their memory makes one of them faster in every single round."""
        wrong = sum(
            compare(1.0, 1.0, place=0.05, seed=seed)[0].speedup(0, 1).is_significant
            for seed in range(runs)
        )
        assert wrong <= stats.binom.ppf(0.9999, runs, 0.05)

    @pytest.mark.usefixtures("in_this_thread")
    def test_three_equal_programs_are_told_apart_no_more_often_than_two(self):
        runs = 60
        races = [
            compare(1.0, 1.0, 1.0, place=0.05, seed=seed, max_rounds=20)[0] for seed in range(runs)
        ]
        assert sum(len(race.racing) < 3 for race in races) <= stats.binom.ppf(0.9999, runs, 0.05)

    def test_what_is_equally_fast_within_one_percent_is_decided(self):
        race, why = compare(1.0, 1.0, max_rounds=1000)
        assert why == "decided"
        assert race.racing == [0, 1]
        assert race.speedup(0, 1).high < 1.01

    def test_a_drift_of_the_machine_does_not_matter(self):
        race = Race(2)
        for slower in (1.0, 1.5, 2.0, 4.0, 3.0, 1.2):
            race.add([1.00 * slower, 1.10 * slower])
        ratio, low, high = race.speedup(0, 1)
        assert (low, high) == pytest.approx((ratio, ratio))
        assert race.latency(0).high > 2 * race.latency(0).value

    def test_an_outlier_does_not_make_the_fastest_slow(self):
        race = Race(2)
        for i in range(7):
            race.add([2.0 if i == 3 else 1.0, 1.05])
        assert (race.fastest, race.racing) == (0, [0, 1])

    def test_each_round_has_new_memory_and_begins_with_another_program(self):
        found, log = programs(1.0, 2.0, 3.0)
        race = Race(3)
        race.run(found, inf, max_rounds=2)
        first = ["new a", "new b", "new c"] + ["a", "b", "c"] * module._REPEATS
        second = ["new b", "new c", "new a"] + ["b", "c", "a"] * module._REPEATS
        assert log == first + second
        assert np.round(race.latencies).tolist() == [[1.0, 2.0, 3.0]] * 2

    def test_only_contestants_decide_when_it_ends(self):
        found, _ = programs(1.0, 1.0, 2.0)  # the first two are untuned and a copy of it
        race = Race(3, contestants=[1, 2])
        assert race.run(found, inf) == "decided"
        assert len(race.latencies) == MIN_ROUNDS
        assert race.fastest == 1

    def test_no_round_begins_when_the_time_is_over(self):
        found, log = programs(1.0, 1.0)
        race = Race(2)
        assert race.run(found, time.monotonic()) == "time limit"
        assert race.latencies == log == []

    def test_complete_rounds_are_kept_after_ctrl_c(self):
        found, log = programs(1.0, 1.0)
        race = Race(2)

        class Interrupted(Program):
            def __call__(self):
                if len(race.latencies) == 3:
                    raise KeyboardInterrupt
                return super().__call__()

        with pytest.raises(KeyboardInterrupt):
            race.run([found[0], Interrupted(log, "b", 1.0, found[0].rng)], inf)
        assert len(race.latencies) == 3

    def test_a_round_that_hangs_ends_with_an_error(self, monkeypatch):
        monkeypatch.setattr(module, "_ROUND_TIMEOUT", 0.1)
        with pytest.raises(TimeoutError, match="a round of timings"):
            Race(2).run([lambda: time.sleep(60)] * 2, inf)


class Timer:
    """Times finalists by a function; notes what it is called for."""

    def __init__(self, latency, seconds=0.0):
        self.latency, self.seconds, self.calls = latency, seconds, []

    def restart(self):
        self.calls.append("restart")

    def retime(self, finalist):
        self.calls.append(finalist)
        time.sleep(self.seconds)
        return self.latency(finalist)


def confirmed(latency, size):
    """The race of a task's finalists; `latency` takes a finalist's position."""
    found = [race for _, race in confirm([range(size)], Timer(latency), 60)]
    return found[0] if found else None


class TestConfirmation:
    def test_without_noise_the_fastest_wins_at_once_and_the_others_leave(self):
        race = confirmed([1.3, 1.0, 1.1].__getitem__, 3)
        assert (race.fastest, race.racing, race.seconds(1)) == (1, [1], [1.0] * MIN_ROUNDS)
        assert 3 <= len(race.seconds(0)) < MIN_ROUNDS
        assert race.latencies[-1] == [inf, 1.0, inf]

    def test_a_single_finalist_is_timed_a_few_times(self):
        assert confirmed(lambda _: 2.0, 1).seconds(0) == [2.0] * MIN_ROUNDS

    def test_equal_finalists_do_not_race_for_long(self):
        race = confirmed(lambda _: 1.0, 4)
        assert (len(race.racing), len(race.latencies)) == (4, MIN_ROUNDS)

    def test_the_closer_the_finalists_the_longer_the_race(self):
        def rounds(difference):
            rng = np.random.default_rng(0)
            races = [
                confirmed(lambda i: (1 + difference * i) * rng.lognormal(0, 0.02), 2)
                for _ in range(100)
            ]
            return np.mean([len(race.latencies) for race in races])

        assert rounds(0.5) < 6 < rounds(0.02) <= 15

    @pytest.mark.parametrize("noise", [0.02, 0.1])
    def test_the_fastest_rarely_leaves(self, noise):
        """Each is compared with the fastest, by intervals that hold together, of which only one end
        matters.
        """
        rng, runs, size = np.random.default_rng(0), 50, 5
        true = 1 + 0.01 * np.arange(size)
        lost = sum(
            0 not in confirmed(lambda i: true[i] * rng.lognormal(0, noise), size).racing
            for _ in range(runs)
        )
        assert lost <= stats.binom.ppf(0.9999, runs, module._CONFIRMATION_ALPHA / size)

    @pytest.mark.parametrize("races", [100, pytest.param(300, marks=pytest.mark.soak)])
    def test_the_winner_is_closer_to_the_fastest_than_the_lowest_of_single_measurements(
        self, races
    ):
        """Regret of the choice, with a noise as large as on a shared machine."""
        rng = np.random.default_rng(0)
        single, raced = [], []
        for _ in range(races):
            true = 1 + 0.1 * rng.random(5)
            true /= true.min()
            single.append(true[np.argmin(true * rng.lognormal(0, 0.1, 5))])
            raced.append(
                true[confirmed(lambda i, true=true: true[i] * rng.lognormal(0, 0.1), 5).fastest]
            )
        assert np.mean(raced) - 1 < 0.6 * (np.mean(single) - 1)

    def test_a_finalist_that_fails_leaves(self):
        race = confirmed([inf, 1.0].__getitem__, 2)
        assert (race.fastest, race.racing, race.seconds(0)) == (1, [1], [])

    def test_if_all_fail_none_wins_and_none_is_timed_again(self):
        calls = []
        assert confirmed(lambda i: calls.append(i) or inf, 3) is None
        assert calls == [0, 1, 2]

    def test_every_round_has_a_new_process_and_begins_with_another_finalist(self):
        timer = Timer(lambda _: 1.0)
        list(confirm([range(3)], timer, 60))
        assert timer.calls[:12] == ["restart", 0, 1, 2, "restart", 1, 2, 0, "restart", 2, 0, 1]

    def test_each_task_has_its_winner(self):
        tasks = [[3.0, 2.0], [], [1.0, 1.5]]
        found = list(confirm(tasks, Timer(lambda latency: latency), 60))
        assert [(i, race.fastest, race.seconds(race.fastest)) for i, race in found] == [
            (0, 1, [2.0] * 5),
            (2, 0, [1.0] * 5),
        ]

    def test_undecided_tasks_take_turns_after_their_first_rounds(self):
        noise = np.random.default_rng(0)
        timer = Timer(lambda _: noise.lognormal(0, 0.1))
        list(confirm(["aa", "bb"], timer, 60))
        assert "".join(call for call in timer.calls if call != "restart")[::2][:10] == "aaabbbabab"

    @pytest.mark.parametrize(
        ("tasks", "seconds"), [([[1.0, 2.0]], 0.0), ([], 0.0), ([], 60.0), ([[]], 60.0)]
    )
    def test_without_time_or_finalists_nothing_is_confirmed(self, tasks, seconds):
        assert not list(confirm(tasks, Timer(lambda latency: latency), seconds))

    def test_when_time_is_short_the_first_tasks_are_confirmed(self):
        timer = Timer(lambda latency: latency, seconds=0.2)
        assert [i for i, _ in confirm([[1.0, 2.0]] * 3, timer, 1.1)] == [0]  # three rounds of 0.4 s
        assert len(timer.calls) < 16

    @pytest.mark.parametrize("slow_first", [1.0, 1.5])
    def test_a_slow_start_of_each_process_harms_no_finalist(self, slow_first):
        rng = np.random.default_rng(0)

        def latency(finalist):
            slow = slow_first if timer.calls[-2] == "restart" else 1.0
            return (1 + 0.05 * finalist) * rng.lognormal(0, 0.005) * slow

        timer = Timer(latency)
        ((_, race),) = confirm([range(3)], timer, 60)
        assert race.fastest == 0
