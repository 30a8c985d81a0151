"""Races between trials whose true latencies are known."""

import numpy as np
import pytest

from autotvm_opevo.tuning.confirmation import Race


def run(latency, size):
    """Run a race to its end; `latency` takes a finalist's position."""
    race = Race(size)
    rounds = 0
    while not race.finished:
        race.add({finalist: latency(finalist) for finalist in race.order})
        rounds += 1
    return race, rounds


def test_without_noise_the_fastest_wins_at_once():
    race, rounds = run([1.3, 1.0, 1.1].__getitem__, 3)
    assert (race.winner, race.latency, race.racing, rounds) == (1, 1.0, [1], 3)


def test_a_single_finalist_is_timed_a_few_times():
    race, rounds = run(lambda _: 2.0, 1)
    assert (race.winner, race.latency, rounds) == (0, 2.0, 3)


def test_equal_finalists_do_not_race_for_long():
    race, rounds = run(lambda _: 1.0, 4)
    assert (race.ties, rounds) == (3, 3)


def test_the_closer_the_finalists_the_longer_the_race():
    def rounds(difference):
        rng = np.random.default_rng(0)
        return np.mean([run(lambda i: (1 + difference * i) * rng.lognormal(0, 0.02), 2)[1] for _ in range(100)])

    assert rounds(0.5) < 4 < rounds(0.02) <= 15


@pytest.mark.parametrize("races", [100, pytest.param(300, marks=pytest.mark.soak)])
def test_the_winner_is_closer_to_the_fastest_than_the_lowest_of_single_measurements(races):
    """Regret of the choice, with a noise as large as on a shared machine."""
    rng = np.random.default_rng(0)
    single, raced = [], []
    for _ in range(races):
        true = 1 + 0.1 * rng.random(5)
        single.append(true[np.argmin(true * rng.lognormal(0, 0.1, 5))])
        race, _ = run(lambda i, true=true: true[i] * rng.lognormal(0, 0.1), 5)
        raced.append(true[race.winner])
        single[-1] /= true.min()
        raced[-1] /= true.min()
    assert np.mean(raced) - 1 < 0.6 * (np.mean(single) - 1)


def test_a_finalist_that_fails_leaves():
    race, _ = run([np.inf, 1.0].__getitem__, 2)
    assert (race.winner, race.racing) == (1, [1])


def test_if_all_fail_there_is_no_winner():
    race, rounds = run(lambda _: np.inf, 3)
    assert (race.winner, race.latency, race.racing, rounds) == (None, np.inf, [], 1)


def test_in_the_first_rounds_there_is_no_winner():
    race = Race(2)
    for _ in range(3):
        assert race.winner is None
        race.add({0: 1.0, 1: 2.0})
    assert race.winner == 0


def test_every_round_begins_with_another_finalist():
    race, orders = Race(3), []
    for _ in range(3):
        orders.append(race.order)
        race.add(dict.fromkeys(race.order, 1.0))
    assert orders == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


@pytest.mark.parametrize("slow_first", [1.0, 1.5])
def test_a_slow_start_of_each_process_harms_no_finalist(slow_first):
    race, rng = Race(3), np.random.default_rng(0)
    while not race.finished:
        race.add({f: (1 + 0.05 * f) * rng.lognormal(0, 0.005) * (slow_first if f == race.order[0] else 1) for f in race.order})
    assert race.winner == 0
