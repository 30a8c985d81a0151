"""Measure options: this package's builder and runner, and instant ones with made-up results."""

import time

from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.measure.measure import Builder, Runner
from tvm.autotvm.measure.measure_methods import BuildResult

from autotvm_opevo.autotvm import LocalBuilder, LocalRunner

# Seconds for one build or run: no test waits for it to pass, and a busy machine must not reach it.
TIMEOUT = 120


def for_real():
    """Measure on this machine, with the builder and the runner of this package."""
    return autotvm.measure_option(
        builder=LocalBuilder(timeout=TIMEOUT),
        runner=LocalRunner(number=1, repeat=1, cooldown_interval=0, timeout=TIMEOUT),
    )


class InstantBuilder(Builder):
    """Builds nothing."""

    def build(self, measure_inputs):
        return [BuildResult("", (), None, 0.0) for _ in measure_inputs]


class InstantRunner(Runner):
    """Results from a function of the ConfigEntity, which returns seconds, or None for a failure."""

    def __init__(self, seconds):
        super().__init__(timeout=1, n_parallel=1)
        self.seconds = seconds

    def get_build_kwargs(self):
        return {}

    def run(self, measure_inputs, build_results):
        return [result(self.seconds(measured.config)) for measured in measure_inputs]


def instant(seconds=lambda config: 1e-3, batch=4):
    return autotvm.measure_option(
        builder=InstantBuilder(timeout=1, n_parallel=batch), runner=InstantRunner(seconds)
    )


def result(seconds):
    if seconds is None:
        failure = ("Traceback ...", RuntimeError("this one fails"))
        return MeasureResult(failure, MeasureErrorNo.RUNTIME_DEVICE, 0.0, time.time())
    return MeasureResult((seconds,), MeasureErrorNo.NO_ERROR, 0.0, time.time())


def measured(task, config):
    return MeasureInput(task.target, task, config)


class Recorder:
    """A callback that collects all records."""

    def __init__(self):
        self.pairs = []

    def __call__(self, tuner, inputs, results):
        self.pairs += zip(inputs, results)

    @property
    def indices(self):
        return [measured.config.index for measured, _ in self.pairs]
