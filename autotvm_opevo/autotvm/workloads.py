"""An earlier name of `autotvm_opevo.networks.relay`, which scripts import."""

from autotvm_opevo.networks.relay import NETWORKS, alexnet, model_file, network, operator

__all__ = ["NETWORKS", "alexnet", "model_file", "network", "operator"]
