"""The q-random walk: its stopping distribution against appendix A, samples against that
distribution, and graphs over indices.
"""

import numpy as np
import pytest
from scipy.stats import chisquare

from autotvm_opevo import random_walk
from autotvm_opevo.topology import (
    Categorical,
    Discrete,
    Factorization,
    InducedSubgraph,
    Permutation,
)

GRAPHS = [
    Factorization(8, parts=3),
    Factorization(360, parts=2),
    Permutation(4),
    Discrete([0, 16, 64, 512, 1500]),
    Categorical(["a", "b", "c", "d"]),
    InducedSubgraph(
        Factorization(64, parts=3), [(64, 1, 1), (1, 64, 1), (1, 32, 2), (4, 4, 4), (8, 4, 2)]
    ),
]
SINGLE_VERTEX = [Factorization(1, parts=4), Permutation(1), Discrete([7]), Categorical(["only"])]


def dense_distribution(graph, start, q):
    """Appendix A with dense matrices and a series instead of a solve: S = (1 - q) (p0 + Q p0 + Q Q
    p0 + ...).
    """
    n = len(graph)
    step = np.zeros((n, n))
    for u in range(n):
        neighbours = graph.neighbours(graph[u])
        for value in neighbours:
            step[graph.index(value), u] = q / len(neighbours)
    p = np.zeros(n)
    p[graph.index(start)] = 1 - q
    probabilities = np.zeros(n)
    while p.sum() > 1e-18:
        probabilities, p = probabilities + p, step @ p
    return probabilities


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_distribution_is_the_series_of_appendix_a(graph, q):
    for start in graph:
        expected = dense_distribution(graph, start, q)
        np.testing.assert_allclose(random_walk.distribution(graph, start, q), expected, rtol=1e-9)


@pytest.mark.parametrize("q", [0.01, 0.5, 0.99, 0.99999])
@pytest.mark.parametrize("graph", [*GRAPHS, *SINGLE_VERTEX], ids=repr)
def test_distribution_sums_to_one_and_is_positive_on_connected_graphs(graph, q):
    probabilities = random_walk.distribution(graph, graph[0], q)
    assert probabilities.shape == (len(graph),)
    assert probabilities.sum() == pytest.approx(1, abs=1e-9)
    assert (probabilities > 0).all()


def test_tiny_probabilities_are_not_lost_to_rounding():
    """The far end of a path is q**7 / 2**6 times a little more than 1 - q away."""
    q = 1e-3
    probabilities = random_walk.distribution(Discrete(range(8)), 0, q)
    assert probabilities[7] == pytest.approx((1 - q) * q**7 / 2**6, rel=1e-4)


def one_by_one(graph, starts, q, rng):
    return [random_walk.sample(graph, start, q, rng) for start in starts]


@pytest.mark.parametrize("sample", [one_by_one, random_walk.sample_many])
@pytest.mark.parametrize("q", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_samples_follow_the_distribution(graph, q, sample):
    """Chi-squared test of 1,000 walks: a correct sampler fails it with probability 1e-4, and the
    seed is fixed.
    """
    rng = np.random.default_rng(20210)
    start, walks = graph[0], 1000
    stops = np.bincount(
        [graph.index(stop) for stop in sample(graph, [start] * walks, q, rng)],
        minlength=len(graph),
    )
    expected = walks * random_walk.distribution(graph, start, q)
    rare = expected < 5  # too few for the chi-squared approximation: rare vertices are pooled
    observed, expected = (
        np.append(counts[~rare], counts[rare].sum()) for counts in (stops, expected)
    )
    kept = expected > 0
    assert chisquare(observed[kept], expected[kept] * (walks / expected[kept].sum())).pvalue > 1e-4


def test_walk_stops_at_isolated_vertices():
    class TwoIslands(Discrete):
        def neighbours(self, value):
            return []

    islands = TwoIslands([1, 2])
    assert random_walk.distribution(islands, 2, 0.5).tolist() == pytest.approx([0.0, 1.0])
    assert random_walk.sample(islands, 2, 0.999, np.random.default_rng(0)) == 2
    assert random_walk.sample_many(islands, [2, 1], 0.999, np.random.default_rng(0)) == [2, 1]


@pytest.mark.parametrize("q", [0, 1, -0.5, 2, float("nan"), "half", None])
def test_rates_outside_zero_and_one_are_rejected(q):
    with pytest.raises(ValueError, match=r"q must be greater than 0 and less than 1, .* given"):
        random_walk.sample(Discrete([1, 2]), 1, q, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"q must be greater than 0 and less than 1"):
        random_walk.distribution(Discrete([1, 2]), 1, q)


def test_invalid_starts_are_rejected():
    with pytest.raises(ValueError, match="value 3 given"):
        random_walk.distribution(Discrete([1, 2]), 3, 0.5)


@pytest.mark.parametrize(
    "topology", [Factorization(60, parts=3), Categorical(range(1001))], ids=["cached", "not cached"]
)
def test_neighbours_by_index_are_those_of_the_topology(topology):
    graph = random_walk.IndexedGraph(topology)
    for vertex in (0, 1, topology.size // 2, topology.size - 1):
        expected = [topology.index(value) for value in topology.neighbours(topology[vertex])]
        for _ in range(2):
            assert list(graph.neighbours(vertex)) == expected


def test_only_small_graphs_are_cached():
    small, large = (
        random_walk.IndexedGraph(Categorical(range(1000))),
        random_walk.IndexedGraph(Categorical(range(1001))),
    )
    assert small.neighbours(3) is small.neighbours(3)
    assert large.neighbours(3) is not large.neighbours(3)
