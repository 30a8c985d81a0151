"""Where a network's time is: its operators, how often each runs, and the tasks that are ways to compute it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotvm_opevo.reporting.trials import Recording, Task

# The same task in several logs, each with the log's number and label.
Group = list[tuple[int, str, Task]]


@dataclass(frozen=True)
class Operator:
    """One operator; seconds are of all its runs, infinite while nothing works.

    Attributes
    ----------
    runs : int
        How often the network runs it; 1 where no journal says.
    ways : list of Group
        The tasks that compute it, the best first: TVM may have several templates for one operator.
    """

    runs: int
    ways: list[Group]

    @property
    def best(self) -> Task:
        """The fastest way, in the log that found it."""
        return min((task for _, _, task in self.ways[0]), key=lambda task: task.best)

    @property
    def seconds(self) -> float:
        """With the best configuration of any log."""
        return self.runs * self.best.best

    @property
    def seconds_before(self) -> float:
        """With the first of the best task's trials that worked."""
        return self.runs * self.best.first

    def seconds_in(self, log: int) -> float:
        """With the best configuration of one log."""
        return self.runs * min((task.best for way in self.ways for number, _, task in way if number == log), default=math.inf)


def groups(recordings: Sequence[Recording]) -> list[Group]:
    """Tasks, each with its trials in every log, in the order in which tasks appear."""
    found: dict[str, Group] = {}
    for number, recording in enumerate(recordings):
        for key, task in recording.tasks.items():
            found.setdefault(key, []).append((number, recording.label, task))
    return list(found.values())


def operators(recordings: Sequence[Recording]) -> list[Operator]:
    """All operators, the one that takes the most time first and those of which nothing works last.

    A task that no journal puts into a network is an operator by itself.
    """
    known: dict[str, list[Group]] = {}
    for group in groups(recordings):
        known.setdefault(group[0][2].in_journal, []).append(group)
    said = dict.fromkeys(
        (runs, tuple(names)) for recording in recordings for runs, names in recording.network.get("operators", ())
    )
    named = {name for _, names in said for name in names}
    found = []
    for runs, names in [*said, *((1, (name,)) for name in known if name not in named)]:
        ways = sorted((group for name in names for group in known.get(name, ())), key=best)
        if ways:
            found.append(Operator(runs, ways))
    return sorted(found, key=lambda operator: -operator.seconds if math.isfinite(operator.seconds) else 1.0)


def best(group: Group) -> float:
    """The seconds of a task's best trial in any log."""
    return min(task.best for _, _, task in group)
