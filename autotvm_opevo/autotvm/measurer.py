"""AutoTVM's builders and runners, started once for all tasks of a network, and never waited for without a timeout."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from types import TracebackType
from typing import Any

from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult, create_measure_batch
from tvm.autotvm.measure.measure_methods import BuildResult
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import ConfigEntity

from autotvm_opevo._utils.interrupts import no_interrupts_in_children
from autotvm_opevo._utils.timeouts import run_with_timeout
from autotvm_opevo.autotvm.builder import Build, LocalBuilder
from autotvm_opevo.autotvm.finalists import Finalist, Finalists
from autotvm_opevo.autotvm.log import Record
from autotvm_opevo.autotvm.processes import POPEN_TIMEOUT, WORKER_MODULE, Watchdog, killed_after, start, stop
from autotvm_opevo.autotvm.rpc import DevicePool, DevicePoolError, is_remote
from autotvm_opevo.autotvm.runner import LocalRunner
from autotvm_opevo.tuning import measurer
from autotvm_opevo.tuning.workers import ForkServer

# Seconds for a device to report its properties.
_DEVICE_TIMEOUT = 60.0
# Targets whose trials need the processor that builds use.
_CPU_TARGETS = ("llvm", "c")

_NOT_BUILT = (MeasureErrorNo.INSTANTIATION_ERROR, MeasureErrorNo.COMPILE_HOST, MeasureErrorNo.BUILD_TIMEOUT)


class Measurer(measurer.Measurer):
    """See `tuning.measurer.Measurer`; candidates are ConfigEntities, trials are records.

    Parameters
    ----------
    measure_option : dict
        From ``autotvm.measure_option``. Its builder and runner can be used again afterwards.

    Attributes
    ----------
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
        builds, devices = int(self._builder.n_parallel), int(self._runner.n_parallel)
        super().__init__(max(builds, devices), builds, devices)
        self._in_tuning: bool = False
        self._watchdog = Watchdog()
        self._task: Task | None = None
        self._measure_batch: Callable[[list[MeasureInput]], list[MeasureResult]] | None = None
        self.pool = DevicePool(self._runner) if is_remote(self._runner) else None
        self._build_kwargs: dict[str, Any] = {}  # by target
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
                self.pipeline = measurer.Pipeline(self._run, self._devices, self._builder.executor)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        autotvm.GLOBAL_SCOPE.in_tuning = self._in_tuning
        self.close_pipeline(self.pool.abort if self.pool is not None else getattr(self._runner, "interrupt", lambda: None))
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

    def _start(self, task: Task, candidates: Sequence[ConfigEntity]) -> Iterator[tuple[Build, bool]]:
        self._prepare(task)
        for config in candidates:
            on_this_cpu = self.pool is None and task.target.kind.name in _CPU_TARGETS
            yield self._builder.start(MeasureInput(task.target, task, config)), on_this_cpu

    def _run(self, build: Build, on_device: AbstractContextManager[None]) -> Record:
        """Run what was built."""
        built = self._builder.finish(build)
        if not isinstance(built, BuildResult):
            return build.measured, built
        with on_device:
            if self.pool is not None:
                result = self.pool.trial(build.measured, built)
            else:
                (result,) = self._runner.run([build.measured], [built])
        with suppress(OSError):
            os.unlink(built.filename)
        return build.measured, result

    def _end_builds(self) -> None:
        self._builder.executor.close()

    def _measure(self, task: Task, candidates: Sequence[ConfigEntity]) -> list[Record]:
        return self(task, candidates)

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
        if self._measure_batch is not None and task is self._task:
            return self._measure_batch
        if self.pool or (self._measure_batch is not None and isinstance(self._runner, autotvm.LocalRunner)):
            self._prepare(task)
            measure = self._measure_on_pool if self.pool else self._measure_batch
        else:
            with no_interrupts_in_children():
                measure = run_with_timeout(POPEN_TIMEOUT, lambda: create_measure_batch(task, self._option), "a device to answer")
        assert measure is not None
        self._measure_batch, self._task = measure, task
        return measure

    def _prepare(self, task: Task) -> None:
        """Tell builder and runner of a task, without a new tracker and server for it as LocalRunner's ``set_task``."""
        self._runner.task = task
        self._builder.set_task(task, self._device_limits(task))

    def _forget(self) -> None:
        """End the tracker and the server of a LocalRunner; the tracker first, which would warn of a lost connection."""
        for process in reversed(getattr(self._measure_batch, "attach_objects", None) or ()):
            process.terminate()
        self._measure_batch = self._task = None

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
