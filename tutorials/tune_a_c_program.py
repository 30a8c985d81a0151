"""
Tune something else: a C program, with a knob of your own
=========================================================

The search knows nothing of TVM. Whatever has knobs and can be measured can be tuned; here that is a matrix product in C, by its
tiles, the order of its loops and the compiler's flags::

    python tutorials/tune_a_c_program.py        # 60 trials with gcc: half a minute

Three of the knobs have graphs that come with this package. The fourth, which flags are switched on, has one that is made here.
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
# A topology numbers its values and says who is whose neighbour; that is all a walk needs. A set of flags becomes another one by
# switching one of them on or off, so the graph is a hypercube. It is never listed: with 40 flags it would have 2**40 vertices.
# The surrogate, which is used below, asks for distances, too: ``coordinates`` are numbers whose differences count the steps.


class Subset(Topology):
    """All subsets of some things; neighbours differ in one of them."""

    def __init__(self, things):
        self.things = tuple(things)
        self.size = 2 ** len(self.things)

    def __getitem__(self, index):
        number = self._vertex_number(index)
        return frozenset(thing for i, thing in enumerate(self.things) if number >> i & 1)

    def index(self, value):
        if not isinstance(value, frozenset) or not value <= set(self.things):
            raise self._no_vertex(value)
        return sum(1 << i for i, thing in enumerate(self.things) if thing in value)

    def neighbours(self, value):
        self.index(value)  # refuses what is no subset
        return [value ^ {thing} for thing in self.things]

    def coordinates(self, value):
        return tuple(int(thing in value) for thing in self.things)

    def __repr__(self):
        return f"Subset({list(self.things)})"


# A mistake in such a class is easily made and hard to see: a search would go on with a part of the values. So it is looked for.
check_topology(Subset("abcd"))


# %%
# The space
# ---------
# 256 is split in two for each of the three loops, the three inner loops run in any order, and the compiler optimizes at one of
# three levels, with any of six flags.

N = 256
FLAGS = ["-march=native", "-ffast-math", "-funroll-loops", "-fno-tree-vectorize", "-fprefetch-loop-arrays", "-fno-inline"]
space = Space(
    {
        "i": Factorization(N, parts=2),
        "j": Factorization(N, parts=2),
        "k": Factorization(N, parts=2),
        "order": Permutation(3),
        "level": Categorical(["-O1", "-O2", "-O3"]),
        "flags": Subset(FLAGS),
    }
)

# %%
# What is measured
# ----------------
# A configuration is a program, which is compiled, run and checked. The fitness is how often a second it could be run; what does
# not compile, takes too long or computes something else has fitness 0, and the search goes on.

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
    for (int x = 0; x < {n}; x++) for (int y = 0; y < {n}; y++) {{ a[x][y] = (x + 2 * y) % 7; b[x][y] = (3 * x + y) % 5; }}
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
    """The program of a configuration."""
    tiles = {name: configuration[name][1] for name in "ijk"}
    loops = "\n        ".join(INNER[axis].format(**tiles) for axis in configuration["order"])
    return PROGRAM.format(n=N, loops=loops, **tiles)


def run(configuration, folder):
    """Seconds and the checksum of a configuration; raises what goes wrong."""
    code, program = folder / "product.c", folder / "product"
    code.write_text(source(configuration))
    compiler = ["gcc", configuration["level"], *sorted(configuration["flags"]), str(code), "-o", str(program)]
    subprocess.run(compiler, check_topology=True, capture_output=True, timeout=30)
    done = subprocess.run([program], check_topology=True, capture_output=True, text=True, timeout=10)
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
# Eight at a time: ask for them, measure them, tell what came out. What is compared with is what one would write without thinking.


def main():
    parser = argparse.ArgumentParser(description="Tune a C program with OpEvo.")
    parser.add_argument("--trials", type=int, default=60, help="how many programs to try (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default: 0)")
    options = parser.parse_args()
    for name, least in (("trials", 1), ("seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} must be at least {least}, {getattr(options, name)} given")
    if not shutil.which("gcc"):
        sys.exit("tune_a_c_program: there is no gcc on this machine")
    print(f"{space.size:,} configurations")
    search = OpEvo(space, seed=options.seed)
    plain = {"i": (1, N), "j": (1, N), "k": (1, N), "order": (0, 1, 2), "level": "-O2", "flags": frozenset()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, expected = run(plain, folder)
        tried = 0
        while tried < options.trials and (configurations := search.ask(min(8, options.trials - tried))):
            search.tell(configurations, [fitness(c, folder, expected) for c in configurations])
            tried += len(configurations)
            print(f"after {tried:>3} trials: {1e3 / search.best[1]:.3f} ms")
        best, _ = search.best
        again = [run(configuration, folder)[0] for configuration in (plain, best)]
    print(f"before {1e3 * again[0]:.3f} ms, after {1e3 * again[1]:.3f} ms: {again[0] / again[1]:.1f} times as fast")
    for knob, value in best.items():
        print(f"  {knob}: {' '.join(sorted(value)) if knob == 'flags' else value}")


if __name__ == "__main__":
    main()
