"""
The graphs that OpEvo walks on
==============================

This script draws Figures 1 and 2 of the paper with the code that tunes::

    python tutorials/draw_topologies.py          # leaves topologies.png and walks.png in tuned/

Every knob is a graph whose vertices are its values. Neighbours should perform alike, so a mutation is a walk: at each vertex it
goes on with probability q, to any neighbour alike, and stops with probability 1 - q.
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
# A factorization of 8 into three parts: moving one factor 2 from one part to another is a step. A permutation of three loops:
# swapping any two is a step. The unrolling steps lie on a line; categories are all neighbours of each other.

tiles = Factorization(8, parts=3)
order = Permutation(3)
unroll = Discrete([1, 2, 3, 4])
thread = Categorical(["a", "b", "c", "d", "e", "f"])

print(f"from {(8, 1, 1)} a step leads to {list(tiles.neighbours((8, 1, 1)))}")
print(f"from {(0, 1, 2)} a step leads to {list(order.neighbours((0, 1, 2)))}")

# %%
# Drawing one
# -----------
# Where a vertex is drawn is all that is made up here; who is whose neighbour comes from the topology.


def triangle(topology):
    """Factorizations of 2**3 into three parts, by the exponents of the parts as barycentric coordinates."""
    corners = np.array([[0.0, 1.0], [-0.87, -0.5], [0.87, -0.5]])
    return np.array([np.log2(value) @ corners / 3 for value in topology])


def circle(topology):
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(topology)) / len(topology)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def line(topology):
    return np.column_stack([np.linspace(-1, 1, len(topology)), np.zeros(len(topology))])


def label(value):
    """8x1x1 for a tile, 0 1 2 for an order."""
    if isinstance(value, tuple):
        return (" " if 0 in value else "x").join(map(str, value))
    return str(value)


def draw(axes, topology, positions, shades, norm):
    for u in topology:
        for v in topology.neighbours(u):
            ends = positions[[topology.index(u), topology.index(v)]]
            axes.plot(*ends.T, color="0.75", linewidth=1, zorder=1)
    dots = axes.scatter(*positions.T, c=shades, s=900, edgecolor="0.3", zorder=2, cmap="YlOrBr", norm=norm)
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
# Where a walk from (8, 1, 1) stops, exactly: near vertices are likelier, and among the three that are two steps away (2, 2, 2)
# is the likeliest, for it has the most neighbours. A larger q reaches farther.


def figure_2(path, rates=(0.5, 0.7)):
    start = (8, 1, 1)
    laws = [random_walk.distribution(tiles, start, q) for q in rates]
    norm = plt.Normalize(0, 1.4 * max(law.max() for law in laws))  # the darkest shades would hide the labels
    figure, panels = plt.subplots(1, len(rates), figsize=(10, 4.6), layout="constrained")
    for axes, q, law in zip(panels, rates, laws):
        dots = draw(axes, tiles, triangle(tiles), law, norm)
        for value, p, position in zip(tiles, law, triangle(tiles)):
            weight = "bold" if value == start else "normal"
            axes.annotate(f"{p:.3f}", position, (0, -24), textcoords="offset points", ha="center", fontsize=8, weight=weight)
        axes.set_title(f"q = {q}, from {label(start)}")
    figure.colorbar(dots, ax=panels, label="probability to stop there")
    figure.savefig(path, dpi=110)
    for q, law in zip(rates, laws):
        likely = sorted(((p, value) for value, p in zip(tiles, law)), reverse=True)[:4]
        print(f"q = {q}: " + ", ".join(f"{label(value)} {p:.3f}" for p, value in likely))


def main():
    parser = argparse.ArgumentParser(description="Draw Figures 1 and 2 of the paper.")
    parser.add_argument("--out", type=Path, default=Path("tuned"), help="where to leave the pictures (default: tuned/)")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    figure_1(out / "topologies.png")
    figure_2(out / "walks.png")
    print(f"pictures: {out / 'topologies.png'}, {out / 'walks.png'}")


if __name__ == "__main__":
    main()
