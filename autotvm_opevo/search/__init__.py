"""Search spaces, random walks, and OpEvo (Sections 3 and 4). Independent of TVM."""

from autotvm_opevo.search import random_walk
from autotvm_opevo.search.opevo import OpEvo
from autotvm_opevo.search.space import Space

__all__ = ["OpEvo", "Space", "random_walk"]
