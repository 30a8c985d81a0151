"""The kernel on graphs and tasks, against its mathematics."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from autotvm_opevo import Space
from autotvm_opevo.search.gp import GraphKernel
from autotvm_opevo.search.transfer import MultiTaskKernel, SharedKnob
from autotvm_opevo.topology import (
    Categorical,
    Discrete,
    Factorization,
    InducedSubgraph,
    Permutation,
    Tiling,
)

GRAPHS = {
    "line": Discrete([1, 2, 4, 9, 100]),
    "things": Categorical(["a", "b", "c", "d"]),
    "one prime": Factorization(32, 3),
    "two primes": Factorization(72, 3),
}
OTHERS = {
    "orders": Permutation(4),
    "filtered tiles": InducedSubgraph(
        Factorization(64, 3), [v for v in Factorization(64, 3) if v[2] in (1, 4, 16)]
    ),
    "tiles with tails": InducedSubgraph(
        Tiling(list(product([1, 2, 4, 12], repeat=2))), list(product([1, 2, 4, 12], repeat=2))
    ),
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
        coo_array((np.ones(len(ends)), (rows, columns)), shape=(len(graph), len(graph))).tocsr(),
        unweighted=True,
    )


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_distances_are_those_on_the_graph(graph):
    assert distances(Space({"x": graph})) == pytest.approx(steps_on(graph))


@pytest.mark.parametrize(
    "neighbours",
    [lambda value: [value], lambda value: [(value + 2) % 4]],
    ids=["itself", "one like it"],
)
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
    assert found == pytest.approx(
        np.array([[sum(a != b for a, b in zip(p, q)) / 2 for q in orders] for p in orders])
    )


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
    each = [
        np.exp(-a * distances(Space({name: knob})))
        for a, (name, knob) in zip(inverse_lengthscales, knobs.items())
    ]
    assert kernel.gram(x, x, inverse_lengthscales) == pytest.approx(
        np.kron(np.kron(each[0], each[1]), each[2])
    )


def test_the_kernel_works_on_graphs_too_large_to_enumerate():
    knobs = {
        "tile": Factorization(2**40 * 3**20, 6),
        "order": Permutation(12),
        "thing": Categorical(range(100_000)),
    }
    space = Space(knobs)
    rng = np.random.default_rng(0)
    vertices = [
        [int(rng.integers(min(knob.size, 2**62))) for knob in knobs.values()] for _ in range(60)
    ]
    kernel = GraphKernel(space)
    x = kernel.encode(vertices)
    gram = kernel.gram(x, x, np.array([0.02, 0.1, 0.5]))
    assert np.linalg.eigvalsh(gram).min() > 0
    first, second = (knobs["order"][row[1]] for row in vertices[:2])
    assert kernel.pairwise_distances(x)[1, 0, 1] == sum(a != b for a, b in zip(first, second)) / 2


TILES = {"x": Factorization(16, 3), "unroll": Discrete([0, 16]), "y": Factorization(24, 3)}


class TestLogSums:
    def sums(self, kernel, x):
        """The columns of log-sums, behind those of the three knobs."""
        return x[:, np.isin(kernel._knob_of, [3, 4, 5])]

    def test_they_are_half_the_sums_of_the_logarithms_of_the_same_parts(self):
        space = Space(TILES)
        kernel = GraphKernel(space)
        configurations = [
            {"x": (2, 4, 2), "unroll": 16, "y": (1, 3, 8)},
            {"x": (16, 1, 1), "unroll": 0, "y": (24, 1, 1)},
        ]
        x = kernel.encode(
            [space.vertices(space.index(configuration)) for configuration in configurations]
        )
        assert self.sums(kernel, x) == pytest.approx(np.log2([[2, 12, 16], [384, 1, 1]]) / 2)
        assert kernel.size == 3 + 3

    def test_configurations_with_the_same_products_are_near_each_other_where_only_products_matter(
        self,
    ):
        """They have the correlation that the knobs themselves leave, here all of it."""
        space = Space(TILES)
        kernel = GraphKernel(space)
        configurations = [
            {"x": x, "unroll": 0, "y": y}
            for x, y in [
                ((4, 2, 2), (1, 3, 8)),
                ((2, 2, 4), (2, 3, 4)),
                ((1, 2, 8), (1, 3, 8)),
                ((4, 2, 2), (2, 3, 4)),
            ]
        ]
        x = kernel.encode(
            [space.vertices(space.index(configuration)) for configuration in configurations]
        )
        gram = kernel.gram(x, x, np.array([0, 0, 0, 0.2, 0.3, 0.4]))
        assert gram[0, 1] == pytest.approx(1)
        assert gram[0, 2] == pytest.approx(np.exp(-0.2 * 2 / 2 - 0.4 * 2 / 2))
        assert gram[0, 3] == pytest.approx(np.exp(-0.2 / 2 - 0.4 / 2))

    @pytest.mark.parametrize(
        "knobs",
        [
            {"x": Factorization(16, 2), "y": Factorization(16, 2)},
            {"x": Factorization(16, 3), "y": Factorization(16, 4)},
            {"x": Factorization(16, 3), "y": Permutation(3)},
        ],
        ids=["two parts", "other parts", "an order"],
    )
    def test_only_factorizations_with_the_same_three_or_more_parts_have_them(self, knobs):
        assert GraphKernel(Space(knobs)).size == 2

    def test_another_task_has_them_of_its_own_tiles_whose_outermost_part_makes_up_the_extent(self):
        own, other = Space(TILES), {"x": (8, 4, 2), "y": (1, 3, 8)}  # of 64 and 24
        kernel = MultiTaskKernel(
            own, [Space({"x": Factorization(64, 3), "y": Factorization(24, 3)})]
        )
        assert self.sums(kernel, kernel.encode_other(0, [other])) == pytest.approx(
            np.log2([[2, 12, 16]]) / 2
        )

    def test_a_tile_that_another_task_lacks_counts_as_all_parts_alike(self):
        kernel = MultiTaskKernel(Space(TILES), [Space({"x": Factorization(16, 3)})])
        sums = self.sums(kernel, kernel.encode_other(0, [{"x": (2, 4, 2)}]))
        assert sums == pytest.approx((np.log2([[2, 4, 2]]) + np.log2(24) / 3) / 2)

    @pytest.mark.properties
    @given(st.lists(st.floats(0, 3), min_size=6, max_size=6), st.data())
    def test_the_kernel_is_positive_semidefinite(self, inverse_lengthscales, data):
        space = Space(TILES)
        numbers = data.draw(
            st.lists(st.integers(0, space.size - 1), min_size=2, max_size=40, unique=True)
        )
        kernel = GraphKernel(space)
        x = kernel.encode(map(space.vertices, numbers))
        gram = kernel.gram(x, x, np.array(inverse_lengthscales))
        assert np.linalg.eigvalsh(gram).min() > -1e-9
        steps = kernel.pairwise_distances(x)
        assert gram == pytest.approx(np.exp(-np.tensordot(inverse_lengthscales, steps, 1)))


class TestOtherTasks:
    def encoded(self, knob, other, values):
        """Coordinates of the values of a knob of another task, beside those of the knob's own."""
        shared = SharedKnob(knob, [other])
        own, found = map(shared.encode, knob), (shared.encode_other(0, value) for value in values)
        return [value.coordinates.tolist() for value in own], [
            value.coordinates.tolist() for value in found
        ]

    def test_tiles_of_other_extents_are_compared_by_the_logarithms_of_their_parts(self):
        knob = SharedKnob(Factorization(64, 2), [Factorization(96, 2)])
        own, step = (knob.encode(value).coordinates for value in ((8, 8), (16, 4)))
        same, other = (knob.encode_other(0, value).coordinates for value in ((12, 8), (8, 12)))
        assert same == pytest.approx(own)  # the outermost part makes up for the extent
        assert abs(own - other).sum() == pytest.approx(np.log2(1.5))
        assert abs(own - step).sum() == pytest.approx(1)

    def test_knobs_with_the_same_values_have_the_distances_of_the_graph(self):
        for graph in [*GRAPHS.values(), *OTHERS.values()]:
            space = Space({"x": graph})
            kernel = MultiTaskKernel(space, [space])
            own = kernel.encode([(i,) for i in range(graph.size)])
            other = kernel.encode_other(0, [{"x": value} for value in graph])
            assert np.array_equal(own[:, :-1], other[:, :-1])
            assert kernel.pairwise_distances(own)[0] == pytest.approx(distances(space))

    def test_numbers_are_compared_by_value(self):
        _, found = self.encoded(Discrete([0, 16, 64]), Discrete([0, 40, 64, 512]), [0, 40, 64, 512])
        assert found == [[0], [1.5], [2], [2]]

    def test_categories_are_compared_by_what_they_say(self):
        own, found = self.encoded(
            Categorical(["none", "vec"]), Categorical(["vec", "unroll"]), ["vec", "unroll"]
        )
        assert found[0] == own[1]
        assert found[1] not in own

    @pytest.mark.parametrize(
        "other", [None, Discrete([1, 2]), Factorization(64, 2), Permutation(3)]
    )
    def test_a_knob_of_another_kind_is_as_far_from_all_values_as_their_average(self, other):
        own, (found,) = self.encoded(Factorization(64, 3), other, [None])
        assert found == pytest.approx(np.mean(own, axis=0))

    def test_a_category_that_only_one_task_has_is_a_step_from_all_others(self):
        kernel = MultiTaskKernel(Space({"x": Categorical("ab")}), [Space({"y": Categorical("ab")})])
        x = np.concatenate([kernel.encode([(0,), (1,)]), kernel.encode_other(0, [{"y": "a"}])])
        assert kernel.pairwise_distances(x)[0] == pytest.approx(1 - np.eye(3))

    def test_the_task_is_a_knob_whose_graph_is_a_star_around_the_task_that_is_tuned(self):
        space = Space({"x": Discrete(range(3))})
        kernel = MultiTaskKernel(space, [space, space])
        rows = [kernel.encode([(1,)]), *(kernel.encode_other(task, [{"x": 1}]) for task in (0, 1))]
        steps = kernel.pairwise_distances(np.concatenate(rows))
        assert steps[1:].sum(axis=0) == pytest.approx(np.array([[0, 1, 1], [1, 0, 2], [1, 2, 0]]))
        gram = kernel.gram(rows[0], rows[2], np.array([1.0, 0.5, 0.3]))
        assert gram == pytest.approx(np.exp(-0.3))

    @pytest.mark.properties
    @given(
        st.integers(1, 60), st.integers(1, 60), st.lists(st.floats(0.01, 3), min_size=5, max_size=5)
    )
    def test_the_kernel_is_positive_definite_across_tasks(
        self, extent, other_extent, inverse_lengthscales
    ):
        def space(extent, *more):
            return Space(
                {"tile": Factorization(extent, 2), "unroll": Discrete([0, extent]), **dict(more)}
            )

        own = space(extent, ("flag", Categorical("ab")))
        others = [space(other_extent), space(extent, ("flag", Categorical("bc")))]
        kernel = MultiTaskKernel(own, others)
        x = [kernel.encode(map(own.vertices, range(own.size)))]
        x += [
            kernel.encode_other(task, map(other.__getitem__, range(other.size)))
            for task, other in enumerate(others)
        ]
        distinct = np.unique(np.concatenate(x), axis=0)
        assert (
            np.linalg.eigvalsh(
                kernel.gram(distinct, distinct, np.array(inverse_lengthscales))
            ).min()
            > -1e-9
        )

    def test_the_nearest_configuration_has_the_same_inner_tiles(self):
        own, other = (
            Space({"tile": Factorization(extent, 3), "unroll": Discrete([0, 16])})
            for extent in (128, 512)
        )
        kernel = MultiTaskKernel(own, [other])
        nearest = own[own.number(kernel.nearest(0, {"tile": (16, 4, 8), "unroll": 16}))]
        assert nearest == {"tile": (4, 4, 8), "unroll": 16}
        # no quarter of it
        assert (
            own[own.number(kernel.nearest(0, {"tile": (1, 32, 16), "unroll": 0}))]["tile"][0] == 1
        )

    def test_the_nearest_value_of_a_large_graph_is_nearer_than_its_neighbours(self):
        own = Factorization(2**12 * 3**4, 5)
        assert own.size > 1000
        knob = SharedKnob(own, [Factorization(2**10, 5)])
        value = (4, 4, 4, 4, 4)
        found = own[knob.nearest(0, value)]
        point = knob.encode_other(0, value).coordinates
        distance = abs(knob.encode(found).coordinates - point).sum()
        assert all(
            abs(knob.encode(step).coordinates - point).sum() >= distance
            for step in own.neighbours(found)
        )
