"""Searches to compare OpEvo with: G-BFS and N-A2C (Zhang et al. 2019), NoSE (Gatopoulos et al.)."""

from autotvm_opevo.baselines.g_bfs import GBFS
from autotvm_opevo.baselines.n_a2c import NA2C
from autotvm_opevo.baselines.nose import NoSE

__all__ = ["GBFS", "NA2C", "NoSE"]
