"""OpEvo: Algorithm 1 and Equation 2 as published, invariants of ask and tell, and the
Gaussian-process search.
"""

import json
import subprocess
import sys
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from search_examples import EXAMPLES

from autotvm_opevo import OpEvo, Space, random_walk
from autotvm_opevo.search.acquisition import Acquisition, Model
from autotvm_opevo.topology import Categorical, Discrete, Factorization, Permutation

published = partial(OpEvo, surrogate=None)


def wide(topology, knobs=40):
    """Enough knobs that no two children are equal: the distribution of each knob is seen
    undisturbed.
    """
    return Space({f"x{i}": topology for i in range(knobs)})


def uniform(space, value):
    return dict.fromkeys(space.knobs, value)


def key(configuration):
    return repr(sorted(configuration.items()))


def matmul():
    knobs = {
        "y": Factorization(512, 4),
        "x": Factorization(1024, 4),
        "order": Permutation(4),
        "unroll": Discrete([0, 512, 1500]),
    }
    return Space(knobs)


def smooth(configuration):
    """A fitness with one optimum, at tiles of 32 x 32."""
    return 1.0 / (
        1 + abs(np.log2(configuration["y"][-1]) - 5) + abs(np.log2(configuration["x"][-1]) - 5)
    )


class TestAlgorithm1:
    @pytest.mark.parametrize(("parents_size", "offspring_size"), [(3, 5), (5, 3)])
    def test_lambda_random_configurations_come_first_and_then_rho_children_at_a_time(
        self, parents_size, offspring_size
    ):
        space = wide(Categorical(range(100)))
        search = published(space, parents_size, offspring_size, mutation_rate=1e-12, seed=1)
        random_ones = []
        for _ in range(parents_size):
            random_ones += search.ask(1)
            search.tell(random_ones[-1:], [1.0])
        children = search.ask(offspring_size)

        def inherited(configuration, others):
            return all(
                any(value == other[name] for other in others)
                for name, value in configuration.items()
            )

        for i, configuration in enumerate(random_ones):
            assert not inherited(configuration, random_ones[:i])
        assert all(inherited(child, random_ones) for child in children)

    def test_knobs_are_inherited_in_proportion_to_fitness(self):
        """Equation 2, with a mutation rate at which nothing mutates."""
        space = wide(Categorical(range(8)))
        fitness = np.array([1, 2, 3, 4, 5, 6, 7, 80.0])
        search = published(space, mutation_rate=1e-12, seed=1)
        search.tell([uniform(space, j) for j in range(8)], fitness)
        selected = Counter(value for child in search.ask(64) for value in child.values())
        assert (
            chisquare([selected[j] for j in range(8)], 64 * 40 * fitness / fitness.sum()).pvalue
            > 1e-4
        )

    def test_knobs_mutate_by_the_stopping_distribution_of_the_walk(self):
        """Section 4.3, with a single parent from which all is inherited."""
        tiles = Factorization(8, parts=3)
        space = wide(tiles)
        search = published(space, mutation_rate=0.4, seed=1)
        search.tell([uniform(space, (8, 1, 1))], [1.0])
        stops = Counter(tiles.index(value) for child in search.ask(64) for value in child.values())
        expected = 64 * 40 * random_walk.distribution(tiles, (8, 1, 1), 0.4)
        assert chisquare([stops[i] for i in range(len(tiles))], expected).pvalue > 1e-4

    def test_only_the_best_lambda_of_all_history_have_children(self):
        space = wide(Categorical(range(20)))
        search = published(space, parents_size=3, mutation_rate=1e-12, seed=1)
        for j in np.random.default_rng(0).permutation(20).tolist():
            search.tell([uniform(space, j)], [1.0 + j])
        assert {value for child in search.ask(24) for value in child.values()} == {17, 18, 19}

    def test_rho_children_share_their_parents(self):
        """They are queued: results told meanwhile change the next generation only."""
        space = wide(Categorical(range(3)))
        search = published(space, parents_size=1, offspring_size=6, mutation_rate=1e-3, seed=1)
        search.tell([uniform(space, 0)], [1.0])
        first = search.ask(2)
        search.tell([uniform(space, 1)], [2.0])
        mostly = [
            Counter(child.values()).most_common(1)[0][0]
            for child in [*first, *search.ask(4), *search.ask(6)]
        ]
        assert mostly == [0] * 6 + [1] * 6

    def test_a_child_seen_before_walks_on_from_where_it_stands(self):
        """On a path, the parent's surroundings are filled before a random configuration is
        needed.
        """
        space = Space({"x": Discrete(range(100_000))})
        search = published(space, seed=3)
        search.tell([{"x": 50_000}], [1.0])
        distances = [abs(search.ask(1)[0]["x"] - 50_000) for _ in range(8)]
        assert max(distances) < 100

    def test_fitness_may_span_all_of_a_double(self):
        space = wide(Categorical(range(4)), knobs=20)
        search = published(space, mutation_rate=1e-6, seed=0)
        search.tell([uniform(space, j) for j in range(4)], [5e-324, 1e-300, 1e308, 1.7e308])
        assert {value for child in search.ask(20) for value in child.values()} <= {2, 3}

    def test_it_finds_the_optimum_in_half_the_trials_of_random_search(self):
        def trials_to_optimum(search, random_too=False):
            rng = np.random.default_rng(search.seed)
            for trial in range(1, 1000):
                batch = [search.space.sample(rng)] if random_too else search.ask(1)
                if smooth(batch[0]) == 1.0:
                    return trial
                search.tell(batch, [smooth(batch[0])])
            return 1000

        searches = [published(matmul(), seed=seed) for seed in range(12)]
        evolved = [trials_to_optimum(search) for search in searches]
        drawn = [trials_to_optimum(search, random_too=True) for search in searches]
        assert np.mean(evolved) < np.mean(drawn) / 2


