"""What searches on a CPU know before their first trial: results of common layers, by role, from a file of the package.

``python -m benchmarks.prior`` makes the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from autotvm_opevo.search.source import Source, thin_out
from autotvm_opevo.search.space import Space
from autotvm_opevo.topology import Categorical, Discrete, Factorization, Topology

PRIOR = Path(__file__).with_name("cpu_prior.json")
# Maximum number of results of each workload in the file.
_RESULTS = 32


@lru_cache(maxsize=1)
def read_prior(path: Path = PRIOR) -> tuple[Source, ...]:
    """The sources in a file, with knobs by role (see `DecisionSpace.by_role`)."""
    with open(path, encoding="utf-8") as file:
        return tuple(_from_json(line) for line in map(json.loads, file))


def write_prior(path: Path, sources: Sequence[Source]) -> None:
    """Write some results of each source, relative to its best, one source a line."""
    with open(path, "w", encoding="utf-8") as file:
        for source in sources:
            file.write(json.dumps(_as_json(source), separators=(",", ":")) + "\n")


def _as_json(source: Source) -> Any:
    ranked = sorted(source.results.items(), key=lambda item: -item[1])
    best = ranked[0][1]
    kept = thin_out(ranked, _RESULTS)
    return {
        "knobs": {name: _knob_as_json(topology) for name, topology in source.space.knobs.items()},
        "results": [[*source.space[index].values(), float(f"{result / best:.3g}")] for index, result in kept],
    }


def _from_json(entry: Any) -> Source:
    space = Space({name: _KNOBS[kind](*arguments) for name, (kind, *arguments) in entry["knobs"].items()})
    results = {}
    for *values, result in entry["results"]:
        values = [tuple(value) if isinstance(value, list) else value for value in values]
        results[space.index(dict(zip(space.knobs, values)))] = result
    return Source(space, results)


_KNOBS = {"tile": Factorization, "choice": Categorical, "number": Discrete}


def _knob_as_json(topology: Topology) -> list[Any]:
    if isinstance(topology, Factorization):
        return ["tile", topology.product, topology.parts]
    return ["choice" if isinstance(topology, Categorical) else "number", [topology[i] for i in range(topology.size)]]
