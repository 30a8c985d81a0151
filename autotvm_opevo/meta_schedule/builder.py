"""MetaSchedule's builder on workers that start in milliseconds."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import Future
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.builder import BuilderInput, BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.utils import cpu_count

from autotvm_opevo._utils.validation import as_integer, as_seconds
from autotvm_opevo.meta_schedule.worker import WORKER_MODULE, build_artifact
from autotvm_opevo.tuning.workers import ForkServerError, WorkerPool

# TVM's compiler does not free all memory; after so many builds, workers are replaced.
_MAX_BUILDS = 1000


@derived_object
class LocalBuilder(PyBuilder):
    """Build on this machine; a drop-in replacement for MetaSchedule's ``LocalBuilder``.

    TVM's starts new processes for every batch, and each imports TVM and all tensor intrinsics, for seconds. Here workers are
    forked from one process that has imported TVM, and stay.

    Parameters
    ----------
    max_workers : int, optional
        Number of parallel builds; by default the number of cores.
    timeout_sec : float
        Seconds for one build.
    link : bool
        Link shared libraries, for a runner on this machine, which would do that itself, one after the other.

    Attributes
    ----------
    seconds : float
        Spent on all builds so far.

    Raises
    ------
    ForkServerError
        By `build`, if no worker process can be started.
    ValueError
        If a parameter is not positive.

    Examples
    --------
    >>> from tvm.s_tir import meta_schedule as ms
    >>> ms.tune_tir(mod, target, work_dir, max_trials_global=64, builder=LocalBuilder())  # doctest: +SKIP
    """

    def __init__(self, max_workers: int | None = None, timeout_sec: float = 30.0, *, link: bool = False) -> None:
        super().__init__()
        max_workers = cpu_count(logical=True) if max_workers is None else as_integer("max_workers", max_workers)
        self.timeout_sec, self.link = as_seconds("timeout_sec", timeout_sec), link
        self._workers = WorkerPool(WORKER_MODULE, max_workers)
        self._builds, self.seconds = 0, 0.0
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of what is built

    def build(self, build_inputs: list[BuilderInput]) -> list[BuilderResult]:
        """Build schedules; returns results in the same order."""
        self._builds += len(build_inputs)
        if self._builds > _MAX_BUILDS:
            self._workers.close()  # not what they have built, which may still be run
            self._builds = len(build_inputs)
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="autotvm_opevo_")
        start = time.monotonic()
        try:
            return [self._result(future) for future in [self._start(one, self._folder.name) for one in build_inputs]]
        except BaseException:
            self.close()
            raise
        finally:
            self.seconds += time.monotonic() - start

    def close(self) -> None:
        """End all workers and delete what they have built; the next build starts new ones."""
        self._workers.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self, one: BuilderInput, folder: str) -> Future[Any]:
        return self._workers.submit(build_artifact, one.mod, one.target, self.link, folder, timeout=self.timeout_sec)

    def _result(self, future: Future[Any]) -> BuilderResult:
        try:
            return BuilderResult(future.result(), None)
        except TimeoutError:
            return BuilderResult(None, f"LocalBuilder: Timeout, killed after {self.timeout_sec:g} seconds")
        except ForkServerError:
            raise
        except Exception as error:
            return BuilderResult(None, f"LocalBuilder: An exception occurred\n{error}")