class TestFailures:
    def test_failed_configurations_are_never_parents(self):
        space = wide(Categorical(range(6)))
        search = published(space, mutation_rate=1e-12, seed=1)
        search.tell([uniform(space, j) for j in range(6)], [0, 0, 1.0, 0, 2.0, 0])
        assert {value for child in search.ask(30) for value in child.values()} == {2, 4}

    def test_while_everything_fails_proposals_are_random(self):
        space = wide(Discrete(range(5)))
        search = published(space, mutation_rate=1e-12, seed=1)
        drawn = Counter()
        for _ in range(10):
            batch = search.ask(7)
            search.tell(batch, [0.0] * 7)
            drawn.update(value for c in batch for value in c.values())
        assert chisquare([drawn[i] for i in range(5)]).pvalue > 1e-4
        assert search.best is None


class TestAskAndTell:
    def test_a_configuration_told_again_keeps_its_latest_fitness(self):
        space = wide(Categorical(range(2)))
        search = OpEvo(space, parents_size=1, mutation_rate=1e-12, seed=0)
        search.tell([uniform(space, 0), uniform(space, 1)], [5.0, 3.0])
        search.tell([uniform(space, 0)], [1.0])
        assert search.best == (uniform(space, 1), 3.0)
        search.tell([uniform(space, 1), uniform(space, 1)], [9.0, 0.0])
        assert search.best == (uniform(space, 0), 1.0)
        search.tell([uniform(space, 1)], [4.0])
        assert search.best == (uniform(space, 1), 4.0)

    def test_results_come_in_any_order_and_grouping(self):
        def proposals(shuffle):
            search = OpEvo(matmul(), seed=5)
            for round_ in range(6):
                batch = search.ask(8)
                order = np.random.default_rng(round_).permutation(8) if shuffle else np.arange(8)
                for part in (order[:3], order[3:]):
                    search.tell([batch[i] for i in part], [smooth(batch[i]) for i in part])
            return search.ask(8)

        assert proposals(shuffle=True) == proposals(shuffle=False)

    def test_values_come_back_as_they_were_given(self):
        values = [(1, 2), "a", None, 3.5, frozenset([1])]
        search = OpEvo(Space({"x": Categorical(values), "n": Discrete([1, 2.5])}), seed=0)
        for configuration in search.ask(10):
            assert any(configuration["x"] is value for value in values)

    def test_has_next_says_whether_ask_proposes_anything(self):
        search = OpEvo(Space({"x": Discrete([1, 2, 3])}), seed=0)
        assert search.has_next()
        search.tell([{"x": 1}], [1.0])
        assert len(search.ask(2)) == 2
        assert not search.has_next()
        assert search.ask(1) == []

    def test_asking_for_zero_proposes_nothing(self):
        assert OpEvo(matmul(), seed=0).ask(0) == []


