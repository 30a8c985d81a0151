"""A builder and a runner, started once for all tasks of a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

import tvm
from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.measure.measure_methods import BuildResult
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import ConfigEntity
from tvm.contrib import cc

from autotvm_opevo._utils.timeouts import run_with_timeout, say_if_long
from autotvm_opevo.autotvm.builder import Build, LocalBuilder
from autotvm_opevo.autotvm.log import Record, are_possible, key_of, seconds
from autotvm_opevo.autotvm.rpc import (
    START_TIMEOUT,
    DevicePool,
    DevicePoolError,
    addresses,
    killed_after,
    tracker_address,
)
from autotvm_opevo.autotvm.runner import LocalRunner, is_remote
from autotvm_opevo.tuning import measurer
from autotvm_opevo.tuning.measurer import Finalist
from autotvm_opevo.tuning.programs import REQUEST_TIMEOUT, check_linker
from autotvm_opevo.tuning.workers import ForkServer, stop_tvm_pool


class Measurer(measurer.Measurer):
    """See `tuning.measurer.Measurer`; candidates are ConfigEntities, trials are records.

    With this package's builder, and its runner or an ``RPCRunner``, what runs next is built
    meanwhile; with AutoTVM's builder, or a user's builder or runner, one batch is measured after
    the other. AutoTVM's ``LocalRunner`` gives way to this package's.

    Those of `measure_option` can be used again afterwards. Raises `DevicePoolError` if the tracker
    of an ``RPCRunner`` does not answer or has no device for its key.

    Attributes
    ----------
    runner : Runner
    pool : DevicePool or None
        The remote devices.
    builds_ahead : bool
        Whether what runs next is built meanwhile.
    compiles_here : bool
        Whether it is known that TVM compiles on this machine; a user's builder may do otherwise.
    """

    def __init__(self, measure_option: dict[str, Any]) -> None:
        if (
            not isinstance(measure_option, dict)
            or not {"builder", "runner"} <= measure_option.keys()
        ):
            raise ValueError(
                f"measure_option must come from autotvm.measure_option, {measure_option!r} given"
            )
        self._builder = measure_option["builder"]
        self.runner = _own_runner(measure_option["runner"])
        self.pool = DevicePool(self.runner) if is_remote(self.runner) else None
        builds = int(self._builder.n_parallel)
        devices = int(self.pool.size if self.pool else self.runner.n_parallel)
        own_builder = isinstance(self._builder, LocalBuilder)
        self.compiles_here = isinstance(self._builder, autotvm.LocalBuilder)
        own_runner = isinstance(self.runner, LocalRunner)
        super().__init__(
            max(builds, devices), builds, devices, self._builder.executor if own_builder else None
        )
        self._in_tuning: bool = False
        self._task: Task | None = None
        self._on_this_cpu = False  # whether trials run there
        self._attached: object = None
        self._device_limits: dict[str, Any] = {}  # by target: asking for them occupies a device
        self.builds_ahead = own_builder and (own_runner or self.pool is not None)
        if own_builder or own_runner:
            ForkServer.start(__package__)  # imports TVM while the caller extracts tasks

    def __enter__(self) -> Measurer:
        if isinstance(self.runner, LocalRunner):
            check_linker(cc)  # which the builder or the runner needs
        # Children inherit the flag: while tuning, some templates omit what cannot be measured on
        # its own.
        self._in_tuning, autotvm.GLOBAL_SCOPE.in_tuning = autotvm.GLOBAL_SCOPE.in_tuning, True
        return self

    def __exit__(self, *_: object) -> None:
        autotvm.GLOBAL_SCOPE.in_tuning = self._in_tuning
        self._attached = self._task = None  # what a user's runner needs, such as a server, ends now
        # only what builds ahead has trials left that run
        self._close(lambda: self.pool.abort() if self.pool else self.runner.interrupt())
        for owner in (self._builder, self.runner):
            if isinstance(owner, (LocalBuilder, LocalRunner)):
                owner.close()
            else:
                stop_tvm_pool(getattr(owner, "executor", None))
        if getattr(self._builder, "tmp_dir", None):
            shutil.rmtree(self._builder.tmp_dir, ignore_errors=True)

    def retime(self, finalist: Finalist) -> float:
        """See `tuning.measurer.Measurer`."""
        measured, _ = finalist.trial
        built = finalist.built._replace(filename=finalist.file)
        if self.pool is not None:
            return seconds(self.pool.run_one(measured, built))
        return float(self.runner.retime(measured, built))

    def restart(self) -> None:
        """See `tuning.measurer.Measurer`; every trial on a remote device has a new process."""
        if self._on_this_cpu:  # a GPU takes seconds for it, and nothing from where memory lies
            self.runner.restart()

    def submit(self, task: Task, candidates: Sequence[ConfigEntity]) -> list[Future[Record]]:
        """See `tuning.measurer.Measurer`."""
        self._prepare(task)
        inputs = [MeasureInput(task.target, task, config) for config in candidates]
        if not self.builds_ahead:
            return [measurer.measured(record) for record in zip(inputs, self._measure(inputs))]
        builds = map(self._builder.start, inputs)
        return [self._run_when_built(build.future, partial(self._run, build)) for build in builds]

    def _run(self, build: Build) -> Record:
        """Run what was built; returns the trial."""
        built = self._builder.finish(build)
        if not isinstance(built, BuildResult):
            return build.measured, built
        with self._on_device(self._on_this_cpu):
            if self.pool is not None:
                result = self.pool.run_one(build.measured, built)
            else:
                (result,) = self.runner.run([build.measured], [built])
            result = _possible(result)
            self._keep(build.measured, built, result)
        with suppress(OSError):
            os.unlink(built.filename)
        return build.measured, result

    def _keep(self, measured: MeasureInput, built: BuildResult, result: MeasureResult) -> None:
        """Keep what was built for a trial if it is one of the best, and can be timed again."""
        if self.pool is not None or isinstance(self.runner, LocalRunner):
            key = key_of(measured.target, measured.task)
            file = built.filename
            self.finalists.add(key, (measured, result), built, file, seconds(result))

    def _measure(self, inputs: list[MeasureInput]) -> list[MeasureResult]:
        """Build and run a whole batch, with a builder or runner that is not this package's."""
        builder, runner = self._builder, self.runner
        # Their own timeouts are enforced by children, which may hang themselves.
        limit = START_TIMEOUT + 2 * len(inputs) * (
            builder.timeout + (runner.n_parallel + 1) * runner.timeout
        )
        with killed_after(
            limit, *(getattr(owner, "executor", None) for owner in (builder, runner))
        ):
            builds = builder.build(inputs)
            results = [_possible(result) for result in (self.pool or runner).run(inputs, builds)]
        errors = set()
        for measured, built, result in zip(inputs, builds, results):
            if not isinstance(built, MeasureResult):
                self._keep(measured, built, result)
                errors.add(result.error_no)
        # a server ends slow trials itself, so it must be dead: the next batch gets another
        if errors == {MeasureErrorNo.RUN_TIMEOUT}:
            self._attached = self._task = None
        return results

    def _prepare(self, task: Task) -> None:
        """Tell builder and runner of a task."""
        if task is self._task:
            return
        is_attached = self._attached is not None and isinstance(self.runner, autotvm.LocalRunner)
        if self.pool is not None or is_attached:
            self.runner.task = task  # whose `set_task` would ask for a device, or a server, again
        else:
            self._attached = run_with_timeout(
                START_TIMEOUT, partial(self.runner.set_task, task), "a runner to take a task"
            )
        target = str(task.target)
        if target not in self._device_limits:
            self._device_limits[target] = self._ask_device()
        self._builder.set_task(task, self._device_limits[target])
        self._on_this_cpu = self.pool is None and task.target.kind.name in ("llvm", "c")
        self._task = task

    def _ask_device(self) -> Any:
        """Properties of the device that the builder needs, such as a GPU's shared memory."""
        ask = self.runner.get_build_kwargs
        if isinstance(self.runner, LocalRunner):
            return ask()
        key, what = getattr(self.runner, "key", None), "a device to report its properties"
        for retry in (True, False):  # on another device of the same key
            try:
                with say_if_long(f"waiting for {what}"):  # another user may have all
                    return run_with_timeout(REQUEST_TIMEOUT, ask, what)
            except (OSError, RuntimeError) as error:
                if not retry or isinstance(error, TimeoutError):
                    raise DevicePoolError(f"no device of key {key!r} answers: {error}") from error
        return None


