"""What results of other tasks are worth: OpEvo with and without them, on recorded landscapes of the
same kernel.

    python -m benchmarks.transfer  # all other shapes, on a CPU; three minutes on two cores
    python -m benchmarks.transfer FOLDER                              # all other devices
    python -m benchmarks.transfer FOLDER --sources each               # one other device at a time
    python -m benchmarks.transfer FOLDER --sources each --mislead inverted
    # other kernels, which share names of knobs at best
    python -m benchmarks.transfer FOLDER --sources unrelated

Every landscape is searched with 128 trials of OpEvo's own on the other ones of the same kernel as
sources; files are named KERNEL_DEVICE or KERNEL-SHAPE. Configurations that were not measured there
fail. The score is the optimum's time divided by the best one so far; beside it, that of the eight
fastest configurations of the other tasks' whole tables, which no search knows.
"""

import argparse
import os
import re
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from itertools import groupby, permutations
from pathlib import Path

import numpy as np

from autotvm_opevo import OpEvo
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.search.transfer import Source, TransferModel
from benchmarks import markdown, publish, replay
from benchmarks.landscape import FOLDER, load
from benchmarks.runs import find_landscapes
from benchmarks.statistics import trials_to

BATCH, SOURCE_TRIALS = 8, 128
SHAPES = [FOLDER / "shapes", FOLDER / "matmul-64.npz", FOLDER / "conv-14.npz"]
_NOTE = """\
Scores are the optimum's time divided by that of the best so far, means over pairs and seeds;
intervals are by bootstrap over seeds. Trials to a fraction are means over pairs of medians; a run
that did not reach it counts 1.2 times its trials. Configurations that were not measured fail.
*Their best 8* is the score of the eight fastest of the sources' whole tables, which no search
knows."""
MISLEAD = {
    "": lambda fitness: fitness,
    "inverted": lambda fitness: np.divide(
        1.0, fitness, out=np.zeros_like(fitness), where=fitness > 0
    ),
}


@lru_cache
def table(file):
    """The space of a landscape, and the fitness of each configuration that was measured, by its
    index.
    """
    landscape = load(file)
    config_space = replay.task(landscape).config_space
    knob_space = KnobSpace(config_space)
    rows = (
        knob_space.configuration(config_space.get(i))
        for i in landscape.config_indices(landscape.knob_indices)
    )
    fitness = np.nan_to_num(1 / landscape.time.astype(float))
    return knob_space.space, dict(zip(map(knob_space.space.index, rows), fitness.tolist()))


def search(file, seed, trials, history=()):
    """The configurations and fitnesses of a search, in order."""
    space, fitness = table(file)
    opevo = OpEvo(space, seed=seed, history=history)
    configurations, fitnesses = [], []
    while len(configurations) < trials and (batch := opevo.ask(BATCH)):
        values = [fitness.get(space.index(configuration), 0.0) for configuration in batch]
        opevo.tell(batch, values)
        configurations += batch
        fitnesses += values
    return configurations, fitnesses


@lru_cache(maxsize=512)
def source(file, seed):
    """What another search, with a seed of its own, has found."""
    return table(file)[0], *search(file, 1000 + seed, SOURCE_TRIALS)


def curve(job, trials, mislead):
    """The score after each trial."""
    target, sources, seed = job
    history = []
    for file in sources:
        space, configurations, fitnesses = source(file, seed)
        history.append((space, configurations, MISLEAD[mislead](np.array(fitnesses)).tolist()))
    found = np.maximum.accumulate(search(target, seed, trials, history)[1])[:trials]
    return np.pad(found, (0, trials - len(found)), mode="edge") / max(table(target)[1].values())


def kernel_and_task(file):
    """What was recorded, and on which device or for which shape.

    >>> kernel_and_task(Path("gemm_RTX_3090.npz")), kernel_and_task(Path("C1.npz"))
    (('gemm', 'RTX_3090'), ('C1', ''))
    """
    kernel, *task = re.split("[-_]", file.stem, maxsplit=1)
    return kernel, *(task or [""])


def pairs(files, sources):
    """Targets, each with its sources: every other task of the kernel in turn, all of them, or all
    of other kernels.
    """
    files = sorted(files, key=kernel_and_task)
    for _, group in groupby(files, key=lambda file: kernel_and_task(file)[0]):
        tasks = list(group)
        if sources == "each":
            yield from ((target, (other,)) for other, target in permutations(tasks, 2))
        elif sources == "unrelated":
            unrelated = tuple(file for file in files if file not in tasks)
            yield from ((target, unrelated) for target in tasks if unrelated)
        elif len(tasks) > 2:
            yield from (
                (target, tuple(other for other in tasks if other != target)) for target in tasks
            )


