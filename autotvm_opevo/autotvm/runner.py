"""AutoTVM's runner on this machine's device, in one worker that keeps its tensors and the device between trials."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import traceback
import weakref
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from math import inf
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.measure.measure_methods import BuildResult
from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.log import Record, seconds, workload_key
from autotvm_opevo.autotvm.processes import WORKER_MODULE
from autotvm_opevo.autotvm.roofline import Roofline, measure_roofline
from autotvm_opevo.tuning.confirmation import FINALISTS, MAX_RATIO
from autotvm_opevo.tuning.workers import ForkServerError, Worker

# Duration of a short run in milliseconds, long enough for the clock, and their number.
_SHORT_MS, _SHORT_REPEATS = 1, 2
# How many times the best's latency a trial may have that is measured repeatedly, when slow ones are pruned.
_CLOSE = 1.1
# Duration of a timing that confirms a trial, in milliseconds.
_CONFIRMATION_MS = 20
# Seconds for a device to report its limits.
_DEVICE_TIMEOUT = 60.0


class Finalist(NamedTuple):
    """One of the best trials of a task, with what was built."""

    seconds: float
    measured: MeasureInput
    result: MeasureResult
    build: BuildResult

    @property
    def record(self) -> Record:
        """As in a log."""
        return self.measured, self.result


class LocalRunner(autotvm.LocalRunner):
    """Run on this machine's device; a drop-in replacement for ``autotvm.LocalRunner``, for all of AutoTVM's tuners.

    There is no tracker, no server and no new process for each trial: one worker keeps the device and the tensors, and is replaced
    when a trial crashes, fails or takes too long. Call `close` to give the device back before this process ends.

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
        A trial that takes this many times as long as the best of its task, in each of two runs of a millisecond, is not timed any
        longer; its record has these two times. One that takes 1.1 times as long in the first of `repeat` measurements is not
        measured again. By default, all trials are timed alike. A GPU takes longer to reach full speed: do not prune there.

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
    >>> option = autotvm.measure_option(builder=LocalBuilder(), runner=LocalRunner(min_repeat_ms=50))
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
            raise ValueError("module_loader must be None: modules are loaded on this machine; use autotvm.RPCRunner for others")
        super().__init__(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush)
        if pruning is not None and not pruning >= 1:
            raise ValueError(f"pruning must be at least 1, or None, {pruning!r} given")
        self.pruning = pruning
        self._worker = Worker(WORKER_MODULE)
        self._best: dict[Any, float] = {}  # seconds, by target and workload
        self._finalists: dict[Any, list[Finalist]] = defaultdict(list)  # the fastest first, by target and workload
        self._folder: str | None = None  # of what they run
        self._numbers = count()

    def set_task(self, task: Task) -> None:
        """Nothing need be started for a task."""
        self.task = task

    def get_build_kwargs(self) -> dict[str, Any]:
        """Limits of the device that the builder needs."""
        kind = self.task.target.kind.name
        if kind not in ("cuda", "opencl", "rocm", "vulkan"):  # as AutoTVM
            return {"checks": {}}
        return {"checks": {"gpu": self._worker.call(_gpu_limits, kind, timeout=_DEVICE_TIMEOUT)}}

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult | MeasureResult]
    ) -> list[MeasureResult]:
        """Run what was built, one after the other; returns results in the same order."""
        return [
            build if isinstance(build, MeasureResult) else self._trial(measured, build)
            for measured, build in zip(measure_inputs, build_results)
        ]

    def roofline(self, target: tvm.target.Target) -> Roofline:
        """What this machine can do at most; unlimited, which is unknown, unless the target is its CPU."""
        if target.kind.name != "llvm":
            return Roofline()
        found: Roofline = self._worker.call(measure_roofline, str(target), timeout=_DEVICE_TIMEOUT)
        return found

    def finalists(self, task: Task) -> list[Finalist]:
        """The best trials of a task, the fastest first; none that are out of reach of any noise."""
        found = self._finalists[workload_key(task.target, task)]
        return [finalist for finalist in found if finalist.seconds <= MAX_RATIO * found[0].seconds]

    def time_again(self, finalist: Finalist) -> float:
        """Seconds of one run of a finalist, timed for a moment; infinite if it fails now."""
        effort = (1, 5, 0) if self.enable_cpu_cache_flush else (1, 1, _CONFIRMATION_MS)
        try:
            return float(np.mean(self._time(finalist.measured, finalist.build, effort, (inf, inf))))
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
        """End the worker, and forget the finalists."""
        self._worker.kill()
        self._finalists.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _trial(self, measured: MeasureInput, build: BuildResult) -> MeasureResult:
        start = time.time()
        best = self._best.get(workload_key(measured.target, measured.task), inf)
        thresholds = (inf, inf) if self.pruning is None else (self.pruning * best, _CLOSE * best)
        costs: tuple[Any, ...]
        try:
            costs = self._time(measured, build, (self.number, self.repeat, self.min_repeat_ms), thresholds)
            kind = MeasureErrorNo.NO_ERROR
        except ForkServerError:
            raise
        except Exception as error:
            self.restart()  # an error of a device outlives the trial
            kind = MeasureErrorNo.RUN_TIMEOUT if isinstance(error, TimeoutError) else MeasureErrorNo.RUNTIME_DEVICE
            text = "".join(traceback.format_exception_only(type(error), error))
            costs = text, RuntimeError(str(error)[:1024])
        end = time.time()
        time.sleep(self.cooldown_interval)
        result = MeasureResult(costs, kind, end - start + build.time_cost, end)
        self._keep(measured, build, result)
        return result

    def _time(
        self, measured: MeasureInput, build: BuildResult, effort: tuple[int, int, float], thresholds: tuple[float, float]
    ) -> tuple[float, ...]:
        """Call `_measure` in the worker."""
        fill = "scatter" not in measured.task.name  # random indices would be out of range
        tensors = self.ref_input or [(tuple(map(int, shape)), str(dtype), fill) for shape, dtype in build.arg_info]
        evaluation = (*effort, "cache_flush_cpu_non_first_arg" if self.enable_cpu_cache_flush else "")
        costs: tuple[float, ...] = self._worker.call(
            _measure, measured.target.kind.name, build.filename, tensors, evaluation, thresholds, timeout=self.timeout
        )
        return costs

    def _keep(self, measured: MeasureInput, build: BuildResult, result: MeasureResult) -> None:
        """Keep what was built for one of the best trials: the builder will delete it."""
        mean, key = seconds(result), workload_key(measured.target, measured.task)
        self._best[key] = min(mean, self._best.get(key, inf))
        found = self._finalists[key]
        if mean == inf or (len(found) == FINALISTS and mean >= found[-1].seconds):
            return
        if self._folder is None:
            self._folder = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        copy = os.path.join(self._folder, f"{next(self._numbers)}{os.path.splitext(build.filename)[1]}")
        try:
            shutil.copyfile(build.filename, copy)
        except OSError:  # a full disk: it can still be the best, but not be confirmed
            return
        found.append(Finalist(mean, measured, result, build._replace(filename=copy)))
        found.sort(key=lambda finalist: finalist.seconds)
        for dropped in found[FINALISTS:]:
            with suppress(OSError):
                os.unlink(dropped.build.filename)
        del found[FINALISTS:]