def _possible(result: MeasureResult) -> MeasureResult:
    """A failure instead of impossible times, as of a kernel that is faster than the clock."""
    if result.error_no != MeasureErrorNo.NO_ERROR or are_possible(result.costs):
        return result
    error = RuntimeError(f"impossible seconds: {result.costs}")
    return result._replace(costs=(str(error), error), error_no=MeasureErrorNo.RUNTIME_DEVICE)


def _own_runner(given: Any) -> Any:
    """This package's in the place of AutoTVM's ``LocalRunner``, with its options; a user's own as
    it is.
    """
    if type(given) is not autotvm.LocalRunner or given.module_loader is not None:
        return given
    options = "timeout", "number", "repeat", "min_repeat_ms", "cooldown_interval"
    own = LocalRunner(
        **{option: getattr(given, option) for option in options},
        enable_cpu_cache_flush=given.enable_cpu_cache_flush,
    )
    own._ref_input = given.ref_input
    return own


def default_measure_option(
    target: tvm.target.Target,
    timeout: float = 20,
    key: str | None = None,
    host: str | None = None,
    port: int | None = None,
) -> dict[str, Any]:
    """Builder on this machine, and a runner on its device or on all devices that a tracker has for
    a key.

    Each trial is repeated three times, for 50 ms on a CPU, for 150 ms on other devices, which take
    longer to reach full speed.

    Parameters
    ----------
    target : tvm.target.Target
    timeout : float
        Seconds for one build, and for one run.
    key : str, optional
        Of the devices; this machine's without one.
    host, port : optional
        Of the devices' tracker; by default ``TVM_TRACKER_HOST`` and ``TVM_TRACKER_PORT`` of the
        environment.

    Raises
    ------
    ValueError
        If the address of the tracker is not known, or is given without a key.
    DevicePoolError
        If no tracker answers there.
    """
    cpu = target.kind.name == "llvm"
    evaluation: dict[str, Any] = {
        "number": 1,
        "repeat": 3,
        "min_repeat_ms": 50 if cpu else 150,
        "cooldown_interval": 0,
    }
    if key is None and host is None and port is None:
        builder = LocalBuilder(timeout, build_func=cc.create_shared, adaptive_timeout=True)
        runner = LocalRunner(timeout, **evaluation, pruning=1.5 if cpu else None)
    else:
        key, host, port = tracker_address(key, host, port)
        # the device links, since it may be of another kind
        builder = LocalBuilder(timeout, adaptive_timeout=True)
        runner = autotvm.RPCRunner(
            key,
            host,
            port,
            timeout=timeout,
            n_parallel=max(1, len(addresses(key, host, port))),
            **evaluation,
        )
    option: dict[str, Any] = autotvm.measure_option(builder=builder, runner=runner)
    return option
