"""The best so far of runs, as fractions of the optimum, and their tables in Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks import markdown
from benchmarks.runs import HIDDEN, KNOBS
from benchmarks.statistics import (
    difference,
    geometric_mean_interval,
    ratio_of_medians,
    trials_to,
    verdicts,
)

Array = np.ndarray[Any, np.dtype[Any]]
Run = dict[str, Any]  # a result of `benchmarks.runs.run`
Curves = dict[str, dict[str, Array]]  # by landscape and tuner, shape (seeds, trials)

CHECKPOINTS = (16, 32, 64, 128, 256, 512)
GOALS = (0.90, 0.95, 0.99)
# Of the ratios in a summary, and of seconds.
GOAL = 0.95
BASELINE = "XGB"
# More landscapes than these are not named above averages over them, and have no table each.
_MANY = 20
# To build and run a trial, as in make tune.
SECONDS_PER_TRIAL = 0.4
_SECONDS = (
    f"Seconds are {SECONDS_PER_TRIAL:g} per trial, to build and run it, and the tuner's own, in "
    "one thread; XGBTuner's loop features are cached."
)
_NOTES = f"""\
Averages: the mean of the best so far, as a fraction of the optimum, ± its standard deviation over
seeds. Trials to a fraction are averages of medians; > where a median run did not reach it. A tuner
that stopped early keeps its best. The time is the tuner's own; XGBTuner's is left out, since a
replay changes it.

Ratios: of medians over seeds, a run that did not reach a fraction counting with all its trials. For
each space with a 95% interval by a bootstrap of its seeds; over all spaces the geometric mean with
a 95% interval by Student's t over spaces. {_SECONDS}

