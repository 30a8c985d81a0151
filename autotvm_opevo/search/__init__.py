"""The search: a space of topologies, walks on them, and OpEvo with a Gaussian process (Sections 3 and 4). Knows no TVM."""

from autotvm_opevo.search import random_walk
from autotvm_opevo.search.opevo import OpEvo
from autotvm_opevo.search.space import Space

__all__ = ["OpEvo", "Space", "random_walk"]
