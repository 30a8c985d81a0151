"""What the tasks of a run learned from others."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from autotvm_opevo._utils.text import pluralize
from autotvm_opevo.reporting.formatting import printable
from autotvm_opevo.reporting.tuning_log import TuningLog
from autotvm_opevo.tuning.journal import THIS_RUN

# A task begins with as many of the best configurations of others.
_FIRST = 8


def describe_learning(log: TuningLog) -> str:
    """Where the results of other tasks came from, and how good the first trials were; empty if nothing was learned.

    What they saved only a run without them can tell.
    """
    origins = {task.key: log.runs.learned_from.get(task.journal_key, {}) for task in log.tasks.values()}
    learners = [task for task in log.tasks.values() if origins[task.key]]
    if not learners:
        return ""
    used = Counter(origin for task in learners for origin in origins[task.key])
    text = f"{len(learners)} of {pluralize(len(log.tasks), 'task')} learned from others: "
    text += ", ".join(f"{printable(origin)} ({pluralize(count, 'task')})" for origin, count in used.most_common())
    known_before = [
        task for task in learners if set(origins[task.key]) - {THIS_RUN} and len(task) > _FIRST and task.best < math.inf
    ]
    if known_before:
        reached = np.median([task.best / task.best_so_far[_FIRST - 1] for task in known_before])
        text += (
            f"; with what was known before, the best of the first {_FIRST} trials has {reached:.0%} of the final speed (median)"
        )
    return text
