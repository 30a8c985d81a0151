"""Networks built with the best of each log, and untuned, compared; as data and as text."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

from autotvm_opevo._utils.text import last_line, milliseconds, pluralize
from autotvm_opevo._utils.timeouts import run_compiler, run_with_timeout, say_if_long
from autotvm_opevo.tuning.programs import Instance, Timed, compare_outputs, is_quantized
from autotvm_opevo.tuning.race import GRACE, Estimate, Race

logger = logging.getLogger(__name__)

# Seconds for all networks to run once.
_FIRST_RUN_TIMEOUT = 600.0
# Number of operators that are shown, and of rounds in which each is timed.
_SHOWN_OPERATORS, _OPERATOR_ROUNDS = 5, 20
# Share of the time for the networks; what is left of it is for the operators.
_NETWORKS_SHARE = 0.8
# Seconds for timing a network before and after tuning.
_EVALUATION_SECONDS = 10.0


@dataclass
class OperatorComparison:
    """The best of each log for one of the network's operators.

    Attributes
    ----------
    count : int
        How often the network runs it.
    best : list
        The best record of each log; None if it has no successful one.
    latencies : list of float
        Seconds of one run by log, as measured while tuning; infinite without a record, or with one
        that was chosen without a trial.
    same : bool
        Whether all logs have the same configuration.
    race : Race
        By log; without a round if they were not timed.
    """

    name: str
    count: int
    best: list[Any]
    latencies: list[float]
    same: bool
    race: Race = field(init=False)

    def __post_init__(self) -> None:
        self.race = Race(len(self.latencies))

    @property
    def spread(self) -> float:
        """Seconds by which the logs differ in a run of the network; infinite if one lacks it."""
        known = [latency for latency in self.latencies if latency < inf]
        return self.count * (max(self.latencies) - min(known)) if known and not self.same else 0.0


@dataclass
class Comparison:
    """Latencies of a network built untuned and with the best of each of several logs; ``print``
    shows it as tables.

    Attributes
    ----------
    logs : list of str
        Short names of the logs.
    operators : list of OperatorComparison
        Those with records in a log, the one with the largest difference between the logs first.
    race : Race
        Position 0 is the untuned network, position ``i`` the i-th log.
    relative_errors : list of float
        Largest difference of each log's outputs from the untuned network's, relative to their
        largest absolute value.
    outputs_match : bool
        Whether rounding explains these differences.
    dtypes : set of str
        Of what the network computes: values of eight bits or fewer are rounded to others, whole
        steps apart.
    stop_reason : str
        ``"decided"``, ``"time limit"``, ``"rounds"``, ``"different outputs"``, ``"interrupted"`` or
        the name of an exception.
    """

    logs: list[str]
    operators: list[OperatorComparison] = field(default_factory=list)
    relative_errors: list[float] = field(default_factory=list)
    outputs_match: bool = True
    stop_reason: str = ""
    dtypes: set[str] = field(default_factory=set)
    race: Race = field(init=False)

    def __post_init__(self) -> None:
        size = 1 + len(self.logs)
        self.race = Race(size, range(1, size) if len(self.logs) > 1 else None)
        self.operators.sort(key=lambda operator: -operator.spread)

    @property
    def winner(self) -> str | None:
        """The log that is faster than all others, or ``"untuned"`` if it is than the only one; None
        if that is not known.
        """
        is_known = self.race.latencies and len(self.race.racing) == 1
        return self._names[self.race.fastest] if is_known else None

    @property
    def untuned_is_better(self) -> bool:
        """Of one log: whether its network is slower than the untuned one, or wrong."""
        return not self.outputs_match or (
            bool(self.race.latencies) and self.race.speedup(1, 0).is_slower
        )

    @property
    def differing(self) -> list[OperatorComparison]:
        """The operators that differ most, as measured while tuning."""
        return [operator for operator in self.operators if operator.spread > 0][:_SHOWN_OPERATORS]

    def time(
        self,
        networks: Sequence[Callable[[], Instance]],
        load_kernel: Callable[[Any], Callable[[], Timed]],
        seconds: float,
    ) -> None:
        """Time the networks for at most so many seconds, and in a part of these the operators."""
        print(f"timing them interleaved, for at most {seconds:g} seconds", file=sys.stderr)
        self.time_networks(networks, _NETWORKS_SHARE * seconds)
        self.time_operators(load_kernel, (1 - _NETWORKS_SHARE) * seconds)

    def time_networks(self, networks: Sequence[Callable[[], Instance]], seconds: float) -> None:
        """Compare the outputs of the untuned network and of each log's, and time them, for at most
        so many seconds; networks for which that is too short are timed by one run.
        """
        runs: list[float] = []  # seconds, by network

        def run_once() -> list[tuple[float, bool]]:
            outputs_of = []
            for network in networks:
                instance = network()
                start = time.monotonic()
                outputs_of.append(instance.outputs())
                latency = time.monotonic() - start
                if latency <= _EVALUATION_SECONDS:  # the first may compile kernels
                    start = time.monotonic()
                    instance.outputs()
                    latency = time.monotonic() - start
                runs.append(latency)
                del instance  # before the next one is loaded
            expected, *actual = outputs_of
            return [compare_outputs(expected, outputs, self.dtypes) for outputs in actual]

        def done() -> str:
            if rounds := len(self.race.latencies):
                return pluralize(rounds, "round")
            return ", ".join(f"{name} ran in {s:.1f} s" for name, s in zip(self._names, runs))

        with say_if_long("timing the networks", done):
            try:
                compared = run_with_timeout(
                    _FIRST_RUN_TIMEOUT, run_once, "the device to run the networks", GRACE
                )
            except TimeoutError as error:
                raise TimeoutError(", ".join(filter(None, [str(error), done()]))) from None
            self.relative_errors = [error for error, _ in compared]
            self.outputs_match = all(match for _, match in compared)
            if not self.outputs_match:
                self.stop_reason = "different outputs"
            elif 2 * sum(runs) > max(seconds, _EVALUATION_SECONDS):
                # There is no time for a round, which runs each of them twice.
                self.race.add(runs)
                self.stop_reason = "time limit"
            else:
                self.stop_reason = self.race.run(networks, time.monotonic() + seconds)

    def time_operators(self, load: Callable[[Any], Callable[[], Timed]], seconds: float) -> None:
        """Time the operators of all logs that differ most, each for its part of at most so many
        seconds, if the outputs match.

        `load` builds a record and returns a function that puts it into newly allocated memory. An
        error here does not cost the user what is known of the networks, unless an operator hangs.
        """
        if not self.outputs_match:
            return
        timed = [o for o in self.operators if 0 < o.spread < inf][:_SHOWN_OPERATORS]
        for operator in timed:
            try:
                alternatives = [
                    run_compiler(partial(load, record), f"building {operator.name}")
                    for record in operator.best
                ]
                with say_if_long(f"timing {operator.name}"):
                    operator.race.run(
                        alternatives, time.monotonic() + seconds / len(timed), _OPERATOR_ROUNDS
                    )
            except TimeoutError:
                raise  # what hangs may still use the device
            except Exception as error:
                logger.warning("%s was not timed alone: %s", operator.name, last_line(str(error)))

    def __str__(self) -> str:
        paragraphs = [self._network(), self._verdict(), self._while_tuning(), self._interleaved()]
        return "\n\n".join("\n".join(lines) for lines in paragraphs if lines)

    @property
    def _names(self) -> list[str]:
        return ["untuned", *self.logs]

    def table(self) -> list[str]:
        """Latencies, and how many times as fast as untuned; empty if nothing was timed."""
        if not self.race.latencies:
            return []
        rows = [["network", "ms", "(95% interval)", ""]]
        for i, name in enumerate(self._names):
            latency = self.race.latency(i)
            faster = _faster(self.race.speedup(i, 0), "untuned") if i else ""
            rows.append(
                [name, milliseconds(latency.value), _interval(latency, milliseconds), faster]
            )
        return _table(rows, "<><<")

    def describe_outputs(self) -> str:
        """Whether outputs match, and in which sense."""
        if not self.outputs_match:
            return "outputs DIFFER"
        return "outputs match" + " as quantized values do" * is_quantized(self.dtypes)

    def _network(self) -> list[str]:
        """Latencies, how they were timed, and whether the outputs match."""
        rounds = pluralize(len(self.race.latencies), "round")
        lines = [*self.table(), f"{rounds}, interleaved; ended by: {self.stop_reason}"]
        if self.relative_errors:
            errors = [f"{error:.1e} ({log})" for log, error in zip(self.logs, self.relative_errors)]
            lines.append(f"{self.describe_outputs()}, relative error {', '.join(errors)}")
        return lines

    def _verdict(self) -> list[str]:
        """The fastest log against each of the others."""
        if not self.race.latencies:
            return []
        race, sentences = self.race, []
        fast, others = self._names[race.fastest], {*race.contestants} - {race.fastest}
        for i in sorted(others, key=lambda i: race.latency(i).value):
            slow, speedup = self._names[i], race.speedup(race.fastest, i)
            won, tie = f"is {_faster(speedup, slow)}", f"and {slow} {_tie(speedup)}"
            sentences.append(f"{fast} {won if speedup.is_significant else tie}")
        return sentences

    def _while_tuning(self) -> list[str]:
        """The operators that differ most, as the logs have them."""
        rows = [["operator", "runs", *self.logs]]
        for operator in self.differing:
            missing = ["untuned" if best is None else "not measured" for best in operator.best]
            cells = [
                milliseconds(s) if s < inf else why for s, why in zip(operator.latencies, missing)
            ]
            rows.append([operator.name, str(operator.count), *cells])
        title = "where the logs differ most, ms of a run as measured while tuning, not interleaved"
        return [title, *_table(rows, "<" + ">" * (1 + len(self.logs)))] if len(rows) > 1 else []

    def _interleaved(self) -> list[str]:
        """The operators that were timed interleaved."""
        rows = [["operator", *self.logs, ""]]
        for operator in self.operators:
            race = operator.race
            if race.latencies:
                seconds = [race.latency(i).value for i in range(race.size)]
                fastest, second, *_ = sorted(range(race.size), key=seconds.__getitem__)
                speedup = race.speedup(fastest, second)
                won = f"{self.logs[fastest]} {_faster(speedup)}"
                result = won if speedup.is_significant else _tie(speedup)
                rows.append([operator.name, *map(milliseconds, seconds), result])
        title = "interleaved, each alone"
        return [title, *_table(rows, "<" + ">" * len(self.logs) + "<")] if len(rows) > 1 else []


def _table(rows: Sequence[Sequence[str]], alignments: str) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    cells = [
        [f"{cell:{align}{width}}" for cell, align, width in zip(row, alignments, widths)]
        for row in rows
    ]
    return ["  ".join(row).rstrip() for row in cells]


def _tie(speedup: Estimate) -> str:
    most = speedup.difference
    why = f"within {most:.1%}" if most <= 1 else "too few rounds, or too much noise"
    return f"cannot be told apart ({why})"


def _faster(speedup: Estimate, other: str = "") -> str:
    """How many times as fast, with as many digits as show that there is a difference."""
    digits = 3 if any(abs(ratio - 1.0) < 0.01 for ratio in speedup) else 2
    than = f" as {other}" if other else ""
    interval = _interval(speedup, lambda ratio: f"{ratio:.{digits}f}")
    return f"{speedup.value:.{digits}f} times as fast{than} {interval}"


def _interval(estimate: Estimate, text: Callable[[float], str]) -> str:
    _, low, high = estimate
    return "(unknown)" if high == inf else f"({text(low)} to {text(high)})"


def reason_of(error: BaseException) -> str:
    """Why something ended that an error ended."""
    return "interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__


def compare_with_untuned(
    untuned: Callable[[], Instance], tuned: Callable[[], Instance], dtypes: set[str]
) -> Comparison:
    """Compare a network before and after tuning, in some seconds; see `Comparison.dtypes`."""
    comparison = Comparison(["tuned"], dtypes=dtypes)
    comparison.time_networks([untuned, tuned], _EVALUATION_SECONDS)
    return comparison


@contextmanager
def shown_when_aborted(comparison: Comparison) -> Iterator[None]:
    """Print what is known so far if an exception leaves the block."""
    try:
        yield
    except BaseException as error:
        comparison.stop_reason = comparison.stop_reason or reason_of(error)
        print(comparison, file=sys.stderr)
        raise
