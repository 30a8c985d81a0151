"""Task schedulers: which task of a network to tune next (Ansor, Zheng et al., OSDI 2020, Section
6). Independent of TVM.

A network runs operator o n_o times, and the tasks in A_o are alternative implementations of it: the
compiler chooses the fastest. With g_i the best latency found for task i, tuning minimizes

    f(g) = sum over o of n_o * min over i in A_o of g_i.

In Ansor, every operator has one task, and f is the weighted sum of their latencies. A task
scheduler chooses a task from the progress of all. It keeps no state: to resume from a log, rebuild
the progress.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Union

from numpy.random import Generator

# Ansor's hyperparameters. epsilon is the probability of a random task, so that none starves.
_ALPHA, _BETA, _BACKWARD_WINDOW, _EPSILON = 0.2, 2.0, 3, 0.05
# Maximum number of trials in a round; of fewer trials, an equal split would have at least this many
# rounds per task.
_MAX_ROUND_SIZE, _MIN_ROUNDS = 64, 8
# Trials of the first task of a kind before others of that kind begin: they start from what was good
# there.
_LEAD = 8


@dataclass
class TaskProgress:
    """Tuning progress of a task.

    Parameters
    ----------
    flop : float
        C_i, floating-point operations of one run; 0 if unknown.
    kind : str
        Tasks of the same kind are similar, N(i), and expected to reach the same throughput in
        FLOP/s.
    trials : int
        Number of trials so far.
    latencies : list of float
        g_i after each round, in seconds; infinite until a trial succeeds.
    active : bool
        False if the task takes no more trials.
    seconds : float
        Time that its trials took, in seconds; 0 if unknown.
    pending : int
        Number of trials that are not finished.
    first_round : int
        Largest number of trials in its first round.
    """

    flop: float = 0.0
    kind: str = ""
    trials: int = 0
    latencies: list[float] = field(default_factory=list)
    active: bool = True
    seconds: float = 0.0
    pending: int = 0
    first_round: int = sys.maxsize

    @property
    def begun(self) -> int:
        """Number of trials, unfinished ones included."""
        return self.trials + self.pending

    @property
    def latency(self) -> float:
        """g_i, the best latency so far in seconds; infinite until a trial succeeds."""
        return self.latencies[-1] if self.latencies else math.inf


@dataclass(frozen=True)
class Operator:
    """An operator, which runs `count` times (n_o), by any of `tasks` (A_o, by position)."""

    count: int
    tasks: tuple[int, ...]


Tasks = Sequence[TaskProgress]
Operators = Sequence[Operator]
# Takes the progress of all tasks, the operators, the remaining trials and a generator; returns the
# position of an active task, alone or with the largest number of trials of its round.
TaskScheduler = Callable[[Tasks, Operators, int, Generator], Union[int, tuple[int, int]]]


def network_latency(
    operators: Operators, latencies: Sequence[float] | Mapping[int, float]
) -> float:
    """f, the latency of the network in seconds, over the operators with a finite latency.

    >>> network_latency([Operator(2, (0,)), Operator(1, (1, 2))], [0.5, 3.0, 2.0])
    3.0
    """
    fastest = [(o.count, min(latencies[i] for i in o.tasks)) for o in operators]
    return sum(count * seconds for count, seconds in fastest if seconds < math.inf)


def shares(operators: Operators, latencies: Sequence[float]) -> list[float]:
    """Each task's share of f, between 0 and 1; only the fastest implementation of an operator
    counts.

    >>> shares([Operator(2, (0,)), Operator(1, (1, 2))], [0.5, 3.0, 1.0])
    [0.5, 0.0, 0.5]
    """
    total = network_latency(operators, latencies)
    parts = [0.0] * len(latencies)
    for operator in operators:
        fastest = min(operator.tasks, key=lambda i: latencies[i])
        if latencies[fastest] < math.inf:
            parts[fastest] += operator.count * latencies[fastest] / total
    return parts


def round_size(begun: int, budget: int, tasks: int, batch: int = 1) -> int:
    """Number of trials in the next round, a multiple of `batch` if the budget has that many for
    every task.

    Rounds grow with the trials begun so far: a budget is an upper limit, which time or patience may
    end long before.

    >>> [round_size(begun, budget=10_000, tasks=10) for begun in (0, 160, 1_600, 9_000)]
    [1, 2, 20, 64]
    >>> round_size(0, budget=200, tasks=10, batch=8), round_size(0, budget=50, tasks=10, batch=8)
    (8, 5)
    """
    batches = max(1, min(_MAX_ROUND_SIZE, begun // (_MIN_ROUNDS * tasks)) // batch)
    return max(1, min(batches * batch, budget // tasks))


def gradient(tasks: Tasks, operators: Operators, remaining: int, rng: Generator) -> int:
    """Gradient-based: the task whose next round is expected to reduce f most per second, after a
    warm-up round for each.

    Ansor's maximizes the reduction per trial, but a trial of one task can take fifty times as long
    to compile as one of another. The task with the largest FLOP in one run of the network goes
    first, and has eight trials before similar tasks begin. A task without a successful trial has no
    gradient; it gets half of an equal share.
    """
    active = _active_tasks(tasks)
    untuned = [i for i in active if not tasks[i].begun]
    if untuned:
        runs = [0] * len(tasks)  # in one run of the network
        for operator in operators:
            for i in operator.tasks:
                runs[i] += operator.count
        first = max(untuned, key=lambda i: runs[i] * tasks[i].flop)
        similar = max(
            (i for i in active if tasks[i].kind == tasks[first].kind), key=lambda i: tasks[i].begun
        )
        # some are left for the others
        leads = 0 < tasks[similar].begun < _LEAD and remaining > 2 * len(untuned)
        return similar if leads else first
    if rng.random() < _EPSILON:
        return int(rng.choice(active))
    reductions = _expected_reductions(tasks, operators)
    succeeding = [i for i in active if i in reductions]
    equal_share = sum(task.begun for task in tasks) / len(tasks)
    if failing := [i for i in active if i not in reductions]:
        fewest = min(failing, key=lambda i: tasks[i].begun)
        if not succeeding or tasks[fewest].begun < equal_share / 2:
            return fewest
    if all(tasks[i].seconds > 0 for i in succeeding):
        reductions = {i: reductions[i] * tasks[i].trials / tasks[i].seconds for i in succeeding}
    return max(succeeding, key=lambda i: (reductions[i], -tasks[i].begun))


def equal(tasks: Tasks, operators: Operators, remaining: int, rng: Generator) -> tuple[int, int]:
    """Sequential: the same number of trials for each task, one task after another; later tasks
    share what one leaves unused. A round has at most what is left of its task's share.

    >>> from numpy.random import default_rng
    >>> equal([TaskProgress(trials=16), TaskProgress()], [], 24, default_rng())
    (0, 4)
    """
    active = _active_tasks(tasks)
    begun = sorted(tasks[i].begun for i in active)
    budget = remaining + sum(begun)
    while begun and begun[-1] * len(begun) > budget:  # a log has more than its share
        budget -= begun.pop()
    share = budget / max(1, len(begun))
    chosen = next((i for i in active if tasks[i].begun < share), active[0])
    return chosen, max(1, math.ceil(share) - tasks[chosen].begun)


def round_robin(tasks: Tasks, operators: Operators, remaining: int, rng: Generator) -> int:
    """Round-robin: the task with the fewest trials."""
    return min(_active_tasks(tasks), key=lambda i: tasks[i].begun)


def choose(
    scheduler: TaskScheduler, tasks: Tasks, operators: Operators, remaining: int, rng: Generator
) -> tuple[int, int]:
    """Ask a task scheduler for the next task, and for the largest number of trials of its round;
    `ValueError` unless the task is an active one.
    """
    answer = scheduler(tasks, operators, remaining, rng)
    chosen, most = answer if isinstance(answer, tuple) else (answer, sys.maxsize)
    if not (0 <= chosen < len(tasks) and tasks[chosen].active):
        raise ValueError(
            f"task_scheduler must return the position of an active task, {chosen} returned"
        )
    if not (isinstance(most, Integral) and most >= 1):
        raise ValueError(
            "task_scheduler must return a position, or it and a number of trials of at least 1; "
            f"{answer!r} returned"
        )
    return chosen, min(most, remaining)


TASK_SCHEDULERS: dict[str, TaskScheduler] = {
    "gradient": gradient,
    "equal": equal,
    "round-robin": round_robin,
}


def as_task_scheduler(choice: str | TaskScheduler) -> TaskScheduler:
    """The task scheduler of a name, or the function itself; `ValueError` for any other."""
    if callable(choice):
        return choice
    if choice not in TASK_SCHEDULERS:
        names = ", ".join(TASK_SCHEDULERS)
        raise ValueError(f"task_scheduler must be one of {names}, or a function; {choice!r} given")
    return TASK_SCHEDULERS[choice]


def _active_tasks(tasks: Tasks) -> list[int]:
    active = [i for i, task in enumerate(tasks) if task.active]
    if not active:
        raise ValueError(
            f"at least one task must be active, none of {len(tasks)} is: stop tuning when all "
            "are inactive"
        )
    return active


def _expected_reductions(tasks: Tasks, operators: Operators) -> dict[int, float]:
    """Expected reduction of f, in seconds, by one more round of each task that succeeded."""
    throughput: defaultdict[str, float] = defaultdict(float)  # max V_k, FLOP/s, by kind
    rounds = sum(len(task.latencies) for task in tasks)
    trials_per_round = sum(task.trials for task in tasks) / max(1, rounds)
    for task in tasks:
        throughput[task.kind] = max(throughput[task.kind], task.flop / task.latency)
    affected: defaultdict[int, list[Operator]] = defaultdict(list)  # by task
    for operator in operators:
        for i in operator.tasks:
            affected[i].append(operator)
    reductions = {}
    for i, task in enumerate(tasks):
        if task.latency < math.inf:
            latencies = {k: tasks[k].latency for o in affected[i] for k in o.tasks}
            slope = _latency_gradient(task, throughput[task.kind], trials_per_round)
            expected = {**latencies, i: max(0.0, task.latency + slope)}
            now, then = (network_latency(affected[i], g) for g in (latencies, expected))
            reductions[i] = now - then
    return reductions


def _latency_gradient(task: TaskProgress, throughput: float, trials_per_round: float) -> float:
    """dg_i/dt_i, t_i in mean rounds, by past difference and optimistic guess; at most 0."""
    finite = [g for g in task.latencies if g < math.inf]
    # with many builders or devices, most have no result yet when the next round is chosen
    rounds = task.begun / trials_per_round if task.trials else len(task.latencies)
    window = min(_BACKWARD_WINDOW, len(finite) - 1)
    # A latency that was confirmed may be longer than it seemed before.
    difference = min(0.0, (finite[-1] - finite[-1 - window]) / window) if window else 0.0
    backward_difference = difference * len(task.latencies) / rounds
    past_rate = -finite[-1] / rounds  # g_i falls to 0 in as many rounds as were spent
    # g_i reaches beta * C_i / max V_k
    similar_tasks = _BETA * task.flop / throughput - finite[-1] if throughput else 0.0
    return _ALPHA * backward_difference + (1 - _ALPHA) * min(past_rate, similar_tasks)
