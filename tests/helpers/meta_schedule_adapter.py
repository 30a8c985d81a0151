"""MetaSchedule, for the contract suite."""

import json
import logging
from itertools import count
from math import inf

import adapter
import numpy as np
from quick_tuning import builder, count_scheduled, runner
from relax_modules import product_and_softmax
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.runner import PyRunner
from tvm.s_tir.meta_schedule.runner.local_runner import LocalRunnerFuture

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import lower
from autotvm_opevo.meta_schedule import as_target, tune_network
from autotvm_opevo.meta_schedule.measurer import Measurer
from autotvm_opevo.networks import relax as workloads
from autotvm_opevo.tuning.logs import BEST_DATABASE, RECORD_FILE, WORKLOAD_FILE
from autotvm_opevo.tuning.record_lines import UNMEASURED
from autotvm_opevo.tuning.run_log import FILE_NAME


class MetaSchedule(adapter.Adapter):
    """See `adapter.Adapter`."""

    measurer = Measurer
    operator = ("--operator", "matmul", "--tensor", "32x32", "--tensor", "32x32")

    def __init__(self, folder):
        super().__init__(folder)
        self.log = folder / "log"
        self.records, self.run_log = self.log / RECORD_FILE, self.log / FILE_NAME
        self.best = self.log / BEST_DATABASE / RECORD_FILE

    def tune(self, trials, network="small", seconds=adapter.made_up, **options):
        own = (
            {"builder": builder(), "runner": runner()}
            if seconds is None
            else {"builder": Builder(), "runner": Runner(seconds)}
        )
        defaults = {"evaluate": False, "seed": 0, "transfer": seconds is None}
        options = {**defaults, **own, **options}
        return tune_network(*_network(network), "llvm", self.log, trials, **options)

    def read(self, file):
        found = []
        workloads = file.with_name(WORKLOAD_FILE).read_text().splitlines()
        for line in file.read_text().splitlines():
            workload, (trace, seconds, *_) = json.loads(line)
            latency = np.mean(list(map(float, seconds)))
            found.append(
                adapter.Record(
                    json.loads(workloads[workload])[0],
                    json.dumps(trace),
                    latency if latency < UNMEASURED else inf,
                )
            )
        return found

    def applied(self):
        target = as_target("llvm")
        lowered = lower(bind_params(*_network("small")), target)
        return count_scheduled(lowered, target, self.best.parent)

    @staticmethod
    def global_state():
        logger = logging.getLogger("tvm.s_tir.meta_schedule")
        return logger.level, logger.propagate, list(logger.handlers)


@derived_object
class Builder(PyBuilder):
    """Builds nothing."""

    def build(self, inputs):
        return [BuilderResult("", None) for _ in inputs]


@derived_object
class Runner(PyRunner):
    """Seconds by a trial's number, or None for a failure."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds, self.numbers = seconds, count()

    def run(self, inputs):
        return [self._run() for _ in inputs]

    def _run(self):
        seconds = self.seconds(next(self.numbers))
        if seconds is None:
            return LocalRunnerFuture(None, "this one fails")
        return LocalRunnerFuture([seconds], None)


def _network(name):
    if name == "small":
        return product_and_softmax(), None
    if name == "other":
        return workloads.operator("matmul", [(32, 32), (32, 32)])
    return workloads.operator("nn.relu", [(4,)])
