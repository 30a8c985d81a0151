"""The settings of all trials, compactly: a report of 100,000 trials must fit into memory."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping
from itertools import repeat

from autotvm_opevo.reporting.values import Value

_NOT_SET = -1


class Settings:
    """The values of all knobs in all trials, a few bytes each.

    Examples
    --------
    >>> settings = Settings()
    >>> settings.append({"tile": Value("tile", (8, 1))})
    >>> settings.append({"tile": Value("tile", (4, 2)), "unroll": Value("number", 16)})
    >>> settings[0], settings[1]
    ({'tile': (8, 1)}, {'tile': (4, 2), 'unroll': 16})
    """

    def __init__(self) -> None:
        self._values: dict[str, list[Hashable]] = {}  # by knob, as are:
        self._numbers: dict[str, dict[Hashable, int]] = {}  # of the values
        self._columns: dict[str, array[int]] = {}  # the number of each trial's value
        self._size = 0

    def append(self, knobs: Mapping[str, Value]) -> None:
        """Add a trial."""
        for name, value in knobs.items():
            if name not in self._columns:
                self._values[name], self._numbers[name], self._columns[name] = [], {}, array("i")
            values, column = self._values[name], self._columns[name]
            number = self._numbers[name].setdefault(value.value, len(values))
            if number == len(values):
                values.append(value.value)
            column.extend(repeat(_NOT_SET, self._size - len(column)))
            column.append(number)
        self._size += 1

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, trial: int) -> dict[str, Hashable]:
        """The values that a trial set, by knob."""
        return {
            name: self._values[name][column[trial]]
            for name, column in self._columns.items()
            if trial < len(column) and column[trial] != _NOT_SET
        }
