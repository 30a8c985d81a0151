"""What the journal of a log says of the runs that wrote it; it is optional, so that nothing here is an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import tvm

from autotvm_opevo.autotvm.log import Record, parse, workload_key
from autotvm_opevo.autotvm.yardstick import yardstick_name
from autotvm_opevo.tuning.drift import Drift
from autotvm_opevo.tuning.journal import Journal, JournalEntry, read


def confirmed_before(journal: Path) -> dict[tuple[str, Any], tuple[Record, float]]:
    """The records that were confirmed last, and their latencies in seconds, without drift, by target and workload."""
    found = {}
    for entry in _read(journal):
        with suppress(ValueError):
            if entry.confirmed and (pair := parse(entry.confirmed["record"])):
                found[workload_key(pair[0].target, pair[0].task)] = pair, entry.confirmed["latency"]
    return found


def bandwidth_before(journal: Path, keys: Iterable[str]) -> float:
    """The bandwidth of small arrays, in bytes per second, as last measured for any of these tasks; 0 if unknown."""
    found, keys = 0.0, set(keys)
    for entry in _read(journal):
        if entry.network and keys & entry.network.get("limits", {}).keys():
            found = entry.network.get("bandwidth", 0.0)
    return found


def limits_before(journal: Path) -> dict[str, float]:
    """The limits of tasks in seconds, by their key in the journal, as last measured."""
    found: dict[str, float] = {}
    for entry in _read(journal):
        found.update((entry.network or {}).get("limits", {}))
    return found


def left_out_before(journal: Path) -> set[str]:
    """The tasks, by their key in the journal, that the file of the best has no record of, though they have some."""
    found: set[str] = set()
    for entry in _read(journal):
        found = set((entry.network or {}).get("left_out", found))
    return found


def drift_before(journal: Journal, target: tvm.target.Target) -> Drift:
    """The machine's drift, as far as a journal has it; what the yardstick takes from now on is written to it."""
    name = yardstick_name(target)
    known = [(entry.time, entry.yardstick) for entry in _read(journal.path) if entry.yardstick and entry.task == name]
    return Drift(known, lambda latency: journal.write(task=name, yardstick=latency))


def _read(journal: Path) -> Iterator[JournalEntry]:
    with suppress(OSError):
        yield from read(journal)
