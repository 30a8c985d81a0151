"""AutoTVM's builder on workers that start in milliseconds."""

from __future__ import annotations

import shutil
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from tvm import autotvm
from tvm.autotvm.env import AutotvmGlobalScope, reset_global_scope
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.measure.measure_methods import BuildResult
from tvm.autotvm.task.space import InstantiationError

from autotvm_opevo.autotvm.log import workload_key
from autotvm_opevo.autotvm.processes import WORKER_MODULE
from autotvm_opevo.tuning.workers import ForkServerError, WorkerPool

# With an adaptive timeout: multiple of the 90% quantile of a task's builds, their least number, and the shortest, in seconds.
_TIMEOUT_FACTOR, _MIN_BUILDS, _MIN_TIMEOUT = 5, 4, 10.0


class LocalBuilder(autotvm.LocalBuilder):
    """Build on this machine; a drop-in replacement for ``autotvm.LocalBuilder``, for all of AutoTVM's tuners.

    Workers are forked from one process that has imported TVM, so that they start in milliseconds. In a batch larger than
    `n_parallel`, a build starts as soon as another ends. Call `close` to end the workers before this process ends.

    Parameters
    ----------
    timeout : float
        Seconds for one build.
    n_parallel : int, optional
        Number of builds at the same time; by default the number of cores.
    build_kwargs : dict, optional
        Options of the build function, which override the runner's.
    build_func : {"default", "ndk", "stackvm"} or callable
        As of AutoTVM's; ``tvm.contrib.cc.create_shared`` links, so that a runner on this machine need not.
    adaptive_timeout : bool
        Once a task has four builds, give others five times their 90% quantile, but at least 10 s and at most `timeout`: what
        takes longer to compile is rarely fast.
    **options
        The others of AutoTVM's.

    Raises
    ------
    ForkServerError
        By `build`, if no worker process can be started.

    Examples
    --------
    >>> from tvm import autotvm
    >>> from autotvm_opevo.autotvm import LocalBuilder, LocalRunner
    >>> option = autotvm.measure_option(builder=LocalBuilder(timeout=20), runner=LocalRunner(timeout=20))
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
        super().__init__(timeout, n_parallel, build_kwargs, build_func, **{"do_fork": True, **options})
        self.adaptive_timeout = adaptive_timeout
        self.tmp_dir: str
        shutil.rmtree(self.tmp_dir, ignore_errors=True)  # the base class makes one, used or not
        self.executor = WorkerPool(WORKER_MODULE, self.n_parallel)
        self._seconds: dict[Any, list[float]] = defaultdict(list)  # of builds, by target and workload

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[BuildResult | MeasureResult]:
        """Build configurations; returns results in the same order."""
        shutil.rmtree(self.tmp_dir, ignore_errors=True)  # what was built before has been run
        self.tmp_dir = tempfile.mkdtemp()
        arguments = (AutotvmGlobalScope.current, self.build_func, self.tmp_dir, self.build_kwargs)
        limits = [self._timeout(measured) for measured in measure_inputs]
        try:
            futures = [
                self.executor.submit(_build, measured, *arguments, timeout=limit)
                for measured, limit in zip(measure_inputs, limits)
            ]
            results = [self._result(future, limit) for future, limit in zip(futures, limits)]
        except BaseException:
            self.executor.close()
            raise
        for measured, result in zip(measure_inputs, results):
            if isinstance(result, BuildResult):
                self._seconds[workload_key(measured.target, measured.task)].append(result.time_cost)
        return results

    def close(self) -> None:
        """End all workers and remove what they built."""
        self.executor.close()
        shutil.rmtree(self.tmp_dir, ignore_errors=True)

    def _timeout(self, measured: MeasureInput) -> float:
        seen = self._seconds[workload_key(measured.target, measured.task)]
        if not self.adaptive_timeout or len(seen) < _MIN_BUILDS:
            return float(self.timeout)
        return min(float(self.timeout), max(_MIN_TIMEOUT, _TIMEOUT_FACTOR * float(np.quantile(seen, 0.9))))

    def _result(self, future: Future[BuildResult], limit: float) -> BuildResult | MeasureResult:
        """The build, or a failed measurement in AutoTVM's words."""
        try:
            build = future.result()
        except TimeoutError:
            late = TimeoutError(f"the build took longer than {limit:.3g} s")
            return self._failure(late, MeasureErrorNo.BUILD_TIMEOUT, limit)
        except ForkServerError:
            raise
        except Exception as error:
            return self._failure(error, MeasureErrorNo.COMPILE_HOST, 0.0)
        if build.error is None:
            return build
        trace, reason = build.error
        rejected = isinstance(reason, InstantiationError) or "InstantiationError" in str(reason)
        kind = MeasureErrorNo.INSTANTIATION_ERROR if rejected else MeasureErrorNo.COMPILE_HOST
        return MeasureResult((trace, reason), kind, build.time_cost, time.time())

    @staticmethod
    def _failure(error: Exception, kind: MeasureErrorNo, seconds: float) -> MeasureResult:
        return MeasureResult(("".join(traceback.format_exception_only(type(error), error)), error), kind, seconds, time.time())


def _build(
    measured: MeasureInput,
    scope: AutotvmGlobalScope,
    build_func: Callable[..., BuildResult],
    folder: str,
    options: dict[str, Any],
) -> BuildResult:
    """Build one configuration, in a worker."""
    reset_global_scope(scope)
    return build_func(measured, folder, **options)
