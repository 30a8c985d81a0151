"""G-BFS, N-A2C and NoSE as tuners of the real AutoTVM."""

import logging

import pytest
from instant_measuring import Recorder, for_real, instant
from small_templates import matmul_task, scaling_task
from tvm import autotvm

from autotvm_opevo.autotvm import GBFSTuner, NA2CTuner, NoSETuner, tuner


def splits_task():
    def define(cfg, schedule, tensor):
        cfg.define_split("y", cfg.axis(64), num_outputs=3)
        cfg.define_split("x", cfg.axis(24), num_outputs=2)

    return scaling_task(define)


TUNERS = [GBFSTuner, NA2CTuner, NoSETuner]


@pytest.mark.parametrize("make", TUNERS)
def test_resumes_from_a_log(make, tmp_path):
    task, log, first, second = splits_task(), tmp_path / "log.json", Recorder(), Recorder()
    make(task, seed=0).tune(
        20, instant(), callbacks=[first, autotvm.callback.log_to_file(str(log))]
    )
    again = make(task, seed=1)
    again.load_history(autotvm.record.load_from_file(str(log)))
    again.tune(20, instant(), callbacks=[second])
    assert len(set(first.indices) | set(second.indices)) == 40


def test_nose_tunes_knobs_of_every_kind():
    seen = Recorder()
    nose = NoSETuner(matmul_task(), population_size=8, seed=0)
    nose.tune(16, for_real(), callbacks=[seen])
    assert len(set(seen.indices)) == 16
    assert nose.best_flops > 0


@pytest.mark.parametrize("make", TUNERS)
def test_options_of_xgbtuner_are_ignored_and_others_refused(make, caplog, monkeypatch):
    monkeypatch.setattr(tuner, "_warned", set())
    with caplog.at_level(logging.WARNING, "autotvm"):
        make(splits_task(), loss_type="reg")
    assert f"{make.__name__} ignores the options of XGBTuner ['loss_type']" in caplog.text
    with pytest.raises(
        TypeError,
        match=rf"{make.__name__} got unknown options \['q'\]: its options are .*, seed;",
    ):
        make(splits_task(), q=0.5)
