"""Compare OpEvoTuner with XGBTuner on a matrix multiplication: what ``make tune`` runs.

    python -m benchmarks.tune_matmul  # on this machine's CPU: five minutes on two cores
    # on an NVIDIA GPU: the paper's MM1, with TVM's own template
    python -m benchmarks.tune_matmul --target cuda

Both tuners have the same task, builder, runner and batches, of as many configurations as there are
cores. XGBTuner has a number of trials; OpEvoTuner has as much time as they took. The best
configuration of each, and OpEvoTuner's after as many trials, are then built again, checked against
numpy, and timed beside the untuned schedule. The output folder, named at the end, has both logs,
which ``autotvm.apply_history_best`` and ``autotvm_opevo report`` read, and figures.
"""

import argparse
import json
import logging
import random
import time
from datetime import datetime
from pathlib import Path

import numpy as np
import tvm
from tqdm import tqdm
from tvm import autotvm, te

from autotvm_opevo import OpEvoTuner
from autotvm_opevo.autotvm import LocalBuilder, LocalRunner
from autotvm_opevo.autotvm.log import fitness
from autotvm_opevo.autotvm.targets import as_target, check_device, local_cpu_target
from autotvm_opevo.tuning.workers import call_once
from benchmarks import library, operators
from benchmarks.tuners import Stopwatch

# Rows, depth and columns of the matrix multiplication on a CPU.
SHAPE = 512, 512, 512
# One configuration, timed while tuning and when rebuilt, differs by so much only if something else
# was running.
INTERFERENCE = 1.25
# By default. Few configurations of TVM's template for GPUs can run; the paper has 500.
TRIALS, GPU_TRIALS = 96, 512
# What differs by less is equally fast.
EQUAL = 1.02
# The rebuilt configurations are timed in turn so often, with a pause of so many seconds between: a
# virtual machine may be a third slower for seconds, in which its host does other work. Each time in
# new arrays, since it matters where in memory they lie.
ROUNDS, PAUSE = 60, 0.1
OURS, EQUAL_TRIALS, BASELINE = "OpEvoTuner", "OpEvoTuner, as many trials", "XGBTuner"


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
    cfg.define_split(
        "tile_x", x, num_outputs=3, filter=lambda tile: tile.size[1] <= 8 and tile.size[2] <= 64
    )
    cfg.define_split("tile_r", r, num_outputs=2, filter=lambda tile: tile.size[1] <= 16)
    y_outer, y_middle, y_inner = cfg["tile_y"].apply(schedule, c, y)
    x_outer, x_middle, x_inner = cfg["tile_x"].apply(schedule, c, x)
    r_outer, r_inner = cfg["tile_r"].apply(schedule, c, schedule[c].op.reduce_axis[0])
    inner = [r_outer, r_inner, y_inner]
    cfg.define_reorder("order", inner, policy="all")
    cfg.define_annotate("innermost", [x_inner], policy="try_vec")
    cfg.define_knob("unroll", [0, 16])

    schedule[c].reorder(
        y_outer, x_outer, y_middle, x_middle, *[inner[i] for i in cfg["order"].perm], x_inner
    )
    cfg["innermost"].apply(schedule, c, [x_inner])
    schedule[c].pragma(y_outer, "auto_unroll_max_step", cfg["unroll"].val)
    return schedule, [a, b, c]


def make_task(target):
    """The template above on a CPU; the paper's MM1, 512 x 1024 x 1024, with TOPI's template on a
    GPU.
    """
    if "gpu" in target.keys:
        return operators.task("MM1", target)
    return autotvm.task.create("autotvm_opevo/matmul", args=(*SHAPE, "float32"), target=target)


def tune(tuner, log, trials, least_seconds=0.0):
    """Tune for as many trials, or longer; returns the wall-clock seconds of each trial's end, and
    those in the tuner itself.
    """
    builder = LocalBuilder(timeout=10)
    min_ms = 50 if tuner.task.target.kind.name == "llvm" else 150
    runner = LocalRunner(number=1, repeat=3, min_repeat_ms=min_ms, cooldown_interval=0)
    ends = []
    own = Stopwatch(tuner)
    has_next = tuner.has_next

    def has_time():
        if len(ends) < trials or time.perf_counter() < start + least_seconds:
            return has_next()
        tuner.ttl = 0  # no trials are left, or it would warn that the space is exhausted
        return False

    tuner.has_next = has_time
    name = type(tuner).__name__
    with tqdm(
        total=None if least_seconds else trials, desc=f"{name:>10}", unit=" trials", miniters=1
    ) as bar:

        def show(tuner, inputs, results):
            ends.extend([time.perf_counter() - start] * len(inputs))
            bar.set_postfix_str(f"best {tuner.best_flops / 1e9:.1f} GFLOPS", refresh=False)
            bar.update(len(inputs))

        callbacks = [autotvm.callback.log_to_file(str(log)), show]
        option = autotvm.measure_option(builder=builder, runner=runner)
        most = len(tuner.task.config_space) if least_seconds else trials
        start = time.perf_counter()
        try:
            tuner.tune(most, option, callbacks=callbacks)
        finally:
            builder.close()
            runner.close()
        ends[-1] = time.perf_counter() - start  # with what the tuner learns from the last ones
    return ends, own.seconds


