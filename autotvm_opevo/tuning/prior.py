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
    """The sources in a file, by the name of their template, empty for MetaSchedule's."""
    sources: dict[str, list[Source]] = defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for entry in map(json.loads, file):
            space = Space({name: from_json(*graph) for name, graph in entry["knobs"].items()})
            results = {}
            for *values, result in entry["results"]:
                vertices = [tuple(value) if isinstance(value, list) else value for value in values]
                results[space.index(dict(zip(space.knobs, vertices)))] = result
            sources[entry.get("template", "")].append(Source(space, results, COMMON_LAYERS))
    return dict(sources)


def write_prior(path: Path, sources: Mapping[str, Sequence[Source]]) -> None:
    """Write some results of each source, relative to its best, one source a line."""
    with open(path, "w", encoding="utf-8") as file:
        for template, alike in sources.items():
            for source in alike:
                entry: dict[str, Any] = {"template": template} if template else {}
                entry["knobs"] = knobs = {}
                for name, topology in source.space.knobs.items():
                    # what results were limited to does not matter to another task
                    is_finite = isinstance(topology.whole, Topology)
                    knobs[name] = (topology.whole if is_finite else topology).to_json()
                ranked = sorted(source.results.items(), key=lambda item: -item[1])
                entry["results"] = [
                    [*source.space[index].values(), float(f"{result / ranked[0][1]:.3g}")]
                    for index, result in thin_out(ranked, _RESULTS)
                ]
                file.write(json.dumps(entry, separators=(",", ":")) + "\n")
