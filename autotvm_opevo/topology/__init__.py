"""Knobs as graphs (Section 3 of the paper): neighbouring values are expected to perform alike.

A topology is an undirected graph whose vertices are the values of a knob:

=================  =======================================  ======================================
topology           values                                   neighbours
=================  =======================================  ======================================
`Factorization`    tuples of positive integers with a       move one prime factor from one part
                   given product                            to another
`Permutation`      permutations of ``range(n)``             swap two positions
`Discrete`         numbers                                  the next smaller and the next larger
                                                            value
`Categorical`      anything                                 all other values
`InducedSubgraph`  a subset of another graph's vertices     the same edges, plus bridges between
                                                            connected components
=================  =======================================  ======================================

All but `InducedSubgraph` are implicit: no edge is stored, nor the vertices of the first two,
however many there are.
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
