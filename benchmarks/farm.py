"""Trials per second on a farm on loopback, when builds and runs take equally long.

    python -m benchmarks.farm                                # a minute

Each build and each run of a small matrix product waits for ``--seconds``, so that the machine's cores do not matter. One build at
a time and one device are compared one batch after the other, as AutoTVM's tuners do, and in the pipeline; then four of each with
one.
"""

import argparse
import time
from functools import partial

import tvm
from tvm import autotvm
from tvm.rpc.server import Server
from tvm.rpc.tracker import Tracker

from autotvm_opevo.autotvm import LocalBuilder, workloads
from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.autotvm.measurer import Measurer
from autotvm_opevo.autotvm.rpc import devices as registered


def build_slowly(build, seconds, measured, folder, **options):
    time.sleep(seconds)
    return build(measured, folder, **options)


def synchronously(measurer, task, batches):
    for batch in batches:
        yield from (record for record in measurer(task, batch))


def in_the_pipeline(measurer, task, batches):
    left, waiting = list(batches), 0
    while left or waiting:
        while left and measurer.hungry:
            waiting += len(left[0])
            measurer.submit(task, left.pop(0))
        for _, record in measurer.wait():
            waiting -= 1
            yield record


def trials_per_second(measure, task, devices, trials, seconds):
    """Start a farm, and measure once everything has started."""
    tracker = Tracker(port=9100, port_end=9200, silent=True)
    servers = [
        Server(port=9200, port_end=9300, key="cpu", silent=True, tracker_addr=("127.0.0.1", tracker.port)) for _ in range(devices)
    ]
    try:
        end = time.monotonic() + 120
        while registered("cpu", "127.0.0.1", tracker.port) < devices and time.monotonic() < end:
            time.sleep(0.2)
        builder = LocalBuilder(n_parallel=devices)
        builder.build_func = partial(build_slowly, builder.build_func, seconds)
        runner = autotvm.RPCRunner(
            "cpu", "127.0.0.1", tracker.port, n_parallel=devices, number=1, repeat=1, cooldown_interval=seconds
        )
        with Measurer(autotvm.measure_option(builder=builder, runner=runner)) as measurer:
            configs = [task.config_space.get(i % 8) for i in range(2 * devices + trials)]  # those that compile quickly
            batches = [configs[i : i + devices] for i in range(0, len(configs), devices)]
            list(measure(measurer, task, batches[:2]))
            start = time.perf_counter()
            records = list(measure(measurer, task, batches[2:]))
            took = time.perf_counter() - start
        failed = [result for _, result in records if result.error_no]
        assert not failed, f"a trial failed: {failed[0]}"
        return len(records) / took
    finally:
        for process in (*servers, tracker):
            process.terminate()


def main():
    parser = argparse.ArgumentParser(description="Trials per second on a farm on loopback.")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each build and of each run (default: 0.5)")
    parser.add_argument("--trials", type=int, default=24)
    options = parser.parse_args()
    mod, params = workloads.operator("nn.dense", [(64, 64), (64, 64)])
    task = extract(fold(mod, params), tvm.target.Target("llvm")).tasks[0]
    rates = {}
    for name, measure, devices in (
        ("one batch after the other, 1 device", synchronously, 1),
        ("pipeline, 1 device", in_the_pipeline, 1),
        ("pipeline, 4 devices", in_the_pipeline, 4),
    ):
        rates[name] = trials_per_second(measure, task, devices, options.trials, options.seconds)
        print(f"{name:<40}{rates[name]:6.2f} trials/s")
    batch, one, four = rates.values()
    print(f"pipeline / batch: {one / batch:.2f}; four devices / one: {four / one:.2f}")


if __name__ == "__main__":
    main()
