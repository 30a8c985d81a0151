"""Search spaces of knobs as graphs (Section 3 of the paper): neighbours should perform alike.

Every topology is an undirected graph whose vertices are the knob's values themselves:

===================  ==============================================  ===========================================
topology             values                                          neighbours
===================  ==============================================  ===========================================
`Factorization`      tuples of positive integers with a given        one prime factor moved between two parts
                     product
`Permutation`        permutations of ``range(n)``                    two positions swapped
`Discrete`           numbers                                         the next smaller and the next larger
`Categorical`        anything                                        all others
`InducedSubgraph`            some of the vertices of another graph           the same edges, and bridges where they fall
                                                                     apart
===================  ==============================================  ===========================================

All but `InducedSubgraph` are implicit: making one costs time and memory in proportion to its description, not to its vertices.
"""

from autotvm_opevo.topology.base import Graph, Topology
from autotvm_opevo.topology.discrete import Categorical, Discrete
from autotvm_opevo.topology.factorization import Factorization, Tiling
from autotvm_opevo.topology.permutation import Permutation
from autotvm_opevo.topology.subgraph import InducedSubgraph
from autotvm_opevo.topology.testing import check_topology

__all__ = [
    "Categorical",
    "Discrete",
    "Factorization",
    "Graph",
    "InducedSubgraph",
    "Permutation",
    "Tiling",
    "Topology",
    "check_topology",
]
