"""A landscape: the measured run time of every configuration of a search space, for comparing
searches without the hardware.

A file is a ``.npz`` of

- ``idx``, unsigned integers [rows, knobs]: the index of every knob's value,
- ``time``, float32 [rows]: milliseconds; NaN if the configuration failed,
- ``error``, uint8 [rows], optional: AutoTVM's error number; by default failures are run-time errors
  on the device,
- ``meta``, JSON: ``name``, ``device``, ``problem``, ``source``, ``knobs`` and their ``values``;
  and, if AutoTVM can create the space, ``target`` and either ``operator``, a name, or ``template``
  and ``args``.
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

# MeasureErrorNo, without importing TVM.
INSTANTIATION_ERROR, RUNTIME_DEVICE = 1, 4


@dataclass
class Landscape:
    """The measurements of a search space.

    Attributes
    ----------
    name : str
    values : dict of str to list
        Values of each knob, in AutoTVM's order.
    knob_indices : array of int, shape (rows, knobs)
        Indices into `values`.
    time : array of float, shape (rows,)
        Milliseconds; NaN for failures.
    error : array of int, shape (rows,)
        0 for success.
    metadata : dict
        Device, problem, source, operator, target.
    """

    name: str
    values: dict[str, list[Any]]
    knob_indices: Array
    time: Array
    error: Array
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows = {
            index: row for row, index in enumerate(self.config_indices(self.knob_indices))
        }

    @property
    def size(self) -> int:
        """Number of configurations in the whole space, measured or not."""
        return prod(map(len, self.values.values()))

    @property
    def optimum(self) -> float:
        """Milliseconds of the best configuration."""
        return float(np.nanmin(self.time))

    def config_indices(self, knob_indices: Array) -> list[int]:
        """AutoTVM's indices of configurations, in which the first knob varies fastest."""
        return [int(n) for n in np.ravel_multi_index(tuple(knob_indices.T), self._shape, order="F")]

    def knob_indices_of(self, indices: Sequence[int]) -> Array:
        """The inverse of `config_indices`, shape (len(indices), knobs)."""
        return np.stack(
            np.unravel_index(np.array(indices, dtype=np.int64), self._shape, order="F"), axis=1
        ).astype(np.uint16)

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.values.values()))

    def __contains__(self, index: int) -> bool:
        return index in self._rows

    def __len__(self) -> int:
        return len(self.time)

    def look_up(self, index: int) -> tuple[float, int]:
        """Milliseconds and error number of a configuration; those not in the table fail to
        instantiate.
        """
        if (row := self._rows.get(index)) is None:
            return float("nan"), INSTANTIATION_ERROR
        return float(self.time[row]), int(self.error[row])


def load(path: str | PathLike[str]) -> Landscape:
    """Read a landscape.

    Raises
    ------
    ValueError
        If the file is not a landscape.
    """
    try:
        with np.load(path) as file:
            meta = json.loads(str(file["meta"]))
            time = file["time"]
            error = (
                file["error"] if "error" in file else np.where(np.isnan(time), RUNTIME_DEVICE, 0)
            )
            knobs = meta.pop("knobs")
            values = dict(zip(knobs, meta.pop("values")))
            name = meta.pop("name", Path(path).stem)
            return Landscape(name, values, file["idx"], time, error, meta)
    except (KeyError, ValueError, OSError, EOFError, BadZipFile) as problem:
        raise ValueError(
            f"{path} is not a landscape: {type(problem).__name__}: {problem}"
        ) from problem


def dump(landscape: Landscape) -> bytes:
    """Serialize a landscape to the contents of a file."""
    most = max(map(len, landscape.values.values()))
    meta = {
        "name": landscape.name,
        "knobs": list(landscape.values),
        "values": list(landscape.values.values()),
        **landscape.metadata,
    }
    file = io.BytesIO()
    np.savez_compressed(
        file,
        idx=landscape.knob_indices.astype(np.uint8 if most <= 256 else np.uint16),
        time=landscape.time.astype(np.float32),
        error=landscape.error.astype(np.uint8),
        meta=json.dumps(meta),
    )
    return file.getvalue()


def knob_values(config_space: Any) -> dict[str, list[Any]]:
    """The values of each knob of an AutoTVM space, for JSON."""
    return {
        knob: [_value(entity) for entity in transform.entities]
        for knob, transform in config_space.space_map.items()
    }


def _value(entity: Any) -> Any:
    for attribute in ("size", "perm", "anns"):
        if hasattr(entity, attribute):
            return list(getattr(entity, attribute))
    return entity.val
