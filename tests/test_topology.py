"""Topologies against the definitions of Section 3, by brute force on small cases."""

import tracemalloc
from itertools import combinations, permutations, product
from math import factorial, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components
from scipy.stats import chisquare

from autotvm_opevo import random_walk
from autotvm_opevo.topology import Categorical, Discrete, Factorization, InducedSubgraph, Permutation, Tiling, Topology, check

SMALL = [
    Factorization(1, parts=1),
    Factorization(1, parts=3),
    Factorization(7, parts=1),
    Factorization(8, parts=3),
    Factorization(60, parts=3),
    Factorization(36, parts=4),
    Factorization(97, parts=2),
    Permutation(1),
    Permutation(2),
    Permutation(4),
    Discrete([3]),
    Discrete([0, 16, 64.5, 512]),
    Categorical(["x"]),
    Categorical([False, True, 0, 1, None, "a", (1, 2), [1, 2], {"k": 1}]),
    InducedSubgraph(Factorization(60, parts=3), [(60, 1, 1), (30, 2, 1), (1, 1, 60), (1, 60, 1), (2, 5, 6)]),
    InducedSubgraph(Tiling([(16, 4), (1, 15)]), [(16, 4), (8, 4), (15, 4), (1, 1), (3, 1)]),
]


def adjacency(topology):
    """The graph as a set of index pairs."""
    return {(i, topology.index(v)) for i, u in enumerate(topology) for v in topology.neighbours(u)}


def connected(topology):
    matrix = np.zeros((len(topology), len(topology)))
    for i, j in adjacency(topology):
        matrix[i, j] = 1
    return connected_components(matrix)[0] == 1


@pytest.mark.parametrize("topology", SMALL, ids=repr)
class TestEveryTopology:
    def test_numbers_its_vertices(self, topology):
        values = list(topology)
        assert len(values) == len(topology) == topology.size
        assert [topology.index(value) for value in values] == list(range(len(topology)))
        assert all(value in topology for value in values)

    def test_is_an_undirected_graph_without_loops(self, topology):
        edges = adjacency(topology)
        assert all(i != j for i, j in edges)
        assert edges == {(j, i) for i, j in edges}

    def test_names_every_neighbour_once(self, topology):
        for value in topology:
            numbers = [topology.index(neighbour) for neighbour in topology.neighbours(value)]
            assert len(numbers) == len(set(numbers)) == len(topology.neighbours(value))

    def test_is_what_check_asks_for(self, topology):
        check(topology)

    def test_is_connected(self, topology):
        assert connected(topology)

    def test_draws_vertices_uniformly(self, topology):
        rng = np.random.default_rng(1)
        drawn = np.bincount([topology.index(topology.sample(rng)) for _ in range(50 * len(topology))], minlength=len(topology))
        assert len(topology) == 1 or chisquare(drawn).pvalue > 1e-4

    def test_refuses_what_is_not_a_vertex(self, topology):
        for stranger in ["stranger", (0, 0), -1, object()]:
            assert stranger not in topology
            with pytest.raises(ValueError, match="given, allowed are"):
                topology.neighbours(stranger)
        for index in (-1, len(topology)):
            with pytest.raises(IndexError, match=f"vertex number {index} given"):
                topology[index]

    def test_gives_values_back_as_plain_python(self, topology):
        if isinstance(topology, (Factorization, Permutation)):
            for value in topology:
                assert all(type(part) is int for part in value)
                for neighbour in topology.neighbours(np.array(value)):
                    assert all(type(part) is int for part in neighbour)


