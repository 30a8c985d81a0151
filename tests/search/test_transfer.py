"""Transfer: other tasks help, and do no harm."""

from functools import cache

import numpy as np
import pytest

from autotvm_opevo import OpEvo, Space
from autotvm_opevo.search.transfer import Source, TransferModel, nearest_sources
from autotvm_opevo.topology import Categorical, Discrete, Factorization


def space_of(extent=256):
    return Space(
        {
            "tile": Factorization(extent, 3),
            "unroll": Discrete([0, 4, 16, 64]),
            "flag": Categorical([False, True]),
        }
    )


def speed(configuration, at=(16, 8), scale=1.0):
    """Best where the inner tiles are `at`, whatever the extent."""
    _, *inner = configuration["tile"]
    steps = sum(abs(np.log2(part / best)) for part, best in zip(inner, at))
    return scale * np.exp(
        -0.5 * steps - 0.2 * (configuration["unroll"] != 16) - 0.3 * configuration["flag"]
    )


def history(space, at=(16, 8), trials=48, seed=1, scale=1.0, fitness=None):
    found = proposals(space.knobs["tile"].product, at, trials, seed, scale)
    fitnesses = [speed(c, at, scale) for c in found]
    return space, found, fitnesses if fitness is None else fitness(np.array(fitnesses)).tolist()


@cache
def proposals(extent, at, trials, seed, scale):
    """What a search without sources tries."""
    search, found = OpEvo(space_of(extent), seed=seed), []
    while len(found) < trials:
        batch = search.ask(8)
        found += batch
        search.tell(batch, [speed(c, at, scale) for c in batch])
    return found