def build(task, records=()):
    """Build the operator with the best configuration of records, or with TVM's fallback if there is
    none.
    """
    config = autotvm.task.space.FallbackConfigEntity()
    if records:
        with autotvm.apply_history_best(records) as best:
            config = best.query(task.target, task.workload)
    with task.target:
        schedule, arguments = task.instantiate(config)
        return tvm.build(schedule, arguments)


def load(out, trials):
    """The records of a run in its output folder, by name: XGBTuner's, OpEvoTuner's first ones, as
    many, and all of them.
    """
    records = {
        name: list(autotvm.record.load_from_file(str(out / f"{name.lower()}.json")))
        for name in (BASELINE, OURS)
    }
    return {BASELINE: records[BASELINE], EQUAL_TRIALS: records[OURS][:trials], OURS: records[OURS]}


def gflops_of(task, records):
    """GFLOPS of every trial, 0 if it failed."""
    return np.array([task.flop * fitness(result) / 1e9 for _, result in records])


def inputs(task, device):
    """Random operands with room for their product, in the task's order; the position of the
    product; and what it should be. TOPI's dense has it first, and the weights transposed.
    """
    shapes = [argument[1] for argument in task.args if isinstance(argument, tuple)]
    shapes = shapes or [SHAPE[:2], SHAPE[1:]]
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape, dtype="float32") for shape in shapes)
    is_dense = task.name.startswith("dense")
    expected = x @ (y.T if is_dense else y)
    empty = np.zeros_like(expected)
    arrays = [empty, x, y] if is_dense else [x, y, empty]
    return [tvm.nd.array(array, device) for array in arrays], 0 if is_dense else 2, expected


def time_in_turn(task, functions, device, rounds=None):
    """Check each function, then time them in turn, in several sets of arrays; returns the GFLOPS of
    each one's fastest round.
    """
    rounds = rounds or ROUNDS
    # all at once, or memory that is free again would be taken again
    placements = [inputs(task, device) for _ in range(rounds)]
    arrays, product, expected = placements[0]
    for function in functions:
        function(*arrays)
        np.testing.assert_allclose(arrays[product].numpy(), expected, rtol=1e-3, atol=1e-2)
    evaluators = [
        f.time_evaluator(f.entry_name, device, number=1, repeat=1, min_repeat_ms=20)
        for f in functions
    ]
    seconds = np.empty((rounds, len(functions)))
    for i, (arrays, *_) in enumerate(placements):
        # each is first in turn, when the processor has just woken up
        for j in np.roll(range(len(functions)), -i):
            seconds[i, j] = evaluators[j](*arrays).results[0]
        time.sleep(PAUSE)
    return (task.flop / seconds.min(axis=0) / 1e9).tolist()


def compare(now, name):
    """How much faster OpEvoTuner's configuration is than XGBTuner's, in a part of a sentence;
    GFLOPS by name.
    """
    ratio = now[name] / now[BASELINE]
    speeds = f"{now[name]:.1f} and {now[BASELINE]:.1f} GFLOPS"
    if 1 / EQUAL <= ratio <= EQUAL:
        return f"as fast as {BASELINE}'s, within {EQUAL - 1:.0%}: {speeds}"
    return f"{ratio:.2f} times as fast as {BASELINE}'s: {speeds}"


def conclusion(now, trials, seconds):
    """What was shown, in two lines: GFLOPS, trials and seconds by name."""
    durations = f"{seconds[EQUAL_TRIALS]:.0f} s and {seconds[BASELINE]:.0f} s"
    return (
        f"After {seconds[OURS]:.0f} s of tuning each, {OURS}'s configuration is "
        f"{compare(now, OURS)}.\n"
        f"After {trials[EQUAL_TRIALS]} trials each, {durations}, it is "
        f"{compare(now, EQUAL_TRIALS)}."
    )


