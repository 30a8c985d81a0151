"""What as many trials again bring, from recorded runs: the table in `autotvm_opevo.reporting.convergence`, and how right it is.

    python -m benchmarks.convergence --landscapes benchmarks/landscapes FOLDER      # ten minutes on two cores

`OpEvo` tunes every landscape with several seeds. Runs of different landscapes make a network: its latency is their sum, with
random weights, and its trials are divided equally. Then the trials are doubled. The verdict of the report is "converged" where
the median of such networks gained less than 1%. To see how often that is right on landscapes that it does not know, the table is
made once more from every landscape but some, which in turn make the networks.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from autotvm_opevo.reporting.convergence import GAINS, TRIALS, gain_of_last
from autotvm_opevo.reporting.verdict import CONVERGED
from benchmarks import markdown, publish
from benchmarks.curves import Array, curves
from benchmarks.landscape import FOLDER
from benchmarks.runs import find_landscapes, jobs, run_all

# Of the networks that are made: number of operators, and trials per operator before the doubling.
OPERATORS, DOUBLED = (1, 2, 4, 8, 16), (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
NETWORKS = 20_000
FOLDS = 5
# The spread of the operators' shares of the latency, as a standard deviation of their logarithms.
_SPREAD = 1.0

Observation = tuple[int, int, float]  # row and column of the table, and the gain


def observe(latencies: dict[str, Array], rng: np.random.Generator, networks: int) -> Iterator[Observation]:
    """Networks of random runs, before and after their trials are doubled.

    Parameters
    ----------
    latencies : dict of str to array of float, shape (seeds, trials)
        The best so far on each landscape, infinite before the first success.
    rng : numpy.random.Generator
    networks : int
    """
    names = sorted(latencies)
    for _ in range(networks):
        count = int(rng.choice([count for count in OPERATORS if count <= len(names)]))
        trials = int(rng.choice(DOUBLED))
        chosen = [latencies[name] for name in rng.choice(names, count, replace=False)]
        runs = np.array([seeds[rng.integers(len(seeds))][: 2 * trials] for seeds in chosen])
        shares = np.exp(rng.normal(0.0, _SPREAD, count)) / np.where(np.isfinite(runs[:, -1]), runs[:, -1], 1.0)
        best = shares @ runs
        if np.isfinite(best[trials // 2 - 1]):
            gain = gain_of_last(best[:trials], 0.5)
            yield bisect_right(GAINS, gain), bisect_right(TRIALS, trials), float(best[trials - 1] / best[-1] - 1)


def expectations(observations: Sequence[Observation]) -> Array:
    """The table: median and 90% quantile of the gain in each cell, NaN without networks; shape (rows, columns, 2)."""
    rows, columns, gains = np.array(observations).T
    table = np.full((len(GAINS) + 1, len(TRIALS) + 1, 2), np.nan)
    for row, column in np.ndindex(table.shape[:2]):
        if (cell := gains[(rows == row) & (columns == column)]).size:
            table[row, column] = np.quantile(cell, [0.5, 0.9])
    return table


def calibration(latencies: dict[str, Array], rng: np.random.Generator, networks: int) -> list[tuple[bool, float, float]]:
    """For networks of unknown landscapes: whether they were called converged, the 90% quantile expected, and the gain."""
    names = [str(name) for name in rng.permutation(sorted(latencies))]
    found = []
    for fold in range(FOLDS):
        unknown = names[fold::FOLDS]
        table = expectations(list(observe({n: latencies[n] for n in names if n not in unknown}, rng, networks)))
        for row, column, gain in observe({n: latencies[n] for n in unknown}, rng, networks // FOLDS):
            typical, high = table[row][column]
            found.append((typical < CONVERGED, high, gain))
    return found


def tables(latencies: dict[str, Array], networks: int) -> str:
    """Both tables as text."""
    rng = np.random.default_rng(0)
    found = expectations(list(observe(latencies, rng, networks)))
    bounds = ["0", *(f"{gain:.0%}" for gain in GAINS), ""]
    ends = ["", *map(str, TRIALS), ""]
    columns = [f"{low or 8} to {high or 256} trials per operator" for low, high in zip(ends, ends[1:])]
    rows = [
        [f"{low} to {high}" if high else f"more than {low}", *(f"{typical:.1%}, {high90:.0%}" for typical, high90 in row)]
        for low, high, row in zip(bounds, bounds[1:], found)
    ]
    text = markdown.table(["the last half brought", *columns], rows)
    checked = calibration(latencies, rng, networks)
    said = np.array([gain for converged, _, gain in checked if converged])
    not_said = np.array([gain for converged, _, gain in checked if not converged])
    above = np.mean([gain > high for _, high, gain in checked])
    return (
        f"{text}\n\nOn landscapes that the table was made without: {len(said) / len(checked):.0%} of the networks were called "
        f"converged; of those, {np.mean(said < CONVERGED):.0%} gained less than {CONVERGED:.0%} by as many trials again, "
        f"{np.mean(said < 0.05):.0%} less than 5%. Of the others, {np.mean(not_said >= CONVERGED):.0%} gained more than "
        f"{CONVERGED:.0%}. {above:.0%} of all gained more than the table's 90% quantile.\n"
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What as many trials again bring, and how often the report is right about it.")
    parser.add_argument("--landscapes", nargs="+", type=Path, default=[FOLDER], help="files, or folders of them")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--networks", type=int, default=NETWORKS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("tuned/convergence.jsonl"), help="the runs")
    parser.add_argument(
        "--publish", type=publish.section, metavar="SECTION", help="write the tables to this section of docs/results"
    )
    options = parser.parse_args(arguments)
    made = jobs(find_landscapes(options.landscapes), ["OpEvo"], "both", options.seeds, 2 * max(DOUBLED))
    runs = run_all(made, options.out, options.workers)
    latencies = {}
    for name, by_tuner in curves(runs).items():
        with np.errstate(divide="ignore"):
            latencies[name] = 1 / by_tuner["OpEvo"]
    text = tables(latencies, options.networks)
    if options.publish:
        publish.publish(options.publish, text, "convergence", arguments)
    print(text)
    found = expectations(list(observe(latencies, np.random.default_rng(0), options.networks))).round(3)
    print(f"_EXPECTED = {found.tolist()}")


if __name__ == "__main__":
    main()
