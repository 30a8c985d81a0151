"""Tuning of small Relax networks: for real, in seconds, or with made-up results, in a moment."""

from adapter import made_up
from meta_schedule_adapter import Builder, Runner
from quick_tuning import builder, runner
from unoptimized import cpu

from autotvm_opevo.meta_schedule import tune_network
from autotvm_opevo.networks import relax as workloads


def instant(seconds=made_up):
    """A builder and a runner that do nothing, with seconds by a trial's number. As for another
    machine, the network is neither verified nor compared.
    """
    return {"builder": Builder(), "runner": Runner(seconds), "evaluate": False}


def tune_module(mod, params, folder, trials, **options):
    """Tune a network with a builder and a runner that a busy machine does not time out."""
    options = {"builder": builder(), "runner": runner(), "seed": 0, **options}
    return tune_network(mod, params, cpu(), folder, trials, **options)


def tune(folder, trials, **options):
    """Tune an MLP."""
    return tune_module(*workloads.mlp(), folder, trials, **options)


def tune_operator(folder, trials, **options):
    """Tune a matrix product."""
    operator = workloads.operator("matmul", [(32, 32), (32, 32)])
    return tune_module(*operator, folder, trials, **{"evaluate": False, **options})
