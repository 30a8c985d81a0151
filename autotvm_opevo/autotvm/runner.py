"""AutoTVM's runner on this machine's device, in one worker that keeps its tensors and the device
between trials.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.measure.measure import Runner
from tvm.autotvm.measure.measure_methods import BuildResult
from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.log import key_of, seconds
from autotvm_opevo.tuning.workers import ForkServerError, Worker

# How many times the best's latency a trial may have that is measured repeatedly, when slow ones are
# pruned, and how many times as fast as the best one must be to be doubted.
_CLOSE = 1.1
# Duration of a timing that confirms a trial, in milliseconds.
_CONFIRMATION_MS = 20
# Seconds for a device to report its limits.
_DEVICE_TIMEOUT = 60.0
# Duration of a short run in milliseconds, long enough for the clock, and their number.
_SHORT_MS, _SHORT_REPEATS = 1, 2


class Thresholds(NamedTuple):
    """Seconds that decide how often a trial is measured.

    Two short runs if both are above `prune_above`; one measurement unless it is at most
    `repeat_below`; twice as many if it is below `remeasure_below`.
    """

    prune_above: float = inf
    repeat_below: float = inf
    remeasure_below: float = 0.0


def is_remote(runner: Runner) -> bool:
    """Whether a runner uses a tracker of the user's; a ``LocalRunner`` starts its own."""
    return isinstance(runner, autotvm.RPCRunner) and not isinstance(runner, autotvm.LocalRunner)


