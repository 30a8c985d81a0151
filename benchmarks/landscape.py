"""A landscape: how long every configuration of a search space takes, measured once, so that searches can be compared for ever.

A file is a ``.npz`` of

- ``idx``, unsigned integers [rows, knobs]: the position of every knob's value,
- ``time``, float32 [rows]: milliseconds; NaN where the configuration failed,
- ``error``, uint8 [rows], optional: AutoTVM's error numbers; without it, what failed did so on the device,
- ``meta``, JSON: ``name``, ``device``, ``problem``, ``source``, ``knobs``, ``values`` and ``kinds`` (both by knob); where AutoTVM
  can make the space again, ``operator`` and ``target``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

FOLDER = Path(__file__).parent / "landscapes"

# MeasureErrorNo, which needs a TVM.
INSTANTIATION_ERROR, RUNTIME_DEVICE = 1, 4


@dataclass
class Landscape:
    """What was measured of a space.

    Attributes
    ----------
    name : str
    values : dict of str to list
        Every knob's values, in AutoTVM's order.
    kinds : dict of str to str
        What a knob is: of AutoTVM split, reorder, annotate or other; elsewhere ordinal or categorical.
    positions : array of int, shape (rows, knobs)
    time : array of float, shape (rows,)
        Milliseconds; NaN where it failed.
    error : array of int, shape (rows,)
        0 where it worked.
    about : dict
        What else is known: device, problem, source, operator, target.
    """

    name: str
    values: dict[str, list[Any]]
    kinds: dict[str, str]
    positions: Array
    time: Array
    error: Array
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = self.numbers(self.positions)
        self._rows = dict(zip(numbers, range(len(numbers))))

    @property
    def size(self) -> int:
        """Points of the whole space."""
        return prod(map(len, self.values.values()))

    @property
    def optimum(self) -> float:
        """Milliseconds of the best configuration."""
        return float(np.nanmin(self.time))

    def numbers(self, positions: Array) -> list[int]:
        """AutoTVM's numbers of configurations: the first knob changes fastest."""
        return [int(n) for n in np.ravel_multi_index(tuple(positions.T), self._lengths, order="F")]

    def positions_of(self, numbers: Sequence[int]) -> Array:
        """The inverse of `numbers`, shape (len(numbers), knobs)."""
        return np.stack(np.unravel_index(np.array(numbers, dtype=np.int64), self._lengths, order="F"), axis=1).astype(np.uint16)

    @property
    def _lengths(self) -> tuple[int, ...]:
        return tuple(map(len, self.values.values()))

    def __contains__(self, number: int) -> bool:
        return number in self._rows

    def __len__(self) -> int:
        return len(self.time)

    def look_up(self, number: int) -> tuple[float, int]:
        """Milliseconds and error number of a configuration; what is not in the table could not be made."""
        row = self._rows.get(number)
        return (float("nan"), INSTANTIATION_ERROR) if row is None else (float(self.time[row]), int(self.error[row]))


def load(path: str | PathLike[str]) -> Landscape:
    """Read a landscape.

    Raises
    ------
    ValueError
        If the file is none.
    """
    try:
        with np.load(path) as file:
            meta = json.loads(str(file["meta"]))
            time = file["time"]
            error = file["error"] if "error" in file else np.where(np.isnan(time), RUNTIME_DEVICE, 0)
            knobs = meta.pop("knobs")
            values, kinds = (dict(zip(knobs, meta.pop(what))) for what in ("values", "kinds"))
            return Landscape(meta.pop("name", Path(path).stem), values, kinds, file["idx"], time, error, meta)
    except (KeyError, ValueError, OSError, EOFError, BadZipFile) as problem:
        raise ValueError(f"{path} is no landscape: {type(problem).__name__}: {problem}") from problem


def dump(landscape: Landscape) -> bytes:
    """A landscape as the contents of a file."""
    most = max(map(len, landscape.values.values()))
    meta = {
        "name": landscape.name,
        "knobs": list(landscape.values),
        "values": list(landscape.values.values()),
        "kinds": list(landscape.kinds.values()),
        **landscape.about,
    }
    file = io.BytesIO()
    np.savez_compressed(
        file,
        idx=landscape.positions.astype(np.uint8 if most <= 256 else np.uint16),
        time=landscape.time.astype(np.float32),
        error=landscape.error.astype(np.uint8),
        meta=json.dumps(meta),
    )
    return file.getvalue()


def entity_value(entity: Any) -> Any:
    """What an entity says, for JSON."""
    for attribute in ("size", "perm", "anns", "val"):
        if hasattr(entity, attribute):
            value = getattr(entity, attribute)
            return list(value) if attribute != "val" else value
    raise TypeError(f"{entity!r} is no entity of AutoTVM's")
