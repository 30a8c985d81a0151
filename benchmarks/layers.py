"""Shapes of common layers, what a prior is recorded on: in no network compared here, but for one
depthwise layer of MobileNet; and how a prior is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotvm_opevo.search.transfer import Source, subsample
from autotvm_opevo.topology import Topology
from autotvm_opevo.topology.serialization import to_json

# Of each task; and how many of its results a file has at most.
TRIALS, _RESULTS = 64, 32

# image, channels in and out, kernel, stride
CONVOLUTIONS = [
    (224, 3, 48, 7, 2),
    (192, 3, 32, 3, 2),
    (128, 3, 96, 11, 4),
    (56, 48, 96, 3, 1),
    (48, 80, 80, 3, 1),
    (35, 64, 96, 3, 1),
    (28, 96, 160, 3, 1),
    (28, 160, 160, 3, 2),
    (24, 160, 320, 3, 2),
    (17, 128, 192, 3, 1),
    (14, 160, 320, 3, 1),
    (13, 144, 288, 3, 1),
    (13, 320, 320, 3, 1),
    (8, 320, 448, 3, 1),
    (7, 320, 640, 3, 1),
    (27, 48, 128, 5, 1),
    (12, 96, 224, 5, 1),
    (56, 48, 144, 1, 1),
    (28, 144, 96, 1, 1),
    (28, 96, 192, 1, 2),
    (17, 768, 192, 1, 1),
    (14, 320, 640, 1, 1),
    (7, 640, 320, 1, 1),
]
# a sample of these for Winograd's algorithm, with MetaSchedule
WINOGRAD = [
    (56, 48, 96, 3, 1),
    (28, 96, 160, 3, 1),
    (13, 320, 320, 3, 1),
    (7, 320, 640, 3, 1),
    (27, 48, 128, 5, 1),
]
# image, channels, stride
DEPTHWISE = [(112, 32, 1), (56, 144, 2), (28, 192, 1), (14, 576, 1), (7, 960, 1)]
# rows, inputs, outputs
DENSE = [
    (1, 768, 1200),
    (1, 2048, 800),
    (1, 3072, 3072),
    (1, 8192, 2048),
    (16, 1024, 1024),
    (128, 640, 640),
]
# dense layers of transformers, which AutoTVM's prior does not have
MATMUL = [(384, 768, 768), (197, 768, 3072), (64, 512, 2048), (256, 1024, 256)]
# matrices, rows, inputs, columns: attention
BATCH_MATMUL = [
    (12, 196, 64, 196),
    (12, 196, 196, 64),
    (48, 96, 48, 96),
    (64, 64, 32, 64),
    (8, 256, 256, 64),
]
# image, channels, window, stride
POOLS = [(112, 48, 3, 2), (56, 96, 3, 2), (28, 160, 2, 2), (13, 320, 3, 2)]
SOFTMAX, MEANS = [(1, 800), (96, 96)], [(7, 640), (14, 320)]


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
                    knobs[name] = to_json(topology.whole if is_finite else topology)
                ranked = sorted(source.results.items(), key=lambda item: -item[1])
                entry["results"] = [
                    [*source.space[index].values(), float(f"{result / ranked[0][1]:.3g}")]
                    for index, result in subsample(ranked, _RESULTS)
                ]
                file.write(json.dumps(entry, separators=(",", ":")) + "\n")
