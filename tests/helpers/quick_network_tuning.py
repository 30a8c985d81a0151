"""Real tuning of small Relax networks, in seconds."""

from quick_tuning import builder, runner
from unoptimized import cpu

from autotvm_opevo.meta_schedule import tune_network
from autotvm_opevo.networks import relax as workloads


def tune(folder, trials, **options):
    """Tune an MLP."""
    return tune_network(
        *workloads.mlp(),
        cpu(),
        folder,
        trials,
        builder=builder(),
        runner=runner(),
        seed=0,
        **options,
    )


def tune_operator(folder, trials, **options):
    """Tune a matrix product."""
    operator = workloads.operator("matmul", [(32, 32), (32, 32)])
    return tune_network(
        *operator,
        cpu(),
        folder,
        trials,
        builder=builder(),
        runner=runner(),
        evaluate=False,
        **options,
    )
