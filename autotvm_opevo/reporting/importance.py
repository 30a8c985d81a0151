"""Which knobs mattered: functional analysis of variance of a Gaussian process that is fitted to the
trials.

A search prefers what was good, so that the values of different knobs are correlated among its
trials, and a knob that has no effect seems to have that of another. A model of all knobs together
tells them apart (Hutter, Hoos and Leyton-Brown 2014, who take a random forest). Here it is the
Gaussian process of the search: its kernel is a product over knobs, so that the variance of its
posterior mean decomposes exactly.

Notation
--------
x_j, v  the value of knob j in a trial, and any of the values that were tried
K_j     correlation of the values of knob j with those of the trials, exp(-a_j d_j), shape
        (values, n)
m_j     mean of K_j over the values, shape (n,)
alpha   (gram + noise I)^-1 y, shape (n,): the posterior mean is
        f(x) = sum_i alpha_i prod_j K_j[x_j, i]
f_S     the part of f that is due to the knobs S together, but to no fewer of them: f_S(x) =
        sum_i alpha_i prod_{j in S} (K_j[x_j, i] - m_j[i]) prod_{j not in S} m_j[i]
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.linalg import inv
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from autotvm_opevo.reporting.knob_graphs import Knob
from autotvm_opevo.reporting.trials import Task
from autotvm_opevo.search.gp import JITTER, fit_hyperparameters, prior_median
from autotvm_opevo.topology import Topology

Array = np.ndarray[Any, np.dtype[Any]]

# Fewer successful trials do not tell which knobs mattered, and of more a random sample does.
_MIN_TRIALS, _MAX_TRIALS = 32, 192
# A model that predicts less of the trials that it does not know says little of the knobs.
_MIN_PREDICTED = 0.5
# In simulated searches, a pair that did not interact had a smaller share: see the tests.
MIN_PAIR = 0.05


@dataclass(frozen=True)
class Importance:
    """Shares of the variance of the log latency, if each knob took each value that was tried
    equally often: what each knob explains `alone`; what `pairs` explain beyond that, of those that
    interact by more than chance, largest first; and how much of the variance of a trial that it
    does not know the model `predicted` (leave-one-out), at most 1.
    """

    alone: dict[str, float]
    pairs: dict[tuple[str, str], float]
    predicted: float

    @property
    def is_reliable(self) -> bool:
        """Whether the trials can tell which knobs mattered."""
        return self.predicted >= _MIN_PREDICTED


def importance(tasks: Sequence[Task], knobs: Sequence[Knob]) -> Importance | None:
    """Decompose the variance of a task's successful trials in all logs that set the knobs that the
    best one sets, as those of one sketch do; None if they are too few, or less than two knobs vary.
    """
    successes = [trial for task in tasks for trial in task.trials if not trial.failure]
    best = min(successes, key=lambda trial: trial.latency, default=None)
    alike = [trial for trial in successes if best and trial.knobs.keys() == best.knobs.keys()]
    sample = np.random.default_rng(0).permutation(len(alike))[:_MAX_TRIALS]
    if best is None or len(sample) < _MIN_TRIALS:
        return None
    settings = [{name: value.value for name, value in alike[i].knobs.items()} for i in sample]
    latencies = [alike[i].latency for i in sample]
    topologies = {
        knob.name: knob.graph_over(list(values))
        for knob in knobs
        if knob.name in best.knobs
        and len(values := dict.fromkeys(setting[knob.name] for setting in settings)) > 1
    }
    if len(topologies) < 2 or len(set(latencies)) < 2:
        return None
    return fanova(topologies, settings, latencies)


def fanova(
    topologies: Mapping[str, Topology],
    settings: Sequence[Mapping[str, Hashable]],
    latencies: Sequence[float],
) -> Importance:
    """Fit a model to successful trials, and decompose its variance, given the topology of each knob
    that has more than one value among the trials, each trial's settings, and its latency in
    seconds; these must not be all equal.

    >>> from autotvm_opevo.topology import Categorical, Discrete
    >>> knobs = {"unroll": Discrete([0, 16, 64]), "vectorize": Categorical([False, True])}
    >>> settings = [
    ...     {"unroll": unroll, "vectorize": vectorize}
    ...     for unroll in knobs["unroll"]
    ...     for vectorize in knobs["vectorize"]
    ... ]
    >>> latencies = [2.0 ** -setting["vectorize"] for setting in settings]  # unrolling: nothing
    >>> shares = fanova(knobs, settings, latencies)
    >>> {name: round(share, 2) for name, share in shares.alone.items()}
    {'unroll': 0.0, 'vectorize': 1.0}
    """
    y = np.log(latencies)
    y = (y - y.mean()) / y.std()
    # steps between the values of each knob, as the search counts them, and which each trial has
    distances, rows = [], []
    for name, topology in topologies.items():
        column = [setting[name] for setting in settings]
        position = {value: i for i, value in enumerate(dict.fromkeys(column))}
        coordinates = np.array(list(map(topology.encoder(), position)))
        steps = cdist(coordinates, coordinates, "cityblock")
        distances.append(np.sign(steps) if topology.is_categorical else steps)
        rows.append([position[value] for value in column])
    # on matrices this small, more threads only wait for each other
    with threadpool_limits(1, user_api="blas"):
        between_trials = np.array([d[np.ix_(row, row)] for d, row in zip(distances, rows)])
        fitted = fit_hyperparameters(between_trials, y, prior_median(len(distances)))
        rates = fitted.inverse_lengthscales
        gram = np.exp(-np.tensordot(rates, between_trials, 1))
        inverse = inv(gram + (fitted.noise + JITTER) * np.eye(len(y)))
        alpha = inverse @ y
        correlations = [np.exp(-rate * d[:, row]) for rate, d, row in zip(rates, distances, rows)]
        alone, pairs = _shares(alpha, correlations)
    names = list(topologies)
    largest = sorted(pairs.items(), key=lambda item: -item[1])
    return Importance(
        dict(zip(names, alone)),
        {(names[i], names[j]): share for (i, j), share in largest if share >= MIN_PAIR},
        1 - float(np.mean((alpha / np.diag(inverse)) ** 2)),
    )


def _shares(
    alpha: Array, correlations: Sequence[Array]
) -> tuple[list[float], dict[tuple[int, int], float]]:
    """Shares of the variance of f: of each f_{j}, and of each f_{i, j}."""
    means = [k.mean(axis=0) for k in correlations]
    constant = [np.outer(m, m) for m in means]
    varying = [(k - m).T @ (k - m) / len(k) for k, m in zip(correlations, means)]

    def variance(*knobs: int) -> float:
        parts = [varying[j] if j in knobs else constant[j] for j in range(len(means))]
        return float(alpha @ np.prod(parts, axis=0) @ alpha)

    everything = np.prod([v + c for v, c in zip(varying, constant)], axis=0)
    total = float(alpha @ everything @ alpha) - variance()
    alone = [variance(j) / total for j in range(len(means))]
    return alone, {pair: variance(*pair) / total for pair in combinations(range(len(means)), 2)}
