"""Compare OpEvoTuner with XGBTuner on a matrix multiplication: what ``make tune`` runs.

    python -m benchmarks.tune_matmul                  # on this machine's CPU: three minutes on two cores
    python -m benchmarks.tune_matmul --target cuda    # on an NVIDIA GPU: the paper's MM1, with TVM's own template

Both tuners have the same task, builder, runner, number of trials and batches, of as many configurations as there are cores. The
best configuration of each is then built again, checked against numpy, and timed beside the untuned schedule. The output folder,
named at the end, has both logs, which ``autotvm.apply_history_best`` reads, a plot of the best so far over trials, and figures.
"""

import argparse
import json
import logging
import os
import random
import shutil
import time
import timeit
from datetime import datetime
from pathlib import Path

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # or TVM downloads pre-tuned schedules

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import tvm
from tvm import autotvm, te

from autotvm_opevo import OpEvoTuner
from autotvm_opevo.autotvm import LocalBuilder, LocalRunner, local_target
from autotvm_opevo.autotvm.processes import WORKER_MODULE
from autotvm_opevo.tuning.workers import call_once

# Rows, depth and columns of the matrix multiplication on a CPU.
SHAPE = 512, 512, 512
# One configuration, timed while tuning and when rebuilt, differs by so much only if something else was running.
INTERFERENCE = 1.25


@autotvm.template("autotvm_opevo/matmul")
def matmul(n, k, m, dtype):
    """A schedule with every kind of knob that AutoTVM knows."""
    a = te.placeholder((n, k), name="a", dtype=dtype)
    b = te.placeholder((k, m), name="b", dtype=dtype)
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    schedule = te.create_schedule(c.op)
    y, x = schedule[c].op.axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=3, filter=lambda tile: max(tile.size[1:]) <= 8)
    cfg.define_split("tile_x", x, num_outputs=3, filter=lambda tile: tile.size[1] <= 8 and tile.size[2] <= 64)
    cfg.define_split("tile_r", r, num_outputs=2, filter=lambda tile: tile.size[1] <= 16)
    y_outer, y_middle, y_inner = cfg["tile_y"].apply(schedule, c, y)
    x_outer, x_middle, x_inner = cfg["tile_x"].apply(schedule, c, x)
    r_outer, r_inner = cfg["tile_r"].apply(schedule, c, schedule[c].op.reduce_axis[0])
    inner = [r_outer, r_inner, y_inner]
    cfg.define_reorder("order", inner, policy="all")
    cfg.define_annotate("innermost", [x_inner], policy="try_vec")
    cfg.define_knob("unroll", [0, 16])

    schedule[c].reorder(y_outer, x_outer, y_middle, x_middle, *[inner[i] for i in cfg["order"].perm], x_inner)
    cfg["innermost"].apply(schedule, c, [x_inner])
    schedule[c].pragma(y_outer, "auto_unroll_max_step", cfg["unroll"].val)
    return schedule, [a, b, c]


def make_task(target):
    """The template above on a CPU; the paper's MM1, 512 x 1024 x 1024, with TOPI's template on a GPU."""
    if target.kind.name == "cuda":
        from tvm import topi  # noqa: F401  registers the template

        tensors = te.placeholder((512, 1024), name="x"), te.placeholder((1024, 1024), name="y")
        return autotvm.task.create("dense_large_batch.gpu", args=(*tensors, None, "float32"), target=target)
    return autotvm.task.create("autotvm_opevo/matmul", args=(*SHAPE, "float32"), target=target)


def tune(tuner, log, trials):
    builder = LocalBuilder(timeout=10)
    runner = LocalRunner(
        number=1, repeat=3, min_repeat_ms=50 if tuner.task.target.kind.name == "llvm" else 150, cooldown_interval=0
    )
    callbacks = [
        autotvm.callback.progress_bar(trials, prefix=f"{type(tuner).__name__:>10}"),
        autotvm.callback.log_to_file(str(log)),
    ]
    try:
        tuner.tune(trials, autotvm.measure_option(builder=builder, runner=runner), callbacks=callbacks)
    finally:
        builder.close()
        runner.close()


def build(task, log=None):
    """Build the operator with the best configuration of a log, or with TVM's fallback if there is none."""
    config = autotvm.task.space.FallbackConfigEntity()
    if log:
        with autotvm.apply_history_best(str(log)) as best:
            config = best.query(task.target, task.workload)
    with task.target:
        schedule, arguments = task.instantiate(config)
        return tvm.build(schedule, arguments)


