"""The q-walk's kernel and the Gaussian process that has it, against their mathematics."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from autotvm_opevo import Space
from autotvm_opevo.search.gp import Kernel, Process, Rates, believed, improbability, learned
from autotvm_opevo.topology import Categorical, Discrete, Factorization, InducedSubgraph, Permutation, Tiling

GRAPHS = {
    "line": Discrete([1, 2, 4, 9, 100]),
    "things": Categorical(["a", "b", "c", "d"]),
    "one prime": Factorization(32, 3),
    "two primes": Factorization(72, 3),
}
OTHERS = {
    "orders": Permutation(4),
    "filtered tiles": InducedSubgraph(Factorization(64, 3), [v for v in Factorization(64, 3) if v[2] in (1, 4, 16)]),
    "tiles with tails": InducedSubgraph(Tiling(list(product([1, 2, 4, 12], repeat=2))), list(product([1, 2, 4, 12], repeat=2))),
    "one value": Discrete([7]),
    "one tile": Factorization(1, 3),
    "many things": Categorical(range(300)),
}


def distances(space):
    """Between all configurations, in steps."""
    kernel = Kernel(space)
    points = kernel.points([space.vertices(i) for i in range(space.size)])
    return kernel.distances(points).sum(axis=0)


def steps_on(graph):
    """The lengths of shortest paths."""
    ends = [(i, graph.index(v)) for i in range(len(graph)) for v in graph.neighbours(graph[i])]
    rows, columns = np.array(ends).T
    return shortest_path(
        coo_array((np.ones(len(ends)), (rows, columns)), shape=(len(graph), len(graph))).tocsr(), unweighted=True
    )


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_distances_are_those_on_the_graph(graph):
    assert distances(Space({"x": graph})) == pytest.approx(steps_on(graph))


@pytest.mark.parametrize("neighbours", [lambda value: [value], lambda value: [(value + 2) % 4]], ids=["itself", "one like it"])
def test_neighbours_that_coordinates_do_not_tell_apart_are_refused(neighbours):
    class Ring(Discrete):
        def neighbours(self, value):
            return neighbours(value)

        def coordinates(self, value):
            return (value % 2,)

    with pytest.raises(ValueError, match="coordinates must tell neighbours apart"):
        Kernel(Space({"ring": Ring(range(4))}))


def test_an_order_is_half_as_far_as_there_are_loops_in_other_places():
    orders = Permutation(4)
    found = distances(Space({"x": orders}))
    assert found == pytest.approx(np.array([[sum(a != b for a, b in zip(p, q)) / 2 for q in orders] for p in orders]))


@pytest.mark.parametrize("graph", [*GRAPHS.values(), *OTHERS.values()], ids=[*GRAPHS, *OTHERS])
@pytest.mark.parametrize("q", [0.01, 0.5, 0.99])
def test_the_kernel_is_positive_definite_on_every_topology(graph, q):
    space = Space({"x": graph})
    walks = Kernel(space)
    points = walks.points([space.vertices(i) for i in range(space.size)])
    kernel = walks.correlations(points, points, np.array([-np.log(q)]))
    assert kernel == pytest.approx(q ** distances(space))
    assert np.linalg.eigvalsh(kernel).min() > 0
    assert np.diag(kernel) == pytest.approx(1)


def test_the_kernel_factorises_over_knobs():
    knobs = {"tile": Factorization(12, 2), "order": Permutation(3), "unroll": Discrete([0, 16, 64])}
    space = Space(knobs)
    decay = np.array([0.3, 1.0, 0.05])
    kernel = Kernel(space)
    points = kernel.points([space.vertices(i) for i in range(space.size)])
    each = [np.exp(-rate * distances(Space({name: knob}))) for rate, (name, knob) in zip(decay, knobs.items())]
    assert kernel.correlations(points, points, decay) == pytest.approx(np.kron(np.kron(each[0], each[1]), each[2]))


def test_a_part_of_a_graph_has_the_distances_of_the_whole():
    tiles, things = Factorization(64, 2), Categorical("abcde")
    for whole, part in ((tiles, [(64, 1), (8, 8), (4, 16)]), (things, ["a", "c", "e"])):
        rows = [whole.index(value) for value in part]
        assert distances(Space({"x": InducedSubgraph(whole, part)})) == pytest.approx(
            distances(Space({"x": whole}))[np.ix_(rows, rows)]
        )


def test_graphs_that_nobody_could_list_have_the_same_kernel():
    knobs = {"tile": Factorization(2**40 * 3**20, 6), "order": Permutation(12), "thing": Categorical(range(100_000))}
    space = Space(knobs)
    rng = np.random.default_rng(0)
    vertices = [[int(rng.integers(min(knob.size, 2**62))) for knob in knobs.values()] for _ in range(60)]
    kernel = Kernel(space)
    points = kernel.points(vertices)
    correlations = kernel.correlations(points, points, np.array([0.02, 0.1, 0.5]))
    assert np.linalg.eigvalsh(correlations).min() > 0
    first, second = (knobs["order"][row[1]] for row in vertices[:2])
    assert kernel.distances(points)[1, 0, 1] == sum(a != b for a, b in zip(first, second)) / 2


def drawn(space, n, seed=0):
    """A kernel, distinct configurations as its points, and values that depend on the knobs."""
    rng = np.random.default_rng(seed)
    kernel = Kernel(space)
    numbers = rng.choice(space.size, n, replace=False)
    points = kernel.points([space.vertices(int(i)) for i in numbers])
    return kernel, points, points @ rng.normal(size=points.shape[1]) + 0.1 * rng.normal(size=n)


SPACE = Space({"tile": Factorization(64, 3), "order": Permutation(3), "unroll": Discrete(range(9)), "flag": Categorical("ab")})


@pytest.mark.properties
@given(seed=st.integers(0, 100), shift=st.floats(-1.5, 1.5), noise=st.floats(-6, -0.5))
def test_the_likelihoods_gradient_is_that_of_finite_differences(seed, shift, noise):
    kernel, points, values = drawn(SPACE, 30, seed)
    per_knob = kernel.distances(points)
    at = np.append(np.log(0.2) + shift * np.array([1, -1, 0.5, 0]), noise)
    values = values - values.mean()
    found = improbability(at, per_knob, values)[1]
    expected = approx_fprime(at, lambda x: improbability(x, per_knob, values)[0], 1e-6)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_a_knob_that_does_not_matter_is_found_out():
    space = Space({"matters": Discrete(range(12)), "does not": Discrete(range(12))})
    kernel = Kernel(space)
    numbers = np.random.default_rng(0).choice(space.size, 60, replace=False)
    points = kernel.points([space.vertices(int(i)) for i in numbers])
    rates = learned(kernel.distances(points), np.sin(points[:, 0] * 1.5), believed(2))
    assert rates.decay[1] < 0.02 < 0.2 < rates.decay[0]


def test_expectations_are_those_of_a_dense_solution():
    kernel, points, values = drawn(SPACE, 40)
    told, others = points[:25], points[25:]
    rates = Rates(np.array([0.3, 0.6, 0.1, 0.9]), 0.05)
    both = np.stack([values[:25], np.exp(values[:25])], axis=1)
    expected = Process(kernel, told, both, rates).expect(others)

    correlations = np.exp(-np.tensordot(rates.decay, kernel.distances(points), 1))
    inverse = np.linalg.inv(correlations[:25, :25] + 0.05 * np.eye(25))
    between = correlations[25:, :25]
    for kind in range(2):
        y = both[:, kind] - both[:, kind].mean()
        assert expected.mean[:, kind] == pytest.approx(both[:, kind].mean() + between @ inverse @ y, rel=1e-5)
        variance = y @ inverse @ y / 25 * (1 - np.einsum("ij,jk,ik->i", between, inverse, between))
        assert expected.deviation(kind) == pytest.approx(np.sqrt(variance), rel=1e-5)


def test_choosing_a_point_leaves_the_uncertainty_that_its_result_would():
    kernel, points, values = drawn(SPACE, 40)
    rates = Rates(np.array([0.3, 0.6, 0.1, 0.9]), 0.05)
    expected = Process(kernel, points[:25], values[:25, None], rates).expect(points[25:])
    before = expected.deviation(0)
    expected.choose(3)
    expected.choose(7)
    result = Process(kernel, points[[*range(25), 28, 32]], np.arange(27.0)[:, None], rates).expect(points[25:])
    assert expected.deviation(0) / expected._deviations == pytest.approx(result.deviation(0) / result._deviations, rel=1e-6)
    assert (expected.deviation(0) <= before).all()
