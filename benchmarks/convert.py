"""Make a landscape of a cache file of Kernel Tuner's, such as those that AutoTuningAssociation/benchmark_hub publishes.

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
    parser = argparse.ArgumentParser(description="Make a landscape of a cache file of Kernel Tuner's.")
    parser.add_argument("cache", type=Path, help="JSON, or JSON compressed with gzip")
    parser.add_argument("landscape", type=Path, help="the .npz file to write")
    options = parser.parse_args(arguments)
    try:
        content = options.cache.read_bytes()
        text = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        landscape = converted(json.loads(text), options.landscape.stem)
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError) as problem:
        sys.exit(f"{options.cache} is no finished cache file of Kernel Tuner's: {type(problem).__name__}: {problem}")
    options.landscape.parent.mkdir(parents=True, exist_ok=True)
    options.landscape.write_bytes(dump(landscape))
    print(f"{options.landscape}: {len(landscape)} configurations, {np.isnan(landscape.time).mean():.0%} failed")


def converted(cache: dict[str, Any], name: str) -> Landscape:
    """What a cache holds: milliseconds, and a word in their place where a configuration failed.

    Values that no row has are left out, and so are knobs that have only one: there is nothing to choose.
    """
    rows = list(cache["cache"].values())
    seen = {knob: {row[knob] for row in rows} for knob in cache["tune_params_keys"]}
    knobs = [knob for knob, found in seen.items() if len(found) > 1]
    values = {knob: [value for value in cache["tune_params"][knob] if value in seen[knob]] for knob in knobs}
    time = np.array([row["time"] if is_number(row["time"]) else np.nan for row in rows], dtype=np.float32)
    return Landscape(
        name=name,
        values=values,
        kinds=dict.fromkeys(knobs, "ordinal"),  # the file does not tell
        positions=np.array([[values[knob].index(row[knob]) for knob in knobs] for row in rows], dtype=np.uint16),
        time=time,
        error=np.where(np.isnan(time), RUNTIME_DEVICE, 0).astype(np.uint8),
        about={"device": cache["device_name"], "problem": cache["kernel_name"]},
    )


if __name__ == "__main__":
    main()
