"""TaskSearch: what the search is told of candidates, without TVM's schedules."""

import logging

import pytest

from autotvm_opevo.meta_schedule import task_search
from autotvm_opevo.meta_schedule.task_search import TaskSearch
from autotvm_opevo.search.opevo import OpEvo
from autotvm_opevo.search.space import Space
from autotvm_opevo.search.transfer import Source
from autotvm_opevo.topology import Discrete


class Decisions:
    """Decisions on one knob, each value a candidate."""

    space = Space({"x": Discrete(range(8))})

    def by_role(self, results):
        return Source(self.space, results)

    def canonicalize(self, configuration):
        return configuration

    def candidate(self, configuration):
        return object(), configuration


class Alias(Decisions):
    """3 yields the candidate of 5."""

    def candidate(self, configuration):
        return object(), {"x": 5} if configuration["x"] == 3 else configuration


class Rejecting(Decisions):
    """Many values, of which only three seeds of two sketches have a candidate."""

    space = Space({"x": Discrete(range(100_000))})
    seeds = ((10, 20), (30, 40))

    def candidate(self, configuration):
        return (object() if configuration["x"] in (20, 30, 40) else None), configuration

    def seed_configurations(self):
        return (({"x": x} for x in values) for values in self.seeds)


@pytest.mark.parametrize("asked", [[3], [3, 5], [5, 3]])
def test_a_candidate_is_pending_under_the_name_of_its_trace(asked):
    decisions = Alias()
    search = OpEvo(decisions.space, seed=0)
    search.enqueue([{"x": value} for value in asked])
    task = TaskSearch("alias", decisions, search)
    batch = task.propose(len(asked))
    assert {"x": 5} in search.pending
    assert {"x": 3} not in search.pending
    assert len(search.pending) == len(batch)
    task.tell(batch, [float(len(batch) - i) for i in range(len(batch))])
    assert search.best == ({"x": 5}, float(len(batch)))
    assert not search.pending


@pytest.mark.parametrize("surrogate", ["gp", None])
def test_where_all_are_rejected_simple_ones_are_measured_and_told_their_results_only(surrogate):
    """Each sketch's simplest first; what is being measured has no fitness."""
    decisions = Rejecting()
    search = OpEvo(decisions.space, seed=0, surrogate=surrogate)
    task = TaskSearch("rejecting", decisions, search)
    batch = task.propose(2)
    assert search.pending == [{"x": 30}, {"x": 20}]
    assert search.best is None
    assert not any(search.results.values())
    task.tell(batch[:1], [1e4])
    assert search.best == ({"x": 30}, 1e4)
    assert [fitness for fitness in search.results.values() if fitness] == [1e4]
    assert search.pending == [{"x": 20}]


def test_seeds_are_proposed_until_one_succeeds():
    decisions = Rejecting()
    task = TaskSearch("rejecting", decisions, OpEvo(decisions.space, seed=0))
    (first,) = task.propose(1)
    (second,) = task.propose(1)  # while the first is measured
    task.tell([first, second], [0.0, 0.0])
    assert len(task.propose(8)) == 1


def test_a_task_without_a_valid_candidate_ends_with_a_warning(caplog):
    class Hopeless(Rejecting):
        def candidate(self, configuration):
            return None, configuration

    decisions = Hopeless()
    assert TaskSearch("hopeless", decisions, OpEvo(decisions.space, seed=0)).propose(8) == []
    assert "hopeless: no more candidates" in caplog.text


def test_a_task_without_more_candidates_is_warned_of_unless_one_may_still_succeed(monkeypatch):
    class Single(Decisions):
        space = Space({"x": Discrete([0])})

    levels = []
    monkeypatch.setattr(task_search.logger, "log", lambda level, *_: levels.append(level))
    decisions = Single()
    task = TaskSearch("relu", decisions, OpEvo(decisions.space, seed=0))
    (candidate,) = task.propose(4)
    assert not task.propose(4)
    task.tell([candidate], [0.0])
    assert not task.propose(4)
    assert levels == [logging.INFO, logging.WARNING]