class TestExhaustion:
    @pytest.mark.properties
    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def test_every_feasible_configuration_is_proposed_exactly_once(self, data):
        topologies = [
            Factorization(12, 2),
            Permutation(3),
            Discrete([1, 2, 4]),
            Categorical("ab"),
            Discrete([0]),
        ]
        knobs = {
            f"k{i}": t
            for i, t in enumerate(data.draw(st.lists(st.sampled_from(topologies), max_size=3)))
        }
        forbidden = data.draw(st.sets(st.integers(0, 300)))
        space = Space(knobs)
        limited = (
            Space(knobs, constraint=lambda c: space.index(c) not in forbidden)
            if forbidden
            else space
        )
        search = OpEvo(
            limited,
            parents_size=data.draw(st.integers(1, 9)),
            offspring_size=data.draw(st.integers(1, 9)),
            mutation_rate=data.draw(st.floats(0.01, 0.9)),
            seed=data.draw(st.integers(0, 2**32)),
            surrogate=data.draw(st.sampled_from(["gp", None])),
        )
        allowed = {i for i in range(space.size) if i not in forbidden}
        history = data.draw(st.sets(st.integers(0, space.size - 1), max_size=5))
        search.tell([space[i] for i in history], [float(i % 3) for i in history])
        proposed, waiting = [], []
        while batch := search.ask(data.draw(st.integers(1, 12))):
            proposed += [space.index(c) for c in batch]
            waiting += batch
            told, waiting = (waiting, []) if data.draw(st.booleans()) else ([], waiting)
            search.tell(told, [data.draw(st.sampled_from([0.0, 0.5, 2.0])) for _ in told])
        assert len(proposed) == len(set(proposed))
        assert set(proposed) == allowed - history

    def test_the_feasible_rest_comes_in_random_order(self):
        left = [7, 800, 1601, 2402, 4950]
        space = Space({"x": Discrete(range(5000))}, constraint=lambda c: c["x"] in left)
        first = [left.index(OpEvo(space, seed=seed).ask(1)[0]["x"]) for seed in range(60)]
        assert chisquare(np.bincount(first, minlength=5)).pvalue > 1e-4

    def test_a_space_too_large_to_enumerate_is_given_up_after_bounded_draws(self):
        asked = Counter()

        def never(configuration):
            asked["times"] += 1
            return False

        search = OpEvo(Space({"x": Permutation(12)}, constraint=never), seed=0)
        assert search.ask(8) == []
        assert asked["times"] <= 210_000