class LocalRunner(autotvm.LocalRunner):
    """Run on this machine's device; a drop-in replacement for ``autotvm.LocalRunner``, for all of
    AutoTVM's tuners.

    There is no tracker, no server and no new process for each trial: one worker keeps the device
    and the tensors, and is replaced when a trial crashes, fails or takes too long. Call `close` to
    give the device back before this process ends.

    Parameters
    ----------
    timeout : float
        Seconds for one trial.
    number, repeat : int
        Each of `repeat` measurements is the mean of `number` runs.
    min_repeat_ms : float
        Shortest duration of one measurement in milliseconds; `number` is increased accordingly.
    cooldown_interval : float
        Seconds to wait after each trial.
    enable_cpu_cache_flush : bool
        Flush the CPU's cache before each measurement; `number` should be 1.
    module_loader : None
        AutoTVM's is for remote devices.
    pruning : float, optional
        A trial that takes this many times as long as the best of its task, in each of two runs of a
        millisecond, is not timed any longer; its record has these two times. One that takes 1.1
        times as long in the first of `repeat` measurements is not measured again; one that is 1.1
        times as fast is measured twice as often. By default, all trials are timed alike. A GPU
        takes longer to reach full speed: do not prune there.

    Raises
    ------
    ValueError
        If an argument is out of range.
    ForkServerError
        By `run`, if no worker process can be started.

    Examples
    --------
    >>> from tvm import autotvm
    >>> from autotvm_opevo.autotvm import LocalBuilder, LocalRunner
    >>> builder, runner = LocalBuilder(), LocalRunner(min_repeat_ms=50)
    >>> option = autotvm.measure_option(builder=builder, runner=runner)
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: None = None,
        *,
        pruning: float | None = None,
    ) -> None:
        if module_loader is not None:
            raise ValueError(
                "module_loader must be None: modules are loaded on this machine; use "
                "autotvm.RPCRunner for others"
            )
        super().__init__(
            timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush
        )
        if pruning is not None and not pruning >= 1:
            raise ValueError(f"pruning must be at least 1, or None, {pruning!r} given")
        self.pruning = pruning
        self._worker = Worker(__package__)
        self._best: dict[Any, float] = {}  # seconds, by task

    def set_task(self, task: Task) -> None:
        """Nothing need be started for a task."""
        self.task = task

    def get_build_kwargs(self) -> dict[str, Any]:
        """Limits of the device that the builder needs."""
        kind = self.task.target.kind.name
        if kind not in ("cuda", "opencl", "rocm", "vulkan"):  # as AutoTVM
            return {"checks": {}}
        return {"checks": {"gpu": self._worker.call(gpu_limits, kind, timeout=_DEVICE_TIMEOUT)}}

    def run(
        self,
        measure_inputs: Sequence[MeasureInput],
        build_results: Sequence[BuildResult | MeasureResult],
    ) -> list[MeasureResult]:
        """Run what was built, one after the other; returns results in the same order."""
        return [
            built if isinstance(built, MeasureResult) else self._trial(measured, built)
            for measured, built in zip(measure_inputs, build_results)
        ]

    def retime(self, measured: MeasureInput, build: BuildResult) -> float:
        """Seconds of one run of what was built, timed for a moment; infinite if it fails now."""
        cpu = measured.target.kind.name == "llvm"  # other devices take longer to reach full speed
        milliseconds = _CONFIRMATION_MS if cpu else max(_CONFIRMATION_MS, self.min_repeat_ms)
        config = (1, 5, 0) if self.enable_cpu_cache_flush else (1, 1, milliseconds)
        try:
            return float(np.mean(self._time(measured, build, config, Thresholds())))
        except ForkServerError:
            raise
        except Exception:
            self.restart()
            return inf

    def restart(self) -> None:
        """Use a new worker from now on."""
        self._worker.kill()

    def interrupt(self) -> None:
        """Let the trial that runs fail; from any thread."""
        self._worker.interrupt()

    def close(self) -> None:
        """End the worker, and forget what was best."""
        self._worker.kill()
        self._best.clear()

    def _trial(self, measured: MeasureInput, build: BuildResult) -> MeasureResult:
        start = time.monotonic()
        task = key_of(measured.target, measured.task)
        best = self._best.get(task, inf)
        thresholds = Thresholds()
        if self.pruning is not None and best < inf:
            thresholds = Thresholds(self.pruning * best, _CLOSE * best, best / _CLOSE)
        costs: tuple[Any, ...]
        try:
            costs = self._time(
                measured, build, (self.number, self.repeat, self.min_repeat_ms), thresholds
            )
            kind = MeasureErrorNo.NO_ERROR
        except ForkServerError:
            raise
        except Exception as error:
            self.restart()  # an error of a device outlives the trial
            kind = (
                MeasureErrorNo.RUN_TIMEOUT
                if isinstance(error, TimeoutError)
                else MeasureErrorNo.RUNTIME_DEVICE
            )
            text = "".join(traceback.format_exception_only(type(error), error))
            costs = text, RuntimeError(str(error)[:1024])
        took = time.monotonic() - start + build.time_cost
        result = MeasureResult(costs, kind, took, time.time())
        time.sleep(self.cooldown_interval)
        self._best[task] = min(best, seconds(result))
        return result

    def _time(
        self,
        measured: MeasureInput,
        build: BuildResult,
        evaluator_config: tuple[int, int, float],
        thresholds: Thresholds,
    ) -> tuple[float, ...]:
        """Call `measure` in the worker."""
        fill = "scatter" not in measured.task.name  # random indices would be out of range
        tensors = self.ref_input or [
            (tuple(map(int, shape)), str(dtype), fill) for shape, dtype in build.arg_info
        ]
        evaluation = (
            *evaluator_config,
            "cache_flush_cpu_non_first_arg" if self.enable_cpu_cache_flush else "",
        )
        costs: tuple[float, ...] = self._worker.call(
            measure,
            measured.target.kind.name,
            build.filename,
            tensors,
            evaluation,
            thresholds,
            timeout=self.timeout,
        )
        return costs


# What follows runs in the worker.

_tensors: dict[Any, list[tvm.nd.NDArray]] = {}  # of the last trial


def gpu_limits(kind: str) -> dict[str, int]:
    """Limits of this machine's GPU that AutoTVM's builder checks kernels against."""
    device = tvm.device(kind, 0)
    if not device.exist:
        raise RuntimeError(f"this machine has no {kind} device, or TVM cannot find its driver")
    x, y, z = device.max_thread_dimensions
    return {
        "max_shared_memory_per_block": device.max_shared_memory_per_block,
        "max_threads_per_block": device.max_threads_per_block,
        "max_thread_x": x,
        "max_thread_y": y,
        "max_thread_z": z,
    }


def measure(
    kind: str,
    file: str,
    tensors: Sequence[Any],
    evaluation: tuple[int, int, float, str],
    thresholds: Thresholds,
) -> tuple[float, ...]:
    """Seconds of one run, repeatedly, as often as the thresholds say."""
    number, repeat, min_repeat_ms, preproc = evaluation
    device = tvm.device(kind, 0)
    module = tvm.runtime.load_module(file)
    arguments = _arguments(tensors, device)

    def run(number: int, repeat: int, min_repeat_ms: float) -> list[float]:
        timer = module.time_evaluator(
            module.entry_name,
            device,
            number=number,
            repeat=repeat,
            min_repeat_ms=int(min_repeat_ms),
            f_preproc=preproc,
        )
        return list(timer(*arguments).results)

    if thresholds.prune_above < inf:
        short = run(1, _SHORT_REPEATS, 0 if preproc else _SHORT_MS)
        if min(short) > thresholds.prune_above:
            return tuple(short)
    costs = run(number, 1, min_repeat_ms)
    if costs[0] <= thresholds.repeat_below and repeat > 1:
        costs += run(number, repeat - 1, min_repeat_ms)
    if costs[0] < thresholds.remeasure_below:
        costs += run(number, repeat, min_repeat_ms)
    # without the extremes, as AutoTVM
    return tuple(sorted(costs)[1:-1]) if len(costs) > 2 else tuple(costs)


def _arguments(tensors: Sequence[Any], device: tvm.runtime.Device) -> list[tvm.nd.NDArray]:
    """Tensors on the device; those of the last trial if they are there and have the same shapes.

    Their elements are random, between 1 and 10; large ones repeat a few, since filling would take
    longer than a run.
    """
    if tensors and isinstance(tensors[0], np.ndarray):  # given by the user
        return [tvm.nd.array(tensor, device) for tensor in tensors]
    key = device, *tensors
    if key not in _tensors:
        _tensors.clear()
        sample = np.random.default_rng(0).uniform(1, 10, 1 << 16)
        arrays = [tvm.nd.empty(shape, dtype, device) for shape, dtype, _ in tensors]
        for array, (shape, dtype, fill) in zip(arrays, tensors):
            try:
                if fill:
                    array.copyfrom(np.resize(sample.astype(dtype), shape))
            except (TypeError, ValueError):  # numpy does not know all of TVM's types
                tvm.get_global_func("tvm.contrib.random.random_fill")(array)
        _tensors[key] = arrays
    return _tensors[key]
