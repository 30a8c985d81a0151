"""OpEvo and XGBTuner on held-out search spaces: the best so far over trials and over time, as a
picture and as a table.

    python -m benchmarks.heldout --landscapes benchmarks/landscapes/C1.npz FOLDER
    python -m benchmarks.heldout --show docs/results/heldout.jsonl        # draw stored runs again

The time of a run is the tuner's own, measured as CPU time, plus a constant for building and running
each trial. It understates XGBTuner's: a replay extracts its features in-process and caches them
from run to run. A stopped comparison resumes.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import markdown, plots, publish
from benchmarks.curves import Array, Run, curve, curve_over_time, seconds_to
from benchmarks.resume import read
from benchmarks.runs import KNOBS, find_landscapes, jobs, run_all
from benchmarks.statistics import ratio_of_medians, trials_to
from benchmarks.tables import merge_xgb

TUNERS = ("OpEvo", "OpEvo-published", "XGB")
BASELINE = "XGB"
# In the picture.
LABELS = {
    "OpEvo": "OpEvo, Gaussian process",
    "OpEvo-published": "OpEvo as published",
    "XGB": "XGBTuner",
}
GOAL = 0.95

_HEAD = [
    f"trials to {GOAL:.0%}",
    f"ratio to {BASELINE}",
    f"seconds to {GOAL:.0%}",
    f"ratio to {BASELINE}",
]

Runs = dict[str, dict[str, list[Run]]]  # by tuner and landscape
Costs = dict[str, list[Array]]  # by tuner, of the runs on each landscape


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Compare OpEvo with XGBTuner on held-out search spaces."
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--landscapes", nargs="+", type=Path, help="files, or folders of them")
    source.add_argument(
        "--show", type=Path, metavar="FILE", help="draw the runs in this file, and run nothing"
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--seconds-per-trial",
        type=float,
        default=0.4,
        help="to build and run it (default: 0.4, as in make tune)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("tuned/heldout"),
        help="folder for runs.jsonl and heldout.png",
    )
    parser.add_argument(
        "--picture", type=Path, help="where to draw (default: heldout.png in the folder --out)"
    )
    publish.add_option(parser)
    options = parser.parse_args(arguments)
    if options.show:
        results = read(options.show)
    else:
        made = jobs(
            find_landscapes(options.landscapes), TUNERS, "both", options.seeds, options.trials
        )
        results = run_all(made, options.out / "runs.jsonl", options.workers)
    runs = grouped(results)
    # a landscape without an AutoTVM template has no loops for XGBTuner's features
    kernels = {run["landscape"] for run in results if run["tuner"] == KNOBS}
    picture = options.picture or options.out / "heldout.png"
    draw(runs, options.seconds_per_trial, picture, len(kernels))
    text = tables(runs, options.seconds_per_trial)
    if options.publish:
        summarized = summary(runs, options.seconds_per_trial, kernels)
        publish.publish(options.publish, text, "heldout", arguments, summary=summarized)
    print(text)


def grouped(results: list[Run]) -> Runs:
    """Runs by tuner and landscape; XGBTuner is one tuner, whatever its features."""
    runs: Runs = {tuner: defaultdict(list) for tuner in TUNERS}
    for result in merge_xgb(results):
        runs[result["tuner"]][result["landscape"]].append(result)
    for tuner, by in runs.items():
        if missing := runs[BASELINE].keys() ^ by.keys():
            raise ValueError(
                f"{tuner} and {BASELINE} must have run on the same landscapes; only one has "
                f"on {', '.join(missing)}"
            )
    return runs


def draw(runs: Runs, seconds_per_trial: float, path: Path, kernels: int = 0) -> None:
    """Draw medians and quartiles over all runs, in a panel over trials and one over time; `kernels`
    of the landscapes have no AutoTVM template.
    """
    pooled = {
        LABELS[tuner]: [run for some in by.values() for run in some] for tuner, by in runs.items()
    }
    over_trials = {tuner: np.array([curve(run) for run in some]) for tuner, some in pooled.items()}
    trials = np.arange(1, over_trials[LABELS[BASELINE]].shape[1] + 1)
    seconds = np.linspace(0, len(trials) * seconds_per_trial, 512)[1:]
    over_time = {
        t: np.array([curve_over_time(run, seconds, seconds_per_trial) for run in some])
        for t, some in pooled.items()
    }
    label = f"seconds ({seconds_per_trial:g} per trial + the tuner's own)"
    count = " or ".join(map(str, sorted({len(some) for some in pooled.values()})))
    operators = len(runs[BASELINE]) - kernels
    spaces = f"{operators} AutoTVM operators and {kernels} GPU tables (XGBTuner: knobs only)"
    title = f"{spaces}\nmedian and quartiles of {count} runs"
    plots.draw_panels(
        [("trials", trials, over_trials), (label, seconds, over_time)], title, GOAL, path
    )


def tables(runs: Runs, seconds_per_trial: float) -> str:
    """Markdown: medians of trials and seconds to the goal, over all runs with ratios to the
    baseline, and per landscape.
    """
    columns = ["landscape"]
    each = [[landscape] for landscape in runs[BASELINE]]
    averages = ["average"]
    for what, (costs, spent) in _costs(runs, seconds_per_trial).items():
        columns += [f"{tuner}: {what}" for tuner in runs]
        for i, row in enumerate(each):
            row += [_median(by[i]) for by in costs.values()]
        averages += [_average(costs[tuner], spent[tuner]) for tuner in runs]
    overall = markdown.table(["tuner", *_HEAD], _ratios(runs, seconds_per_trial))
    return (
        f"{_note(seconds_per_trial)}\n\n{overall}\n\nMedians on each "
        f"landscape:\n\n{markdown.table(columns, [*each, averages])}"
    )


def summary(runs: Runs, seconds_per_trial: float, kernels: set[str]) -> str:
    """Markdown: medians and ratios over all runs, those on AutoTVM's operators, and those on
    kernels without an AutoTVM template.
    """
    every = runs[BASELINE].keys()
    groups = {
        "all": every,
        "AutoTVM's operators": every - kernels,
        "GPU, XGB by knobs": every & kernels,
    }
    rows = [
        [f"{name}: {len(landscapes)}", *row]
        for name, landscapes in groups.items()
        if landscapes
        for row in _ratios(
            {t: {one: by[one] for one in every if one in landscapes} for t, by in runs.items()},
            seconds_per_trial,
        )
    ]
    table = markdown.table(["spaces", "tuner", *_HEAD], rows)
    return f"{_note(seconds_per_trial)}\n\n{table}"


def _note(seconds_per_trial: float) -> str:
    return (
        "Medians over all runs, and ratios of medians with 95% intervals (bootstrap over seeds). "
        f"Time is {seconds_per_trial:g} s per trial plus the tuner's own, which for {BASELINE} is "
        "understated."
    )


def _ratios(runs: Runs, seconds_per_trial: float) -> list[list[str]]:
    """A row for each tuner: medians over all its runs, and their ratios to the baseline."""
    rng, rows = np.random.default_rng(0), [[tuner] for tuner in runs]
    for costs, _ in _costs(runs, seconds_per_trial).values():
        for row in rows:
            ratios = "{:.2f} ({:.2f} to {:.2f})".format(
                *ratio_of_medians(costs[row[0]], costs[BASELINE], rng)
            )
            row += [_median(np.concatenate(costs[row[0]])), ratios if row[0] != BASELINE else ""]
    return rows


def _costs(runs: Runs, seconds_per_trial: float) -> dict[str, tuple[Costs, Costs]]:
    """Trials and seconds to the goal, and in all."""

    def of_each(measure: Callable[[Run], float]) -> Costs:
        return {
            tuner: [np.array([*map(measure, by[one])]) for one in runs[BASELINE]]
            for tuner, by in runs.items()
        }

    return {
        "trials": (
            of_each(lambda run: trials_to(curve(run), GOAL)),
            of_each(lambda run: run["trials"]),
        ),
        "seconds": (
            of_each(lambda run: seconds_to(run, GOAL, seconds_per_trial)),
            of_each(lambda run: run["trials"] * seconds_per_trial + run["seconds"]),
        ),
    }


def _median(costs: Array) -> str:
    """A dash if the median run did not reach the goal."""
    median = np.median(costs)
    return f"{median:.0f}" if np.isfinite(median) else "-"


def _average(costs: list[Array], spent: list[Array]) -> str:
    """The mean of medians; one that did not reach the goal counts with all that was spent."""
    medians = np.array([np.median(some) for some in costs])
    missed = np.isinf(medians)
    least = np.where(missed, [np.median(some) for some in spent], medians)
    return ">" * bool(missed.any()) + f"{least.mean():.0f}"


if __name__ == "__main__":
    main()
