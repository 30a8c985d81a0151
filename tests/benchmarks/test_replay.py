"""A replay is faithful: AutoTVM's own tuners and loop see in it what the table says, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_landscape import landscape
from tvm import autotvm, te
from tvm.autotvm.measure import MeasureErrorNo

from benchmarks import replay, tuners
from benchmarks.arena import KNOBS
from benchmarks.landscape import FOLDER, Landscape, load


def replayed(name, blind, trials=100):
    """The numbers that a tuner proposed, and the results that it was told."""
    whole, seen = landscape(), []
    task = replay.task(whole, blind)
    with tuners.features_in_this_process():
        tuner = tuners.make(name, task, seed=0)
        note = [lambda _, inputs, results: seen.extend((i.config.index, r) for i, r in zip(inputs, results))]
        tuner.tune(trials, replay.measure_option(whole, batch=4), callbacks=note)
    return whole, seen


@pytest.mark.parametrize("blind", [True, False], ids=["blind", "known"])
@pytest.mark.parametrize("name", ["OpEvo", "NoSE", KNOBS, "GA", "Random", "Grid", "Droplet"])
def test_a_tuner_is_told_what_the_table_says(name, blind):
    whole, seen = replayed(name, blind, trials=24)
    assert seen
    for number, result in seen:
        milliseconds, error = whole.look_up(number)
        assert result.error_no == error
        if error == MeasureErrorNo.NO_ERROR:
            assert result.costs == (pytest.approx(milliseconds / 1e3),)
        else:
            assert MeasureErrorNo(error).name in str(result.costs[1])
        assert blind or number in whole


@pytest.mark.parametrize("blind", [True, False], ids=["blind", "known"])
def test_a_whole_replay_and_the_table_agree_point_by_point(blind):
    whole, seen = replayed("OpEvo", blind)
    told = {number: result.costs[0] * 1e3 for number, result in seen if result.error_no == 0}
    table = dict(zip(whole.numbers(whole.positions), whole.time))
    assert told == {number: pytest.approx(time) for number, time in table.items() if not np.isnan(time)}
    assert {number for number, _ in seen} == (set(range(whole.size)) if blind else set(table))


def test_values_are_the_landscape_s_own():
    whole = landscape()
    space = replay.task(whole).config_space
    config = space.get(space.knob2point([2, 1, 1]))
    assert [config[knob].val for knob in whole.values] == [4, 32, True]


def test_features_taken_in_this_process_are_those_of_worker_processes():
    tensors = te.placeholder((32, 32)), te.placeholder((32, 32))
    task = autotvm.task.create("dense_nopack.x86", args=(*tensors, None, "float32"), target="llvm")
    model = autotvm.tuner.xgboost_cost_model.XGBoostCostModel
    expected = model(task, "itervar")._get_feature([0, 5, 11])
    with tuners.features_in_this_process():
        found = model(task, "itervar")._get_feature([0, 5, 11])
    assert expected.any()
    np.testing.assert_array_equal(found, expected)


def test_later_generations_of_opevo_are_faster_than_the_first():
    """On what was measured of a matmul, over 8 trials and 10 seeds: random search stays where it began."""
    whole = load(FOLDER / "splits-64.npz")
    gains = {"OpEvo": [], "Random": []}
    for name, found in gains.items():
        for seed in range(10):
            seconds = []
            note = [lambda _, inputs, results, to=seconds: to.extend(result.costs[0] for result in results)]
            tuners.make(name, replay.task(whole), seed).tune(48, replay.measure_option(whole), callbacks=note)
            found.append(np.log(seconds[:8]).mean() - np.log(seconds[-8:]).mean())
    assert np.mean(gains["OpEvo"]) > np.log(1.5)
    assert abs(np.mean(gains["Random"])) < np.log(1.5)


@pytest.mark.parametrize("name", ["G-BFS", "N-A2C"])
def test_tuners_of_factorizations_refuse_other_landscapes(name):
    task = replay.task(landscape())
    assert not tuners.handles(name, task)
    with pytest.raises(ValueError, match="'a' is a Discrete"):
        tuners.make(name, task, seed=0)


def test_xgbtuner_trains_on_the_knobs(tmp_path):
    """Its model is made after 64 trials: before, it draws at random."""
    values = {f"k{i}": list(range(6)) for i in range(3)}
    positions = np.stack(np.unravel_index(np.arange(216), (6, 6, 6), order="F"), axis=1)
    time = 1.0 + positions.sum(axis=1)
    whole = Landscape("sums", values, dict.fromkeys(values, "ordinal"), positions, time, np.zeros(216, dtype=int))
    with tuners.features_in_this_process():
        tuner = tuners.make(KNOBS, replay.task(whole), seed=0)
        tuner.tune(80, replay.measure_option(whole))
    assert tuner.cost_model.bst is not None


def test_values_that_are_no_numbers_are_refused():
    whole = replace(landscape(), values={"a": [1, 2, 4, 8], "b": [16, 32, 64], "switch": ["none", "vec"]})
    with pytest.raises(ValueError, match=r"values must be numbers.*'vec'"):
        replay.task(whole)
