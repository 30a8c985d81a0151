"""Topologies of all kinds and of several sizes."""

from autotvm_opevo.topology import (
    Categorical,
    Discrete,
    Factorization,
    InducedSubgraph,
    Permutation,
    Tiling,
)

TOPOLOGIES = [
    Factorization(64, parts=2),
    Factorization(12, parts=2),
    Factorization(3600, parts=2),
    Factorization(30030, parts=2),
    Factorization(8, parts=3),
    Factorization(360, parts=3),
    Factorization(256, parts=4),
    Factorization(24, parts=5),
    Permutation(4),
    Discrete([0, 1, 5, 1500]),
    Categorical(list("abcdefg")),
    Categorical("ab"),
    InducedSubgraph(
        Tiling([(a, b) for a in (1, 2, 4, 16) for b in (1, 8)]),
        [(a, b) for a in (1, 2, 4, 16) for b in (1, 8)],
    ),
    InducedSubgraph(Permutation(3), [(0, 1, 2), (2, 1, 0)]),
]
