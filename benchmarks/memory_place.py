"""Does it matter where memory lies? The time to read arrays of the same size, each in a place of its own.

    .venv/tvm/bin/python -m benchmarks.memory_place          # a minute; needs as much memory as all arrays take

All arrays are kept, so that each lies elsewhere. All are read twice, in turn: if the place matters, both passes agree.
"""

import argparse

import numpy as np
import tvm
from scipy.stats import spearmanr

from autotvm_opevo.meta_schedule.roofline import read_kernel
from benchmarks.workloads import cpu


def times(arrays, output, evaluate):
    """Milliseconds to read each array."""
    return 1e3 * np.array([min(evaluate(array, output).results) for array in arrays])


def main():
    parser = argparse.ArgumentParser(description="The time to read arrays in different places.")
    parser.add_argument("--megabytes", type=int, default=128, help="size of an array (default: 128)")
    parser.add_argument("--arrays", type=int, default=60)
    options = parser.parse_args()
    library = tvm.compile(read_kernel(options.megabytes << 20).mod, cpu())
    evaluate = library.mod.time_evaluator("main", tvm.cpu(), number=1, repeat=3, min_repeat_ms=10)
    shape, width = (64, (options.megabytes << 20) // (4 * 64 * 64), 64), (64, 64)
    ones = np.ones(shape, "float32")
    arrays, output = [tvm.runtime.tensor(ones) for _ in range(options.arrays)], tvm.runtime.tensor(np.ones(width, "float32"))
    first, second = times(arrays, output, evaluate), times(arrays, output, evaluate)
    print("ms:", " ".join(f"{ms:.2f}" for ms in first))
    low, middle, high = np.quantile(first, [0.05, 0.5, 0.95])
    print(f"5% quantile {low:.2f}, median {middle:.2f}, 95% quantile {high:.2f} ms: {high / low:.2f} times")
    print(f"rank correlation of both passes: {spearmanr(first, second)[0]:.2f}")


if __name__ == "__main__":
    main()
