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

# The values of each parameter's option, and its default.
VALUES: dict[str, tuple[str, list[float], float]] = {
    "q": ("mutation_rate", [q / 10 for q in range(1, 10)], 0.5),
    "lambda": ("parents_size", [2, 4, 8, 16, 32], 8),
}


def main(arguments: list[str] | None = None) -> None:
    parameter, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if parameter not in VALUES:
        sys.exit(f"the first argument must be q or lambda, {parameter!r} given")
    option, values, default = VALUES[parameter]
    tuner = f"OpEvo-published {option}="
    compare.main(
        rest,
        [f"{tuner}{value}" for value in values],
        methods=[f"{tuner}{default}"],
        name=f"sensitivity {parameter}",
    )


if __name__ == "__main__":
    main()
