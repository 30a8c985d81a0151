"""What the best trials of a task have in common: values, or parts of tiles, that are rare among all trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

from scipy.stats import hypergeom

from autotvm_opevo.reporting.formatting import format_setting
from autotvm_opevo.reporting.network import TaskInLogs
from autotvm_opevo.reporting.values import Value

# The best are this part of the trials; fewer of them than the minimum have too much in common by chance.
_BEST, _MIN_BEST = 0.05, 5
# In common is what at least so many of the best have, and at most half as many of all, by chance with at most this probability.
_MIN_SHARE, _MAX_RATIO, _SIGNIFICANCE = 0.9, 0.5, 0.05
# Any part of a tile.
_ANY = "*"

# A knob's name, and its value, or the text of a tile with one part.
Feature = tuple[str, Value]


@dataclass(frozen=True)
class Common:
    """What the best trials have in common.

    Attributes
    ----------
    best, trials : int
        The number of the best trials, and of all.
    settings : list of (str, float, float)
        What they have in common, its share of the best, and of all.
    """

    best: int
    trials: int
    settings: list[tuple[str, float, float]]


def best_in_common(task: TaskInLogs) -> Common | None:
    """What the best 5% of a task's trials in all logs have in common that is rare among all; None if there are too few."""
    trials = [(latency, one.task, i) for one in task.in_logs for i, latency in enumerate(one.task.latencies.tolist())]
    count = round(_BEST * len(trials))
    if count < _MIN_BEST:
        return None
    best = sorted(trials, key=lambda trial: trial[0])[:count]
    if best[-1][0] == inf:
        return None
    among_best = Counter(feature for _, own, i in best for feature in _features(task, own.settings[i]))
    among_all: Counter[Feature] = Counter()
    for name, knob in task.knobs.items():
        for value, stats in knob.stats.items():
            among_all.update(dict.fromkeys(_features(task, {name: value}), stats.trials))
    common = {
        feature: (number / count, among_all[feature] / len(trials))
        for feature, number in among_best.items()
        if number >= _MIN_SHARE * count
        and among_all[feature] / len(trials) <= _MAX_RATIO * number / count
        and hypergeom.sf(number - 1, len(trials), among_all[feature], count) * len(among_best) <= _SIGNIFICANCE
    }
    whole = {name for name, value in common if isinstance(value.value, tuple)}
    shown = [feature for feature in common if feature[0] not in whole or isinstance(feature[1].value, tuple)]
    return Common(count, len(trials), [(format_setting(*feature), *common[feature]) for feature in shown])


def _features(task: TaskInLogs, settings: Mapping[str, Hashable]) -> Iterator[Feature]:
    """The values of a trial, and the parts of its tiles."""
    for name, value in settings.items():
        kind = task.knobs[name].kind
        yield name, Value(kind, value)
        if kind in ("tile", "inner tile") and isinstance(value, tuple) and len(value) > 1:
            for i, part in enumerate(value):
                yield name, Value(kind, "x".join(str(part) if i == j else _ANY for j in range(len(value))))
