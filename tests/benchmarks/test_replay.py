"""A replay is faithful: AutoTVM's own tuners and loop get exactly what the table holds."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_landscape import landscape
from tvm import autotvm, te
from tvm.autotvm.measure import MeasureErrorNo

from benchmarks import replay, tuners
from benchmarks.landscape import FOLDER, Landscape, load
from benchmarks.runs import KNOBS


def replayed(name, hidden, trials=100):
    """The indices that a tuner proposed, and their results."""
    whole, seen = landscape(), []
    task = replay.task(whole, hidden)
    with tuners.in_process_features():
        tuner = tuners.make(name, task, seed=0)
        note = [
            lambda _, inputs, results: seen.extend(
                (i.config.index, r) for i, r in zip(inputs, results)
            )
        ]
        tuner.tune(trials, replay.measure_option(whole, batch=4), callbacks=note)
    return whole, seen


@pytest.mark.parametrize("hidden", [True, False], ids=["hidden", "known"])
@pytest.mark.parametrize(
    "name", ["OpEvo", "OpEvo-published", "NoSE", KNOBS, "GA", "Random", "Grid", "Droplet"]
)
def test_results_are_those_of_the_table(name, hidden):
    whole, seen = replayed(name, hidden, trials=24)
    assert seen
    for index, result in seen:
        milliseconds, error = whole.look_up(index)
        assert result.error_no == error
        if error == MeasureErrorNo.NO_ERROR:
            assert result.costs == (pytest.approx(milliseconds / 1e3),)
        else:
            assert MeasureErrorNo(error).name in str(result.costs[1])
        assert hidden or index in whole


@pytest.mark.parametrize("hidden", [True, False], ids=["hidden", "known"])
def test_an_exhaustive_replay_agrees_with_the_table(hidden):
    whole, seen = replayed("OpEvo-published", hidden)
    replayed_times = {
        index: result.costs[0] * 1e3 for index, result in seen if result.error_no == 0
    }
    table = dict(zip(whole.config_indices(whole.knob_indices), whole.time))
    assert replayed_times == {
        index: pytest.approx(time) for index, time in table.items() if not np.isnan(time)
    }
    assert {index for index, _ in seen} == (set(range(whole.size)) if hidden else set(table))


def test_values_are_those_of_the_landscape():
    whole = landscape()
    space = replay.task(whole).config_space
    config = space.get(space.knob2point([2, 1, 1]))
    assert [config[knob].val for knob in whole.values] == [4, 32, True]


def test_in_process_features_equal_those_of_worker_processes():
    tensors = te.placeholder((32, 32)), te.placeholder((32, 32))
    task = autotvm.task.create("dense_nopack.x86", args=(*tensors, None, "float32"), target="llvm")
    model = autotvm.tuner.xgboost_cost_model.XGBoostCostModel
    expected = model(task, "itervar")._get_feature([0, 5, 11])
    with tuners.in_process_features():
        features = model(task, "itervar")._get_feature([0, 5, 11])
    assert expected.any()
    np.testing.assert_array_equal(features, expected)


def test_later_generations_of_opevo_are_faster_than_the_first():
    """On a recorded matmul, averaged over 8 trials and 10 seeds, unlike random search."""
    whole = load(FOLDER / "splits-64.npz")
    gains = {"OpEvo-published": [], "Random": []}
    for name, gain in gains.items():
        for seed in range(10):
            seconds = []
            note = [
                lambda _, inputs, results, to=seconds: to.extend(
                    result.costs[0] for result in results
                )
            ]
            tuners.make(name, replay.task(whole), seed).tune(
                48, replay.measure_option(whole), callbacks=note
            )
            gain.append(np.log(seconds[:8]).mean() - np.log(seconds[-8:]).mean())
    assert np.mean(gains["OpEvo-published"]) > np.log(1.5)
    assert abs(np.mean(gains["Random"])) < np.log(1.5)


@pytest.mark.parametrize("name", ["G-BFS", "N-A2C"])
def test_tuners_of_factorizations_reject_other_landscapes(name):
    task = replay.task(landscape())
    assert not tuners.handles(name, task)
    with pytest.raises(ValueError, match="'a' is a Discrete"):
        tuners.make(name, task, seed=0)


def test_opevo_without_transfer_leaves_bundled_records_out():
    tensors = te.placeholder((1, 64)), te.placeholder((32, 64))
    task = autotvm.task.create("dense_nopack.x86", args=(*tensors, None, "float32"), target="llvm")
    first, other = (
        [config.index for config in tuners.make(name, task, seed=0).next_batch(8)]
        for name in ("OpEvo", "OpEvo-no-transfer")
    )
    assert first != other


def test_xgbtuner_trains_on_the_knobs(tmp_path):
    """Its model is first trained after 64 random trials."""
    values = {f"k{i}": list(range(6)) for i in range(3)}
    knob_indices = np.stack(np.unravel_index(np.arange(216), (6, 6, 6), order="F"), axis=1)
    time = 1.0 + knob_indices.sum(axis=1)
    whole = Landscape("sums", values, knob_indices, time, np.zeros(216, dtype=int))
    with tuners.in_process_features():
        tuner = tuners.make(KNOBS, replay.task(whole), seed=0)
        tuner.tune(80, replay.measure_option(whole))
    assert tuner.cost_model.bst is not None


def test_values_must_be_numbers():
    whole = replace(
        landscape(), values={"a": [1, 2, 4, 8], "b": [16, 32, 64], "switch": ["none", "vec"]}
    )
    with pytest.raises(ValueError, match=r"values of landscape tiny must be numbers.*'vec'"):
        replay.task(whole)
