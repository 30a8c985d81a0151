"""AutoTVM's builders and runners, started once for all tasks of a network, and never waited for without a timeout."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from math import inf
from types import TracebackType
from typing import Any

from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult, create_measure_batch
from tvm.autotvm.measure.measure_methods import BuildResult
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import ConfigEntity

from autotvm_opevo._utils.interrupts import no_interrupts_in_children
from autotvm_opevo._utils.timeouts import run_with_timeout
from autotvm_opevo.autotvm.builder import LocalBuilder
from autotvm_opevo.autotvm.finalists import Finalist, Finalists
from autotvm_opevo.autotvm.log import Record
from autotvm_opevo.autotvm.pipeline import Pipeline
from autotvm_opevo.autotvm.processes import POPEN_TIMEOUT, WORKER_MODULE, Watchdog, killed_after, start, stop
from autotvm_opevo.autotvm.rpc import DevicePool, DevicePoolError, is_remote
from autotvm_opevo.autotvm.runner import LocalRunner
from autotvm_opevo.tuning.workers import ForkServer

# Seconds for a device to report its properties.
_DEVICE_TIMEOUT = 60.0

_NOT_BUILT = (MeasureErrorNo.INSTANTIATION_ERROR, MeasureErrorNo.COMPILE_HOST, MeasureErrorNo.BUILD_TIMEOUT)


class Measurer:
    """Measure configurations of any task; a context manager, which ends all child processes on leaving.

    With this package's builder, what runs next is built while something runs; other builders build one batch after the other.

    Parameters
    ----------
    measure_option : dict
        From ``autotvm.measure_option``. Its builder and runner can be used again afterwards.

    Attributes
    ----------
    batch : int
        Smallest batch that keeps the builder and all devices busy.
    pool : DevicePool or None
        The remote devices.

    Raises
    ------
    DevicePoolError
        If the tracker of an ``RPCRunner`` does not answer or has no device for its key.
    """

    def __init__(self, measure_option: dict[str, Any]) -> None:
        if not isinstance(measure_option, dict) or not {"builder", "runner"} <= measure_option.keys():
            raise ValueError(f"measure_option must come from autotvm.measure_option, {measure_option!r} given")
        self._option = measure_option
        self._builder, self._runner = measure_option["builder"], measure_option["runner"]
        self.batch: int = max(self._builder.n_parallel, self._runner.n_parallel)
        self._in_tuning: bool = False
        self._watchdog = Watchdog()
        self._task: Task | None = None
        self._measure: Callable[[list[MeasureInput]], list[MeasureResult]] | None = None
        self.pool = DevicePool(self._runner) if is_remote(self._runner) else None
        self._build_kwargs: dict[str, Any] = {}  # by target
        self._pipeline: Pipeline | None = None
        self._waiting: dict[Future[MeasureResult], tuple[int, MeasureInput]] = {}  # for results, in the pipeline
        self._queue: deque[tuple[int, Task, Sequence[ConfigEntity]]] = deque()  # without one
        self._batches = count()
        self._ran: list[float] = []  # seconds of each trial of the pipeline
        if self._own:
            ForkServer.start(WORKER_MODULE)  # imports TVM while the caller extracts tasks

    @property
    def _own(self) -> list[LocalBuilder | LocalRunner]:
        """Those of builder and runner that are this package's, and manage their own processes."""
        return [owner for owner in (self._builder, self._runner) if isinstance(owner, (LocalBuilder, LocalRunner))]

    def __enter__(self) -> Measurer:
        # Children inherit the flag: while tuning, some templates omit what cannot be measured on its own.
        self._in_tuning, autotvm.GLOBAL_SCOPE.in_tuning = autotvm.GLOBAL_SCOPE.in_tuning, True
        try:
            # Ctrl-C reaches all processes of a terminal, but it is for this one to end its children.
            with no_interrupts_in_children():
                self._watchdog.start()
                for owner in (self._builder, self._runner):
                    if owner not in self._own:
                        start(getattr(owner, "executor", None), owner.n_parallel)
            if isinstance(self._builder, LocalBuilder) and (self.pool is not None or isinstance(self._runner, LocalRunner)):
                self._pipeline = Pipeline(self._builder, self._run, self._runner.n_parallel, local=self.pool is None)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        autotvm.GLOBAL_SCOPE.in_tuning = self._in_tuning
        self._queue.clear()
        if self._pipeline is not None:
            self._pipeline.close(self.pool.abort if self.pool is not None else self._runner.interrupt)
            self._pipeline = None
            self._waiting.clear()
        self._forget()
        for owner in (self._builder, self._runner):
            if owner in self._own:
                owner.close()
            else:
                stop(getattr(owner, "executor", None))
        if self.pool is not None:
            self.pool.close()
        if getattr(self._builder, "tmp_dir", None):
            shutil.rmtree(self._builder.tmp_dir, ignore_errors=True)
        self._watchdog.stop()

    @property
    def hungry(self) -> bool:
        """Whether builder or devices would be idle without another batch."""
        if self._pipeline is None:
            return not self._queue
        return self._pipeline.building <= self._builder.n_parallel and len(self._waiting) <= 2 * self.batch

    def submit(self, task: Task, configs: Sequence[ConfigEntity]) -> int:
        """Start to measure a batch of configurations; returns its number.

        Raises
        ------
        DevicePoolError
            If no device answers.
        """
        batch = next(self._batches)
        if self._pipeline is None:
            self._queue.append((batch, task, configs))
            return batch
        self._prepare(task)
        for config in configs:
            measured = MeasureInput(task.target, task, config)
            self._waiting[self._pipeline.submit(measured)] = batch, measured
        return batch

    @property
    def busy(self) -> bool:
        """Whether there is anything to wait for."""
        return bool(self._queue or self._waiting)

    def wait(self, seconds: float = inf) -> Iterator[tuple[int, Record]]:
        """Wait until a trial is measured, or for `seconds`; iterate over all that are, each with the number of its batch.

        Raises
        ------
        DevicePoolError
            If the last device is gone and none comes back within a minute.
        """
        if self._queue:
            batch, task, configs = self._queue.popleft()
            yield from ((batch, record) for record in self(task, configs))
            return
        with self._limit(max(1, len(self._waiting))):
            done, _ = wait(self._waiting, timeout=None if seconds == inf else max(0.0, seconds), return_when=FIRST_COMPLETED)
        failed = [trial for trial in done if trial.exception() is not None]
        if done and len(failed) == len(done):
            failed[0].result()  # raises; before that, what else is measured has been returned
        yield from self.finished()

    def finished(self) -> Iterator[tuple[int, Record]]:
        """Iterate over what has been measured and not been waited for."""
        for trial in list(self._waiting):
            if trial.done() and trial.exception() is None:
                batch, measured = self._waiting.pop(trial)
                yield batch, (measured, trial.result())

    def cancel(self) -> None:
        """Drop the trials that do not run yet."""
        self._queue.clear()
        for trial in list(self._waiting):
            if trial.cancel():
                del self._waiting[trial]
        if self._pipeline is not None:
            self._builder.executor.close()  # what is still built would disturb what is timed

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Compute without disturbing a trial on this machine's CPU."""
        with self._pipeline.quiet() if self._pipeline is not None else nullcontext():
            yield

    @property
    def finalists(self) -> Finalists:
        """The best trials of each task, with what was built for them; none with runners that do not keep it."""
        stage = self._runner if isinstance(self._runner, LocalRunner) else self.pool
        return stage.finalists if stage is not None else Finalists()

    def time_again(self, finalist: Finalist) -> float:
        """Seconds of one run of a finalist, timed for a moment; infinite if it fails now."""
        if self.pool is None:
            return float(self._runner.time_again(finalist))
        with self._limit(1):
            return self.pool.time_again(finalist)

    def restart(self) -> None:
        """Time what follows in a new process, as every trial on a remote device is."""
        if self.pool is None:
            self._runner.restart()

    def __call__(self, task: Task, configs: Sequence[ConfigEntity]) -> list[Record]:
        """Build and run configurations, all of them before the first one runs; returns records in the same order."""
        inputs = [MeasureInput(task.target, task, config) for config in configs]
        with self._limit(len(inputs)):
            results = self._for(task)(inputs)
        ran = [result for result in results if result.error_no not in _NOT_BUILT]
        if (
            self._runner not in self._own
            and self.pool is None
            and ran
            and all(result.error_no == MeasureErrorNo.RUN_TIMEOUT for result in ran)
        ):
            self._forget()  # the server ends slow trials itself, so it must be dead: start a new one for the next batch
        return list(zip(inputs, results))

    def _for(self, task: Task) -> Callable[[list[MeasureInput]], list[MeasureResult]]:
        """AutoTVM's measure_batch for a task."""
        if self._measure is not None and task is self._task:
            return self._measure
        if self.pool or (self._measure is not None and isinstance(self._runner, autotvm.LocalRunner)):
            self._prepare(task)
            measure = self._measure_on_pool if self.pool else self._measure
        else:
            with no_interrupts_in_children():
                measure = run_with_timeout(POPEN_TIMEOUT, lambda: create_measure_batch(task, self._option), "a device to answer")
        assert measure is not None
        self._measure, self._task = measure, task
        return measure

    def _prepare(self, task: Task) -> None:
        """Tell builder and runner of a task, without a new tracker and server for it as LocalRunner's ``set_task``."""
        self._runner.task = task
        self._builder.set_task(task, self._device_limits(task))

    def _run(self, measured: MeasureInput, built: BuildResult) -> MeasureResult:
        """Run one trial of the pipeline."""
        start = time.monotonic()
        result: MeasureResult = self.pool.trial(measured, built) if self.pool else self._runner.run([measured], [built])[0]
        self._ran.append(time.monotonic() - start)  # by several threads
        return result

    @property
    def seconds_running(self) -> float:
        """Seconds during which trials of the pipeline ran, per device."""
        return sum(self._ran) / int(self._runner.n_parallel)

    def _forget(self) -> None:
        """End the tracker and the server of a LocalRunner; the tracker first, which would warn of a lost connection."""
        for process in reversed(getattr(self._measure, "attach_objects", None) or ()):
            process.terminate()
        self._measure = self._task = None

    def _device_limits(self, task: Task) -> Any:
        """Properties of the device that the builder needs, such as a GPU's shared memory. Cached: asking occupies a device."""
        target = str(task.target)
        if target not in self._build_kwargs:
            self._build_kwargs[target] = self._runner.get_build_kwargs() if self._runner in self._own else self._ask_device()
        return self._build_kwargs[target]

    def _ask_device(self) -> Any:
        def ask() -> Any:
            return run_with_timeout(_DEVICE_TIMEOUT, self._runner.get_build_kwargs, "a device to report its properties")

        with suppress(OSError, RuntimeError):
            return ask()
        try:  # another device of the same key
            return ask()
        except (OSError, RuntimeError) as error:
            raise DevicePoolError(f"no device of key {self._runner.key!r} answers: {error}") from error

    def _measure_on_pool(self, inputs: list[MeasureInput]) -> list[MeasureResult]:
        assert self.pool is not None
        return self.pool.run(inputs, self._builder.build(inputs))

    @contextmanager
    def _limit(self, trials: int) -> Iterator[None]:
        """AutoTVM's timeouts are enforced by its children; this one kills children that hang."""
        seconds = 2 * trials * (self._builder.timeout + (self._runner.n_parallel + 1) * self._runner.timeout)
        seconds += POPEN_TIMEOUT + _DEVICE_TIMEOUT
        with killed_after(seconds, [getattr(owner, "executor", None) for owner in (self._builder, self._runner)]):
            yield
