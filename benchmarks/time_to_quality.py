"""Latency of a tuned network over the time spent on tuning.

    python -m benchmarks.time_to_quality  # AlexNet, three repetitions, an hour on two cores

Every repetition tunes the network as TVM's tutorial tune_relay_x86.py does, with XGBTuner and TVM's
builder and runner, but with ``--trials`` trials in all instead of thousands per task; then, for as
long or for a ``--share`` of it, with `tune_network` at its defaults. What either had found after
fractions of that time is built, and all of these networks and the untuned one are timed in turn in
one process, each several times in newly allocated memory, which alone makes a difference. Only the
last of `tune_network` is confirmed.

A stopped benchmark resumes from the logs in ``--out``; ``--plot`` draws the figure.
"""

import json
import time
from pathlib import Path

import numpy as np
import tvm
from tvm.autotvm import record

from autotvm_opevo.autotvm import tune_network
from autotvm_opevo.autotvm.log import key_of
from autotvm_opevo.autotvm.log import seconds as latency_of
from autotvm_opevo.networks import relay as workloads
from autotvm_opevo.tuning.result import UNLIMITED
from benchmarks.latency_over_time import END, make_parser, plot, table
from benchmarks.network import METHODS, digest, time_all

# Of the time that XGBTuner takes.
FRACTIONS = (0.05, 0.1, 0.2, 0.5, 1.0)
OURS, THEIRS = "gradient+opevo", "tutorial"
LABELS = {THEIRS: "XGBTuner, tutorial", OURS: "tune_network"}


def tune(method, name, target, options, repetition, time_limit=None):
    """Tune a network into a log of its own; returns the log and what was spent, in seconds from its
    start.
    """
    task_scheduler, tuner, measure_option = METHODS[method]
    mod, params = workloads.network(name)
    about = options.trials if method == THEIRS else f"{options.trials}-{options.share:.3g}"
    log = options.out / f"{name}-{method}-{about}-{digest(target)}-{repetition}.json"
    spent = log.with_suffix(".spent")
    if not spent.exists():
        for file in (log, Path(f"{log}.journal")):
            file.unlink(missing_ok=True)
        start = time.time()
        tune_network(
            mod,
            params,
            target,
            log,
            trials=options.trials if time_limit is None else UNLIMITED,
            time_limit=time_limit,
            measure_option=measure_option(target),
            tuner=tuner,
            task_scheduler=task_scheduler,
            seed=repetition,
            evaluate=False,
        )
        spent.write_text(json.dumps([start, time.time()]))
    return log, json.loads(spent.read_text())


def best_until(log, moment, file):
    """Write the best record of each task among those measured until a moment; returns the number of
    trials until then.
    """
    best, trials = {}, 0
    for measured, result in record.load_from_file(str(log)):
        if result.timestamp <= moment:
            trials += 1
            key = key_of(measured.target, measured.task)
            if latency_of(result) < min(
                latency_of(best[key][1]) if key in best else np.inf, np.inf
            ):
                best[key] = measured, result
    file.write_text("".join(record.encode(*pair) + "\n" for pair in best.values()))
    return trials


def stages(log, start, end, total, share=1.0):
    """Files of the best records after fractions of a time, and after the share that was spent; with
    seconds and trials.
    """
    found = []
    for fraction in [*(fraction for fraction in FRACTIONS if fraction < share), share]:
        moment = end if fraction == share else min(start + fraction * total, end)
        file = log.with_suffix(f".{fraction}")
        trials = best_until(log, moment, file)
        if fraction == share and (confirmed := log.with_suffix(".best.json")).exists():
            file = confirmed
        if trials:
            stage = END if fraction == share else fraction
            found.append(
                {"stage": stage, "seconds": moment - start, "trials": trials, "file": str(file)}
            )
    return found


def measure(name, target, options):
    """One row per repetition, method and stage."""
    rows = []
    for repetition in range(options.repetitions):
        log, (start, end) = tune(THEIRS, name, target, options, repetition)
        total = end - start
        found = {THEIRS: stages(log, start, end, total)}
        log, (start, end) = tune(
            OURS, name, target, options, repetition, time_limit=options.share * total
        )
        found[OURS] = stages(log, start, end, total, options.share)
        rows += [
            {"network": name, "repetition": repetition, "method": method, **stage}
            for method, all_stages in found.items()
            for stage in all_stages
        ]
        theirs, ours = found[THEIRS][-1]["trials"], found[OURS][-1]["trials"]
        print(
            f"{name} {repetition}: {total:.0f} and {end - start:.0f} s, {theirs} and {ours} trials",
            flush=True,
        )
    seconds = time_all(name, target, [None, *(row["file"] for row in rows)], options.rounds)
    untuned, *tuned = seconds.tolist()
    for row, timed in zip(rows, tuned):
        row.update(latency=timed, untuned=untuned)
        del row["file"]
    return rows


def main():
    parser = make_parser(workloads.NETWORKS, "XGBTuner", trials=200, share=1.0)
    parser.add_argument("--target", default="llvm -mcpu=core-avx2")
    parser.add_argument("--rounds", type=int, default=5, help="of the final timing (default: 5)")
    parser.add_argument(
        "--out", type=Path, default=Path("tuned/time_to_quality"), help="folder for the logs"
    )
    parser.add_argument("--results", type=Path, help="JSON file for the results")
    parser.add_argument(
        "--show", type=Path, help="print the table of earlier results, and tune nothing"
    )
    options = parser.parse_args()
    if options.show:
        rows = json.loads(options.show.read_text())
    else:
        options.out.mkdir(parents=True, exist_ok=True)
        rows = [
            row
            for name in options.networks
            for row in measure(name, tvm.target.Target(options.target), options)
        ]
    if options.results:
        options.results.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows, LABELS))
    if options.plot:
        plot(rows, LABELS, options.plot)


if __name__ == "__main__":
    main()
