"""Brute-force views of small topologies."""

import numpy as np
from scipy.sparse.csgraph import connected_components


def edges(topology):
    """The edges of the graph as pairs of vertex indices, in both directions."""
    return {(i, topology.index(v)) for i, u in enumerate(topology) for v in topology.neighbours(u)}


def is_connected(topology):
    matrix = np.zeros((len(topology), len(topology)))
    for i, j in edges(topology):
        matrix[i, j] = 1
    return connected_components(matrix)[0] == 1
