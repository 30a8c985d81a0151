"""Latency of a Relax network over the time spent on tuning: TVM's `tune_relax` and `tune_network`,
each at its defaults.

    # AlexNet, 1,000 trials: 20 minutes a repetition on two cores
    .venv/tvm/bin/python -m benchmarks.relax_time_to_quality

``tune_relax`` has its own builder, rounds and task scheduler. `tune_network` then has ``--share``
of its time. What either had found after fractions of the time of ``tune_relax`` is built, and all
of these networks and the untuned one are timed in turn, in rounds with new memory. Only the last of
`tune_network` is confirmed. A stopped benchmark resumes with the next method.
"""

import json
import shutil
import threading
import time
from functools import partial
from pathlib import Path

from tvm.s_tir import meta_schedule as ms

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import lower_as_imported
from autotvm_opevo.meta_schedule import Comparison, lower_for_tuning, open_database, tune_network
from autotvm_opevo.meta_schedule.database import import_tensor_intrinsics
from autotvm_opevo.meta_schedule.evaluation import network_loader, open_device, random_inputs
from autotvm_opevo.networks import relax as workloads
from autotvm_opevo.tuning.result import UNLIMITED
from benchmarks import publish
from benchmarks.environment import environment
from benchmarks.latency_over_time import END, make_parser, plot, table
from benchmarks.resume import run_missing
from benchmarks.workloads import cpu

RECORDS, WORKLOADS = "database_tuning_record.json", "database_workload.json"
THEIRS, OURS = "tune_relax", "tune_network"
# Of the time of `tune_relax`, which writes its first records after half of it.
FRACTIONS = (0.02, 0.05, 0.1, 0.2, 0.5, 0.75, 1.0)
# Seconds for timing all networks of a repetition.
_TIMING_SECONDS = 120.0
LABELS = {THEIRS: THEIRS, OURS: OURS}


def count_over_time(tune, records, interval=1.0):
    """Run a function; returns the seconds since its start and the number of records so far, each
    time that this grew.
    """
    done, start, counts = threading.Event(), time.perf_counter(), []

    def look():
        count = records.read_bytes().count(b"\n") if records.exists() else 0
        if count > (counts[-1][1] if counts else 0):
            counts.append((time.perf_counter() - start, count))

    def watch():
        while not done.wait(interval):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        tune()
    finally:
        done.set()
        watcher.join()
    look()
    return counts, time.perf_counter() - start


def tune(method, mod, params, folder, trials, seed, time_limit):
    """Tune into a folder; returns counts of records over time, and the time taken. Done before, it
    is read back.
    """
    spent = folder / "spent.json"
    if not spent.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if method == THEIRS:
            lowered = lower_as_imported(bind_params(mod, params), cpu())
            run = partial(
                ms.relax_integration.tune_relax,
                lowered,
                {},
                cpu(),
                str(folder),
                trials,
                seed=seed + 1,
            )
        else:
            options = {"time_limit": time_limit, "seed": seed, "evaluate": False}
            run = partial(tune_network, mod, params, cpu(), folder, UNLIMITED, **options)
        spent.write_text(json.dumps(count_over_time(run, folder / RECORDS)))
    return json.loads(spent.read_text())


def first_records(folder, count, file):
    """A database of the first records of another, in a folder of its own."""
    file.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / WORKLOADS, file)
    (file / RECORDS).write_text(
        "".join((folder / RECORDS).read_text().splitlines(keepends=True)[:count])
    )
    return file


def stages(folder, counts, seconds, total):
    """Databases after fractions of a time, with the seconds and the number of trials."""
    found = []
    for fraction in FRACTIONS:
        moment = seconds if fraction == FRACTIONS[-1] else min(fraction * total, seconds)
        trials = max((count for at, count in counts if at <= moment), default=0)
        last = moment == seconds
        confirmed = folder / "best"
        database = (
            confirmed
            if last and confirmed.exists()
            else first_records(folder, trials, folder / f"until-{fraction}")
        )
        if trials:
            found.append(
                {
                    "stage": END if last else fraction,
                    "seconds": moment,
                    "trials": trials,
                    "database": database,
                }
            )
        if last:
            break
    return found


def repetition(job, options):
    """The stages of both methods with their latencies, and the untuned network's."""
    mod, params = workloads.network(job["network"])
    lowered = {
        THEIRS: lower_as_imported(bind_params(mod, params), cpu()),
        OURS: lower_for_tuning(mod, params, cpu()),
    }
    rows, total = [], None
    for method in (THEIRS, OURS):
        spent = job["trials"] if method == THEIRS else f"{job['trials']}-{job['share']:.3g}"
        folder = options.work_dir / f"{job['network']}-{method}-{spent}-{job['repetition']}"
        limit = job["share"] * total if total else None
        counts, seconds = tune(method, mod, params, folder, job["trials"], job["repetition"], limit)
        total = total or seconds
        rows += [{"method": method, **stage} for stage in stages(folder, counts, seconds, total)]
    comparison = Comparison([f"{row['method']} after {row['seconds']:.0f} s" for row in rows])
    with open_device(cpu()) as (device, upload):
        load = network_loader(cpu(), random_inputs(lowered[THEIRS]), device, upload)
        tuned = [load(lowered[row["method"]], open_database(row.pop("database"))) for row in rows]
        comparison.time_networks([load(lowered[THEIRS]), *tuned], _TIMING_SECONDS)
    assert comparison.outputs_match, comparison.relative_errors
    untuned, *latencies = map(list, zip(*comparison.race.latencies))
    return {
        "untuned": untuned,
        "stages": [{**row, "latency": timed} for row, timed in zip(rows, latencies)],
    }


def rows_of(runs):
    """One row per repetition, method and stage, as in the table and the figure."""
    return [
        {**{key: run[key] for key in ("network", "repetition", "untuned")}, **stage}
        for run in runs
        for stage in run["stages"]
    ]


def main(arguments=None):
    parser = make_parser(workloads.NETWORKS, THEIRS, trials=1000, share=0.1)
    parser.add_argument(
        "--work-dir",
        type=Path,
        default=Path("tuned/relax_time_to_quality"),
        help="folder for the databases",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("tuned/relax_time_to_quality.jsonl"),
        help="results, a repetition a line",
    )
    publish.add_option(parser)
    options = parser.parse_args(arguments)
    import_tensor_intrinsics()  # not in the time of the first method
    about = {"trials": options.trials, "share": options.share, **environment("llvm")}
    jobs = [
        {"network": name, "repetition": index, **about}
        for index in range(options.repetitions)
        for name in options.networks
    ]
    rows = rows_of(
        run_missing(jobs, lambda job: repetition(job, options), options.out, unit="repetition")
    )
    text = table(rows, LABELS)
    if options.publish:
        publish.publish(options.publish, text, "relax_time_to_quality", arguments)
    print(text)
    if options.plot:
        plot(rows, LABELS, options.plot)


if __name__ == "__main__":
    main()
