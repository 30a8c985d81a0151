"""How much OpEvo depends on q, its mutation rate, and on lambda, its number of parents (the paper's Figures 7 and 8).

    python -m benchmarks.sensitivity        # or: make bench-sensitivity; some minutes

One of them changes, the other has its default; the landscapes are those of `benchmarks.compare`.
"""

from __future__ import annotations

from benchmarks import compare

RATES = [f"OpEvo mutation_rate={q / 10}" for q in range(1, 10)]
PARENTS = [f"OpEvo parents_size={size}" for size in (2, 4, 8, 16, 32)]


def main(arguments: list[str] | None = None) -> None:
    compare.main(arguments, tuners=[*RATES, *PARENTS], champion="OpEvo mutation_rate=0.5", name="sensitivity")


if __name__ == "__main__":
    main()