class TestSeeds:
    PROGRAM = """
import json
from autotvm_opevo import OpEvo, Space
from autotvm_opevo.topology import *
space = Space({
    "t": Factorization(512, 4),
    "o": Permutation(4),
    "c": Categorical(["none", "vec"]),
    "d": Discrete([0, 16]),
})
search = OpEvo(space, seed=11)
out = []
for _ in range(10):
    batch = search.ask(8)
    search.tell(batch, [(c["t"][-1] % 48) + (c["c"] == "vec") for c in batch])
    out += batch
print(json.dumps(out))
"""

    def test_the_same_seed_proposes_the_same_in_any_process(self, capsys):
        """Each has another seed of hashes."""
        exec(self.PROGRAM, {})
        here = capsys.readouterr().out
        there = subprocess.run(
            [sys.executable, "-c", self.PROGRAM],
            env={"PYTHONHASHSEED": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert len(json.loads(here)) == 80
        assert here == there

    def test_a_drawn_seed_repeats_the_search(self):
        first = OpEvo(matmul())
        again = OpEvo(matmul(), seed=first.seed)
        assert first.ask(20) == again.ask(20)
        assert OpEvo(matmul()).seed != first.seed


class TestWrongArguments:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"parents_size": 0}, "parents_size must be an integer of at least 1, 0 given"),
            ({"offspring_size": -1}, "offspring_size must be an integer of at least 1"),
            ({"parents_size": 1.5}, "parents_size must be an integer"),
            (
                {"mutation_rate": 0.0},
                "mutation_rate must be greater than 0 and less than 1, 0.0 given",
            ),
            ({"mutation_rate": 1}, "mutation_rate must be greater"),
            ({"seed": -1}, "seed must be an integer of at least 0, -1 given"),
            ({"seed": "x"}, "seed must be an integer"),
        ],
    )
    def test_parameters_out_of_range_are_refused_by_name(self, options, message):
        with pytest.raises(ValueError, match=message):
            OpEvo(matmul(), **options)

    @pytest.mark.parametrize("fitness", [-1.0, float("nan"), float("inf"), "fast", 10**400])
    def test_fitness_must_be_finite_and_not_negative(self, fitness):
        search = OpEvo(Space({"x": Discrete([1, 2])}), seed=0)
        with pytest.raises(ValueError, match="fitness must be a finite number of at least 0"):
            search.tell([{"x": 1}, {"x": 2}], [1.0, fitness])
        assert search.best is None, "a refused call must leave nothing behind"

    def test_lengths_must_agree(self):
        with pytest.raises(
            ValueError, match="tell needs one fitness per configuration, 2 given for 1"
        ):
            OpEvo(Space({"x": Discrete([1])}), seed=0).tell([{"x": 1}], [1.0, 2.0])

    @pytest.mark.parametrize(
        ("configurations", "fitnesses"), [({"x": 1}, [1.0]), ([{"x": 1}], 1.0), (iter([]), [])]
    )
    def test_sequences_are_needed(self, configurations, fitnesses):
        with pytest.raises(
            ValueError, match="tell needs a sequence of configurations and a sequence of fitnesses"
        ):
            OpEvo(Space({"x": Discrete([1])}), seed=0).tell(configurations, fitnesses)

    @pytest.mark.parametrize("n", [-1, 1.5, "8", False, 0.0])
    def test_n_must_be_a_count(self, n):
        with pytest.raises(ValueError, match="n must be an integer"):
            OpEvo(matmul(), seed=0).ask(n)