def tune_timed(tuner, log, trials):
    """Tune; returns the wall-clock seconds, and the tuner's own share of them."""
    own_seconds = clock(tuner, "has_next", "next_batch", "update")
    start = time.perf_counter()
    tune(tuner, log, trials)
    return time.perf_counter() - start, sum(own_seconds)


def gflops_of_trials(task, log):
    """GFLOPS of every trial in a log, 0 if it failed."""
    results = [result for _, result in autotvm.record.load_from_file(str(log))]
    return np.array([0.0 if result.error_no else task.flop / np.mean(result.costs) / 1e9 for result in results])


def clock(tuner, *names):
    """Time every call of these methods; returns the list to which their seconds are appended."""
    seconds = []

    def clocked(method):
        def call(*args):
            start = time.perf_counter()
            try:
                return method(*args)
            finally:
                seconds.append(time.perf_counter() - start)

        return call

    for name in names:
        setattr(tuner, name, clocked(getattr(tuner, name)))
    return seconds


def inputs(task, device):
    """Random operands with room for their product, and the expected product; TOPI's dense takes the weights transposed."""
    shapes = [argument[1] for argument in task.args if isinstance(argument, tuple)] or [SHAPE[:2], SHAPE[1:]]
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape, dtype="float32") for shape in shapes)
    expected = x @ (y.T if task.name.startswith("dense") else y)
    return [tvm.nd.array(array, device) for array in (x, y, np.zeros_like(expected))], expected


def time_interleaved(task, functions, device):
    """Check each function, then time them interleaved on the same arrays; returns the median GFLOPS of each."""
    arrays, expected = inputs(task, device)
    for function in functions:
        function(*arrays)
        np.testing.assert_allclose(arrays[-1].numpy(), expected, rtol=1e-3, atol=1e-2)
    evaluators = [f.time_evaluator(f.entry_name, device, number=1, repeat=3, min_repeat_ms=20) for f in functions]
    rounds = [[np.median(evaluate(*arrays).results) for evaluate in evaluators] for _ in range(5)]
    return task.flop / np.median(rounds, axis=0) / 1e9


def numpy_gflops(task):
    """GFLOPS of numpy's BLAS on all cores; the template above uses one."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape, dtype="float32") for shape in (SHAPE[:2], SHAPE[1:]))
    return task.flop / (min(timeit.repeat(lambda: x @ y, number=10, repeat=5)) / 10) / 1e9


def plot(curves, path):
    """Plot the best so far over trials."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, scores in curves.items():
        axes.step(range(1, len(scores) + 1), np.maximum.accumulate(scores), where="post", label=name)
    axes.set(xlabel="trials", ylabel="best GFLOPS so far", ylim=(0, None), title="One operator, one run of each tuner")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def conclusion(now, seconds):
    """Which tuner's best is faster, in a sentence, by GFLOPS and seconds of tuning, each by tuner."""
    first, second = sorted(now, key=now.get, reverse=True)
    times = f"after {seconds[first]:.0f} s of tuning and {seconds[second]:.0f} s"
    if now[first] < 1.02 * now[second]:
        return f"{first} and {second} are equally fast, within 2%, {times}."
    speeds = f"{now[first]:.1f} and {now[second]:.1f} GFLOPS"
    return f"{first} is {now[first] / now[second]:.2f} times as fast as {second}: {speeds}, {times}."


def interference(best, now):
    """Say which timings of the same configuration differ too much; empty if none do. GFLOPS while tuning and now, by tuner."""
    apart = [name for name in best if max(best[name] / now[name], now[name] / best[name]) > INTERFERENCE]
    named = " and ".join(f"{name}'s best had {best[name]:.1f} GFLOPS while tuning and has {now[name]:.1f} now" for name in apart)
    return f"This machine may have been busy: {named}. Run it again when nothing else runs." if apart else ""


