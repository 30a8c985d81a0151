"""AutoTVM's tuners, of which some forget a log and some repeat themselves."""

import pytest
from instant_measuring import measured, result
from small_templates import matmul_task, scaling_task
from tvm import autotvm
from tvm.autotvm.task.space import ConfigSpace
from tvm.autotvm.tuner.model_based_tuner import ModelBasedTuner

from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.autotvm.task_state import ForeignTuner

TASK = matmul_task()
KNOBS = KnobSpace(TASK.config_space)


def record(index, seconds=1.0):
    return measured(TASK, TASK.config_space.get(index)), result(seconds)


class Listening(autotvm.tuner.GridSearchTuner):
    """Notes what it is told."""

    def __init__(self, task):
        super().__init__(task)
        self.told = []

    def update(self, inputs, results):
        self.told.append(
            [(asked.config.index, *answer.costs) for asked, answer in zip(inputs, results)]
        )


def foreign(tuner, indices):
    """With the trials of some configurations; returns them, too."""
    known = {i: record(i, 1.0 + i) for i in indices}
    return ForeignTuner(tuner, known, KNOBS), known


def test_what_is_known_is_answered_and_not_proposed():
    inner = Listening(TASK)
    tuner, known = foreign(inner, [0, 1, 2, 3, 5])
    assert [config.index for config in tuner.next_batch(2)] == [4]
    assert inner.told == [[(0, 1.0), (1, 2.0)], [(2, 3.0), (3, 4.0)]]
    _, more = foreign(inner, [4])
    known.update(more)
    tuner.update(*zip(*more.values()))
    assert inner.told[2:] == [[(4, 5.0), (5, 6.0)]]


def test_it_is_told_the_indices_that_it_asked_for_though_equal_entities_have_several():
    task = matmul_task()
    task.config_space._entity_map.clear()
    task.config_space.space_map.clear()
    task.config_space.define_knob("unroll", [1, 1, 2])
    inner = Listening(task)
    tuner = ForeignTuner(inner, known := {}, KnobSpace(task.config_space))
    proposed = tuner.next_batch(3)
    assert [config.index for config in proposed] == [0, 0, 2]
    known.update(
        {config.index: (measured(task, config), result(1.0 + config.index)) for config in proposed}
    )
    tuner.update()
    assert inner.told == [[(0, 1.0), (1, 1.0), (2, 3.0)]]


def test_a_batch_of_nothing_but_the_untuned_configuration_is_told_too():
    inner = Listening(TASK)
    tuner, known = foreign(inner, [])
    assert [config.index for config in tuner.next_batch(1)] == [0]
    known.update(foreign(inner, [0])[1])
    tuner.load_history(list(known.values()))
    assert inner.told == [[(0, 1.0)]]


def test_one_that_has_nothing_new_ends():
    class Stubborn(Listening):
        def has_next(self):
            return True

        def next_batch(self, batch_size):
            return [self.space.get(1)] * batch_size

    tuner, _ = foreign(Stubborn(TASK), [1])
    assert tuner.next_batch(4) == []


def test_one_that_is_exhausted_ends():
    size = len(TASK.config_space)
    tuner, _ = foreign(Listening(TASK), [])
    assert len(tuner.next_batch(size)) == size
    assert tuner.next_batch(1) == []


@pytest.mark.parametrize(
    "make", [autotvm.tuner.XGBTuner, autotvm.tuner.GATuner, autotvm.tuner.RandomTuner]
)
def test_a_log_is_loaded_into_all_of_autotvms(make):
    tuner, known = foreign(make(TASK), range(8))
    tuner.load_history(list(known.values()))
    assert {config.index for config in tuner.next_batch(8)}.isdisjoint(range(8))


def xgb_tuner(task):
    few = autotvm.tuner.sa_model_optimizer.SimulatedAnnealingOptimizer(task, n_iter=4)
    return autotvm.tuner.XGBTuner(
        task, plan_size=8, feature_type="knob", num_threads=1, optimizer=few
    )


@pytest.fixture(scope="module")
def learned():
    """An XGBTuner that has learned from a log, its `ForeignTuner`, and all that is known."""
    inner = xgb_tuner(TASK)
    tuner, known = foreign(inner, range(8))
    tuner.load_history(list(known.values()))
    return inner, tuner, known


def test_a_model_of_costs_learns_from_a_short_log(learned):
    inner, _, _ = learned
    assert inner.visited == {*range(8)}
    assert inner.train_ct == 1


def test_a_model_of_costs_has_no_processes_but_while_it_learns(learned):
    inner, tuner, known = learned

    def processes():
        return [worker._proc for worker in inner.cost_model.pool._worker_map.values()]

    assert processes() == [None]
    known.update({config.index: record(config.index) for config in tuner.next_batch(8)})
    tuner.update()
    assert inner.train_ct == 2
    assert processes() == [None]


def test_a_model_of_costs_does_not_learn_what_a_filter_rejects():
    """As it may the untuned configuration, which is measured all the same."""

    def define(cfg, schedule, tensor):
        cfg.define_knob("unroll", [0, 1, 2, 3])
        cfg.multi_filter(lambda entities: entities["unroll"].val != 1)

    task = scaling_task(define)
    inner, knobs = xgb_tuner(task), KnobSpace(task.config_space)
    configs = [knobs.config_entity({"unroll": i}) for i in range(4)]
    trials = [(measured(task, config), result(1.0)) for config in configs]
    tuner = ForeignTuner(inner, dict(enumerate(trials)), knobs)
    tuner.load_history(trials)
    assert inner.visited == {0, 2, 3}
    tuner.load_history(trials[1:2])
    assert inner.visited == {0, 2, 3}


def test_a_model_of_costs_learns_where_tvm_has_no_filters(monkeypatch):
    """As before TVM 0.11."""

    class Model(ModelBasedTuner):
        def __init__(self):
            super().__init__(TASK, None, None, plan_size=64)

        def update(self, inputs, results):
            self.visited |= {measured.config.index for measured in inputs}

    inner, trials = Model(), [record(i) for i in range(4)]
    monkeypatch.delattr(ConfigSpace, "is_index_valid")
    ForeignTuner(inner, {}, KNOBS).load_history(trials)
    assert inner.visited == {*range(4)}


def test_a_model_of_costs_learns_by_the_indices_of_its_own_space():
    """Those of a log may be of an earlier one, with other choices."""
    inner = xgb_tuner(TASK)
    three = TASK.config_space.get(3)
    three.index = 5
    tuner = ForeignTuner(inner, {}, KNOBS)
    tuner.load_history([(measured(TASK, three), result(1.0))])
    assert inner.visited == {3}


def test_one_without_a_history_is_left_alone():
    class Forgetful(Listening):
        def load_history(self, data_set, min_seed_records=500):
            raise NotImplementedError

    tuner, known = foreign(Forgetful(TASK), [0])
    tuner.load_history(list(known.values()))
