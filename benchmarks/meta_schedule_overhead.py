"""The overhead of OpEvoStrategy per candidate, and TVM's share of it, in milliseconds; nothing is
built or run.

python -m benchmarks.meta_schedule_overhead
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.runner import RunnerResult

from autotvm_opevo.meta_schedule import OpEvoStrategy
from autotvm_opevo.meta_schedule import space as spaces
from benchmarks import markdown, publish
from benchmarks.workloads import PAPER, cpu

_TRIALS, _WORKLOADS = 128, ("MM1", "BMM1", "C1", "C2")
SURROGATES = {"OpEvo-published": None, "OpEvo": "gp"}
_HEAD = [
    "target",
    "workload",
    "strategy",
    "search",
    "TVM applies the trace",
    "TVM's postprocessors",
    "in all",
    "rejected per accepted",
]
TARGETS = {"llvm": cpu(), "cuda": tvm.target.Target("nvidia/nvidia-h100")}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Measure the overhead of OpEvoStrategy per candidate."
    )
    publish.add_option(parser)
    options = parser.parse_args(arguments)
    rows = []
    for target, workload, name in product(TARGETS, _WORKLOADS, SURROGATES):
        spent, tried = run(workload, target, SURROGATES[name], _TRIALS)
        search = spent["in all"] - spent["candidate"]
        after = spent["candidate"] - spent["apply"]
        parts = search, spent["apply"], after, spent["in all"]
        figures = [f"{1e3 * seconds / _TRIALS:.1f}" for seconds in parts]
        rows.append([target, workload, name, *figures, f"{tried / _TRIALS - 1:.1f}"])
    table = markdown.table(_HEAD, rows)
    text = (
        "Milliseconds per accepted candidate, including the time of rejected ones; "
        f"{_TRIALS} candidates.\n\n{table}"
    )
    publish.publish(options.publish, text, "meta_schedule_overhead", arguments)


def run(
    workload: str, target: str, surrogate: str | None, trials: int
) -> tuple[dict[str, float], int]:
    """The seconds of each part, and the number of configurations tried. Latencies are synthetic:
    small tiles are fast.
    """
    spent: dict[str, float] = defaultdict(float)
    tried = 0

    def timed(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal tried
            tried += name == "candidate"
            start = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                spent[name] += time.perf_counter() - start

        return call

    strategy = OpEvoStrategy(seed=0, surrogate=surrogate)
    task = ms.TuneContext(
        PAPER[workload](),
        target=TARGETS[target],
        space_generator="post-order-apply",
        search_strategy=strategy,
        task_name=workload,
    )
    task.pre_tuning(max_trials=trials)
    with (
        mock.patch.object(
            spaces.DecisionSpace, "candidate", timed("candidate", spaces.DecisionSpace.candidate)
        ),
        mock.patch.object(spaces._Sketch, "apply", timed("apply", spaces._Sketch.apply)),
    ):
        while candidates := timed("in all", task.generate_measure_candidates)():
            results = [
                RunnerResult([synthetic_latency(candidate)], None) for candidate in candidates
            ]
            timed("in all", task.notify_runner_results)(candidates, results)
    return spent, tried


def synthetic_latency(candidate: Any) -> float:
    """Seconds, increasing with the innermost tile sizes."""
    tiles = [
        int(d[-1])
        for i, d in candidate.sch.trace.decisions.items()
        if i.kind.name == "SamplePerfectTile"
    ]
    return float(1e-3 * np.prod(np.log2(np.array(tiles)) + 1))


if __name__ == "__main__":
    main()
