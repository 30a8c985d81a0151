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

from autotvm_opevo.search.space import Space
from autotvm_opevo.search.transfer import Source
from autotvm_opevo.topology.serialization import from_json


@lru_cache(maxsize=2)
def read_prior(path: Path) -> Mapping[str, Sequence[Source]]:
    """The sources in a file, by the name of their template, empty for MetaSchedule's."""
    sources: dict[str, list[Source]] = defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for entry in map(json.loads, file):
            space = Space({name: from_json(*graph) for name, graph in entry["knobs"].items()})
            results = {
                space.index(dict(zip(space.knobs, values))): result
                for *values, result in entry["results"]
            }
            sources[entry.get("template", "")].append(Source(space, results))
    return dict(sources)
