"""What each part of the Gaussian-process search buys: the search with the part left out, or another
in its place.

    # landscapes and further options are those of `benchmarks.compare`
    python -m benchmarks.ablation

Rows are named after `benchmarks.variants`.
"""

from __future__ import annotations

from benchmarks import compare
from benchmarks.variants import TUNERS


def main(arguments: list[str] | None = None) -> None:
    rows = ["OpEvo", "OpEvo-published", *TUNERS]
    compare.main(arguments, rows, methods=["OpEvo"], name="ablation")


if __name__ == "__main__":
    main()
