"""Convert AutoTVM's logs to landscapes, of each task whose search space they measured whole, or as
much of it as ``--coverage`` asks for.

    python -m benchmarks.convert_logs FOLDER LOG ... --device NAME --coverage 0.9

Logs of several tuners are read together. A configuration gets the median of its measurements. One
that no tuner measured fails in a replay.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm.topi  # registers the templates
from tqdm import tqdm
from tvm.autotvm.measure import MeasureErrorNo
from tvm.autotvm.task.space import ConfigEntity

from autotvm_opevo.autotvm.log import Fields, known_target, read_fields, seconds
from benchmarks import replay
from benchmarks.landscape import Landscape, dump, knob_values


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Convert AutoTVM's logs to recorded search spaces."
    )
    parser.add_argument("folder", type=Path, help="where to write the .npz files")
    parser.add_argument("logs", nargs="+", type=Path, metavar="log")
    parser.add_argument(
        "--device", required=True, help="on which the logs were recorded; begins the files' names"
    )
    parser.add_argument(
        "--coverage",
        type=float,
        default=1.0,
        help="the least part of a space that must be measured (default: 1, all of it)",
    )
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    written = set()
    try:
        for landscape, size in convert(options.logs, options.device):
            is_covered = len(landscape) >= options.coverage * size
            if is_covered:
                if landscape.name in written:
                    sys.exit(f"two tasks are called {landscape.name}: convert their logs apart")
                written.add(landscape.name)
                (options.folder / f"{landscape.name}.npz").write_bytes(dump(landscape))
            print(
                f"{landscape.name}: {len(landscape)} of {size} configurations, "
                f"{np.isnan(landscape.time).mean():.0%} failed{'' if is_covered else ': left out'}"
            )
    except (OSError, ValueError, tvm.TVMError) as problem:
        sys.exit(str(problem))


def convert(logs: Iterable[Path], device: str) -> Iterator[tuple[Landscape, int]]:
    """The measured part of each task's search space, and the size of the whole.

    Raises
    ------
    ValueError
        If this TVM's template makes another space than that of the logs.
    """
    measured: dict[str, dict[int, list[Fields]]] = defaultdict(lambda: defaultdict(list))
    for path in tqdm(list(logs), unit="log", disable=None):
        for _, fields in read_fields(path):
            target, _ = known_target(fields.input[0])
            key = json.dumps([target, *fields.input[1:3]])
            measured[key][fields.config["index"]].append(fields)
    for key, results in measured.items():
        yield _landscape(json.loads(key), results, device)


def _landscape(
    task_input: list[Any], results: dict[int, list[Fields]], device: str
) -> tuple[Landscape, int]:
    target, template, arguments = task_input
    task = {"template": template, "args": arguments, "target": target}
    space = replay.task_of(task).config_space
    for index, fields in results.items():
        recorded = ConfigEntity.from_json_dict(fields[0].config)
        is_known = index in range(space.range_length) and space.is_index_valid(index)
        if not is_known or str(space.get(index)) != str(recorded):
            raise ValueError(
                f"configuration {index} of {template} {arguments} is {recorded} in the logs, "
                "another one in this TVM: convert them with the TVM that wrote them"
            )
    values = knob_values(space)
    indices = sorted(results)
    shape = [len(of) for of in values.values()]
    time, error = zip(*(_outcome(results[index]) for index in indices))
    landscape = Landscape(
        name=f"{device}-{_name(template, arguments)}",
        values=values,
        knob_indices=np.stack(np.unravel_index(indices, shape, order="F"), axis=1),
        time=np.array(time, dtype=np.float32),
        error=np.array(error, dtype=np.uint8),
        metadata={"device": device, **task},
    )
    return landscape, len(space)


def _outcome(measured: Iterable[Fields]) -> tuple[float, int]:
    """Milliseconds and error number of a configuration: it failed if it did each time."""
    results = [fields.result for fields in measured]
    times = [seconds(result) for result in results if result.error_no == MeasureErrorNo.NO_ERROR]
    return (1e3 * float(np.median(times)), 0) if times else (np.nan, int(results[0].error_no))


def _name(template: str, arguments: list[Any]) -> str:
    """The template, and all numbers of its arguments.

    >>> _name("dense_pack.x86", [["TENSOR", [1, 64], "float32"], ["TENSOR", [32, 64], "float32"]])
    'dense_pack-1-64-32-64'
    """
    numbers = re.sub(r"[^0-9]+", "-", re.sub(r'"[^"]*"', "", json.dumps(arguments)))
    return f"{template.partition('.')[0]}{numbers}".rstrip("-")


if __name__ == "__main__":
    main()
