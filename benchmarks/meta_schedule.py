"""OpEvo beside TVM's own evolutionary search, in MetaSchedule, on this machine.

    python -m benchmarks.meta_schedule                        # operators and AlexNet: a night
    python -m benchmarks.meta_schedule --workloads MM1 C2     # less

All take turns, have the same runner and the same builder, and the same trials. TVM's search has its defaults, rounds of 64 and an
XGBoost cost model; only where the trials of a network are too few for that, smaller rounds, of which the last may go beyond the
trials. What each had found after some trials is then built and timed again, in turn, in one process. What was stopped goes on.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tqdm import tqdm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.measure_callback import PyMeasureCallback

from autotvm_opevo.meta_schedule import OpEvoStrategy, local_builder, open_database, tune_network, workloads
from autotvm_opevo.meta_schedule.database import seconds
from autotvm_opevo.meta_schedule.evaluation import build, lower_for_tuning, preserve_affinity, random_inputs, time_interleaved
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from benchmarks import jsonl, publish
from benchmarks.environment import machine
from benchmarks.statistics import difference
from benchmarks.workloads import CPU, cpu

RIVAL = "evolutionary + XGBoost"
STRATEGIES: dict[str, Any] = {
    RIVAL: lambda seed: {"strategy": "evolutionary", "cost_model": "xgb"},
    "OpEvo": lambda seed: {"strategy": OpEvoStrategy(seed=seed), "cost_model": "none"},
    'OpEvo surrogate="gp"': lambda seed: {"strategy": OpEvoStrategy(seed=seed, surrogate="gp"), "cost_model": "none"},
}
NETWORK = "AlexNet"
# A network's operators get so many trials each, in the mean.
_PER_TASK = 16
# What was found is timed again so many times, in turn and for at least so many milliseconds each time.
_TIMES, _AT_LEAST_MS = 7, 50


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="OpEvo beside TVM's own evolutionary search, in MetaSchedule.")
    parser.add_argument("--workloads", nargs="+", default=[*CPU, NETWORK], choices=[*CPU, NETWORK])
    parser.add_argument("--trials", type=int, nargs="+", default=[32, 64, 128], help="when to look (default: 32 64 128)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--builder", choices=["quick", "tvm"], default="quick", help="this package's build function, or TVM's")
    parser.add_argument("--out", type=Path, default=Path("tuned/meta-schedule.jsonl"), help="results, one repetition a line")
    parser.add_argument("--publish", metavar="SECTION", help="of docs/results.md, which gets the tables")
    options = parser.parse_args(arguments)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    jobs = [
        {"workload": workload, "seed": seed, "trials": options.trials, "builder": options.builder, **machine("llvm")}
        for seed in range(options.seeds)
        for workload in options.workloads
    ]
    done = jsonl.read(options.out)
    import_tensor_intrinsics()  # or the first of all would pay for it
    missing = [job for job in jobs if not any(job.items() <= run.items() for run in done)]
    for job in tqdm(missing, initial=len(jobs) - len(missing), total=len(jobs), unit="repetition", disable=None):
        found = {**job, "results": repetition(job["workload"], job["seed"], job["trials"], job["builder"])}
        jsonl.append(options.out, found)
        done.append(found)
    text = tables([next(run for run in done if job.items() <= run.items()) for job in jobs])
    if options.publish:
        publish.publish(options.publish, text, "meta_schedule", arguments)
    print(text)


def repetition(workload: str, seed: int, trials: Sequence[int], builder: str) -> dict[str, Any]:
    """Every strategy once, nobody always first: what it had found by then, timed again, in seconds, and how long it took."""
    names = [*STRATEGIES][seed % 3 :] + [*STRATEGIES][: seed % 3]
    run = tuned_network if workload == NETWORK else tuned_operator
    results: dict[str, dict[str, Any]] = {}
    found: dict[tuple[str, int], Any] = {}
    for name in names:
        best, results[name] = run(workload, seed, trials, builder, STRATEGIES[name](seed))
        found.update({(name, n): executable for n, executable in best.items()})
    again = (time_networks if workload == NETWORK else time_operators)(list(found.values()))
    for (name, n), latency in zip(found, again):
        results[name].setdefault("again", {})[str(n)] = latency
    return results


def tuned_operator(
    workload: str, seed: int, trials: Sequence[int], builder: str, options: dict[str, Any]
) -> tuple[dict[int, Any], dict[str, Any]]:
    """Tune once: the best schedules after so many trials, and what was measured."""
    taken: list[tuple[float, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.ERROR)
        start = time.perf_counter()
        with ms.Profiler() as profiler:
            ms.tune_tir(
                CPU[workload](),
                cpu(),
                folder,
                max(trials),
                builder=_builder(builder),
                measure_callbacks=[*ms.MeasureCallback.create("default"), _Take(taken)],
                seed=seed + 1,
                **options,
            )
        elapsed = time.perf_counter() - start
    latencies = [latency for latency, _ in taken]
    best = {n: taken[int(np.argmin(latencies[:n]))][1] for n in trials}
    parts = {name: float(spent) for name, spent in profiler.get().items()}
    return best, {"latencies": latencies, "seconds": elapsed, "parts": parts}


def tuned_network(
    workload: str, seed: int, trials: Sequence[int], builder: str, options: dict[str, Any]
) -> tuple[dict[int, Any], dict[str, Any]]:
    """Tune AlexNet once: the network with the best of all trials, and how long it took."""
    mod, params = workloads.alexnet()
    lowered = lower_for_tuning(mod, params, cpu())
    total = _PER_TASK * len(ms.relax_integration.extract_tasks(lowered, cpu()))
    with tempfile.TemporaryDirectory() as folder:
        report = tune_network(mod, params, cpu(), folder, total, builder=_builder(builder), seed=seed, evaluate=False, **options)
        executable = build(lowered, cpu(), open_database(folder))
    return {total: (lowered, executable)}, {"seconds": report.seconds, "estimate": report.latency, "measured": report.measured}


def time_operators(mods: Sequence[tvm.IRModule]) -> list[float]:
    """Each schedule's latency in seconds, the median of some that were taken in turn."""
    functions = [tvm.compile(mod, cpu()).jit() for mod in mods]
    rng = np.random.default_rng(0)
    shapes = [tuple(map(int, tensor.shape)) for tensor in ArgInfo.from_entry_func(mods[0], remove_preproc=True)]
    arguments = [tvm.runtime.tensor(rng.standard_normal(shape).astype("float32")) for shape in shapes]
    evaluators = [f.time_evaluator("main", tvm.cpu(), number=1, min_repeat_ms=_AT_LEAST_MS) for f in functions]
    with preserve_affinity():
        rounds = [[evaluate(*arguments).mean for evaluate in evaluators] for _ in range(_TIMES)]
    return [float(median) for median in np.median(rounds, axis=0)]


