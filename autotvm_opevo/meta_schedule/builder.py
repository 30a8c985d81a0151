"""MetaSchedule's builder on workers that start in milliseconds."""

from __future__ import annotations

import tempfile
from concurrent.futures import Future
from typing import Any

from tvm.ir import IRModule
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.builder import BuilderInput, BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.utils import cpu_count
from tvm.target import Target

from autotvm_opevo._utils.validation import as_integer, as_seconds
from autotvm_opevo.meta_schedule.worker import WORKER_MODULE, build_artifact
from autotvm_opevo.tuning.workers import ForkServerError, WorkerPool

# TVM's compiler does not free all memory; after so many builds, a worker is replaced.
_MAX_BUILDS = 1000


@derived_object
class LocalBuilder(PyBuilder):
    """Build on this machine; a drop-in replacement for MetaSchedule's ``LocalBuilder``.

    TVM's starts new processes for every batch, and each imports TVM and all tensor intrinsics, for
    seconds. Here workers are forked from one process that has imported TVM, and stay.

    Parameters
    ----------
    max_workers : int, optional
        Number of parallel builds; by default the number of cores.
    timeout_sec : float
        Seconds for one build.
    link : bool
        Link shared libraries, for a runner on this machine, which would do that itself, one after
        the other.

    Attributes
    ----------
    max_workers : int
        As given, or the number of cores.
    workers : WorkerPool

    Raises
    ------
    ForkServerError
        By `build`, if no worker process can be started.
    ValueError
        If a parameter is not positive.

    Examples
    --------
    >>> from tvm.s_tir import meta_schedule as ms
    >>> ms.tune_tir(  # doctest: +SKIP
    ...     mod, target, work_dir, max_trials_global=64, builder=LocalBuilder()
    ... )
    """

    def __init__(
        self, max_workers: int | None = None, timeout_sec: float = 30.0, *, link: bool = False
    ) -> None:
        super().__init__()
        self.max_workers: int = (
            cpu_count(logical=True)
            if max_workers is None
            else as_integer("max_workers", max_workers)
        )
        self.timeout_sec, self.link = as_seconds("timeout_sec", timeout_sec), link
        self.workers = WorkerPool(WORKER_MODULE, self.max_workers, _MAX_BUILDS)
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of what is built

    def build(self, build_inputs: list[BuilderInput]) -> list[BuilderResult]:
        """Build schedules; returns results in the same order."""
        try:
            futures = [self.start(build.mod, build.target) for build in build_inputs]
            return [self.result(future)[0] for future in futures]
        except BaseException:
            self.close()
            raise

    def start(self, mod: IRModule, target: Target) -> Future[Any]:
        """Start to build a schedule; `result` waits for it."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="autotvm_opevo_")
        return self.workers.submit(
            build_artifact, mod, target, self.link, self._folder.name, timeout=self.timeout_sec
        )

    def result(self, future: Future[Any]) -> tuple[BuilderResult, float]:
        """Wait for what was built, or for an error; with the seconds of the processor that it
        took.
        """
        try:
            artifact, seconds = future.result()
        except TimeoutError:
            return BuilderResult(
                None, f"LocalBuilder: Timeout, killed after {self.timeout_sec:g} seconds"
            ), self.timeout_sec
        except ForkServerError:
            raise
        except Exception as error:
            return BuilderResult(None, f"LocalBuilder: An exception occurred\n{error}"), 0.0
        return BuilderResult(artifact, None), seconds

    def close(self) -> None:
        """End all workers and delete what they have built; the next build starts new ones."""
        self.workers.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
