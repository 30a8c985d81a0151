"""Which operator of a network gets the next trials (Ansor, Zheng et al., OSDI 2020, Section 6). Knows no TVM.

A network runs operator o so many times, n_o, and tuning task i is one way to compute it: A_o are all ways of o, which a compiler
chooses the fastest from. With g_i the best latency task i has found, tuning minimises

    f(g) = sum over o of n_o * min over i in A_o of g_i.

Ansor has one task for each operator, where this is its weighted sum. An allocation takes the tasks' progress and says which task
is next. It has no state of its own: for a log that is continued, rebuilding the progress is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

# Ansor's a and b, the rounds its backward difference spans, and how often a task is drawn at random, so that none starves.
_TREND, _SIMILAR, _WINDOW, _RANDOM = 0.2, 2.0, 3, 0.05
# A round has so many trials at most; with a small budget less, so that an equal split would give every task so many rounds.
_LONGEST, _ROUNDS = 64, 8


@dataclass
class TaskProgress:
    """How far one task has come.

    Parameters
    ----------
    flop : float
        C_i: floating point operations of one run; 0 when unknown.
    kind : str
        Tasks of the same kind are similar, N(i): what one reaches in FLOP/s, the others may.
    trials : int
        Measured so far.
    latencies : list of float
        g_i after each round, seconds; infinite while nothing has worked.
    active : bool
        False when the task wants no more trials.
    """

    flop: float = 0.0
    kind: str = ""
    trials: int = 0
    latencies: list[float] = field(default_factory=list)
    active: bool = True

    @property
    def latency(self) -> float:
        """g_i: the best so far in seconds, infinite while nothing has worked."""
        return self.latencies[-1] if self.latencies else math.inf


@dataclass(frozen=True)
class Operator:
    """An operator of the network: it runs `count` times (n_o), and any of `tasks` (A_o, by position) computes it."""

    count: int
    tasks: tuple[int, ...]


# Takes the progress of all tasks, the operators, the trials left and a generator; returns the position of an active task.
TaskScheduler = Callable[[Sequence[TaskProgress], Sequence[Operator], int, np.random.Generator], int]


def network_latency(operators: Sequence[Operator], latencies: Sequence[float] | Mapping[int, float]) -> float:
    """f: seconds of one run of the network, of what is tuned and works.

    Examples
    --------
    >>> network_latency([Operator(2, (0,)), Operator(1, (1, 2))], [0.5, 3.0, 2.0])
    3.0
    """
    fastest = [(o.count, min(latencies[i] for i in o.tasks)) for o in operators]
    return sum(count * seconds for count, seconds in fastest if seconds < math.inf)


def shares(operators: Sequence[Operator], latencies: Sequence[float]) -> list[float]:
    """Each task's part of f, between 0 and 1; of several ways to compute an operator, the fastest has it all.

    Examples
    --------
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


def round_size(trials: int, tasks: int, batch: int = 1) -> int:
    """How many trials one round has: fewer when the budget is small, but whole batches while all tasks can have those.

    Examples
    --------
    >>> round_size(trials=10_000, tasks=10), round_size(200, 10), round_size(200, 10, batch=8), round_size(50, 10, batch=8)
    (64, 2, 8, 5)
    """
    batches = max(1, min(_LONGEST, trials // (_ROUNDS * tasks)) // batch)
    return max(1, min(batches * batch, trials // tasks))


def gradient(tasks: Sequence[TaskProgress], operators: Sequence[Operator], left: int, rng: np.random.Generator) -> int:
    """The task whose next round promises the largest drop of f; first a round for each, the heaviest first.

    A task that has not worked yet promises nothing that could be compared: it gets half of an equal share.
    """
    active = _active(tasks)
    fresh = [i for i in active if not tasks[i].latencies]
    if fresh:
        work = _work(tasks, operators)
        return max(fresh, key=lambda i: work[i])
    if rng.random() < _RANDOM:
        return int(rng.choice(active))
    promises = _promises(tasks, operators)
    working = [i for i in active if i in promises]
    failing = min((i for i in active if i not in promises), key=lambda i: tasks[i].trials, default=None)
    share = sum(task.trials for task in tasks) / len(tasks)
    if failing is not None and (not working or tasks[failing].trials < share / 2):
        return failing
    return max(working, key=lambda i: (promises[i], -tasks[i].trials))


def equal(tasks: Sequence[TaskProgress], operators: Sequence[Operator], left: int, rng: np.random.Generator) -> int:
    """The same number of trials for every task, one task after the other; what one leaves is shared by those that follow."""
    active = _active(tasks)
    budget = left + sum(tasks[i].trials for i in active)
    sharing = sorted(active, key=lambda i: tasks[i].trials)
    while sharing and tasks[sharing[-1]].trials * len(sharing) > budget:  # has more than its share already, from a log
        budget -= tasks[sharing.pop()].trials
    return next((i for i in active if i in sharing and tasks[i].trials * len(sharing) < budget), active[0])


def round_robin(tasks: Sequence[TaskProgress], operators: Sequence[Operator], left: int, rng: np.random.Generator) -> int:
    """A round for each, and again: the task that has had the fewest trials."""
    return min(_active(tasks), key=lambda i: tasks[i].trials)


TASK_SCHEDULERS: dict[str, TaskScheduler] = {"gradient": gradient, "equal": equal, "round-robin": round_robin}


def _active(tasks: Sequence[TaskProgress]) -> list[int]:
    active = [i for i, task in enumerate(tasks) if task.active]
    if not active:
        raise ValueError("an active task is needed to give trials to, and there is none")
    return active


def _work(tasks: Sequence[TaskProgress], operators: Sequence[Operator]) -> list[float]:
    """Floating point operations of each task in one run of the network."""
    return [task.flop * sum(o.count for o in operators if i in o.tasks) for i, task in enumerate(tasks)]


def _promises(tasks: Sequence[TaskProgress], operators: Sequence[Operator]) -> dict[int, float]:
    """By how many seconds one more round of each task that works would shorten the network, at Ansor's guess."""
    fastest: dict[str, float] = {}  # max V_k: FLOP/s, by kind
    for task in tasks:
        fastest[task.kind] = max(fastest.get(task.kind, 0.0), task.flop / task.latency)
    promises = {}
    for i, task in enumerate(tasks):
        if task.latency < math.inf:
            mine = [o for o in operators if i in o.tasks]
            latencies = {k: tasks[k].latency for o in mine for k in o.tasks}
            guess = {**latencies, i: max(0.0, task.latency + _slope(task, fastest[task.kind]))}
            promises[i] = network_latency(mine, latencies) - network_latency(mine, guess)
    return promises


def _slope(task: TaskProgress, fastest: float) -> float:
    """dg_i/dt_i, t in rounds: a * what the last rounds brought + (1 - a) * what an optimist expects; at most 0."""
    worked = [g for g in task.latencies if g < math.inf]
    window = min(_WINDOW, len(worked) - 1)
    trend = (worked[-1] - worked[-1 - window]) / window if window else 0.0
    at_present_rate = -worked[-1] / len(task.latencies)
    as_similar_ones = _SIMILAR * task.flop / fastest - worked[-1] if fastest else 0.0
    return _TREND * trend + (1 - _TREND) * min(at_present_rate, as_similar_ones)
