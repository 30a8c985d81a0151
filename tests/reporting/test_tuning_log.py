"""Operators of a network and their total latency."""

import numpy as np
import pytest
from synthetic_logs import autotvm_line, key_of, record, write_log

from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.tuning.run_log import RunStarted


def test_the_total_is_the_sum_of_the_operators_best_so_far(tmp_path):
    """Dense runs twice and has two implementations; the total is infinite until both operators have
    a successful trial.
    """
    trials = [("dense", 8), ("conv2d", 5), ("dense_pack", 3), ("conv2d", 9), ("conv2d", 4)]
    lines = [
        autotvm_line(i, template, latency=ms * 1e-3) for i, (template, ms) in enumerate(trials)
    ]
    path = write_log(tmp_path / "log.json", *lines)
    keys = [key_of(name) for name in ("dense", "dense_pack", "conv2d")]
    record(path, RunStarted([(2, keys[:2]), (1, keys[2:])], "OpEvoTuner"))
    (log,) = open_logs([path])
    assert list(log.best_so_far * 1e3) == pytest.approx([np.inf, 21, 11, 11, 10])
    assert log.seconds == pytest.approx(0.01)