@pytest.mark.parametrize(("c", "nu"), [(1, 2), (8, 3), (60, 3), (36, 4), (128, 2), (97, 3)])
def test_factorizations_are_adjacent_when_a_prime_moves(c, nu):
    divisors = [d for d in range(1, c + 1) if c % d == 0]
    vertices = [v for v in product(divisors, repeat=nu) if prod(v) == c]
    primes = [p for p in divisors if p > 1 and all(p % d for d in range(2, p))]

    def adjacent(u, v):
        """g(u, v) as the paper writes it: u_m = v_m z and u_n = v_n / z for a prime z, all else equal."""
        moves = ((m, n, z) for m, n in permutations(range(nu), 2) for z in primes)
        return any(
            v[n] % z == 0 and u == tuple(a * z if j == m else a // z if j == n else a for j, a in enumerate(v))
            for m, n, z in moves
        )

    topology = Factorization(c, parts=nu)
    assert set(topology) == set(vertices)
    for u in vertices:
        assert set(topology.neighbours(u)) == {v for v in vertices if adjacent(u, v)}


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_permutations_are_adjacent_when_two_positions_are_swapped(n):
    topology = Permutation(n)
    assert list(topology) == list(permutations(range(n)))
    for u in topology:
        swaps = {tuple(u[{i: j, j: i}.get(k, k)] for k in range(n)) for i, j in combinations(range(n), 2)}
        assert set(topology.neighbours(u)) == swaps


def test_discrete_values_are_adjacent_when_none_lies_between():
    values = [5, 1, 2.5, 100]
    topology = Discrete(values)
    assert list(topology) == sorted(values)
    for u in values:
        beside = {v for v in values if v != u and not any((w - u) * (w - v) < 0 for w in values)}
        assert set(topology.neighbours(u)) == beside


def test_categorical_values_are_all_adjacent():
    topology = Categorical([False, 0, "a", None])
    for i, u in enumerate(topology):
        assert [topology.index(v) for v in topology.neighbours(u)] == [j for j in range(4) if j != i]


def test_categorical_tells_types_apart_and_takes_numpy_scalars():
    topology = Categorical([False, 0, 0.0, "0"])
    assert [topology.index(value) for value in (False, 0, 0.0, "0")] == [0, 1, 2, 3]
    assert [topology.index(value) for value in (np.bool_(False), np.int64(0), np.float64(0))] == [0, 1, 2]


def test_the_four_figures_of_the_paper():
    """Figure 1: C = 8 and nu = 3; n = 3; {1, 2, 3, 4}; {a, ..., f}."""
    graphs = [Factorization(8, 3), Permutation(3), Discrete([1, 2, 3, 4]), Categorical("abcdef")]
    assert [len(graph) for graph in graphs] == [10, 6, 4, 6]
    assert [len(adjacency(graph)) // 2 for graph in graphs] == [18, 9, 3, 15]


class TestImplicit:
    HUGE = (
        Permutation(12),
        Permutation(40),
        Factorization(2**20 * 3**6, parts=5),
        Factorization(2**60 * 3**30, parts=12),
        Categorical(range(100_000)),
        Discrete(range(100_000)),
    )

    @pytest.mark.parametrize("make", [lambda: Permutation(40), lambda: Factorization(2**60 * 3**30, parts=12)])
    def test_making_one_and_walking_on_it_takes_kilobytes(self, make):
        rng = np.random.default_rng(0)
        tracemalloc.start()
        try:
            topology = make()
            value = topology.sample(rng)
            for _ in range(100):
                value = random_walk.sample(topology, value, 0.9, rng)
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        finally:
            tracemalloc.stop()

    def test_sizes_are_exact_beyond_64_bits(self):
        assert len(Permutation(12)) == factorial(12)
        assert Permutation(40).size == factorial(40)
        assert len(Factorization(2**20 * 3**6, parts=5)) == 2_231_460

    @pytest.mark.parametrize("topology", HUGE, ids=repr)
    def test_random_vertices_and_walks_need_no_enumeration(self, topology):
        rng = np.random.default_rng(0)
        for _ in range(200):
            value = topology.sample(rng)
            assert topology[topology.index(value)] == value
            assert random_walk.sample(topology, value, 0.9, rng) in topology

    def test_random_vertices_beyond_64_bits_are_uniform(self):
        rng = np.random.default_rng(2)
        order = Permutation(25)
        first = [order.sample(rng)[0] for _ in range(2500)]
        assert chisquare(np.bincount(first, minlength=25)).pvalue > 1e-4

    def test_numbers_may_be_beyond_any_float(self):
        assert Discrete([10**400, 1]).neighbours(1) == [10**400]

    def test_ranks_of_big_ones_are_exact(self):
        for topology in self.HUGE:
            for index in (0, 1, topology.size // 3, topology.size - 1):
                assert topology.index(topology[index]) == index


class TestInduced:
    def test_keeps_the_edges_between_its_vertices(self):
        tiles = Factorization(64, parts=3)
        kept = [value for value in tiles if value[-1] <= 8]
        part = InducedSubgraph(tiles, kept)
        assert list(part) == kept
        for value in kept:
            assert set(part.neighbours(value)) == set(tiles.neighbours(value)) & set(kept)

    def test_joins_pieces_where_they_are_nearest(self):
        tiles = Factorization(64, parts=2)  # a path: 64x1, 32x2, ..., 1x64
        part = InducedSubgraph(tiles, [(64, 1), (32, 2), (4, 16), (2, 32)])
        assert [set(part.neighbours(value)) for value in part] == [{(32, 2)}, {(64, 1), (4, 16)}, {(32, 2), (2, 32)}, {(4, 16)}]

    def test_joins_layers_by_all_shortest_bridges(self):
        tiles = Factorization(64, parts=3)
        part = InducedSubgraph(tiles, [value for value in tiles if value[-1] in (1, 16)])
        for value in part:
            if value[-1] == 16:  # 2^0 to 2^2 in the first two parts: every one of these has a bridge
                assert any(neighbour[-1] == 1 for neighbour in part.neighbours(value))

    @pytest.mark.properties
    @given(st.data())
    def test_is_connected_whatever_is_left(self, data):
        graph = data.draw(st.sampled_from([Factorization(720, 3), Permutation(5), Discrete(range(40)), Categorical(range(20))]))
        numbers = data.draw(st.sets(st.integers(0, len(graph) - 1), min_size=1, max_size=25))
        assert connected(InducedSubgraph(graph, [graph[i] for i in sorted(numbers)]))

    @pytest.mark.properties
    @given(st.sets(st.tuples(st.integers(1, 70), st.integers(1, 70)), min_size=1, max_size=20))
    def test_connects_tiles_that_divide_nothing(self, tiles):
        part = InducedSubgraph(Tiling(tiles), sorted(tiles))
        assert connected(part)

    def test_joins_hundreds_of_single_vertices(self):
        rng = np.random.default_rng(0)
        order = Permutation(9)
        assert connected(InducedSubgraph(order, {order.sample(rng): None for _ in range(800)}))

    def test_joins_the_same_whatever_it_holds_at_a_time(self, monkeypatch):
        tiles = Factorization(720, parts=3)
        kept = [value for value in tiles if value[-1] in (1, 9, 16, 80)]
        whole = adjacency(InducedSubgraph(tiles, kept))
        monkeypatch.setattr("autotvm_opevo.topology.subgraph._CHUNK", 8)
        assert adjacency(InducedSubgraph(tiles, kept)) == whole

    def test_of_an_induced_graph(self):
        tiles = Factorization(64, parts=3)
        part = InducedSubgraph(InducedSubgraph(tiles, [v for v in tiles if v[0] <= 8]), [(1, 1, 64), (8, 8, 1), (1, 64, 1)])
        assert connected(part)

    def test_takes_the_lists_of_a_log(self):
        part = InducedSubgraph(Factorization(8, parts=2), [(8, 1), (4, 2)])
        assert part.index([4, 2]) == 1


def test_tiles_with_tails_step_by_a_prime():
    """60 as [-1, 16, 4]: one part times or divided by a prime, or a prime moved between two."""
    values = [(1, 1), (2, 1), (4, 1), (4, 4), (16, 4), (8, 8), (15, 4), (5, 4)]
    neighbours = Tiling(values).neighbours((16, 4))
    assert set(neighbours) == {
        *((32, 4), (48, 4), (80, 4), (16, 8), (16, 12), (16, 20)),
        *((8, 4), (16, 2)),
        *((8, 8), (32, 2)),
    }


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Factorization(0, 2), "product must be an integer of at least 1, 0 given"),
        (lambda: Factorization(8, 0), "parts must be an integer of at least 1, 0 given"),
        (lambda: Factorization(8.5, 2), "product must be an integer of at least 1, 8.5 given"),
        (lambda: Factorization(True, 2), "product must be an integer"),
        (lambda: Factorization((10**9 + 7) * (10**9 + 9), 2), "at most one prime factor beyond"),
        (lambda: Permutation(0), "n must be an integer of at least 1, 0 given"),
        (lambda: Permutation("abc"), "n must be an integer"),
        (lambda: Discrete([]), r"values must have at least one element, \[\] given"),
        (lambda: Discrete(5), "values must have at least one element, 5 given"),
        (lambda: Tiling([(4, 0)]), "values must be an integer of at least 1, 0 given"),
        (lambda: Discrete([1, 1]), "values must all be different"),
        (lambda: Discrete([1, float("nan")]), "values must be finite numbers, nan given"),
        (lambda: Discrete(["a"]), "values must be finite numbers, 'a' given"),
        (lambda: Categorical([]), "values must have at least one element"),
        (lambda: Categorical(["a", "a"]), "'a' is there twice"),
        (lambda: InducedSubgraph(Discrete([1, 2]), []), "values must have at least one element"),
        (lambda: InducedSubgraph(Discrete([1, 2]), [1, 1]), "values must all be different"),
        (lambda: InducedSubgraph(Discrete([1, 2]), [3]), "value 3 given, allowed are"),
    ],
)
def test_wrong_arguments_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_topology_of_ones_own_needs_four_things():
    class Ring(Topology):
        """Numbers on a circle."""

        size = 12

        def __getitem__(self, index):
            return range(12)[index]

        def index(self, value):
            return range(12).index(value)

        def neighbours(self, value):
            return [(value - 1) % 12, (value + 1) % 12]

    law = random_walk.distribution(Ring(), 0, 0.5)
    assert law[1] == pytest.approx(law[11])
    assert connected(InducedSubgraph(Ring(), [0, 5, 6, 9]))