def best_of(others, target):
    """The score of the eight fastest configurations of other tasks' whole tables, in turn, which no
    search knows.
    """
    space, fitness = table(target)
    model = TransferModel(
        space, np.random.default_rng(0), [Source(*table(other)) for other in others]
    )
    return max(fitness.get(index, 0.0) for index, _ in model.portfolio()[:BATCH]) / max(
        fitness.values()
    )


def interval(differences, rng):
    """95% interval of the mean over pairs and seeds, by bootstrap over seeds."""
    seeds = differences.shape[1]
    means = [differences[:, rng.integers(seeds, size=seeds)].mean() for _ in range(2000)]
    return np.quantile(means, [0.025, 0.975])


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description="Compare OpEvo with and without results of other tasks."
    )
    parser.add_argument(
        "landscapes",
        nargs="*",
        type=Path,
        default=SHAPES,
        help="files named KERNEL_DEVICE.npz or KERNEL-SHAPE.npz, or folders (default: seven shapes "
        "each of two operators)",
    )
    parser.add_argument(
        "--sources",
        choices=["all", "each", "unrelated"],
        default="all",
        help="all other tasks at once, one at a time, or those of other kernels, which have names "
        "of knobs in common at best",
    )
    parser.add_argument(
        "--mislead",
        choices=sorted(MISLEAD),
        default="",
        help="what to do to the fitnesses of the sources",
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    publish.add_option(parser)
    options = parser.parse_args(arguments)
    found = list(pairs(find_landscapes(options.landscapes, parser), options.sources))
    if not found:
        least = (
            "three landscapes of the same kernel (two with --sources each)"
            if options.sources == "all"
            else "two landscapes"
        )
        parser.error(f"needs {least}, named KERNEL_DEVICE.npz or KERNEL-SHAPE.npz")
    curves = {}
    score = partial(curve, trials=options.trials, mislead=options.mislead)
    with ProcessPoolExecutor(options.workers) as pool:
        for name, used in (("alone", False), ("transfer", True)):
            jobs = [
                (target, others if used else (), seed)
                for target, others in found
                for seed in range(options.seeds)
            ]
            runs = list(pool.map(score, jobs, chunksize=options.seeds))
            curves[name] = np.array(runs).reshape(len(found), options.seeds, options.trials)
    text = tables(found, curves)
    publish.publish(options.publish, text, "transfer", arguments)


def tables(found, curves):
    """Markdown: the mean score after some trials, with the difference and its interval; trials to
    95% and 99%; and each pair's.
    """
    alone, transfer = curves["alone"], curves["transfer"]
    rng = np.random.default_rng(0)
    checkpoints = [t for t in (8, 16, 32, 64, 128, 256, 512) if t <= alone.shape[2]]
    rows = []
    for t in checkpoints:
        difference = transfer[..., t - 1] - alone[..., t - 1]
        means = [f"{some[..., t - 1].mean():.3f}" for some in (alone, transfer)]
        low, high = interval(difference, rng)
        rows.append([t, *means, f"{difference.mean():+.3f} ({low:+.3f} to {high:+.3f})"])
    for goal in (0.95, 0.99):
        needed = [np.mean([_median(runs, goal) for runs in some]) for some in (alone, transfer)]
        ratio = f"ratio {needed[1] / needed[0]:.2f}"
        rows.append([f"to {goal:.0%}", *(f"{trials:.0f}" for trials in needed), ratio])
    head = ["trials", "alone", "transfer", "difference (95% interval)"]
    overall = f"{len(found)} pairs, {alone.shape[1]} seeds\n\n{markdown.table(head, rows)}"
    rows = []
    for (target, others), *both in zip(found, alone, transfer):
        name = f"{others[0].stem if len(others) == 1 else f'{len(others)} others'} -> {target.stem}"
        scores = [f"{some[:, t - 1].mean():.2f}" for some in both for t in (8, checkpoints[-1])]
        rows.append([name, *scores, f"{best_of(others, target):.2f}"])
    after = [f"{name} @{t}" for name in ("alone", "transfer") for t in (8, checkpoints[-1])]
    return f"{overall}\n\n{_NOTE}\n\n{markdown.table(['pair', *after, 'their best 8'], rows)}"


def _median(runs, goal):
    """Median over seeds of the trials to a goal; 1.2 times the trials of a run that did not get
    there.
    """
    return np.median([min(trials_to(run, goal), 1.2 * len(run)) for run in runs])


if __name__ == "__main__":
    main()