def parse_target(text):
    """The target and None, or None and why it cannot be used: TVM parses cuda by asking the GPU, so that comes first."""
    if text is None:
        return tvm.target.Target(local_target()), None
    if text.split()[:1] == ["cuda"]:
        if not tvm.cuda(0).exist:
            return None, "TVM finds no NVIDIA GPU: omit --target to tune for the CPU"
        if not shutil.which("nvcc"):
            return None, "nvcc is not on the PATH: install the CUDA toolkit, which TVM needs to compile kernels"
    return tvm.target.Target(text), None


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Tune a matrix multiplication with OpEvoTuner and with XGBTuner.")
    parser.add_argument("--target", help="TVM target, llvm -mcpu=... or cuda (default: this machine's)")
    parser.add_argument("--trials", type=int, default=96, help="trials of each tuner (default: 96)")
    parser.add_argument("--seed", type=int, default=0, help="seed (default: 0); with an odd one XGBTuner is first")
    parser.add_argument("--out", type=Path, help="output directory (default: a new one in tuned/)")
    options = parser.parse_args(arguments)
    for name, least in (("trials", 1), ("seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} must be at least {least}, {getattr(options, name)} given")
    try:
        target, missing = parse_target(options.target)
    except (ValueError, tvm.TVMError):
        parser.error(f"--target must be a TVM target, such as llvm or cuda, {options.target!r} given")
    if missing:
        parser.exit(1, f"tune_matmul: {missing}\n")

    out = options.out or Path("tuned") / f"matmul-{datetime.now():%Y%m%d-%H%M%S}"
    out.mkdir(parents=True, exist_ok=True)
    logging.getLogger("autotvm").setLevel(logging.WARNING)

    task = make_task(target)
    space = np.prod([float(len(knob)) for knob in task.config_space.space_map.values()])
    print(f"{task.name} for {target}: {space:,.0f} configurations, {options.trials} trials per tuner")
    tuners = {"OpEvoTuner": OpEvoTuner(task, seed=options.seed), "XGBTuner": autotvm.tuner.XGBTuner(task)}
    logs = {name: out / f"{name.lower()}.json" for name in tuners}
    for log in logs.values():
        log.unlink(missing_ok=True)
    print("XGBTuner pauses for up to a minute after every 64 trials to train its cost model.")
    np.random.seed(options.seed % 2**32)  # noqa: NPY002  # XGBTuner draws from the global generators
    random.seed(options.seed)
    call_once(WORKER_MODULE, int)  # what starts the workers imports TVM, for seconds
    order = sorted(tuners, reverse=options.seed % 2 == 1)  # each is first in turn
    try:
        seconds = {name: tune_timed(tuners[name], logs[name], options.trials) for name in order}
    except KeyboardInterrupt:
        parser.exit(130, f"\ntune_matmul: interrupted; the trials so far are in {out}\n")

    tuned = {name: gflops_of_trials(task, log) for name, log in logs.items()}
    failed = [name for name, gflops in tuned.items() if not gflops.any()]
    if failed:
        parser.exit(1, f"tune_matmul: all trials of {' and '.join(failed)} failed; see AutoTVM's warning above for the errors\n")
    device = tvm.device(target.kind.name, 0)
    again = time_interleaved(task, [build(task), *(build(task, log) for log in logs.values())], device)
    best, now = {name: gflops.max() for name, gflops in tuned.items()}, dict(zip(tuned, again[1:]))
    print("\n            GFLOPS now   best while tuning   at trial    of   seconds     of which in the tuner")
    print(f"{'untuned':<10}{again[0]:>12.1f}")
    if target.kind.name == "llvm":
        print(f"{'numpy':<10}{numpy_gflops(task):>12.1f}   (on all cores, the others on one)")
    for name, gflops in tuned.items():
        trials = f"{best[name]:>20.1f}{gflops.argmax() + 1:>11}{len(gflops):>6}"
        total, own = seconds[name]
        print(f"{name:<10}{now[name]:>12.1f}{trials}{total:>10.1f}{own:>26.2f}")
    print("GFLOPS now: the best configurations, rebuilt and timed in turn; all three outputs match numpy's.")
    plot(tuned, out / "best_so_far.png")
    figures = {"target": str(target), "seed": options.seed, "best": best, "now": now, "seconds": seconds, "untuned": again[0]}
    (out / "figures.json").write_text(json.dumps(figures))
    print(f"logs and plot: {out}")
    if said := interference(best, now):
        print(said)
    print(f"\n{conclusion(now, {name: total for name, (total, _) in seconds.items()})}")
    print("Next, a whole network: make tune-network tunes AlexNet with both, for a minute each.")


if __name__ == "__main__":
    main()