def unbounded(value):
    if isinstance(value, int):
        return value
    raise ValueError(f"{value} is none")


class Ring(Topology):
    """Four in a circle; a method can be made to go wrong."""

    def __init__(self, **wrong):
        self.size = 4
        vars(self).update(wrong)

    def __getitem__(self, index):
        return self._vertex_number(index)

    def index(self, value):
        if value not in (0, 1, 2, 3):
            raise ValueError(f"{value} is none")
        return value

    def neighbours(self, value):
        return [(value - 1) % 4, (value + 1) % 4]

    def coordinates(self, value):
        return (min(value, 4 - value), abs(value - 2))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": -3}, "size of a Ring must be an integer of at least 1"),
        ({"size": 4.0}, "size of a Ring must be an integer of at least 1"),
        ({"size": None}, "size of a Ring must be an integer of at least 1"),
        ({"index": lambda value: 0}, "index of a Ring: 1 is vertex number 1, 0 given"),
        ({"index": lambda value: value / 0}, "index of a Ring: 0 raises ZeroDivisionError"),
        ({"neighbours": lambda value: []}, "neighbours of a Ring: 0 has none"),
        ({"neighbours": lambda value: None}, "neighbours of a Ring: 0 raises TypeError"),
        ({"neighbours": lambda value: [value]}, "neighbours of a Ring: 0 is one of its own"),
        ({"neighbours": lambda value: [3 - value] * 2}, "neighbours of a Ring: 3 is twice one of 0"),
        ({"neighbours": lambda value: [(value + 1) % 4]}, "neighbours of a Ring: 1 is one of 0, but 0 is none of 1"),
        ({"neighbours": lambda value: [value + 4]}, "index of a Ring: 4 raises ValueError"),
        ({"index": lambda value: int(value)}, "index of a Ring must raise ValueError for what is no vertex; for <object"),
        ({"index": lambda value: 0 if isinstance(value, str) else value}, "index of a Ring must raise ValueError"),
        ({"_vertex_number": lambda index: index}, "__getitem__ of a Ring must raise IndexError for what is no vertex; for 4"),
        ({"index": unbounded, "neighbours": lambda value: [value - 1, value + 1]}, "-1, one of 0, is no vertex"),
        ({"index": lambda value: 3 - value}, "index of a Ring: 0 is vertex number 0, 3 given"),
        ({"neighbours": lambda value: [0] if value == 3 else [(value - 1) % 4, (value + 1) % 4]}, "but 2 is none of 3"),
        ({"coordinates": lambda value: "abc"}, "coordinates of a Ring: 0 raises TypeError"),
        ({"coordinates": lambda value: (1,) * (value + 1)}, "coordinates of a Ring: 0 has 1, 3 has 4"),
        ({"coordinates": lambda value: (1,)}, "coordinates of a Ring: 0 and its neighbour 3 have the same"),
    ],
)
def test_what_is_wrong_with_a_topology_is_found(wrong, message):
    check(Ring())
    with pytest.raises(ValueError, match=message):
        check(Ring(**wrong))


def test_of_a_graph_that_nobody_could_list_some_vertices_are_checked():
    check(Permutation(30), at_most=5)
