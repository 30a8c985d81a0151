"""An earlier name of `autotvm_opevo.networks.relax`, which scripts import."""

from autotvm_opevo.networks.relax import NETWORKS, alexnet, mlp, model_file, network, operator

__all__ = ["NETWORKS", "alexnet", "mlp", "model_file", "network", "operator"]