Differences: the mean difference of the best so far after as many trials, its 95% interval
(Student's t over seeds), and Vargha and Delaney's A, the probability that a run of the first tuner
beats one of the other. Bold is significant: paired sign-flip tests with Holm's correction, at a
family-wise error rate of 5% over a table. A tie does not show equality. All of it is about seeds on
these search spaces, not about other spaces; against deterministic tuners it is slightly
overconfident."""


def curve(run: Run) -> Array:
    """The best so far after every trial, shape (trials,)."""
    best = np.zeros(run["trials"])
    for trial, fraction, _ in run["steps"]:
        best[trial - 1 :] = fraction
    return best


def curves(runs: Iterable[Run]) -> Curves:
    """The best so far of all runs."""
    grouped: dict[str, dict[str, list[Array]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        grouped[run["landscape"]][run["tuner"]].append(curve(run))
    return {
        landscape: {tuner: np.array(some) for tuner, some in by.items()}
        for landscape, by in grouped.items()
    }


def _seconds_to_goal(run: Run) -> float:
    """Until the best so far reaches the goal, or all that were spent if it never does: a constant
    per trial, and the tuner's own.
    """
    return next(
        (trial * SECONDS_PER_TRIAL + own for trial, best, own in run["steps"] if best >= GOAL),
        run["trials"] * SECONDS_PER_TRIAL + run["seconds"],
    )


def tables(results: list[Run], methods: Iterable[str]) -> str:
    """Markdown: averages, and each method against the baselines, over all landscapes, those with
    known and those with hidden constraints; then notes, and each landscape."""
    by = curves(results)
    hidden = {landscape: runs for landscape, runs in by.items() if landscape.endswith(HIDDEN)}
    known = {landscape: runs for landscape, runs in by.items() if landscape not in hidden}
    groups = [group for group in (known, hidden) if group]
    ran = [method for method in methods if method in _tuners(by)]
    parts = [
        part
        for group in groups
        for part in (averages(group, results), *(comparison(group, method) for method in ran))
    ]
    whole = [overall(results, ran)] if len(groups) > 1 else []
    pooled, of_each = ratios(results)
    each = ["## Each search space", of_each, per_landscape(by) if len(by) <= _MANY else ""]
    return "\n\n".join(filter(None, [*whole, pooled, *parts, _NOTES, *each])) + "\n"


def summary(results: list[Run]) -> str:
    """Markdown: means over all landscapes, in a narrow table; with ratios to the baseline, and
    fewer other columns, if it ran on all of them.
    """
    merged = merge_xgb(results)
    by = curves(merged)
    checkpoints, goals = _checkpoints(by), list(GOALS)
    pooled, _ = _ratios(merged)
    head, note = [], ""
    if pooled:
        checkpoints, goals = checkpoints[1:4], [GOAL]
        head = [f"ratio to {BASELINE}", "of seconds"]
        note = (
            f" Ratios of trials and of seconds to {GOAL:.0%} are geometric means, with 95% "
            f"intervals by Student's t over spaces. {_SECONDS}"
        )
    rows = []
    for tuner in everywhere(by):
        runs = [of[tuner] for of in by.values()]
        best = [text.partition(" ")[0] for text in _best(runs, checkpoints)]
        trials = dict(zip(GOALS, _reached(runs)))
        *ratios, seconds = pooled.get(tuner, [""] * (len(GOALS) + 1))
        compared = [ratios[GOALS.index(GOAL)], seconds] if pooled else []
        rows.append([tuner, *best, *(trials[goal] for goal in goals), *compared])
    seeds = min(map(_seeds, by.values()))
    columns = [*(f"@{n}" for n in checkpoints), *(f"to {goal:.0%}" for goal in goals), *head]
    return (
        f"Means of the best so far, as a fraction of the optimum, over {len(by)} search spaces and "
        f"{seeds} seeds; trials to a fraction of it.{note}\n\n"
        f"{markdown.table(['tuner', *columns], rows)}"
    )


def ratios(results: Iterable[Run]) -> tuple[str, str]:
    """Markdown: trials to each goal and seconds to one as ratios to the baseline's, over all
    landscapes, if there are several, and of each; empty if the baseline did not run on all.
    """
    merged = merge_xgb(results)
    pooled, of_each = _ratios(merged)
    goals = (*(f"trials to {goal:.0%}" for goal in GOALS), f"seconds to {GOAL:.0%}")
    title = f"Ratios to {BASELINE}"
    spaces = len({result["landscape"] for result in merged})
    return (
        f"{title}, over {spaces} search spaces:\n\n"
        f"{markdown.table(['tuner', *goals], [[tuner, *row] for tuner, row in pooled.items()])}"
        if pooled
        else "",
        f"{title}:\n\n{markdown.table(['space', 'tuner', *goals], of_each)}" if of_each else "",
    )


def _ratios(merged: list[Run]) -> tuple[dict[str, list[str]], list[list[str]]]:
    """By tuner, over all landscapes; and a row for each landscape and tuner."""
    by = curves(merged)
    tuners = everywhere(by)
    if BASELINE not in tuners:
        return {}, []
    runs: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for result in merged:
        runs[result["landscape"], result["tuner"]].append(result)

    def costs(landscape: str, tuner: str) -> list[Array]:
        """One that did not reach a goal counts with all that was spent."""
        some = runs[landscape, tuner]
        trials = np.array([[trials_to(curve(run), goal) for run in some] for goal in GOALS])
        seconds = np.array([_seconds_to_goal(run) for run in some])
        return [*np.minimum(trials, some[0]["trials"]), seconds]

    rng = np.random.default_rng(0)
    pooled: dict[str, list[str]] = {}
    of_each = []
    for tuner in tuners:
        if tuner == BASELINE:
            continue
        rows = [
            [
                ratio_of_medians([own], [baseline], rng)
                for own, baseline in zip(costs(landscape, tuner), costs(landscape, BASELINE))
            ]
            for landscape in by
        ]
        of_each += [[landscape, tuner, *map(_interval, row)] for landscape, row in zip(by, rows)]
        if len(by) > 1:
            columns = [[ratio for ratio, *_ in column] for column in zip(*rows)]
            pooled[tuner] = [_interval(geometric_mean_interval(column)) for column in columns]
    return pooled, of_each


def _interval(ratio: tuple[float, float, float]) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(*ratio)


def overall(results: list[Run], methods: Iterable[str]) -> str:
    """All landscapes together, for the tuners that ran on all of them; XGBTuner is one tuner,
    whatever its features.
    """
    merged = merge_xgb(results)
    by = curves(merged)
    tuners = everywhere(by)
    some = [result for result in merged if result["tuner"] in tuners]
    whole = curves(some)
    compared = [comparison(whole, method) for method in methods]
    return "\n\n".join([_average(whole, tuners, some), *compared])


def merge_xgb(results: Iterable[Run]) -> list[Run]:
    """The same results with XGBTuner as one tuner, whatever its features."""
    return [
        {**result, "tuner": "XGB" if result["tuner"] == KNOBS else result["tuner"]}
        for result in results
    ]


def averages(by: Curves, results: list[Run]) -> str:
    """One row per tuner, in a table for each set of landscapes that some tuner supports."""
    tuners = _tuners(by)
    searched = {
        tuner: tuple(landscape for landscape, runs in by.items() if tuner in runs)
        for tuner in tuners
    }
    parts = []
    for landscapes in dict.fromkeys([tuple(by), *searched.values()]):
        some = {landscape: by[landscape] for landscape in landscapes}
        able = [tuner for tuner in tuners if set(landscapes) <= set(searched[tuner])]
        parts.append(_average(some, able, results))
    return "\n\n".join(parts)


def _average(by: Curves, tuners: list[str], results: list[Run]) -> str:
    rows = []
    for tuner in tuners:
        runs = [of[tuner] for of in by.values()]
        mine = [r for r in results if r["tuner"] == tuner and r["landscape"] in by]
        cost = np.mean([1e3 * r["seconds"] / max(r["measured"], 1) for r in mine])
        own = "" if tuner.startswith("XGB") else f"{cost:.3g}"
        rows.append([tuner, *_best(runs, _checkpoints(by)), *_reached(runs), own])
    table = markdown.table([*_header(by), "ms per trial"], rows)
    names = "; ".join(by)
    if len(by) > _MANY:
        gaps = {landscape.endswith(HIDDEN) for landscape in by}
        kind = "" if len(gaps) > 1 else " with gaps" if gaps == {True} else " without gaps"
        names = f"{len(by)} search spaces{kind}"
    return f"Averages over {names}:\n\n{table}"


def per_landscape(by: Curves) -> str:
    """A table for each landscape."""
    parts = []
    for landscape, runs in by.items():
        rows = [
            [tuner, *_best([runs[tuner]], _checkpoints(by)), *_reached([runs[tuner]])]
            for tuner in _tuners(by)
            if tuner in runs
        ]
        parts.append(
            f"{landscape}: mean ± standard deviation over {_seeds(runs)} "
            f"seeds\n\n{markdown.table(_header(by), rows)}"
        )
    return "\n\n".join(parts)


def comparison(by: Curves, method: str) -> str:
    """One method against each other tuner, on the landscapes on which both ran."""
    rng = np.random.default_rng(0)
    differences = []
    for baseline in _tuners(by):
        shared = [runs for runs in by.values() if method in runs and baseline in runs]
        if baseline == method or not shared:
            continue
        seeds = min(_seeds({tuner: runs[tuner] for tuner in (method, baseline)}) for runs in shared)
        for n in _checkpoints(by):
            first, second = (
                np.array([runs[tuner][:seeds, n - 1] for runs in shared])
                for tuner in (method, baseline)
            )
            differences.append((baseline, difference(first, second, rng)))
    cells: dict[str, list[str]] = defaultdict(list)
    for (baseline, d), verdict in zip(differences, verdicts([d for _, d in differences])):
        mean = f"{d.mean:+.3f}" if verdict == "tie" else f"**{d.mean:+.3f}**"
        cells[baseline].append(
            f"{mean} ({d.low:+.3f} to {d.high:+.3f}; A {d.vargha_delaney_a:.2f})"
        )
    head = [f"{method} against", *(f"@{n}" for n in _checkpoints(by))]
    table = markdown.table(head, [[tuner, *texts] for tuner, texts in cells.items()])
    return f"{method} minus each baseline:\n\n{table}"


def _header(by: Curves) -> list[str]:
    return [
        "tuner",
        *(f"@{n}" for n in _checkpoints(by)),
        *(f"trials to {goal:.0%}" for goal in GOALS),
    ]


def _best(runs: list[Array], checkpoints: list[int]) -> list[str]:
    """Mean and standard deviation of the best so far, each averaged over landscapes."""
    means = {n: np.mean([r[:, n - 1].mean() for r in runs]) for n in checkpoints}
    spreads = {
        n: np.mean([r[:, n - 1].std(ddof=1) if len(r) > 1 else 0.0 for r in runs])
        for n in checkpoints
    }
    return [f"{means[n]:.3f} ± {spreads[n]:.3f}" for n in checkpoints]


def _reached(runs: list[Array]) -> list[str]:
    """Median trials to each goal, averaged over landscapes; a median run that did not reach it
    counts with all its trials.
    """
    texts = []
    for goal in GOALS:
        medians = np.array([np.median([trials_to(best, goal) for best in r]) for r in runs])
        missed = ">" * bool(np.isinf(medians).any())
        texts.append(f"{missed}{np.minimum(medians, runs[0].shape[1]).mean():.0f}")
    return texts


def _tuners(by: Curves) -> list[str]:
    """In the order of their first runs."""
    return list(dict.fromkeys(tuner for runs in by.values() for tuner in runs))


def everywhere(by: Curves) -> list[str]:
    """The tuners that ran on all landscapes."""
    return [tuner for tuner in _tuners(by) if all(tuner in runs for runs in by.values())]


def _seeds(runs: dict[str, Array]) -> int:
    return min(len(r) for r in runs.values())


def _checkpoints(by: Curves) -> list[int]:
    """The checkpoints within the runs, and their last trial."""
    trials = next(curves.shape[1] for runs in by.values() for curves in runs.values())
    return [*(n for n in CHECKPOINTS if n < trials), trials]
