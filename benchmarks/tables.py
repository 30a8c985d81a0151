"""What runs come to: a CSV of them all, and tables in Markdown."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena import Curves, curve, curves
from benchmarks.statistics import difference, trials_to, verdicts

Array = np.ndarray[Any, np.dtype[Any]]

CHECKPOINTS = (32, 64, 128, 256, 512)
GOALS = (0.90, 0.95, 0.99)
_AGAINST = """\
{champion} less each rival, at the same trials: the mean difference of the best found, with its 95% interval (bootstrap over
seeds), and the chance that one of its runs is the better. In bold what is no tie (paired sign-flip test, corrected after Holm:
all comparisons of this table together are wrong with a probability of at most 5%)."""


def write_csv(results: Iterable[dict[str, Any]], path: Path) -> None:
    """One row for each run."""
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        at, to = [f"best_at_{n}" for n in CHECKPOINTS], [f"trials_to_{goal:.0%}" for goal in GOALS]
        table.writerow(["landscape", "tuner", "seed", "trials", "measured", "tuner_seconds", *at, *to])
        for result in results:
            if not result.get("refused"):
                best = curve(result)
                about = [result[name] for name in ("landscape", "tuner", "seed", "trials", "measured")]
                found = [f"{best[n - 1]:.4f}" if n <= len(best) else "" for n in CHECKPOINTS]
                reached = [trials_to(best, goal) for goal in GOALS]
                table.writerow([*about, f"{result['seconds']:.3f}", *found, *(int(t) if t < np.inf else "" for t in reached)])


def tables(results: list[dict[str, Any]], champion: str) -> str:
    """Markdown: all landscapes on average, each on its own, and `champion` against each rival."""
    by = curves(results)
    return "\n\n".join([averages(by, results), each(by), against(by, champion)]) + "\n"


def averages(by: Curves, results: list[dict[str, Any]]) -> str:
    """A row for each tuner: over the landscapes that all tuners took, and over those that only some could."""
    tuners = _tuners(by)
    everywhere = [tuner for tuner in tuners if all(tuner in runs for runs in by.values())]
    lines = [f"Mean over {len(by)} landscapes of the mean over seeds; ± is the mean over landscapes of the standard deviation."]
    lines += ["", _header(by, ["tuner"], ["ms a trial"]), *_rows(by, everywhere, results)]
    for tuner in tuners:
        if tuner not in everywhere:
            some = {landscape: runs for landscape, runs in by.items() if tuner in runs}
            others = [other for other in _tuners(some) if all(other in runs for runs in some.values())]
            lines += ["", f"On the {len(some)} that {tuner} can handle:", ""]
            lines += [_header(by, ["tuner"], ["ms a trial"]), *_rows(some, others, results)]
    return "\n".join(lines)


def each(by: Curves) -> str:
    """A table for each landscape."""
    parts = []
    for landscape, runs in by.items():
        lines = [f"{landscape}: mean and standard deviation over {_seeds(runs)} seeds", "", _header(by, ["tuner"], [])]
        lines += [
            f"| {tuner} | {' | '.join([*_best([runs[tuner]]), *_reached([runs[tuner]])])} |"
            for tuner in _tuners(by)
            if tuner in runs
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def against(by: Curves, champion: str) -> str:
    """What can be said of one tuner and each of the others."""
    rng = np.random.default_rng(0)
    trials = _trials(by)
    rows = []
    for rival in _tuners(by):
        shared = [runs for runs in by.values() if champion in runs and rival in runs]
        if rival == champion or not shared:
            continue
        seeds = min(_seeds({t: runs[t] for t in (champion, rival)}) for runs in shared)
        for n in (n for n in CHECKPOINTS if n <= trials):
            first, second = (np.array([runs[tuner][:seeds, n - 1] for runs in shared]) for tuner in (champion, rival))
            rows.append((rival, n, difference(first, second, rng)))
    said = verdicts([found for *_, found in rows])
    lines = [
        _AGAINST.format(champion=champion),
        "",
        f"| {champion} against | {' | '.join(f'@{n}' for n in CHECKPOINTS if n <= trials)} |",
        "|---" * (1 + sum(n <= trials for n in CHECKPOINTS)) + "|",
    ]
    cells: dict[str, list[str]] = defaultdict(list)
    for (rival, _, d), verdict in zip(rows, said):
        text = f"{d.mean:+.3f}" if verdict == "tie" else f"**{d.mean:+.3f}**"
        cells[rival].append(f"{text} ({d.low:+.3f} to {d.high:+.3f}; {d.chance:.0%})")
    return "\n".join(lines + [f"| {rival} | {' | '.join(texts)} |" for rival, texts in cells.items()])


def _header(by: Curves, first: list[str], last: list[str]) -> str:
    at = [f"@{n}" for n in CHECKPOINTS if n <= _trials(by)]
    names = [*first, *at, *(f"trials to {goal:.0%}" for goal in GOALS), *last]
    return f"| {' | '.join(names)} |\n{'|---' * len(names)}|"


def _rows(by: Curves, tuners: list[str], results: list[dict[str, Any]]) -> list[str]:
    cost = {
        tuner: np.mean([1e3 * r["seconds"] / max(r["measured"], 1) for r in results if r["tuner"] == tuner and r.get("seconds")])
        for tuner in tuners
    }
    columns = {tuner: [runs[tuner] for runs in by.values()] for tuner in tuners}
    return [f"| {tuner} | {' | '.join([*_best(c), *_reached(c)])} | {cost[tuner]:.3g} |" for tuner, c in columns.items()]


def _best(runs: list[Array]) -> list[str]:
    """Mean and spread at the checkpoints."""
    return [
        f"{np.mean([r[:, n - 1].mean() for r in runs]):.3f} ± {np.mean([r[:, n - 1].std(ddof=1) for r in runs]):.3f}"
        for n in CHECKPOINTS
        if n <= runs[0].shape[1]
    ]


def _reached(runs: list[Array]) -> list[str]:
    """Median trials to each goal, a run that never got there counted as its last trial, with the share of those."""
    texts = []
    for goal in GOALS:
        reached = [np.array([trials_to(best, goal) for best in r]) for r in runs]
        never = np.mean([np.isinf(t).mean() for t in reached])
        median = np.mean([np.median(np.minimum(t, runs[0].shape[1])) for t in reached])
        texts.append(f"{median:.0f}" + (f" ({never:.0%} never)" if never else ""))
    return texts


def _tuners(by: Curves) -> list[str]:
    """In the order of their first runs."""
    return list(dict.fromkeys(tuner for runs in by.values() for tuner in runs))


def _seeds(runs: dict[str, Array]) -> int:
    return min(len(r) for r in runs.values())


def _trials(by: Curves) -> int:
    return next(iter(next(iter(by.values())).values())).shape[1]
