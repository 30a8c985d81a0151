"""Task schedulers on synthetic networks whose optimal latency is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotvm_opevo.tuning.task_scheduler import (
    TASK_SCHEDULERS,
    Operator,
    TaskProgress,
    choose,
    equal,
    gradient,
    network_latency,
    round_robin,
    round_size,
    shares,
)


class Curve:
    """A task whose best latency after t trials is floor + gap / (1 + t / pace)**power; the first
    `failures` trials fail.
    """

    def __init__(self, floor, gap, pace=10.0, power=1.0, failures=0, trials=math.inf):
        self.floor, self.gap, self.pace, self.power = floor, gap, pace, power
        self.failures, self.trials = failures, trials

    def latency(self, trials):
        if trials <= self.failures:
            return math.inf
        return self.floor + self.gap / (1 + (trials - self.failures) / self.pace) ** self.power


def tune(scheduler, curves, operators, budget, size=8, seed=0):
    """Tune synthetic tasks; returns their progress, and the network's latency after every round."""
    rng = np.random.default_rng(seed)
    tasks = [TaskProgress(flop=1e9, kind=str(i)) for i in range(len(curves))]
    history, remaining = [], budget
    while remaining and any(task.active for task in tasks):
        current, most = choose(scheduler, tasks, operators, remaining, rng)
        task, curve = tasks[current], curves[current]
        assert task.active
        spent = min(size, most, curve.trials - task.trials)
        task.trials += spent
        remaining -= spent
        task.active = task.trials < curve.trials
        task.latencies.append(curve.latency(task.trials))
        history.append((budget - remaining, network_latency(operators, [t.latency for t in tasks])))
    return tasks, history


def trials_to(history, latency):
    return next(trials for trials, reached in history if reached <= latency)


def one_each(n, counts=None):
    return [Operator(1 if counts is None else counts[i], (i,)) for i in range(n)]


