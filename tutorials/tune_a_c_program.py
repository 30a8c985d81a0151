"""
Tune a C program with a topology of your own
============================================

The search does not depend on TVM: anything with knobs and a measurement can be tuned. Here it is a
matrix product in C, with tiles, the loop order and the compiler flags as knobs::

    # 60 trials with gcc, and 15 for another size: half a minute
    python tutorials/tune_a_c_program.py

The tiles, the loop order and the optimization level use topologies of this package. The set of
flags gets one defined here. The results then warm-start a search for matrices of another size.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from autotvm_opevo import OpEvo, Space
from autotvm_opevo.topology import Categorical, Factorization, Permutation, Topology, check_topology

# %%
# A topology of your own
# ----------------------
# A topology numbers its values and lists the neighbours of each; a random walk needs no more. A
# step switches one flag on or off, so the graph is a hypercube. It is implicit: with 40 flags it
# would have 2**40 vertices. The kernel of the Gaussian process also needs distances:
# ``coordinates`` returns integers whose L1 distance is the number of steps.


class Subset(Topology):
    """All subsets of a set; neighbours differ in one element."""

    def __init__(self, things):
        self.things = tuple(things)
        self.size = 2 ** len(self.things)

    def __getitem__(self, index):
        number = self._check_index(index)
        return frozenset(thing for i, thing in enumerate(self.things) if number >> i & 1)

    def index(self, value):
        if not isinstance(value, frozenset) or not value <= set(self.things):
            raise self._invalid_value(value)
        return sum(1 << i for i, thing in enumerate(self.things) if thing in value)

    def neighbours(self, value):
        self.index(value)  # raises unless value is a subset
        return [value ^ {thing} for thing in self.things]

    def coordinates(self, value):
        return tuple(int(thing in value) for thing in self.things)

    def __repr__(self):
        return f"Subset({list(self.things)})"


# A mistake in such a class is easy to make and hard to notice: the search would silently cover only
# some of the values.
check_topology(Subset("abcd"))


# %%
# The space
# ---------
# Each of the three loops of n iterations is split in two, the inner loops run in any order, and the
# compiler gets one of three optimization levels and any of six flags.

FLAGS = [
    "-march=native",
    "-ffast-math",
    "-funroll-loops",
    "-fno-tree-vectorize",
    "-fprefetch-loop-arrays",
    "-fno-inline",
]


def space_of(n):
    return Space(
        {
            "i": Factorization(n, parts=2),
            "j": Factorization(n, parts=2),
            "k": Factorization(n, parts=2),
            "order": Permutation(3),
            "level": Categorical(["-O1", "-O2", "-O3"]),
            "flags": Subset(FLAGS),
        }
    )


# %%
# The measurement
# ---------------
# A configuration is turned into a program, compiled, run and checked. The fitness is runs per
# second; a configuration that fails to compile, times out or computes a wrong result has fitness 0.

PROGRAM = """
#include <stdio.h>
#include <time.h>
static float a[{n}][{n}], b[{n}][{n}], c[{n}][{n}];
static double seconds(void) {{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}}
static void product(void) {{
    for (int io = 0; io < {n}; io += {i})
    for (int jo = 0; jo < {n}; jo += {j})
    for (int ko = 0; ko < {n}; ko += {k})
        {loops}
            c[x][y] += a[x][z] * b[z][y];
}}
int main(void) {{
    for (int x = 0; x < {n}; x++) for (int y = 0; y < {n}; y++) {{
        a[x][y] = (x + 2 * y) % 7;
        b[x][y] = (3 * x + y) % 5;
    }}
    double best = 1e9;
    for (int run = 0; run < 3; run++) {{
        for (int x = 0; x < {n}; x++) for (int y = 0; y < {n}; y++) c[x][y] = 0;
        double start = seconds();
        product();
        double took = seconds() - start;
        best = took < best ? took : best;
    }}
    double sum = 0;
    for (int x = 0; x < {n}; x++) for (int y = 0; y < {n}; y++) sum += c[x][y] * (1 + (x + y) % 3);
    printf("%.9f %.0f\\n", best, sum);
}}
"""
INNER = [
    "for (int x = io; x < io + {i}; x++)",
    "for (int y = jo; y < jo + {j}; y++)",
    "for (int z = ko; z < ko + {k}; z++)",
]


def source(configuration):
    """The C source of a configuration."""
    n = configuration["i"][0] * configuration["i"][1]
    tiles = {name: configuration[name][1] for name in "ijk"}
    loops = "\n        ".join(INNER[axis].format(**tiles) for axis in configuration["order"])
    return PROGRAM.format(n=n, loops=loops, **tiles)


def run(configuration, folder):
    """Run time in seconds and checksum of a configuration; raises if it fails."""
    code, program = folder / "product.c", folder / "product"
    code.write_text(source(configuration))
    compiler = [
        "gcc",
        configuration["level"],
        *sorted(configuration["flags"]),
        str(code),
        "-o",
        str(program),
    ]
    subprocess.run(compiler, check=True, capture_output=True, timeout=30)
    done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=10)
    seconds, checksum = done.stdout.split()
    return float(seconds), checksum


def fitness(configuration, folder, expected):
    try:
        seconds, checksum = run(configuration, folder)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0.0
    return 1 / seconds if checksum == expected else 0.0


# %%
# Tune it
# -------
# Ask for eight configurations, measure them, tell the search the results, repeat. The baseline is
# the plain loop nest at -O2.


def tune(n, trials, seed, folder, history=()):
    """Tune for matrices of n x n; returns the space, the configurations that were measured, and
    their fitnesses.
    """
    space = space_of(n)
    print(f"{n} x {n}: {space.size:,} configurations")
    plain = {
        "i": (1, n),
        "j": (1, n),
        "k": (1, n),
        "order": (0, 1, 2),
        "level": "-O2",
        "flags": frozenset(),
    }
    _, expected = run(plain, folder)
    search = OpEvo(space, seed=seed, history=history)
    tried, fitnesses = [], []
    while len(tried) < trials and (configurations := search.ask(min(8, trials - len(tried)))):
        results = [fitness(c, folder, expected) for c in configurations]
        search.tell(configurations, results)
        tried += configurations
        fitnesses += results
        print(
            f"after {len(tried):>3} trials: {1e3 / search.best[1]:.3f} ms"
            if search.best
            else "all trials have failed"
        )
    best, _ = search.best or (plain, 0.0)
    before, after = (run(configuration, folder)[0] for configuration in (plain, best))
    print(
        f"before {1e3 * before:.3f} ms, after {1e3 * after:.3f} ms: {before / after:.1f} "
        "times as fast"
    )
    for knob, value in best.items():
        print(f"  {knob}: {' '.join(sorted(value)) if knob == 'flags' else value}")
    return space, tried, fitnesses


# %%
# Another size
# ------------
# ``history`` has the results of other tasks: their spaces, configurations and fitnesses. Knobs
# of the same name mean the same; tiles of other extents are compared by the logarithms of their
# parts. The first batch has the best configurations of before. A quarter of the trials is enough.


def main():
    parser = argparse.ArgumentParser(description="Tune a C program with OpEvo.")
    parser.add_argument(
        "--trials", type=int, default=60, help="number of configurations to measure (default: 60)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the search (default: 0)")
    options = parser.parse_args()
    for name, least in (("trials", 1), ("seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} must be at least {least}, {getattr(options, name)} given")
    if not shutil.which("gcc"):
        sys.exit("tune_a_c_program: gcc not found on the PATH")
    with tempfile.TemporaryDirectory() as name:
        learned = tune(256, options.trials, options.seed, Path(name))
        tune(384, -(-options.trials // 4), options.seed, Path(name), history=[learned])


if __name__ == "__main__":
    main()
