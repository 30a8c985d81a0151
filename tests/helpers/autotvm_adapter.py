"""AutoTVM, for the contract suite."""

import json
import os
from itertools import count
from math import inf

import adapter
import numpy as np
from instant_measuring import for_real, instant
from small_networks import TARGET, one_layer
from tvm import autotvm

from autotvm_opevo.autotvm import tune_network
from autotvm_opevo.autotvm.measurer import Measurer
from autotvm_opevo.networks import relay as workloads
from autotvm_opevo.tuning.logs import best_file


class AutoTVM(adapter.Adapter):
    """See `adapter.Adapter`. The two tasks of the small network are templates of one operator."""

    measurer = Measurer
    operator = ("--operator", "nn.dense", "--tensor", "8x64", "--tensor", "32x64")

    def __init__(self, folder):
        super().__init__(folder)
        self.log = self.records = folder / "log.json"
        self.best, self.run_log = best_file(self.log), folder / "log.json.journal"

    def tune(self, trials, network="small", seconds=adapter.made_up, **options):
        numbers = count()
        measured = for_real() if seconds is None else instant(lambda config: seconds(next(numbers)))
        defaults = {"evaluate": False, "seed": 0, "transfer": seconds is None}
        options = {**defaults, "measure_option": measured, **options}
        return tune_network(*_network(network), TARGET, self.log, trials, **options)

    def read(self, file):
        found = []
        for line in file.read_text().splitlines():
            fields = json.loads(line)
            seconds, error, *_ = fields["result"]
            found.append(
                adapter.Record(
                    json.dumps(fields["input"]),
                    json.dumps(fields["config"]["entity"]),
                    inf if error else np.mean(seconds),
                )
            )
        return found

    def applied(self):
        with TARGET, autotvm.apply_history_best(str(self.best)) as context:
            return sum(
                context.query(TARGET, measured.task.workload).index == measured.config.index
                for measured, _ in autotvm.record.load_from_file(str(self.best))
            )

    @staticmethod
    def global_state():
        return autotvm.GLOBAL_SCOPE.in_tuning, os.environ.get("TOPHUB_LOCATION")


def _network(name):
    if name == "small":
        return one_layer(), {}
    shapes = [(8, 64), (32, 64)] if name == "other" else [(1, 2), (2, 2)]
    return workloads.operator("nn.dense", shapes)
