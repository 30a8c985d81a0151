"""
The graphs that OpEvo walks on
==============================

This script draws Figures 1 and 2 of the paper with the package's own topologies::

    python tutorials/draw_topologies.py          # writes topologies.png and walks.png to tuned/

Every knob is a graph of its values. Neighbours tend to perform alike, so a mutation is a random
walk. At each vertex it moves to a uniformly drawn neighbour with probability q, or else stops.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from autotvm_opevo import random_walk
from autotvm_opevo.topology import Categorical, Discrete, Factorization, Permutation

# %%
# Four topologies
# ---------------
# In a factorization of 8 into three parts, a step moves a factor 2 from one part to another. In a
# permutation of three loops, a step swaps two of them. Unroll factors lie on a line, and the
# categories are all adjacent to each other.

tiles = Factorization(8, parts=3)
order = Permutation(3)
unroll = Discrete([1, 2, 3, 4])
thread = Categorical(["a", "b", "c", "d", "e", "f"])

print(f"from {(8, 1, 1)} a step leads to {list(tiles.neighbours((8, 1, 1)))}")
print(f"from {(0, 1, 2)} a step leads to {list(order.neighbours((0, 1, 2)))}")

# %%
# Drawing a graph
# ---------------
# Only the positions are made up here; the edges come from the topology.


def triangle(topology):
    """Positions of the factorizations of 2**3 into three parts: the exponents are barycentric
    coordinates.
    """
    corners = np.array([[0.0, 1.0], [-0.87, -0.5], [0.87, -0.5]])
    return np.array([np.log2(value) @ corners / 3 for value in topology])


def circle(topology):
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(topology)) / len(topology)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def line(topology):
    return np.column_stack([np.linspace(-1, 1, len(topology)), np.zeros(len(topology))])


def label(value):
    """Format a vertex: 8x1x1 for a tile, 0 1 2 for an order."""
    if isinstance(value, tuple):
        return (" " if 0 in value else "x").join(map(str, value))
    return str(value)


def draw(axes, topology, positions, shades, norm):
    for u in topology:
        for v in topology.neighbours(u):
            ends = positions[[topology.index(u), topology.index(v)]]
            axes.plot(*ends.T, color="0.75", linewidth=1, zorder=1)
    dots = axes.scatter(
        *positions.T, c=shades, s=900, edgecolor="0.3", zorder=2, cmap="YlOrBr", norm=norm
    )
    for value, position in zip(topology, positions):
        axes.annotate(label(value), position, ha="center", va="center", fontsize=8, zorder=3)
    axes.set_axis_off()
    axes.margins(0.18)
    return dots


# %%
# Figure 1
# --------


def figure_1(path):
    figure, ((a, b), (c, d)) = plt.subplots(2, 2, figsize=(9, 8), layout="constrained")
    for axes, topology, place, title in [
        (a, tiles, triangle, "(a) factorization, C = 8, nu = 3"),
        (b, order, circle, "(b) permutation, n = 3"),
        (c, unroll, line, "(c) discrete"),
        (d, thread, circle, "(d) categorical"),
    ]:
        draw(axes, topology, place(topology), np.full(len(topology), 0.2), plt.Normalize(0, 1))
        axes.set_title(title)
    figure.savefig(path, dpi=110)


# %%
# Figure 2
# --------
# The exact stopping distribution of a walk from (8, 1, 1). Near vertices are more likely; of the
# three that are two steps away, (2, 2, 2) is the most likely because it has the most neighbours. A
# larger q reaches farther.


def figure_2(path, rates=(0.5, 0.7)):
    start = (8, 1, 1)
    distributions = [random_walk.distribution(tiles, start, q) for q in rates]
    # darker shades would hide the labels
    norm = plt.Normalize(0, 1.4 * max(stops.max() for stops in distributions))
    figure, panels = plt.subplots(1, len(rates), figsize=(10, 4.6), layout="constrained")
    for axes, q, stops in zip(panels, rates, distributions):
        dots = draw(axes, tiles, triangle(tiles), stops, norm)
        for value, p, position in zip(tiles, stops, triangle(tiles)):
            weight = "bold" if value == start else "normal"
            axes.annotate(
                f"{p:.3f}",
                position,
                (0, -24),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                weight=weight,
            )
        axes.set_title(f"q = {q}, from {label(start)}")
    figure.colorbar(dots, ax=panels, label="stopping probability")
    figure.savefig(path, dpi=110)
    for q, stops in zip(rates, distributions):
        likely = sorted(((p, value) for value, p in zip(tiles, stops)), reverse=True)[:4]
        print(f"q = {q}: " + ", ".join(f"{label(value)} {p:.3f}" for p, value in likely))


def main():
    parser = argparse.ArgumentParser(description="Draw Figures 1 and 2 of the paper.")
    parser.add_argument(
        "--out", type=Path, default=Path("tuned"), help="output directory (default: tuned/)"
    )
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    figure_1(out / "topologies.png")
    figure_2(out / "walks.png")
    print(f"figures: {out / 'topologies.png'}, {out / 'walks.png'}")


if __name__ == "__main__":
    main()