def best_after(trials, seed, space, sources):
    search = OpEvo(space, seed=seed, history=sources)
    best = 0.0
    for _ in range(trials // 8):
        batch = search.ask(8)
        values = [speed(c) for c in batch]
        best = max(best, *values)
        search.tell(batch, values)
    return best


@cache
def mean_alone(trials, extent):
    """Of the best that searches without sources find."""
    return np.mean([best_after(trials, seed, space_of(extent), []) for seed in range(10)])


class Spied(OpEvo):
    """Keeps the parents of the last proposals."""

    def _candidates(self, parents, portfolio):
        self.parents = parents
        return super()._candidates(parents, portfolio)


class TestWhatItBrings:
    def test_the_first_batch_is_near_the_best_of_another_task(self):
        sources = [history(space_of(256), scale=1e6)]
        found = [best_after(8, seed, space_of(1024), sources) for seed in range(10)]
        assert min(found) > 0.9 > 0.6 > mean_alone(8, 1024)

    @pytest.mark.parametrize("trials", [32, pytest.param(64, marks=pytest.mark.soak)])
    @pytest.mark.parametrize("what", ["shuffled", "inverted", "elsewhere"])
    def test_a_misleading_task_costs_little(self, what, trials):
        space = space_of(4096)
        rng = np.random.default_rng(0)
        source = {
            "shuffled": lambda: history(space, fitness=rng.permutation),
            "inverted": lambda: history(space, fitness=lambda values: 1 / values),
            "elsewhere": lambda: history(space, at=(1, 256)),
        }[what]()
        found = np.mean([best_after(trials, seed, space, [source]) for seed in range(10)])
        assert found > mean_alone(trials, 4096) - 0.05

    def test_failures_of_another_task_are_avoided(self):
        space = space_of(1024)

        def failing(configuration):
            return configuration["unroll"] in (4, 64)

        def failures(seed, history):
            search, failed = OpEvo(space, seed=seed, history=history), 0
            for _ in range(2):
                batch = search.ask(8)
                failed += sum(map(failing, batch))
                search.tell(batch, [0.0 if failing(c) else speed(c) for c in batch])
            return failed

        rng = np.random.default_rng(0)
        known = [space.sample(rng) for _ in range(100)]
        source = space, known, [0.0 if failing(c) else speed(c) for c in known]
        found, alone = (
            np.mean([failures(seed, history) for seed in range(10)]) for history in ([source], [])
        )
        assert found < 0.5 * alone

    def test_of_several_tasks_the_best_come_in_turn(self):
        space = space_of(256)
        sources = [history(space, at=at, seed=2) for at in ((16, 8), (2, 2))]
        batch = OpEvo(space, seed=0, history=sources).ask(2)
        for configuration, (_, configurations, fitnesses) in zip(batch, sources):
            assert configuration == configurations[int(np.argmax(fitnesses))]


class TestRules:
    def test_no_configuration_is_proposed_twice_and_the_space_is_exhausted(self):
        space = space_of(8)
        search = OpEvo(space, seed=0, history=[history(space, trials=24), history(space_of(32))])
        seen = []
        while batch := search.ask(5):
            seen += map(space.index, batch)
            search.tell(batch, [speed(c) for c in batch])
        assert sorted(seen) == list(range(space.size))

    def test_a_constraint_holds_for_what_other_tasks_suggest(self):
        free = space_of(256)
        space = Space(free.knobs, lambda configuration: configuration["unroll"] != 16)
        search = OpEvo(space, seed=0, history=[history(free)])
        assert all(configuration["unroll"] != 16 for configuration in search.ask(40))

    def test_a_task_that_goes_on_teaches_more(self):
        """The results of a source may grow while it is used."""
        teacher, space = OpEvo(space_of(256), seed=0), space_of(512)
        teacher.tell([{"tile": (256, 1, 1), "unroll": 0, "flag": True}], [1.0])
        learner = OpEvo(space, seed=0)
        learner.learn_from([Source(teacher.space, teacher.results)])
        assert learner.ask(1) == [{"tile": (512, 1, 1), "unroll": 0, "flag": True}]
        learner.tell([{"tile": (512, 1, 1), "unroll": 0, "flag": True}], [1.0])
        teacher.tell([{"tile": (2, 16, 8), "unroll": 16, "flag": False}], [9.0])
        assert learner.ask(1) == [{"tile": (4, 16, 8), "unroll": 16, "flag": False}]

    def test_failures_alone_do_not_end_the_search(self):
        search = OpEvo(space_of(256), seed=0, history=[history(space_of(64))])
        for _ in range(5):
            batch = search.ask(8)
            assert len(batch) == 8
            search.tell(batch, [0.0] * 8)

    def test_a_source_that_loses_its_only_success_is_survived(self):
        teacher, space = OpEvo(space_of(256), seed=0), space_of(512)
        first = {"tile": (256, 1, 1), "unroll": 0, "flag": True}
        teacher.tell([first], [1.0])
        search = OpEvo(space, seed=0)
        search.learn_from([Source(teacher.space, teacher.results)])
        batch = search.ask(8)
        teacher.tell([first, {**first, "unroll": 4}], [0.0, 0.0])
        search.tell(batch, [speed(c) for c in batch])
        assert len(search.ask(8)) == 8

    def test_other_sources_take_the_place_of_those_before(self):
        search = OpEvo(space_of(256), seed=0, history=[history(space_of(64))])
        assert search.learn_from([]) == []
        assert search.ask(8) == OpEvo(space_of(256), seed=0).ask(8)

    def test_the_same_sources_again_change_nothing(self):
        sources = [
            Source(space, dict(zip(map(space.index, known), values)))
            for space, known, values in [history(space_of(64))]
        ]
        searches = [OpEvo(space_of(256), seed=0), OpEvo(space_of(256), seed=0)]
        for search in searches:
            search.learn_from(sources)
        for _ in range(4):
            assert searches[1].learn_from([Source(*source) for source in sources]) == sources
            first, second = (search.ask(8) for search in searches)
            assert first == second
            for search in searches:
                search.tell(first, [speed(c) for c in first])

    def test_what_failed_here_is_not_a_parent(self):
        """However good it was elsewhere."""
        space = space_of(256)
        search = Spied(space, seed=0, history=[history(space)])
        failed = search.ask(8)
        better = {"tile": (2, 2, 64), "unroll": 0, "flag": True}
        search.tell([*failed, better], [0.0] * 8 + [1.0])
        search.ask(1)
        parents = [space.index(space[space.number(vertices)]) for vertices, _ in search.parents]
        assert parents[0] == space.index(better)
        assert not set(parents) & set(map(space.index, failed))

    def test_where_all_that_was_good_elsewhere_fails_the_model_selects_without_parents(self):
        space = space_of(4096)
        known = [
            {"tile": (1024, 2, 2), "unroll": unroll, "flag": flag}
            for unroll in (0, 4, 16, 64)
            for flag in (False, True)
        ]
        search = Spied(space, seed=0, history=[(space, known, range(1, 9))])
        batch = search.ask(8)
        assert {configuration["tile"] for configuration in batch} == {(1024, 2, 2)}
        search.tell(batch, [0.0] * 8)
        assert len(search.ask(8)) == 8
        assert search.parents == []

    def test_sources_without_a_success_or_a_common_knob_are_not_used(self):
        space = space_of(64)
        useless = [
            Source(space, {1: 0.0}),
            Source(space, {}),
            Source(Space({"x": Discrete([1])}), {0: 1.0}),
        ]
        search = OpEvo(space, seed=0)
        assert search.learn_from(useless) == []
        assert search.ask(8) == OpEvo(space, seed=0).ask(8)

    def test_of_many_tasks_the_most_similar_are_used(self):
        sources = [Source(space_of(2**n), {0: 1.0}) for n in range(2, 16)]
        used = nearest_sources(space_of(2**9), sources)
        assert sorted(source.space.knobs["tile"].product for source in used) == [
            2**n for n in range(5, 13)
        ]

    def test_tasks_that_are_much_less_similar_than_the_nearest_are_not_used(self):
        sources = [Source(space_of(2**n), {0: 1.0}) for n in (4, 8, 9, 10)]
        near, far = (
            nearest_sources(space_of(2**9), sources),
            nearest_sources(space_of(2**15), sources[:1]),
        )
        assert sorted(source.space.knobs["tile"].product for source in near) == [
            2**n for n in (4, 8, 9, 10)
        ]
        assert far == sources[:1]
        near = nearest_sources(space_of(2**10), sources)
        assert sorted(source.space.knobs["tile"].product for source in near) == [
            2**n for n in (8, 9, 10)
        ]

    def test_the_published_search_cannot_learn_from_others(self):
        with pytest.raises(ValueError, match='history needs surrogate="gp", None given'):
            OpEvo(space_of(64), surrogate=None, history=[history(space_of(64), trials=8)])

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            (
                ([{"tile": (1, 1, 64), "unroll": 0, "flag": True}], []),
                "one fitness per configuration, 0 given for 1",
            ),
            (([{"tile": (1, 1, 64)}], [1.0]), "a configuration must be a dict of the knobs"),
            (
                ([{"tile": (1, 1, 64), "unroll": 0, "flag": True}], [-1.0]),
                "fitness must be a finite number of at least 0",
            ),
        ],
    )
    def test_an_invalid_entry_of_a_history_is_refused(self, entry, message):
        with pytest.raises(ValueError, match=message):
            OpEvo(space_of(64), history=[(space_of(64), *entry)])

    def test_a_history_that_is_no_list_of_entries_is_refused(self):
        """Not a list of them, but one: its space, unpacked, would be all its configurations."""
        with pytest.raises(
            ValueError,
            match=r"must be a list of \(space, configurations, fitnesses\), .* it has a Space",
        ):
            OpEvo(space_of(64), history=(space_of(4096), [], []))


class TestCommonScale:
    def test_the_scale_of_another_task_does_not_matter(self):
        def means(scale):
            space = space_of(256)
            _, configurations, fitnesses = history(space, scale=scale)
            source = Source(space, dict(zip(map(space.index, configurations), fitnesses)))
            model = TransferModel(space, np.random.default_rng(0), [source])
            return model.predict({5: 1.0, 70: 0.3}, list(range(0, space.size, 7))).posterior.mean

        assert means(1.0) == pytest.approx(means(1e5))

    def test_a_few_good_results_are_not_taken_for_average_ones(self):
        """With the mean of its own results for zero, the best of another task would seem no better
        than its average.
        """
        space = space_of(256)
        _, configurations, fitnesses = history(space)
        results = dict(zip(map(space.index, configurations), fitnesses))
        model = TransferModel(space, np.random.default_rng(0), [Source(space, results)])
        best = sorted(results, key=results.__getitem__)[-4:]
        mean = model.predict(
            {number: results[number] for number in best}, [*results]
        ).posterior.mean[:, 0]
        assert np.corrcoef(mean, np.log(list(results.values())))[0, 1] > 0.9
