"""What searches know before their first trial: files of bundled tuning records, which come with
the package.

``python -m benchmarks.prior`` and ``python -m benchmarks.relax_prior`` make them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from autotvm_opevo.search.space import Space
from autotvm_opevo.search.transfer import Source, thin_out
from autotvm_opevo.topology import Topology
from autotvm_opevo.topology.serialization import from_json

# Their origin, for reports.
COMMON_LAYERS = "bundled tuning records"
# Maximum number of results of each task in a file.
_RESULTS = 32


@lru_cache(maxsize=2)
def read_prior(path: Path) -> Mapping[str, Sequence[Source]]:
    """The sources in a file, by the name of their template; MetaSchedule's, with knobs by role,
    have an empty one.
    """
    sources: dict[str, list[Source]] = defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for entry in map(json.loads, file):
            sources[entry.get("template", "")].append(_source_from_json(entry))
    return dict(sources)


def write_prior(path: Path, sources: Mapping[str, Sequence[Source]]) -> None:
    """Write some results of each source, relative to its best, one source a line."""
    with open(path, "w", encoding="utf-8") as file:
        for template, alike in sources.items():
            for source in alike:
                entry = {**({"template": template} if template else {}), **_source_as_json(source)}
                file.write(json.dumps(entry, separators=(",", ":")) + "\n")


def _source_as_json(source: Source) -> dict[str, Any]:
    ranked = sorted(source.results.items(), key=lambda item: -item[1])
    best = ranked[0][1]
    kept = thin_out(ranked, _RESULTS)
    return {
        "knobs": {
            name: _unrestricted(topology).to_json() for name, topology in source.space.knobs.items()
        },
        "results": [
            [*source.space[index].values(), float(f"{result / best:.3g}")] for index, result in kept
        ],
    }


def _unrestricted(topology: Topology) -> Topology:
    """The whole graph, if it is finite: what results were limited to does not matter to another
    task.
    """
    return topology.whole if isinstance(topology.whole, Topology) else topology


def _source_from_json(entry: Any) -> Source:
    space = Space({name: from_json(*topology) for name, topology in entry["knobs"].items()})
    results = {}
    for *values, result in entry["results"]:
        values = [tuple(value) if isinstance(value, list) else value for value in values]
        results[space.index(dict(zip(space.knobs, values)))] = result
    return Source(space, results, COMMON_LAYERS)
