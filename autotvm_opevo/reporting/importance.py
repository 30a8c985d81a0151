"""Which of a task's knobs mattered, as far as its trials can tell."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from itertools import islice

import numpy as np

from autotvm_opevo.reporting.fanova import Importance, fanova
from autotvm_opevo.reporting.knob_graphs import graph_over
from autotvm_opevo.reporting.network import TaskInLogs

# Fewer successful trials do not tell which knobs mattered, and of more a random sample does.
_MIN_TRIALS, _MAX_TRIALS = 32, 192


def importance(task: TaskInLogs) -> Importance | None:
    """Decompose the variance of a task's successful trials in all logs; None if there are too few, or less than two knobs vary.

    Of trials that set different knobs, those of different sketches, only such count as set the knobs that the best one does.
    """
    trials = list(islice(_successes_like_the_best(task), _MAX_TRIALS))
    if len(trials) < _MIN_TRIALS:
        return None
    settings, latencies = zip(*trials)
    values = {name: list(dict.fromkeys(setting[name] for setting in settings)) for name in settings[0]}
    topologies = {name: graph_over(task.knobs[name].kind, own) for name, own in values.items() if len(own) > 1}
    return fanova(topologies, settings, latencies) if len(topologies) > 1 and len(set(latencies)) > 1 else None


def _successes_like_the_best(task: TaskInLogs) -> Iterator[tuple[dict[str, Hashable], float]]:
    """Settings and latency in seconds of successful trials that set the same knobs as the best, in random order."""
    trials = [
        (latency, one.task.settings, i)
        for one in task.in_logs
        for i, latency in enumerate(one.task.latencies.tolist())
        if latency < math.inf
    ]
    if not trials:
        return
    _, settings_of, fastest = min(trials, key=lambda trial: trial[0])
    knobs = settings_of[fastest].keys()
    for i in np.random.default_rng(0).permutation(len(trials)):
        latency, settings_of, trial = trials[i]
        if (settings := settings_of[trial]).keys() == knobs:
            yield settings, latency