# In the worker ------------------------------------------------------------------------------------------------------------------

_tensors: dict[Any, list[tvm.nd.NDArray]] = {}  # of the last trial


def _gpu_limits(kind: str) -> dict[str, int]:
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


def _measure(
    kind: str, file: str, tensors: Sequence[Any], evaluation: tuple[int, int, float, str], thresholds: tuple[float, float]
) -> tuple[float, ...]:
    """Seconds of one run, repeatedly; two short ones if both are above the first threshold, one if it is above the second."""
    number, repeat, min_repeat_ms, preproc = evaluation
    device = tvm.device(kind, 0)
    module = tvm.runtime.load_module(file)
    arguments = _arguments(tensors, device)

    def run(number: int, repeat: int, min_repeat_ms: float) -> list[float]:
        timer = module.time_evaluator(
            module.entry_name, device, number=number, repeat=repeat, min_repeat_ms=int(min_repeat_ms), f_preproc=preproc
        )
        return list(timer(*arguments).results)

    far, close = thresholds
    if far < inf:
        short = run(1, _SHORT_REPEATS, 0 if preproc else _SHORT_MS)
        if min(short) > far:
            return tuple(short)
    costs = run(number, 1, min_repeat_ms)
    if costs[0] <= close and repeat > 1:
        costs += run(number, repeat - 1, min_repeat_ms)
    return tuple(sorted(costs)[1:-1]) if len(costs) > 2 else tuple(costs)  # without the extremes, as AutoTVM


def _arguments(tensors: Sequence[Any], device: tvm.runtime.Device) -> list[tvm.nd.NDArray]:
    """Tensors on the device; those of the last trial if they have the same shapes."""
    if tensors and isinstance(tensors[0], np.ndarray):  # given by the user
        return [tvm.nd.array(tensor, device) for tensor in tensors]
    key = tuple(tensors)
    if key not in _tensors:
        _tensors.clear()
        _tensors[key] = [_random(shape, dtype, fill, device) for shape, dtype, fill in tensors]
    return _tensors[key]


def _random(shape: tuple[int, ...], dtype: str, fill: bool, device: tvm.runtime.Device) -> tvm.nd.NDArray:
    """A tensor with random elements between 1 and 10; large ones repeat a few, since filling would take longer than a run."""
    tensor = tvm.nd.empty(shape, dtype, device)
    if fill:
        sample = np.random.default_rng(0).uniform(1, 10, 1 << 16)
        try:
            tensor.copyfrom(np.resize(sample.astype(dtype), shape))
        except (TypeError, ValueError):  # numpy does not know all of TVM's types
            tvm.get_global_func("tvm.contrib.random.random_fill")(tensor)
    return tensor
