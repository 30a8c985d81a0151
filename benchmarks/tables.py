"""What runs come to: a CSV of them all, and tables in Markdown."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena import KNOBS, Curves, curve, curves
from benchmarks.statistics import difference, trials_to, verdicts

Array = np.ndarray[Any, np.dtype[Any]]

CHECKPOINTS = (32, 64, 128, 256, 512)
GOALS = (0.90, 0.95, 0.99)
_AVERAGE = """\
Mean over {landscapes} of the mean over seeds; ± is the mean of the standard deviations. Trials to a part of the optimum are
the mean of medians, more than that where a median run did not get there. A tuner that ended early keeps its best. XGBTuner's own
time in a replay says nothing."""
_AGAINST = """\
{champion} less each rival, at the same trials: the mean difference of the best found, with its 95% interval (bootstrap over
seeds), and the chance that one of its runs is the better. In bold what is no tie: by a paired sign-flip test, corrected after
Holm, so that anything in this table is bold by chance alone with a probability of at most 5%. A tie is no proof of equality. All
is about seeds on these landscapes, not about others; against tuners that always do the same it is a little too sure."""


def write_csv(results: Iterable[dict[str, Any]], path: Path) -> None:
    """One row for each run."""
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        at, to = [f"best_at_{n}" for n in CHECKPOINTS], [f"trials_to_{goal:.0%}" for goal in GOALS]
        table.writerow(["landscape", "tuner", "seed", "trials", "measured", "tuner_seconds", *at, *to])
        for result in results:
            best = curve(result)
            about = [result[name] for name in ("landscape", "tuner", "seed", "trials", "measured")]
            found = [f"{best[n - 1]:.4f}" if n <= len(best) else "" for n in CHECKPOINTS]
            reached = [trials_to(best, goal) for goal in GOALS]
            table.writerow([*about, f"{result['seconds']:.3f}", *found, *(int(t) if t < np.inf else "" for t in reached)])


def tables(results: list[dict[str, Any]], champions: Iterable[str]) -> str:
    """Markdown: landscapes on average and the champions against each rival, all, known and blind ones, and each on its own."""
    by = curves(results)
    blind = {landscape: runs for landscape, runs in by.items() if landscape.endswith(", blind")}
    known = {landscape: runs for landscape, runs in by.items() if landscape not in blind}
    groups = [group for group in (known, blind) if group]
    apart = f"<details><summary>Each landscape</summary>\n\n{each(by)}\n\n</details>"
    ran = [champion for champion in champions if champion in _tuners(by)]
    parts = [part for group in groups for part in (averages(group, results), *(against(group, champion) for champion in ran))]
    whole = [overall(results, ran)] if len(groups) > 1 else []
    return "\n\n".join([*whole, *parts, apart]) + "\n"


def overall(results: list[dict[str, Any]], champions: Iterable[str]) -> str:
    """Known and blind landscapes together, of the tuners that searched all; XGBTuner is one, whatever features it was given."""
    renamed = [{**result, "tuner": "XGB" if result["tuner"] == KNOBS else result["tuner"]} for result in results]
    everywhere = [tuner for tuner in _tuners(curves(renamed)) if all(tuner in runs for runs in curves(renamed).values())]
    some = [result for result in renamed if result["tuner"] in everywhere]
    return "\n\n".join([_average(curves(some), everywhere, some), *(against(curves(some), champion) for champion in champions)])


def averages(by: Curves, results: list[dict[str, Any]]) -> str:
    """A row for each tuner: over the landscapes that most tuners can search, and over those that all can."""
    tuners = _tuners(by)
    searched = {tuner: tuple(landscape for landscape, runs in by.items() if tuner in runs) for tuner in tuners}
    parts = []
    for landscapes in dict.fromkeys([tuple(by), *searched.values()]):
        some = {landscape: by[landscape] for landscape in landscapes}
        parts.append(_average(some, [tuner for tuner in tuners if set(landscapes) <= set(searched[tuner])], results))
    return "\n\n".join(parts)


def _average(by: Curves, tuners: list[str], results: list[dict[str, Any]]) -> str:
    note = _AVERAGE.format(landscapes="; ".join(by))
    return "\n".join([note, "", _header(by, ["tuner"], ["ms a trial"]), *_rows(by, tuners, results)])


def each(by: Curves) -> str:
    """A table for each landscape."""
    parts = []
    for landscape, runs in by.items():
        lines = [f"{landscape}: mean and standard deviation over {_seeds(runs)} seeds", "", _header(by, ["tuner"], [])]
        lines += [
            f"| {tuner} | {' | '.join([*_best([runs[tuner]], _checkpoints(by)), *_reached([runs[tuner]])])} |"
            for tuner in _tuners(by)
            if tuner in runs
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def against(by: Curves, champion: str) -> str:
    """What can be said of one tuner and each of the others."""
    rng = np.random.default_rng(0)
    rows = []
    for rival in _tuners(by):
        shared = [runs for runs in by.values() if champion in runs and rival in runs]
        if rival == champion or not shared:
            continue
        seeds = min(_seeds({t: runs[t] for t in (champion, rival)}) for runs in shared)
        for n in _checkpoints(by):
            first, second = (np.array([runs[tuner][:seeds, n - 1] for runs in shared]) for tuner in (champion, rival))
            rows.append((rival, n, difference(first, second, rng)))
    said = verdicts([found for *_, found in rows])
    lines = [
        _AGAINST.format(champion=champion),
        "",
        f"| {champion} against | {' | '.join(f'@{n}' for n in _checkpoints(by))} |",
        "|---" * (1 + len(_checkpoints(by))) + "|",
    ]
    cells: dict[str, list[str]] = defaultdict(list)
    for (rival, _, d), verdict in zip(rows, said):
        text = f"{d.mean:+.3f}" if verdict == "tie" else f"**{d.mean:+.3f}**"
        cells[rival].append(f"{text} ({d.low:+.3f} to {d.high:+.3f}; {d.chance:.0%})")
    return "\n".join(lines + [f"| {rival} | {' | '.join(texts)} |" for rival, texts in cells.items()])


def _header(by: Curves, first: list[str], last: list[str]) -> str:
    names = [*first, *(f"@{n}" for n in _checkpoints(by)), *(f"trials to {goal:.0%}" for goal in GOALS), *last]
    return f"| {' | '.join(names)} |\n{'|---' * len(names)}|"


def _rows(by: Curves, tuners: list[str], results: list[dict[str, Any]]) -> list[str]:
    rows = []
    for tuner in tuners:
        runs = [of[tuner] for of in by.values()]
        mine = [r for r in results if r["tuner"] == tuner and r["landscape"] in by]
        cost = np.mean([1e3 * r["seconds"] / max(r["measured"], 1) for r in mine])
        cells = [tuner, *_best(runs, _checkpoints(by)), *_reached(runs), "" if tuner.startswith("XGB") else f"{cost:.3g}"]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _best(runs: list[Array], checkpoints: list[int]) -> list[str]:
    """Mean and spread."""
    means = {n: np.mean([r[:, n - 1].mean() for r in runs]) for n in checkpoints}
    spreads = {n: np.mean([r[:, n - 1].std(ddof=1) if len(r) > 1 else 0.0 for r in runs]) for n in checkpoints}
    return [f"{means[n]:.3f} ± {spreads[n]:.3f}" for n in checkpoints]


def _reached(runs: list[Array]) -> list[str]:
    """The mean of median trials to each goal; where a median run did not get there, its last trial is less than that."""
    texts = []
    for goal in GOALS:
        medians = np.array([np.median([trials_to(best, goal) for best in r]) for r in runs])
        texts.append(">" * bool(np.isinf(medians).any()) + f"{np.minimum(medians, runs[0].shape[1]).mean():.0f}")
    return texts


def _tuners(by: Curves) -> list[str]:
    """In the order of their first runs."""
    return list(dict.fromkeys(tuner for runs in by.values() for tuner in runs))


def _seeds(runs: dict[str, Array]) -> int:
    return min(len(r) for r in runs.values())


def _checkpoints(by: Curves) -> list[int]:
    """Those that the runs have come to, and their last trial."""
    trials = next(curves.shape[1] for runs in by.values() for curves in runs.values())
    return [*(n for n in CHECKPOINTS if n < trials), trials]
