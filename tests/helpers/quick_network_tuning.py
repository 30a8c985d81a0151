"""Real tuning of small Relax networks, in seconds."""

from quick_tuning import builder, runner
from unoptimized import cpu

from autotvm_opevo.meta_schedule import tune_network
from autotvm_opevo.networks import relax as workloads


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
    return tune_module(*operator, folder, trials, evaluate=False, **options)