class TestGaussianProcess:
    def space(self, constraint=None):
        knobs = {
            "y": Factorization(1024, 4),
            "order": Permutation(4),
            "x": Factorization(360, 3),
            "flag": Categorical("abc"),
        }
        return Space(knobs, constraint)

    def fitness(self, configuration):
        """Smooth on the graphs, with a third of failures."""
        y, x = configuration["y"], configuration["x"]
        if y[1] * x[1] > 64:
            return 0.0
        off = abs(np.log2(y[3]) - 4) + abs(np.log2(y[2]) - 2) + abs(np.log2(x[2]) - 3)
        out_of_order = sum(a != b for a, b in zip(configuration["order"], (2, 0, 3, 1)))
        return float(
            np.exp(-0.4 * off - 0.2 * out_of_order)
            * {"a": 1.0, "b": 0.7, "c": 0.9}[configuration["flag"]]
        )

    def best_after(self, trials, seed, **options):
        search = OpEvo(self.space(), seed=seed, **options)
        for _ in range(trials // 8):
            configurations = search.ask(8)
            search.tell(configurations, list(map(self.fitness, configurations)))
        return search.best[1]

    def test_it_beats_published_opevo(self):
        guided, published = (
            [self.best_after(96, seed, surrogate=s) for seed in range(5)] for s in ("gp", None)
        )
        assert min(guided) > np.mean(published)
        assert np.mean(guided) > 1.2 * np.mean(published)

    def test_the_initial_configurations_are_those_of_published_opevo(self):
        assert OpEvo(self.space(), seed=0).ask(8) == published(self.space(), seed=0).ask(8)

    def test_every_proposal_uses_the_latest_results(self):
        """Nothing is queued beyond what is asked for."""
        search = OpEvo(self.space(), seed=0)
        for n in (8, 3, 16, 1, 8):
            configurations = search.ask(n)
            assert len(configurations) == n
            assert not search._queue
            search.tell(configurations, list(map(self.fitness, configurations)))

    def test_where_a_constraint_leaves_little_of_a_small_space_it_selects_among_that(self):
        """No child is feasible, and hardly any random configuration."""
        sizes = []

        class Spied(OpEvo):
            def _candidates(self, *arguments):
                candidates = super()._candidates(*arguments)
                sizes.append(len(candidates))
                assert len(self._random(50)) == 50
                return candidates

        space = Space({"x": Discrete(range(45_000))}, constraint=lambda c: c["x"] % 150 == 0)
        search = Spied(space, seed=0)
        for _ in range(20):
            configurations = search.ask(8)
            search.tell(configurations, [1.0 + c["x"] for c in configurations])
        assert sizes[:12] == [100] * 12  # of 300, as long as 200 are left
        assert sizes[12:] == [300 - 8 * batch for batch in range(13, 20)]

    def pools(self, better_at=(), size=8):
        """How many pools the candidates of each batch come from, where all results are equal but
        for those of some batches.
        """
        sizes = []

        class Spy(Acquisition):
            def select(self, pools, *arguments):
                sizes.append(len(pools))
                return super().select(pools, *arguments)

        class Spied(OpEvo):
            def make_acquisition(self):
                return Spy([Model(self.space, self._rng)])

        search = Spied(self.space(), seed=0)
        for batch in range(8):
            configurations = search.ask(size)
            search.tell(
                configurations,
                [1.0] * (size - 1) + [2.0 + batch if batch in better_at else 1.0],
            )
        return sizes[-7:]

    def test_after_16_results_without_a_better_one_there_are_three_pools(self):
        assert self.pools() == [1, 1, 3, 3, 3, 3, 3]
        assert self.pools(better_at=[4]) == [1, 1, 3, 3, 1, 1, 3]

    def test_large_batches_that_are_all_better_never_stand_still(self):
        assert self.pools(better_at=range(8), size=40) == [1] * 7
        assert self.pools(size=40) == [1, 1, 3, 3, 3, 3, 3]

    def test_what_gets_no_result_does_not_count(self):
        search = OpEvo(self.space(), seed=0)
        search.tell(search.ask(8), [1.0] * 8)
        for _ in range(4):
            search.tell(search.ask(8), [None] * 8)
        assert search._since_best == 0

    def test_where_it_stands_still_it_also_tries_neighbours_of_the_best_and_configurations_far_away(
        self,
    ):
        """What the published search, with hardly any mutation, would not find: its children are as
        their parents.
        """
        space = Space({f"x{i}": Discrete(range(50)) for i in range(6)})
        search = OpEvo(space, seed=0, mutation_rate=1e-9)
        best = dict.fromkeys(space.knobs, 25)
        search.tell([best], [2.0])
        search.tell([{**best, "x0": i} for i in range(24)], [1.0] * 24)
        steps = [sum(abs(best[name] - c[name]) for name in best) for c in search.ask(12)]
        assert steps.count(1) >= 4
        assert sum(step > 20 for step in steps) >= 4

    @pytest.mark.parametrize(
        ("knobs", "results", "children", "near"),
        [(10, 31, 200, 0), (10, 32, 1000, 200), (3, 32, 353, 38), (2, 32, 200, 0)],
    )
    def test_with_32_results_a_large_space_has_more_candidates_and_some_near_the_parents(
        self, knobs, results, children, near
    ):
        """Here a child differs from each parent in most knobs; 353 is the square root of 50^3."""
        space = wide(Discrete(range(50)), knobs)
        search = OpEvo(space, parents_size=1, mutation_rate=0.9, seed=0)
        told = [space[i] for i in range(results)]
        search.tell(told, [1.0] * (results - 1) + [2.0])
        parent = space.vertices(results - 1)
        found = [space.vertices(number) for number in search._children([(parent, 2.0)])]
        steps = np.abs(np.subtract(found, parent)).sum(axis=1)
        assert len(found) == children + near
        assert near == 0 or steps[-near:].max() <= 2

    def test_history_is_learned_from(self):
        """After a hundred results, the first proposals are better than these."""
        space, rng = self.space(), np.random.default_rng(0)
        history = [space.sample(rng) for _ in range(100)]
        search = OpEvo(space, seed=0)
        search.tell(history, list(map(self.fitness, history)))
        proposed = search.ask(8)
        assert not {key(c) for c in proposed} & {key(c) for c in history}
        assert np.median(list(map(self.fitness, proposed))) > np.quantile(
            list(map(self.fitness, history)), 0.9
        )

    @pytest.mark.parametrize("surrogate", ["q-walk", True, "", lambda space, rng: None])
    def test_an_unknown_surrogate_is_refused(self, surrogate):
        with pytest.raises(
            ValueError, match=r"surrogate must be .gp., or None for OpEvo as published; .* given"
        ):
            OpEvo(self.space(), surrogate=surrogate)