def interference(best, now):
    """Say which timings of the same configuration differ too much; empty if none do. GFLOPS while
    tuning and now, by tuner.
    """
    apart = [
        name for name in best if max(best[name] / now[name], now[name] / best[name]) > INTERFERENCE
    ]
    named = "; ".join(
        f"{name}: {best[name]:.1f} GFLOPS while tuning and {now[name]:.1f} now" for name in apart
    )
    return (
        f"This machine may have been busy: {named}. Run it again when nothing else runs."
        if apart
        else ""
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description="Tune a matrix multiplication with OpEvoTuner and with XGBTuner."
    )
    parser.add_argument(
        "--target", help="TVM target, llvm -mcpu=... or cuda (default: this machine's CPU)"
    )
    parser.add_argument(
        "--trials",
        type=int,
        help=f"trials of XGBTuner (default: {TRIALS}, for a GPU {GPU_TRIALS})",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed (default: 0)")
    parser.add_argument("--out", type=Path, help="output directory (default: a new one in tuned/)")
    options = parser.parse_args(arguments)
    for name, least in (("trials", 1), ("seed", 0)):
        given = getattr(options, name)
        if given is not None and given < least:
            parser.error(f"--{name} must be at least {least}, {given} given")
    try:
        target = as_target(options.target or local_cpu_target())
        check_device(target, LocalRunner())
    except (RuntimeError, ValueError) as error:
        parser.error(str(error))
    trials = options.trials or (GPU_TRIALS if "gpu" in target.keys else TRIALS)

    out = options.out or Path("tuned") / f"matmul-{datetime.now():%Y%m%d-%H%M%S}"
    out.mkdir(parents=True, exist_ok=True)
    logging.getLogger("autotvm").setLevel(logging.WARNING)

    task = make_task(target)
    space = np.prod([float(len(knob)) for knob in task.config_space.space_map.values()])
    print(f"{task.name} for {target}: {space:,.0f} configurations")
    print(f"{trials} trials of {BASELINE}, then {OURS} for as long.")
    print(f"{BASELINE} pauses for up to a minute after every 64 trials to train its cost model.")
    tuners = {BASELINE: autotvm.tuner.XGBTuner(task), OURS: OpEvoTuner(task, seed=options.seed)}
    logs = {name: out / f"{name.lower()}.json" for name in tuners}
    for log in logs.values():
        log.unlink(missing_ok=True)
    np.random.seed(options.seed % 2**32)  # noqa: NPY002  # XGBTuner draws from the global generators
    random.seed(options.seed)
    call_once("autotvm_opevo.autotvm", int)  # what starts the workers imports TVM, for seconds
    ends, own_seconds = {}, {}
    try:
        for name, tuner in tuners.items():
            duration = ends[BASELINE][-1] if ends else 0.0
            ends[name], own_seconds[name] = tune(tuner, logs[name], trials, duration)
    except KeyboardInterrupt:
        parser.exit(130, f"\ntune_matmul: interrupted; the trials so far are in {out}\n")

    records = load(out, trials)
    ends[EQUAL_TRIALS] = ends[OURS][:trials]
    gflops = {name: gflops_of(task, one) for name, one in records.items()}
    if failed := [name for name in gflops if not gflops[name].any()]:
        parser.exit(
            1,
            f"tune_matmul: all trials of {' and '.join(failed)} failed; see AutoTVM's warning "
            "above for the errors\n",
        )
    device = tvm.device(target.kind.name, 0)
    (untuned,) = time_in_turn(task, [build(task)], device, rounds=1)
    again = time_in_turn(task, [build(task, one) for one in records.values()], device)
    now, best = dict(zip(gflops, again)), {name: one.max() for name, one in gflops.items()}
    measured = {name: len(one) for name, one in gflops.items()}
    seconds = {name: ends[name][-1] for name in gflops}
    print(
        "\n                            GFLOPS now   best while tuning   at trial     of   seconds"
    )
    print(f"{'untuned':<26}{untuned:>12.1f}")
    if target.kind.name == "llvm":
        numpy = 1e3 * library.tflops(task)
        print(f"{'numpy':<26}{numpy:>12.1f}   (on all cores, the others on one)")
    for name, one in gflops.items():
        cost = f"{one.argmax() + 1:>11}{measured[name]:>7}{seconds[name]:>10.1f}"
        print(f"{name:<26}{now[name]:>12.1f}{best[name]:>20.1f}{cost}")
    print(
        "GFLOPS now: the best configurations, rebuilt and interleaved; all outputs match numpy's."
    )
    print(
        f"Seconds in the tuners themselves: {own_seconds[BASELINE]:.1f} in {BASELINE}, "
        f"{own_seconds[OURS]:.1f} in {OURS}."
    )
    figures = {"now": now, "best": best, "trials": measured, "seconds": seconds}
    (out / "figures.json").write_text(
        json.dumps({"target": str(target), "seed": options.seed, "untuned": untuned, **figures})
    )
    print(f"logs: {out}")
    both = " ".join(map(str, logs.values()))
    print(f"The best so far over time: python -m autotvm_opevo report {both} -o report.html")
    if said := interference(best, now):
        print(said)
    print(f"\n{conclusion(now, measured, seconds)}")
    print("Next, a whole network: make tune-network tunes AlexNet with both, for a minute each.")


if __name__ == "__main__":
    main()