def time_networks(networks: Sequence[tuple[tvm.IRModule, Any]]) -> list[float]:
    """Each network's latency in seconds, the same way."""
    lowered = networks[0][0]
    _, latencies = time_interleaved([executable for _, executable in networks], random_inputs(lowered), cpu())
    return [float(np.median(runs)) for runs in latencies]


@derived_object
class _Take(PyMeasureCallback):
    """Keeps every latency and schedule in the order in which they were measured."""

    def __init__(self, taken: list[tuple[float, Any]]) -> None:
        super().__init__()
        self._taken = taken

    def apply(self, task_scheduler: Any, task_id: int, candidates: Any, builds: Any, results: Any) -> None:
        self._taken += [(seconds(result.run_secs), candidate.sch.mod) for candidate, result in zip(candidates, results)]


def _builder(name: str) -> Any:
    return local_builder() if name == "quick" else ms.builder.LocalBuilder()


def tables(runs: Sequence[dict[str, Any]]) -> str:
    """Milliseconds of what was found, how many times as fast as the rival's that is, and how long all took."""
    workloads = list(dict.fromkeys(run["workload"] for run in runs))
    results = {workload: [run["results"] for run in runs if run["workload"] == workload] for workload in workloads}
    return "\n\n".join([_found(results), _ratios(results), _seconds(results)])


Results = dict[str, list[dict[str, Any]]]
OURS = [name for name in STRATEGIES if name != RIVAL]


def _found(results: Results) -> str:
    rows = [[workload, n, *_again(mine, n)] for workload, mine in results.items() for n in mine[0][RIVAL]["again"]]
    return _table(["workload", "trials", *STRATEGIES, *(f"{name}, times as fast" for name in OURS)], rows)


def _again(mine: Sequence[dict[str, Any]], n: str) -> list[str]:
    """Of one workload after so many trials: each strategy's milliseconds, and how many times as fast ours are."""
    found = {name: np.array([of[name]["again"][n] for of in mine]) * 1e3 for name in STRATEGIES}
    cells = [f"{np.median(x):.3g} ({x.min():.3g} to {x.max():.3g})" for x in found.values()]
    return cells + [f"{np.exp(np.log(found[RIVAL] / found[name]).mean()):.2f}" for name in OURS]


def _ratios(results: Results) -> str:
    """Over all operators, and of the network, with intervals: how many times as fast, and in what part of the time."""
    rng, rows = np.random.default_rng(0), []
    operators = {workload: mine for workload, mine in results.items() if workload != NETWORK}
    for what, some in (("operators", operators), (NETWORK, {name: mine for name, mine in results.items() if name == NETWORK})):
        for name in OURS if some else ():
            of_trials = next(iter(some.values()))[0][RIVAL]["again"]
            for n in of_trials:
                faster = [[np.log(of[RIVAL]["again"][n] / of[name]["again"][n]) for of in mine] for mine in some.values()]
                rows.append([what, name, f"times as fast after {n} trials", *_interval(np.array(faster), rng)])
            shorter = [[np.log(of[name]["seconds"] / of[RIVAL]["seconds"]) for of in mine] for mine in some.values()]
            rows.append([what, name, "part of the time for all trials", *_interval(np.array(shorter), rng)])
    return _table(["", "strategy", f"against {RIVAL}", "geometric mean", "95% interval", "p"], rows)


def _interval(gaps: Any, rng: np.random.Generator) -> list[str]:
    d = difference(gaps, np.zeros_like(gaps), rng)
    low, high = np.exp(d.low), np.exp(d.high)
    return [f"{np.exp(d.mean):.3f}", f"{low:.3f} to {high:.3f}", f"{d.p:.3g}"]


def _seconds(results: Results) -> str:
    rows = []
    for workload, mine in results.items():
        took = [[of[name]["seconds"] for of in mine] for name in STRATEGIES]
        rows.append([workload, *(f"{np.mean(s):.0f} ± {np.std(s, ddof=1 if len(s) > 1 else 0):.0f}" for s in took)])
    return _table(["workload", *(f"{name}, seconds" for name in STRATEGIES)], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


if __name__ == "__main__":
    main()
