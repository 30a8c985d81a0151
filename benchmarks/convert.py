"""Convert a Kernel Tuner cache file, such as those published in
AutoTuningAssociation/benchmark_hub, to a landscape.

python -m benchmarks.convert A100.json.gz convmilo_A100.npz
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from autotvm_opevo._utils.validation import is_number
from benchmarks.landscape import RUNTIME_DEVICE, Landscape, dump


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Convert a Kernel Tuner cache file to a recorded search space."
    )
    parser.add_argument("cache", type=Path, help="JSON, optionally compressed with gzip")
    parser.add_argument("landscape", type=Path, help="the .npz file to write")
    options = parser.parse_args(arguments)
    try:
        content = options.cache.read_bytes()
        text = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        landscape = convert(json.loads(text), options.landscape.stem)
    except (
        OSError,
        EOFError,
        zlib.error,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
    ) as problem:
        sys.exit(
            f"{options.cache} is not a complete Kernel Tuner cache file: "
            f"{type(problem).__name__}: {problem}"
        )
    options.landscape.parent.mkdir(parents=True, exist_ok=True)
    options.landscape.write_bytes(dump(landscape))
    print(
        f"{options.landscape}: {len(landscape)} configurations, "
        f"{np.isnan(landscape.time).mean():.0%} failed"
    )


def convert(cache: dict[str, Any], name: str) -> Landscape:
    """Convert the contents of a cache file, in which ``time`` is milliseconds, or a string if the
    configuration failed.

    Values that never occur are left out, and so are knobs with a single value.
    """
    rows = list(cache["cache"].values())
    seen = {knob: {row[knob] for row in rows} for knob in cache["tune_params_keys"]}
    knobs = [knob for knob, values in seen.items() if len(values) > 1]
    values = {
        knob: [value for value in cache["tune_params"][knob] if value in seen[knob]]
        for knob in knobs
    }
    time = np.array(
        [row["time"] if is_number(row["time"]) else np.nan for row in rows], dtype=np.float32
    )
    return Landscape(
        name=name,
        values=values,
        knob_indices=np.array(
            [[values[knob].index(row[knob]) for knob in knobs] for row in rows], dtype=np.uint16
        ),
        time=time,
        error=np.where(np.isnan(time), RUNTIME_DEVICE, 0).astype(np.uint8),
        metadata={"device": cache["device_name"], "problem": cache["kernel_name"]},
    )


if __name__ == "__main__":
    main()
