"""Tasks and their trials."""

import gc
import tracemalloc

import numpy as np
from synthetic_logs import autotvm_line, autotvm_log

from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.reporting.trials import Settings, Value


def test_repeated_configurations_are_counted(tmp_path):
    path = tmp_path / "log.json"
    path.write_text("\n".join(autotvm_line(i, tile=8) for i in range(3)))
    (task,) = open_logs([path])[0].tasks.values()
    assert task.repeated == 2


def test_values_with_equal_hashes_are_different_configurations(tmp_path):
    path = tmp_path / "log.json"
    path.write_text("\n".join(autotvm_line(0, unroll=unroll) for unroll in (-1, -2)))
    (task,) = open_logs([path])[0].tasks.values()
    assert task.repeated == 0


def test_best_so_far_is_the_running_minimum(tmp_path):
    (log,) = open_logs([autotvm_log(tmp_path / "log.json")])
    for task in log.tasks.values():
        assert np.array_equal(
            task.best_so_far, [task.latencies[: i + 1].min() for i in range(len(task))]
        )


def test_memory_per_trial_is_small(tmp_path):
    """Knob values are stored once; a trial has four bytes for each of its knobs."""
    path = autotvm_log(tmp_path / "log.json", trials=3_000)
    tracemalloc.start()
    (log,) = open_logs([path])
    _, peak = tracemalloc.get_traced_memory()
    gc.collect()  # when garbage is collected depends on what ran before
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(log) == 6_000
    assert used / 6_000 < 80
    assert peak / 6_000 < 300


def test_trials_have_the_values_that_they_were_given_and_no_others():
    given = [
        {"tile": (8, 1)},
        {},
        {"sketch": "2", "tile": (4, 2)},
        {"sketch": "1"},
        {"tile": (8, 1)},
        {},
    ]
    settings = Settings()
    for trial in given:
        settings.append({name: Value("choice", value) for name, value in trial.items()})
    assert [settings[i] for i in range(len(settings))] == given
