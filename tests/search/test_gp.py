"""The graph kernel and the Gaussian process, against their mathematics."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from autotvm_opevo import Space
from autotvm_opevo.search.gp import (
    GaussianProcess,
    GraphKernel,
    Hyperparameters,
    fit_hyperparameters,
    neg_log_posterior,
    prior_median,
)
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
    kernel = GraphKernel(space)
    x = kernel.encode([space.vertices(i) for i in range(space.size)])
    return kernel.pairwise_distances(x).sum(axis=0)


def steps_on(graph):
    """The lengths of shortest paths."""
    ends = [(i, graph.index(v)) for i in range(len(graph)) for v in graph.neighbours(graph[i])]
    rows, columns = np.array(ends, np.int32).T  # all that scipy 1.13 takes
    return shortest_path(
        coo_array((np.ones(len(ends)), (rows, columns)), shape=(len(graph), len(graph))).tocsr(), unweighted=True
    )


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_distances_are_those_on_the_graph(graph):
    assert distances(Space({"x": graph})) == pytest.approx(steps_on(graph))


@pytest.mark.parametrize("neighbours", [lambda value: [value], lambda value: [(value + 2) % 4]], ids=["itself", "one like it"])
def test_neighbours_with_equal_coordinates_are_refused(neighbours):
    class Ring(Discrete):
        def neighbours(self, value):
            return neighbours(value)

        def coordinates(self, value):
            return (value % 2,)

    with pytest.raises(ValueError, match="coordinates must differ between neighbours"):
        GraphKernel(Space({"ring": Ring(range(4))}))


def test_the_distance_of_permutations_is_half_the_number_of_positions_that_differ():
    orders = Permutation(4)
    found = distances(Space({"x": orders}))
    assert found == pytest.approx(np.array([[sum(a != b for a, b in zip(p, q)) / 2 for q in orders] for p in orders]))


@pytest.mark.parametrize("graph", [*GRAPHS.values(), *OTHERS.values()], ids=[*GRAPHS, *OTHERS])
@pytest.mark.parametrize("q", [0.01, 0.5, 0.99])
def test_the_kernel_is_positive_definite_on_every_topology(graph, q):
    space = Space({"x": graph})
    walks = GraphKernel(space)
    x = walks.encode([space.vertices(i) for i in range(space.size)])
    kernel = walks.gram(x, x, np.array([-np.log(q)]))
    assert kernel == pytest.approx(q ** distances(space))
    assert np.linalg.eigvalsh(kernel).min() > 0
    assert np.diag(kernel) == pytest.approx(1)


def test_the_kernel_factorises_over_knobs():
    knobs = {"tile": Factorization(12, 2), "order": Permutation(3), "unroll": Discrete([0, 16, 64])}
    space = Space(knobs)
    inverse_lengthscales = np.array([0.3, 1.0, 0.05])
    kernel = GraphKernel(space)
    x = kernel.encode([space.vertices(i) for i in range(space.size)])
    each = [np.exp(-a * distances(Space({name: knob}))) for a, (name, knob) in zip(inverse_lengthscales, knobs.items())]
    assert kernel.gram(x, x, inverse_lengthscales) == pytest.approx(np.kron(np.kron(each[0], each[1]), each[2]))


def test_an_induced_subgraph_has_the_distances_of_the_whole_graph():
    tiles, things = Factorization(64, 2), Categorical("abcde")
    for whole, part in ((tiles, [(64, 1), (8, 8), (4, 16)]), (things, ["a", "c", "e"])):
        rows = [whole.index(value) for value in part]
        assert distances(Space({"x": InducedSubgraph(whole, part)})) == pytest.approx(
            distances(Space({"x": whole}))[np.ix_(rows, rows)]
        )


def test_the_kernel_works_on_graphs_too_large_to_enumerate():
    knobs = {"tile": Factorization(2**40 * 3**20, 6), "order": Permutation(12), "thing": Categorical(range(100_000))}
    space = Space(knobs)
    rng = np.random.default_rng(0)
    vertices = [[int(rng.integers(min(knob.size, 2**62))) for knob in knobs.values()] for _ in range(60)]
    kernel = GraphKernel(space)
    x = kernel.encode(vertices)
    gram = kernel.gram(x, x, np.array([0.02, 0.1, 0.5]))
    assert np.linalg.eigvalsh(gram).min() > 0
    first, second = (knobs["order"][row[1]] for row in vertices[:2])
    assert kernel.pairwise_distances(x)[1, 0, 1] == sum(a != b for a, b in zip(first, second)) / 2


def sample(space, n, seed=0):
    """A kernel, distinct configurations encoded by it, and targets that depend on the knobs."""
    rng = np.random.default_rng(seed)
    kernel = GraphKernel(space)
    numbers = rng.choice(space.size, n, replace=False)
    x = kernel.encode([space.vertices(int(i)) for i in numbers])
    return kernel, x, x @ rng.normal(size=x.shape[1]) + 0.1 * rng.normal(size=n)


SPACE = Space({"tile": Factorization(64, 3), "order": Permutation(3), "unroll": Discrete(range(9)), "flag": Categorical("ab")})


@pytest.mark.properties
@given(seed=st.integers(0, 100), shift=st.floats(-1.5, 1.5), noise=st.floats(-6, -0.5))
def test_the_gradient_of_the_log_posterior_is_that_of_finite_differences(seed, shift, noise):
    kernel, x, targets = sample(SPACE, 30, seed)
    distances = kernel.pairwise_distances(x)
    at = np.append(np.log(0.2) + shift * np.array([1, -1, 0.5, 0]), noise)
    targets = targets - targets.mean()
    found = neg_log_posterior(at, distances, targets)[1]
    expected = approx_fprime(at, lambda x: neg_log_posterior(x, distances, targets)[0], 1e-6)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_an_irrelevant_knob_gets_a_long_lengthscale():
    space = Space({"matters": Discrete(range(12)), "does not": Discrete(range(12))})
    kernel = GraphKernel(space)
    numbers = np.random.default_rng(0).choice(space.size, 60, replace=False)
    x = kernel.encode([space.vertices(int(i)) for i in numbers])
    hyperparameters = fit_hyperparameters(kernel.pairwise_distances(x), np.sin(x[:, 0] * 1.5), prior_median(2))
    assert hyperparameters.inverse_lengthscales[1] < 0.02 < 0.2 < hyperparameters.inverse_lengthscales[0]


def test_the_posterior_is_that_of_a_dense_solution():
    kernel, x, targets = sample(SPACE, 40)
    train_x, others = x[:25], x[25:]
    hyperparameters = Hyperparameters(np.array([0.3, 0.6, 0.1, 0.9]), 0.05)
    both = np.stack([targets[:25], np.exp(targets[:25])], axis=1)
    posterior = GaussianProcess(kernel, train_x, both, hyperparameters).posterior(others)

    gram = np.exp(-np.tensordot(hyperparameters.inverse_lengthscales, kernel.pairwise_distances(x), 1))
    inverse = np.linalg.inv(gram[:25, :25] + 0.05 * np.eye(25))
    cross = gram[25:, :25]
    for output in range(2):
        y = both[:, output] - both[:, output].mean()
        assert posterior.mean[:, output] == pytest.approx(both[:, output].mean() + cross @ inverse @ y, rel=1e-5)
        variance = y @ inverse @ y / 25 * (1 - np.einsum("ij,jk,ik->i", cross, inverse, cross))
        assert posterior.stddev(output) == pytest.approx(np.sqrt(variance), rel=1e-5)


def test_conditioning_on_a_point_leaves_the_variance_that_its_result_would():
    kernel, x, targets = sample(SPACE, 40)
    hyperparameters = Hyperparameters(np.array([0.3, 0.6, 0.1, 0.9]), 0.05)
    posterior = GaussianProcess(kernel, x[:25], targets[:25, None], hyperparameters).posterior(x[25:])
    before = posterior.stddev(0)
    posterior.condition_on(3)
    posterior.condition_on(7)
    result = GaussianProcess(kernel, x[[*range(25), 28, 32]], np.arange(27.0)[:, None], hyperparameters).posterior(x[25:])
    assert posterior.stddev(0) / posterior._sigma == pytest.approx(result.stddev(0) / result._sigma, rel=1e-6)
    assert (posterior.stddev(0) <= before).all()
