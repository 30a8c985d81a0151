"""AutoTVM's builder on workers that start in milliseconds."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import traceback
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
from tvm import autotvm
from tvm.autotvm.env import AutotvmGlobalScope, reset_global_scope
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.measure.measure_methods import BuildResult
from tvm.autotvm.task.space import InstantiationError

from autotvm_opevo._utils.atomic_files import check_room
from autotvm_opevo._utils.cpu_cores import usable_cpus
from autotvm_opevo.autotvm.log import key_of
from autotvm_opevo.tuning.workers import ForkServerError, WorkerPool

# With an adaptive timeout: multiple of the 90% quantile of the builds, their least number, and the
# shortest, in seconds.
_TIMEOUT_FACTOR, _MIN_BUILDS, _MIN_TIMEOUT = 5, 4, 3.0


class Build(NamedTuple):
    """A configuration that is being built, and the seconds that it may take."""

    measured: MeasureInput
    future: Future[BuildResult]
    timeout: float


class LocalBuilder(autotvm.LocalBuilder):
    """Build on this machine; a drop-in replacement for ``autotvm.LocalBuilder``, for all of
    AutoTVM's tuners.

    Workers are forked from one process that has imported TVM, so that they start in milliseconds.
    In a batch larger than `n_parallel`, a build starts as soon as another ends. Call `close` to end
    the workers before this process ends.

    Parameters
    ----------
    timeout : float
        Seconds for one build.
    n_parallel : int, optional
        Number of builds at the same time; by default that of the CPUs that this process may use.
    build_kwargs : dict, optional
        Options of the build function, which override the runner's.
    build_func : {"default", "ndk", "stackvm"} or callable
        As of AutoTVM's; ``tvm.contrib.cc.create_shared`` links, so that a runner on this machine
        need not.
    adaptive_timeout : bool
        Once there are four builds, give others five times their 90% quantile, but at least 3 s and
        at most `timeout`: what takes longer to compile is rarely fast. The builds of the same task
        count, or those of all tasks while it has few. Of builds that take too long, one after the
        other, every fourth doubles the time for the next; while the task has few, each does.
    **options
        The others of AutoTVM's.

    Raises
    ------
    ForkServerError
        By `build`, if no worker process can be started.
    OSError
        By `build`, if the temporary folder is full.

    Examples
    --------
    >>> from tvm import autotvm
    >>> from autotvm_opevo.autotvm import LocalBuilder, LocalRunner
    >>> builder, runner = LocalBuilder(timeout=20), LocalRunner(timeout=20)
    >>> option = autotvm.measure_option(builder=builder, runner=runner)
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: dict[str, Any] | None = None,
        build_func: str | Callable[..., Any] = "default",
        *,
        adaptive_timeout: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(
            timeout, n_parallel, build_kwargs, build_func, **{"do_fork": True, **options}
        )
        if n_parallel is None:  # AutoTVM counts those of the machine
            self.n_parallel = usable_cpus()
        self.adaptive_timeout = adaptive_timeout
        self.tmp_dir: str
        self._remove_files = self._remover()
        self._remove_files()  # the base class makes a folder, used or not
        self.executor = WorkerPool(__package__, self.n_parallel)
        # of builds, by target and workload
        self._seconds: dict[Any, list[float]] = defaultdict(list)
        self._late: Counter[Any] = Counter()  # builds that took too long, since one that did not

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[BuildResult | MeasureResult]:
        """Build configurations; returns results in the same order."""
        self._remove_files()  # what was built before has been run
        try:
            builds = [self.start(measured) for measured in measure_inputs]
            return [self.finish(build) for build in builds]
        except BaseException:
            self.executor.close()
            raise

    def start(self, measured: MeasureInput) -> Build:
        """Start to build a configuration."""
        if not (self._remove_files.alive and os.path.isdir(self.tmp_dir)):
            self.tmp_dir = tempfile.mkdtemp(prefix="autotvm_opevo-")
            self._remove_files = self._remover()
        timeout = self._timeout(measured)
        scope = AutotvmGlobalScope.current
        future = self.executor.submit(
            _build,
            measured,
            scope,
            self.build_func,
            self.tmp_dir,
            self.build_kwargs,
            timeout=timeout,
        )
        return Build(measured, future, timeout)

    def finish(self, build: Build) -> BuildResult | MeasureResult:
        """Wait for what was built, or for a failed measurement in AutoTVM's words."""
        key = key_of(build.measured.target, build.measured.task)
        try:
            built = build.future.result()
        except ForkServerError:
            raise
        except Exception as error:
            seconds, kind = 0.0, MeasureErrorNo.COMPILE_HOST
            if isinstance(error, TimeoutError):
                self._late[key] += 1
                seconds, kind = build.timeout, MeasureErrorNo.BUILD_TIMEOUT
                error = TimeoutError(f"the build took longer than {seconds:.3g} s")
            else:
                check_room(self.tmp_dir, error)
            trace = "".join(traceback.format_exception_only(type(error), error))
            return MeasureResult((trace, error), kind, seconds, time.time())
        if built.error is None:
            self._seconds[key].append(built.time_cost)
            self._late[key] = 0
            return built
        trace, reason = built.error
        rejected = isinstance(reason, InstantiationError) or "InstantiationError" in str(reason)
        kind = MeasureErrorNo.INSTANTIATION_ERROR if rejected else MeasureErrorNo.COMPILE_HOST
        if not rejected:
            check_room(self.tmp_dir, reason)
        return MeasureResult((trace, reason), kind, built.time_cost, time.time())

    def close(self) -> None:
        """End all workers and remove what they built."""
        self.executor.close()
        self._remove_files()

    def _remover(self) -> weakref.finalize[Any, Any]:
        """Removes the folder when it is called, or when this process ends: nobody may call
        `close`.
        """
        return weakref.finalize(self, shutil.rmtree, self.tmp_dir, ignore_errors=True)

    def _timeout(self, measured: MeasureInput) -> float:
        key = key_of(measured.target, measured.task)
        own = self._seconds[key]
        enough = len(own) >= _MIN_BUILDS
        seen = own if enough else [seconds for task in self._seconds.values() for seconds in task]
        if not self.adaptive_timeout or len(seen) < _MIN_BUILDS:
            return float(self.timeout)
        limit = max(_MIN_TIMEOUT, _TIMEOUT_FACTOR * float(np.quantile(seen, 0.9)))
        # the machine may be busier than it was
        late = self._late[key] // _MIN_BUILDS if enough else self._late[key]
        # a thousand doublings would be no float
        return min(float(self.timeout), limit * 2.0 ** min(late, 32))


def _build(
    measured: MeasureInput,
    scope: AutotvmGlobalScope,
    build_func: Callable[..., BuildResult],
    folder: str,
    options: dict[str, Any],
) -> BuildResult:
    """Build one configuration, in a worker. Its time is that of the processor: a build may be
    paused, or share its core.
    """
    reset_global_scope(scope)
    # of what TVM and its linker write in between, too, which a killed worker leaves behind
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    os.environ["LC_ALL"] = "C"  # a linker says that the disk is full in words that `finish` knows
    before = os.times()
    built = build_func(measured, folder, **options)
    # with what it has started, such as a linker
    return built._replace(time_cost=sum(os.times()[:4]) - sum(before[:4]))
