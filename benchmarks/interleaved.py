"""Time alternatives in turn, so that a drift of the machine affects them alike."""

import os
from contextlib import contextmanager

# How often each is timed.
_REPEATS = 9


def time_interleaved(timers):
    """Call all timers in turn, several times; returns the results of each.

    >>> time_interleaved([lambda: 0.5, lambda: 0.25])[1][:3]
    [0.25, 0.25, 0.25]
    """
    rounds = [[timer() for timer in timers] for _ in range(_REPEATS)]
    return [list(latencies) for latencies in zip(*rounds)]


@contextmanager
def preserve_affinity():
    """Restore this thread's CPU affinity.

    TVM binds a thread that runs a parallel loop to one core. Builders and runners started
    afterwards would inherit that.
    """
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        yield
    finally:
        if cores:
            os.sched_setaffinity(0, cores)
