"""Search spaces, random walks on them, and OpEvo with a Gaussian-process surrogate (Sections 3 and
4). Independent of TVM.
"""

from autotvm_opevo.search import random_walk
from autotvm_opevo.search.opevo import OpEvo
from autotvm_opevo.search.space import Space

__all__ = ["OpEvo", "Space", "random_walk"]
