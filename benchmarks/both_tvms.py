"""The same network on the same CPU, tuned with AutoTVM and with today's TVM: which makes it faster?

    .venv/tvm/bin/python -m benchmarks.both_tvms             # AlexNet, 200 trials, three seeds: 20 minutes on two cores
    .venv/tvm/bin/python -m benchmarks.both_tvms --targets "llvm -mcpu=core-avx2" "llvm -mcpu=skylake-avx512"

Both are called as a user would, ``autotvm-opevo tune`` and ``compare``, each with its Python. What they found is then timed in
turn, in new processes, since where memory lies makes a network up to a third faster or slower.
"""

import argparse
import re
import subprocess
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np

from autotvm_opevo.tuning.confidence import geometric_mean
from benchmarks import markdown, publish
from benchmarks.environment import environment
from benchmarks.resume import run_missing
from benchmarks.statistics import geometric_mean_interval

PYTHONS = {"AutoTVM (0.17)": ".venv/autotvm/bin/python", "MetaSchedule (0.27)": ".venv/tvm/bin/python"}
BEST = {"AutoTVM (0.17)": "log.best.json", "MetaSchedule (0.27)": "log/best"}
LOG = {"AutoTVM (0.17)": "log.json", "MetaSchedule (0.27)": "log"}


def command(name, *arguments):
    """Run this package's command line with one of the TVMs; returns what it prints."""
    done = subprocess.run([PYTHONS[name], "-m", "autotvm_opevo", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments))} failed with {name}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def milliseconds(text):
    """The untuned and the tuned network's, in the table that ``compare`` prints."""
    found = re.findall(r"^(?:untuned|\S*best\S*) +([\d.]+) ", text, re.MULTILINE)
    return [float(value) for value in found[:2]]


def repetition(job):
    """Seconds of tuning, and the milliseconds in each round, of both."""
    network, target = job["network"], ["--target", job["target"]] if job["target"] else []
    result = {name: {"timed": []} for name in PYTHONS}
    with tempfile.TemporaryDirectory() as parent:
        folders = {name: Path(parent) / str(i) for i, name in enumerate(PYTHONS)}
        for name, folder in folders.items():
            folder.mkdir()
            start = time.perf_counter()
            trials = "--trials", job["trials"], "--seed", job["seed"]
            command(name, "tune", "--network", network, *target, *trials, "--log", folder / LOG[name])
            result[name]["seconds"] = time.perf_counter() - start
        for _ in range(job["rounds"]):
            for name, folder in folders.items():
                text = command(name, "compare", folder / BEST[name], "--network", network, *target, "--time-limit", 10)
                result[name]["timed"].append(milliseconds(text))
    return result


def table(runs):
    """Geometric means and ranges over all rounds of all seeds, and how many times as fast the second network is."""
    rows, leads = [], []
    cases = dict.fromkeys((run["network"], run["target"]) for run in runs)
    for network, target in cases:
        mine = [run for run in runs if (run["network"], run["target"]) == (network, target)]
        case = [network, target or "this machine's"]
        rows += [[*case, name, *_columns([run[name] for run in mine])] for name in PYTHONS]
        if len(mine) > 1:
            first, second = ([_tuned(run[name]) for run in mine] for name in PYTHONS)
            mean, low, high = geometric_mean_interval(np.divide(first, second))
            digits = 3 if min(abs(value - 1) for value in (mean, low, high)) < 0.01 else 2
            values = [f"{value:.{digits}f}" for value in (mean, low, high)]
            leads.append("{}: {} times ({} to {}; {} seeds)".format(", ".join(case), *values, len(mine)))
    head = ["network", "target", "", "untuned, ms", "tuned, ms (all rounds)", "seconds, comparison included"]
    text = markdown.table(head, rows)
    if leads:
        first, second = PYTHONS
        how = "geometric means, 95% intervals by Student's t of logarithms"
        text += f"\n\nHow many times as fast {second} is as {first}: {'; '.join(leads)}; {how}."
    return text


def _columns(results):
    """Untuned and tuned milliseconds, and seconds of tuning, of one TVM's repetitions."""
    timed = [pair for result in results for pair in result["timed"]]
    untuned, tuned = (geometric_mean([pair[i] for pair in timed]).value for i in (0, 1))
    rounds = [pair[1] for pair in timed]
    took = sum(result["seconds"] for result in results) / len(results)
    return [f"{untuned:.4g}", f"{tuned:.3g} ({min(rounds):.3g} to {max(rounds):.3g})", f"{took:.0f}"]


def _tuned(result):
    """Milliseconds of a repetition's tuned network."""
    return geometric_mean([tuned for _, tuned in result["timed"]]).value


def main(arguments=None):
    parser = argparse.ArgumentParser(description="The same network, tuned with AutoTVM and with today's TVM.")
    parser.add_argument("--networks", nargs="+", default=["alexnet"])
    parser.add_argument("--targets", nargs="+", default=[""], help="default: this machine's")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5, help="how often both are timed in turn (default: 5)")
    parser.add_argument("--out", type=Path, default=Path("tuned/both-tvms.jsonl"), help="results, one repetition per line")
    parser.add_argument(
        "--publish", type=publish.section, metavar="SECTION", help="write the table to this section of docs/results"
    )
    options = parser.parse_args(arguments)
    about = {"trials": options.trials, "rounds": options.rounds, **environment("llvm")}
    jobs = [
        {"network": network, "target": target, "seed": seed, **about}
        for network, target, seed in product(options.networks, options.targets, range(options.seeds))
    ]
    runs = run_missing(jobs, repetition, options.out, unit="repetition")
    text = table(runs)
    if options.publish:
        publish.publish(options.publish, text, "both_tvms", arguments)
    print(text)


if __name__ == "__main__":
    main()
