"""How right a report is about which knobs mattered: its shares of the variance against those of whole landscapes.

    python -m benchmarks.importance         # a minute

`OpEvo` tunes every landscape in which nothing fails, with measurement noise: as it was recorded; its additive part, without
interactions; and that with an interaction of its two largest knobs that has a fifth of the variance. Compared with the shares in
the landscape are those in a report, and, as a baseline, averages over the trials: omega squared of an analysis of variance of
each knob (Hays 1963).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from autotvm_opevo import OpEvo, Space
from autotvm_opevo.reporting.fanova import MIN_PAIR, Importance, fanova
from autotvm_opevo.reporting.knob_graphs import graph_over
from autotvm_opevo.topology import Topology
from benchmarks import markdown, publish
from benchmarks.landscape import FOLDER, Landscape, load

Array = np.ndarray[Any, np.dtype[np.float64]]

TRIALS = (64, 192)
# Standard deviation of the logarithm of a measured latency; and share of the interaction.
_NOISE, _INTERACTION = 0.03, 0.2


def topologies(landscape: Landscape) -> dict[str, Topology]:
    """The knobs' graphs, as a report makes them from a log."""
    kinds = {"split": "inner tile", "reorder": "order", "other": "number"}
    return {name: graph_over(kinds.get(kind, "choice"), _values(landscape, name)) for name, kind in landscape.kinds.items()}


def _values(landscape: Landscape, name: str) -> list[Any]:
    values = [tuple(value) if isinstance(value, list) else value for value in landscape.values[name]]
    return [value[1:] for value in values] if landscape.kinds[name] == "split" else values


def table(landscape: Landscape) -> Array:
    """Logarithm of the latency of every configuration, an axis for each knob."""
    logs = np.empty([len(values) for values in landscape.values.values()])
    logs[tuple(landscape.knob_indices.T)] = np.log(landscape.time)
    return logs


def true_shares(logs: Array) -> tuple[Array, Array]:
    """Share of the variance of each knob by itself, and the additive part of the logarithms."""
    effects = [_mean_over_others(logs, (j,)) - logs.mean() for j in range(logs.ndim)]
    additive = np.broadcast_to(sum(effects, np.array(logs.mean())), logs.shape)
    return np.array([(effect**2).mean() for effect in effects]) / logs.var(), additive


def _mean_over_others(logs: Array, knobs: Sequence[int]) -> Array:
    mean: Array = logs.mean(axis=tuple(j for j in range(logs.ndim) if j not in knobs), keepdims=True)
    return mean


def with_interaction(additive: Array) -> tuple[Array, tuple[int, int]]:
    """An additive table with an interaction of its two largest knobs, and which they are."""
    first, second = sorted(np.argsort([-size for size in additive.shape], kind="stable")[:2].tolist())
    ramps = [np.linspace(-1, 1, size) if j in (first, second) else np.zeros(1) for j, size in enumerate(additive.shape)]
    interaction = np.multiply.outer(ramps[first], ramps[second])
    scale = np.sqrt(_INTERACTION / (1 - _INTERACTION)) * additive.std() / interaction.std()
    others = tuple(j for j in range(additive.ndim) if j not in (first, second))
    return additive + np.expand_dims(scale * interaction, others), (first, second)


def search(
    knobs: Mapping[str, Topology], values: Sequence[Sequence[Any]], logs: Array, trials: int, seed: int
) -> tuple[list[Any], Array]:
    """Settings and logarithms of the latencies of the trials of a search."""
    opevo, rng = OpEvo(Space(knobs), seed=seed), np.random.default_rng(seed)
    settings: list[Any] = []
    measured: list[float] = []
    positions = [{value: i for i, value in enumerate(own)} for own in values]
    while len(settings) < trials:
        asked = opevo.ask(8)
        cells = [tuple(position[one[name]] for name, position in zip(knobs, positions)) for one in asked]
        new = [float(logs[cell]) + rng.normal(0, _NOISE) for cell in cells]
        opevo.tell(asked, list(np.exp(-np.array(new))))
        settings, measured = settings + asked, measured + new
    return settings, np.array(measured)


def omega_squared(groups: Sequence[Any], y: Array) -> float:
    """Share of the variance that groups explain, without what their number alone would."""
    members = [y[[i for i, group in enumerate(groups) if group == one]] for one in set(groups)]
    within = sum(float(((own - own.mean()) ** 2).sum()) for own in members)
    total = float(((y - y.mean()) ** 2).sum())
    residual = within / max(1, len(y) - len(members))
    return max(0.0, (total - within - (len(members) - 1) * residual) / (total + residual))


def rows(landscape: Landscape, seeds: int) -> Iterator[list[str]]:
    """A row for each kind of truth and number of trials."""
    knobs, values, recorded = topologies(landscape), [_values(landscape, name) for name in landscape.values], table(landscape)
    _, additive = true_shares(recorded)
    interacting, pair = with_interaction(additive)
    names = list(knobs)
    for what, logs in (("as recorded", recorded), ("no interaction", additive), ("one of 20%", interacting)):
        truth, _ = true_shares(logs)
        for trials in TRIALS:
            found: list[Importance] = []
            averages = []
            for seed in range(seeds):
                settings, y = search(knobs, values, logs, trials, seed)
                found.append(fanova(knobs, settings, np.exp(y).tolist()))
                averages.append([omega_squared([setting[name] for setting in settings], y) for name in names])
            errors = np.abs([list(one.alone.values()) for one in found] - truth).max(axis=1)
            of_averages = np.abs(averages - truth).max(axis=1)
            shown = [set(one.interactions) for one in found if one.is_reliable]
            true_pair = {(names[pair[0]], names[pair[1]])} if logs is interacting else set()
            yield [
                landscape.name,
                what,
                str(trials),
                f"{np.median(errors):.0%}",
                f"{np.median(of_averages):.0%}",
                f"{len(shown)} of {seeds}",
                f"{sum(true_pair <= pairs for pairs in shown)}" if true_pair else "",
                f"{sum(bool(pairs - true_pair) for pairs in shown)}" if logs is not recorded else "",
            ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="How right a report is about which knobs mattered.")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument(
        "--publish", type=publish.section, metavar="SECTION", help="write the table to this section of docs/results"
    )
    options = parser.parse_args(arguments)
    landscapes = [one for one in map(load, sorted(FOLDER.glob("*.npz"))) if len(one) == one.size and not one.error.any()]
    header = ["landscape", "interactions", "trials", "error", "of averages", "reliable", "found", "false"]
    text = markdown.table(header, [row for one in landscapes for row in rows(one, options.seeds)])
    text += (
        f"\n\nError: largest of a knob's share, median of {options.seeds} searches. Reliable: searches whose pairs from "
        f"{MIN_PAIR:.0%} on are shown; of those, found and false: those that show the true pair, and those that show another."
    )
    print(text)
    if options.publish:
        publish.publish(options.publish, text, "importance", arguments)


if __name__ == "__main__":
    main()