class TestGradient:
    @pytest.mark.parametrize("begun", [0, 8])
    def test_looks_at_an_operator_as_often_however_many_there_are(self, begun):
        """A choice must not take longer than a trial in a network of thousands."""

        class Looks(tuple):
            number = 0

            def __iter__(self):
                Looks.number += 1
                return super().__iter__()

            def __contains__(self, task):
                Looks.number += 1
                return super().__contains__(task)

        tasks = [TaskProgress(flop=1e9, trials=begun, latencies=[4.0, 3.0][: begun // 4])] * 100
        operators = [Operator(1, Looks([i])) for i in range(100)]
        gradient(tasks, operators, 800, np.random.default_rng(0))
        assert 0 < Looks.number <= 10 * len(operators)

    @pytest.mark.parametrize(
        "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3, 4))]
    )
    def test_reaches_the_weighted_optimum_with_fewer_trials_than_an_equal_split(self, seed):
        """Ten tasks: one runs twenty times and improves slowly, the others converge soon or hardly
        matter.
        """
        curves = [Curve(1.0, 4.0, pace=100.0)] + [
            Curve(0.5, 0.5, pace=2.0, power=2.0) for _ in range(9)
        ]
        operators = one_each(10, counts=[20] + [1] * 9)
        optimum = network_latency(operators, [curve.floor for curve in curves])
        _, history = tune(gradient, curves, operators, 20_000, seed=seed)
        _, baseline = tune(round_robin, curves, operators, 60_000, seed=seed)
        assert trials_to(history, 1.1 * optimum) < 0.25 * trials_to(baseline, 1.1 * optimum)
        budget = trials_to(history, 1.1 * optimum)
        assert tune(equal, curves, operators, budget)[1][-1][1] > 1.25 * optimum

    @pytest.mark.parametrize("seed", range(3))
    def test_is_no_worse_if_all_tasks_are_alike(self, seed):
        curves, operators = [Curve(1.0, 9.0) for _ in range(8)], one_each(8)
        latency = tune(gradient, curves, operators, 800, seed=seed)[1][-1][1]
        assert latency <= 1.05 * tune(equal, curves, operators, 800)[1][-1][1]

    def test_trials_that_are_still_measured_count_as_spent(self):
        """Or all builders would be busy with one task, until its results arrive."""
        tasks = [TaskProgress(1e9, kind, 80, [g] * 10) for kind, g in (("a", 1.0), ("b", 0.9))]
        rng = np.random.default_rng(0)
        for _ in range(20):
            tasks[gradient(tasks, one_each(2), 1000, rng)].pending += 8
        assert all(64 <= task.pending <= 96 for task in tasks)

    def test_warms_up_with_one_round_each_largest_flop_first(self):
        tasks = [TaskProgress(flop=flop, kind=str(flop)) for flop in (1.0, 3.0, 2.0)]
        operators = [Operator(1, (0,)), Operator(1, (1,)), Operator(4, (2,))]
        order = []
        for _ in range(3):
            order.append(gradient(tasks, operators, 9, np.random.default_rng(0)))
            tasks[order[-1]].pending = 3  # whether measured or not
        assert order == [2, 1, 0]

    def test_the_first_task_of_a_kind_has_eight_trials_before_the_next_begins(self):
        tasks = [
            TaskProgress(flop=flop, kind=kind)
            for flop, kind in ((9.0, "conv"), (8.0, "conv"), (3.0, "dense"))
        ]
        operators, order = one_each(3), []
        for _ in range(6):
            order.append(gradient(tasks, operators, 99, np.random.default_rng(0)))
            tasks[order[-1]].pending += 3
        assert order[:5] == [0, 0, 0, 1, 2]

    def test_with_few_trials_no_task_leads(self):
        tasks = [TaskProgress(flop=flop, kind="conv") for flop in (9.0, 8.0, 3.0)]
        tasks[0].pending = 1
        assert gradient(tasks, one_each(3), 3, np.random.default_rng(0)) == 1

    def test_no_task_starves(self):
        """A negligible task that never improves still gets a round now and then."""
        curves = [Curve(1.0, 100.0, pace=1000.0), Curve(1e-9, 0.0)]
        rounds = [
            tune(gradient, curves, one_each(2), budget)[0][1].trials
            for budget in (2_000, 8_000, 32_000)
        ]
        assert rounds[0] < rounds[1] < rounds[2]

    @pytest.mark.parametrize("seed", range(5))
    def test_failing_task_does_not_use_up_the_budget(self, seed):
        curves = [Curve(1.0, 1.0, failures=math.inf)] + [
            Curve(1.0, 9.0, pace=50.0) for _ in range(4)
        ]
        tasks, _ = tune(gradient, curves, one_each(5), 4_000, seed=seed)
        assert tasks[0].latency == math.inf
        assert 8 <= tasks[0].trials <= 0.75 * 4_000 / 5

    def test_task_that_succeeds_late_is_not_abandoned(self):
        """The first 100 trials fail, as in the larger spaces for GPUs."""
        curves = [Curve(1.0, 1.0, failures=100)] + [Curve(1.0, 9.0) for _ in range(4)]
        assert tune(gradient, curves, one_each(5), 2_000)[0][0].latency < math.inf

    def test_all_failing_tasks_share_evenly(self):
        curves = [Curve(1.0, 1.0, failures=math.inf) for _ in range(4)]
        tasks, _ = tune(gradient, curves, one_each(4), 1_600)
        assert all(250 <= task.trials <= 550 for task in tasks)

    def test_prefers_the_implementation_that_may_become_the_fastest(self):
        """Two implementations of an operator: the slow one cannot catch up in a round, and gets
        only random rounds.
        """
        curves = [Curve(1.0, 1.0, pace=50.0), Curve(50.0, 1.0, pace=50.0)]
        tasks, _ = tune(gradient, curves, [Operator(1, (0, 1))], 2_000)
        assert tasks[1].trials < 0.15 * tasks[0].trials

    def test_tasks_without_an_expected_reduction_take_turns(self):
        """The fast implementations are exhausted, and the slow ones cannot catch up in a round."""
        curves = [
            Curve(1.0, 0.0, trials=8),
            Curve(1.0, 0.0, trials=8),
            Curve(90.0, 1.0),
            Curve(90.0, 1.0),
        ]
        tasks, _ = tune(gradient, curves, [Operator(1, (0, 2)), Operator(5, (1, 3))], 2_000)
        assert abs(tasks[2].trials - tasks[3].trials) <= 0.1 * tasks[2].trials

    def test_expects_similar_tasks_to_reach_the_same_throughput(self):
        """A task at a tenth of the throughput of a similar one has most to gain."""
        alike = [
            TaskProgress(1e9, "conv", 400, [1.0] * 50),
            TaskProgress(1e9, "conv", 400, [10.0] * 50),
        ]
        other = TaskProgress(1e9, "dense", 400, [11.0] * 50)
        rng = np.random.default_rng(1)
        chosen = [gradient([*alike, other], one_each(3), 1, rng) for _ in range(200)]
        assert chosen.count(1) > 180

    @pytest.mark.parametrize(
        ("seconds", "expected"), [((4000.0, 400.0), 1), ((0.0, 400.0), 0), ((400.0, 400.0), 0)]
    )
    def test_a_task_whose_trials_take_long_must_promise_more(self, seconds, expected):
        """The first promises a little more per trial; it is chosen unless its trials are known to
        take ten times as long.
        """
        tasks = [
            TaskProgress(1e9, kind, 400, [1.0] * 50, seconds=s) for kind, s in zip("ab", seconds)
        ]
        tasks[0].latencies.insert(0, 1.01)
        rng = np.random.default_rng(0)
        chosen = [
            gradient(tasks, [Operator(11, (0,)), Operator(10, (1,))], 1, rng) for _ in range(200)
        ]
        assert chosen.count(expected) > 180

    @given(
        st.lists(
            st.tuples(
                st.lists(st.floats(1e-9, 1e3) | st.just(math.inf), max_size=6),
                st.booleans(),
                st.floats(0, 1e12),
            ),
            min_size=1,
            max_size=6,
        ).filter(lambda tasks: any(active for _, active, _ in tasks)),
        st.sampled_from(sorted(TASK_SCHEDULERS)),
        st.integers(0, 2**32),
    )
    def test_every_scheduler_chooses_an_active_task_for_any_progress(self, tasks, name, seed):
        progress = [
            TaskProgress(flop, "k", 8 * len(g), list(np.minimum.accumulate(g)) if g else [], active)
            for g, active, flop in tasks
        ]
        operators = [Operator(1 + i, (i, (i + 1) % len(tasks))) for i in range(len(tasks))]
        assert progress[
            choose(TASK_SCHEDULERS[name], progress, operators, 8, np.random.default_rng(seed))[0]
        ].active


class TestEqual:
    @pytest.mark.parametrize(
        ("tasks", "budget", "batch"),
        [(10, 200, 8), (5, 100, 8), (10, 200, 16), (20, 1000, 32), (3, 10, 8)],
    )
    def test_rounds_end_with_a_task_s_share(self, tasks, budget, batch):
        progress = [TaskProgress() for _ in range(tasks)]
        while (left := budget - sum(task.trials for task in progress)) > 0:
            rng = np.random.default_rng(0)
            chosen, most = choose(equal, progress, one_each(tasks), left, rng)
            progress[chosen].trials += min(round_size(budget - left, budget, tasks, batch), most)
        trials = [task.trials for task in progress]
        assert max(trials) - min(trials) <= 1

    def test_shares_the_trials_that_a_small_space_leaves(self):
        curves = [Curve(1.0, 1.0, trials=8), *(Curve(1.0, 1.0) for _ in range(3))]
        tasks, _ = tune(equal, curves, one_each(4), 128)
        assert [task.trials for task in tasks] == [8, 40, 40, 40]

    def test_counts_trials_from_a_log(self):
        tasks = [TaskProgress(trials=100, latencies=[1.0]), TaskProgress(), TaskProgress()]
        assert equal(tasks, one_each(3), 20, np.random.default_rng(0))[0] == 1
        tasks[1].trials = 10
        assert equal(tasks, one_each(3), 10, np.random.default_rng(0))[0] == 2


def test_round_robin_alternates():
    tasks, _ = tune(round_robin, [Curve(1.0, 1.0) for _ in range(3)], one_each(3), 3 * 8 * 5)
    assert [task.trials for task in tasks] == [40, 40, 40]


@pytest.mark.parametrize("name", TASK_SCHEDULERS)
def test_without_an_active_task_schedulers_raise(name):
    with pytest.raises(ValueError, match="at least one task must be active, none of 1 is"):
        TASK_SCHEDULERS[name](
            [TaskProgress(active=False)], one_each(1), 8, np.random.default_rng(0)
        )


@pytest.mark.parametrize("most", [0, -5, 2.5, None])
def test_a_scheduler_may_cap_a_round_by_a_number_of_trials(most):
    tasks = [TaskProgress()]
    assert choose(lambda *_: (0, 3), tasks, one_each(1), 8, np.random.default_rng(0)) == (0, 3)
    assert choose(lambda *_: (0, 30), tasks, one_each(1), 8, np.random.default_rng(0)) == (0, 8)
    with pytest.raises(ValueError, match="number of trials of at least 1"):
        choose(lambda *_: (0, most), tasks, one_each(1), 8, np.random.default_rng(0))


@pytest.mark.parametrize("chosen", [-1, 1, 2])  # the second is not active
def test_a_scheduler_must_return_an_active_task(chosen):
    tasks = [TaskProgress(), TaskProgress(active=False)]
    rng = np.random.default_rng(0)
    assert choose(lambda *_: 0, tasks, one_each(2), 8, rng) == (0, 8)
    with pytest.raises(ValueError, match=f"position of an active task, {chosen} returned"):
        choose(lambda *_: chosen, tasks, one_each(2), 8, rng)


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 200), st.integers(1, 64))
def test_round_size_leaves_a_round_for_every_task_and_grows(begun, budget, tasks, batch):
    size = round_size(begun, budget, tasks, batch)
    assert 1 <= size <= 64
    assert size * tasks <= budget or size == 1
    assert size <= round_size(2 * begun, budget, tasks, batch)


def test_shares_sum_to_one_and_ignore_failures():
    operators = [Operator(3, (0,)), Operator(1, (1, 2)), Operator(1, (3,))]
    parts = shares(operators, [1.0, 2.0, 1.5, math.inf])
    assert sum(parts) == pytest.approx(1.0)
    assert parts == pytest.approx([3 / 4.5, 0.0, 1.5 / 4.5, 0.0])
    assert shares(operators, [math.inf] * 4) == [0.0] * 4
