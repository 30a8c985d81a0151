"""Sensitivity of OpEvo as published to q, its mutation rate, and lambda, its number of parents (the
paper's Figures 7 and 8).

    python -m benchmarks.sensitivity q        # or: make bench-sensitivity, for both; a few minutes
    python -m benchmarks.sensitivity lambda --seeds 50

The other parameter keeps its default. Landscapes and further options are those of
`benchmarks.compare`.
"""

from __future__ import annotations

import sys

from benchmarks import compare

RATES = [f"OpEvo-published mutation_rate={q / 10}" for q in range(1, 10)]
PARENTS = [f"OpEvo-published parents_size={size}" for size in (2, 4, 8, 16, 32)]


def main(arguments: list[str] | None = None) -> None:
    parameter, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if parameter == "q":
        compare.main(
            rest,
            RATES,
            methods=["OpEvo-published mutation_rate=0.5"],
            name="sensitivity q",
            published_pictures=True,
        )
    elif parameter == "lambda":
        compare.main(
            rest,
            PARENTS,
            methods=["OpEvo-published parents_size=8"],
            name="sensitivity lambda",
            published_pictures=True,
        )
    else:
        sys.exit(f"the first argument must be q or lambda, {parameter!r} given")


if __name__ == "__main__":
    main()
