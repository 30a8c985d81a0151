"""From a Relax network to functions that can be tuned: layouts, Winograd's algorithm, polynomials.
Needs TVM 0.27.
"""
