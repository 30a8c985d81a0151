"""The file of the best.

The records of a network's convolutions are chosen together, since it transforms the data between
two of them whose layouts differ. On an x86 CPU, AutoTVM's convolutions store channels in blocks, as
in NCHW16c, and how many channels a block has is up to their knobs. No trial contains the transforms
between operators, so that the fastest record of each task need not make the fastest network (Liu et
al., USENIX ATC 2019, Section 3.3). TVM's graph tuners choose a record for each node of a graph;
``apply_history_best``, for which `tune_network` writes its best records, has one for each workload.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from math import inf
from typing import NamedTuple

from tvm.autotvm.record import encode
from tvm.autotvm.task import Task

from autotvm_opevo._utils.atomic_files import write_whole
from autotvm_opevo.autotvm.extraction import Connection, Extraction
from autotvm_opevo.autotvm.log import Record, seconds
from autotvm_opevo.autotvm.store import TrialStore
from autotvm_opevo.autotvm.task_state import TaskState
from autotvm_opevo.tuning.run_log import BestWritten

# The templates whose knobs tile_ic and tile_oc are the blocks of channels.
_TEMPLATES = {"conv2d_NCHWc.x86", "conv2d_NCHWc_int8.x86", "depthwise_conv2d_NCHWc.x86"}
# What is not the confirmed best was timed less often, and is by chance too fast rather than too
# slow.
_NOISE = 0.01
# How many times as long as reading the same bytes again and again a transform takes within a
# network: it writes, too, in strides, what other cores have in their caches. By TVM's debug
# executor, those of MobileNet take 5 to 7 times as long.
_TRANSFERS = 5.0

logger = logging.getLogger(__name__)


class BestFile:
    """``NAME.best.json``, for ``autotvm.apply_history_best``: a network's best records, and those
    of other networks in the log.

    Records of convolutions that layouts connect are chosen together.

    Attributes
    ----------
    bandwidth : float
        Of small arrays, in bytes per second, by which transforms between layouts are estimated; 0
        if unknown.
    aligned : int
        Number of tasks of which it has another record than the fastest, since transforms would cost
        more.
    had_untuned : bool
        Whether it had the untuned network at the end of the last call.
    """

    def __init__(self, states: Sequence[TaskState], network: Extraction, store: TrialStore) -> None:
        self.path, self._run_log = store.best_file, store.run_log
        self._states, self._network = states, network
        self._keys, runs = [state.key for state in states], store.run_log.runs
        self._others = store.best_of_others(state.task.workload for state in states)
        self._left_out = runs.left_out.difference(self._keys)
        self.bandwidth = next(
            (known for key in self._keys if (known := runs.bandwidths.get(key))), 0.0
        )
        self.aligned = 0
        self.had_untuned = runs.untuned.issuperset(self._keys)
        self._untuned_others = runs.untuned.difference(self._keys)
        self._is_of_another_log = not store.records and self.path.exists()

    def write(self, untuned: bool) -> None:
        """Write the file, with what is known now, if there is anything; if `untuned`, with the
        configurations that the compiler uses without tuning.
        """
        tuned = {i: state.best for i, state in enumerate(self._states) if state.best}
        if untuned:
            # without a record the compiler takes the same configuration, but warns
            tasks = {operator.tasks[0] for operator in self._network.operators}
            chosen = {i: record for i in tasks if (record := self._states[i].untuned)}
            self.aligned = 0
        else:
            connected = self._connected(tuned)
            chosen = {**tuned, **connected}
            self.aligned = sum(record is not tuned[i] for i, record in connected.items())
        left_out = [self._states[i].key for i in tuned if i not in chosen]
        best = [*chosen.values(), *self._others]
        if best or left_out:
            # which may have been moved away: the work of hours is not overwritten
            if self._is_of_another_log:
                names = (
                    self.path.with_name(f"{self.path.name}.old{number or ''}") for number in count()
                )
                kept = self.path.rename(next(name for name in names if not name.exists()))
                logger.warning("%s was there before its log: it is now %s", self.path, kept.name)
                self._is_of_another_log = False
            write_whole(self.path, ((encode(*pair) + "\n").encode() for pair in best))
            self._run_log.write(
                BestWritten(
                    aligned=self.aligned,
                    left_out=[*self._left_out, *left_out],
                    untuned=[*self._untuned_others, *(self._keys if untuned else ())],
                )
            )

    def _connected(self, best: Mapping[int, Record]) -> dict[int, Record]:
        """The records to take for the convolutions, by the task's position, given the fastest of
        each task.
        """
        if not self.bandwidth:
            return {}
        by_operator, operators = {}, self._network.operators
        for position, operator in enumerate(operators):
            (i, *alternatives) = operator.tasks
            if i in best and not alternatives:
                state = self._states[i]
                by_operator[position] = candidates(state.task, state.records, best[i])
        counts = [operator.count for operator in operators]
        chosen = choose(by_operator, counts, self._network.connections, self.bandwidth)
        return {operators[i].tasks[0]: candidate.record for i, candidate in chosen.items()}


class Candidate(NamedTuple):
    """A record with its latency in seconds, and how many channels a block of its input and of its
    output has.
    """

    record: Record
    latency: float
    input: int
    output: int


def candidates(task: Task, records: Iterable[Record], best: Record) -> list[Candidate]:
    """The fastest record of each pair of layouts; none if the template has no blocks of channels.

    The one with the lowest latency, as confirmed, is `best`.
    """
    if task.name not in _TEMPLATES:
        return []
    latency = seconds(best[1])
    by_layout = {_blocks(best): Candidate(best, latency, *_blocks(best))}
    for record in records:
        # What seems faster than what was confirmed was lucky.
        time = (1 + _NOISE) * max(latency, seconds(record[1]))
        layouts = _blocks(record)
        if time < (by_layout[layouts].latency if layouts in by_layout else inf):
            by_layout[layouts] = Candidate(record, time, *layouts)
    return list(by_layout.values())


def choose(
    candidates: Mapping[int, Sequence[Candidate]],
    counts: Sequence[int],
    connections: Iterable[Connection],
    bandwidth: float,
) -> dict[int, Candidate]:
    """Choose a candidate for each operator, by position, so that they and the transforms between
    them take little time; those without candidates are left out.

    One operator after the other takes what is best beside all others, until nothing changes; first
    from the fastest of each, then from each size of blocks, and the best of these results counts.
    `bandwidth` is that of small arrays, in bytes per second.
    """
    options = {
        i: sorted(of_operator, key=lambda candidate: candidate.latency)
        for i, of_operator in candidates.items()
        if of_operator
    }
    connected = [c for c in connections if {c.producer, c.consumer} <= options.keys()]
    touching: defaultdict[int, list[Connection]] = defaultdict(list)
    for connection in connected:
        for i in {connection.producer, connection.consumer}:
            touching[i].append(connection)

    def cost(
        chosen: Mapping[int, Candidate], operators: Iterable[int], some: Iterable[Connection]
    ) -> float:
        size = sum(
            size
            for producer, consumer, joined, size in some
            if chosen[producer].output
            != (chosen[consumer].output if joined else chosen[consumer].input)
        )
        return sum(counts[i] * chosen[i].latency for i in operators) + size * _TRANSFERS / bandwidth

    def descend(chosen: dict[int, Candidate]) -> dict[int, Candidate]:
        improved = True
        while improved:
            improved = False
            for i, of_operator in options.items():
                best = min(  # itself, of equal ones
                    [chosen[i], *of_operator],
                    key=lambda candidate: cost({**chosen, i: candidate}, [i], touching[i]),
                )
                improved |= best is not chosen[i]
                chosen[i] = best
        return chosen

    blocks = {candidate.output for of_operator in options.values() for candidate in of_operator}
    # the fastest; then those with outputs in such blocks, as far as there are any
    starts = [
        {
            i: next((best for best in of_operator if best.output == block), of_operator[0])
            for i, of_operator in options.items()
        }
        for block in [None, *sorted(blocks)]
    ]
    return min(map(descend, starts), key=lambda chosen: cost(chosen, chosen, connected))


def _blocks(record: Record) -> tuple[int, int]:
    config = record[0].config
    return int(config["tile_ic"].size[-1]), int(config["tile_oc"].size[-1])
