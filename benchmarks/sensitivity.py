"""How much OpEvo depends on q, its mutation rate, and on lambda, its number of parents (the paper's Figures 7 and 8).

    python -m benchmarks.sensitivity q        # or: make bench-sensitivity, for both; some minutes
    python -m benchmarks.sensitivity lambda --seeds 50

One of them changes, the other has its default. Landscapes and further options are those of `benchmarks.compare`.
"""

from __future__ import annotations

import sys

from benchmarks import compare

RATES = [f"OpEvo mutation_rate={q / 10}" for q in range(1, 10)]
PARENTS = [f"OpEvo parents_size={size}" for size in (2, 4, 8, 16, 32)]


def main(arguments: list[str] | None = None) -> None:
    which, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if which == "q":
        compare.main(rest, RATES, champions=["OpEvo mutation_rate=0.5"], name="sensitivity q")
    elif which == "lambda":
        compare.main(rest, PARENTS, champions=["OpEvo parents_size=8"], name="sensitivity lambda")
    else:
        sys.exit("q or lambda: which of them should change?")


if __name__ == "__main__":
    main()
