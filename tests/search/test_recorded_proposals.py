"""The same seeds and results give the proposals in `recorded_proposals.json`, so that no change of
them goes unnoticed.

Those of the published algorithm and of the baselines are from version 0.1.
"""

import json
import math
from pathlib import Path

import pytest

from autotvm_opevo import OpEvo, Space
from autotvm_opevo.baselines import GBFS, NA2C, NoSE
from autotvm_opevo.topology import (
    Categorical,
    Discrete,
    Factorization,
    InducedSubgraph,
    Permutation,
    Tiling,
)

RECORDED = json.loads((Path(__file__).parent / "recorded_proposals.json").read_text())

TILES = Factorization(256, parts=4)
TILES_WITH_TAILS = [(a, b) for a in (1, 2, 4, 8, 16) for b in (1, 3, 4, 12)]
SPACES = {
    "matmul": Space(
        {
            "tile_y": Factorization(512, parts=4),
            "tile_x": Factorization(96, parts=3),
            "order": Permutation(3),
            "unroll": Discrete([0, 16, 64, 512]),
            "vectorize": Categorical([False, True, "auto"]),
        }
    ),
    "constrained": Space(
        {"tile": TILES, "order": Permutation(4), "explicit": Categorical([0, 1])},
        constraint=lambda c: c["tile"][-1] <= 16 and c["tile"][1] * c["tile"][2] <= 64,
    ),
    "subgraphs": Space(
        {
            "tile": InducedSubgraph(TILES, [value for value in TILES if value[-1] in (4, 8, 32)]),
            "tail": InducedSubgraph(Tiling(TILES_WITH_TAILS), TILES_WITH_TAILS),
            "step": Discrete([1, 2, 3, 5, 8]),
        }
    ),
    "factorizations": Space({"m": Factorization(1024, parts=3), "n": Factorization(360, parts=3)}),
}


def fitness(space, configuration):
    """Smooth in the coordinates, with some noise; 15% fail."""
    number = space.index(configuration)
    noise = number * 2654435761 % 2**32 / 2**32
    if noise < 0.15:
        return 0.0
    height = 0.0
    for k, (name, knob) in enumerate(space.knobs.items()):
        position = sum((n + 1) * y for n, y in enumerate(knob.coordinates(configuration[name])))
        height += math.sin(0.7 * position + k)
    return round(math.exp(0.5 * height) * (1 + 0.1 * noise), 6)


def proposals(search, trials, batch):
    space, proposed = search.space, []
    while len(proposed) < trials:
        configurations = search.ask(min(batch, trials - len(proposed)))
        proposed += map(space.index, configurations)
        search.tell(
            configurations, [fitness(space, configuration) for configuration in configurations]
        )
    return proposed


# In batches of 1, a process is fitted for each proposal.
@pytest.mark.parametrize(
    ("seed", "batch", "trials"),
    [
        (0, 1, 40),
        (0, 8, None),
        *(
            pytest.param(seed, batch, None, marks=pytest.mark.soak)
            for seed, batch in ((1, 8), (0, 1), (1, 1))
        ),
    ],
)
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("surrogate", ["gp", None], ids=["gp", "published"])
def test_opevo_proposes_as_it_did(surrogate, name, seed, batch, trials):
    recorded = RECORDED[f"{surrogate or 'published'} {name} seed={seed} batch={batch}"][:trials]
    assert (
        proposals(OpEvo(SPACES[name], seed=seed, surrogate=surrogate), len(recorded), batch)
        == recorded
    )


@pytest.mark.parametrize(
    ("baseline", "name"),
    [
        *(("NoSE", name) for name in SPACES),
        ("G-BFS", "factorizations"),
        ("N-A2C", "factorizations"),
    ],
)
def test_baselines_propose_as_they_did(baseline, name):
    recorded = RECORDED[f"{baseline} {name}"]
    make = {"NoSE": NoSE, "G-BFS": GBFS, "N-A2C": NA2C}[baseline]
    assert proposals(make(SPACES[name], seed=0), len(recorded), batch=8) == recorded
