"""Build a tuner's next batch while one runs, in AutoTVM's own loop, with its builder and its remote
or GPU runner.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle
from typing import Any

from tvm import autotvm
from tvm.autotvm.measure import MeasureInput
from tvm.autotvm.measure.measure import Builder
from tvm.autotvm.task import Task


class BuildAhead(Builder):
    """A builder that begins with the next batch as soon as one is built.

    `propose` takes the size of that, and returns the configurations of the next, in the order in
    which they will be asked for, none at the end.
    """

    def __init__(
        self, builder: autotvm.LocalBuilder, propose: Callable[[int], Sequence[MeasureInput]]
    ) -> None:
        super().__init__(builder.timeout, builder.n_parallel)
        # with the same workers and folders of their own: building a batch removes the one before,
        # and a build that is abandoned ends while others use the builder
        self._builders = copy.copy(builder), copy.copy(builder)
        for own in self._builders:
            own.tmp_dir = tempfile.mkdtemp()
        shutil.rmtree(builder.tmp_dir, ignore_errors=True)  # it makes another when it builds
        self._next_builder = cycle(self._builders)
        self._propose = propose
        self._thread = ThreadPoolExecutor(1)
        self._ahead: Future[list[Any]] | None = None

    def set_task(self, task: Task, build_kwargs: dict[str, Any]) -> None:
        """As of AutoTVM's."""
        for builder in self._builders:
            builder.set_task(task, build_kwargs)

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        """Build a batch, or wait for it if it has begun, and begin with the next."""
        self._ahead = self._ahead or self._start(measure_inputs)
        built = self._ahead.result()
        proposed = self._propose(len(measure_inputs))
        self._ahead = self._start(proposed) if proposed else None
        return built

    def close(self) -> None:
        """Wait for no build any more, and remove what was built; a build that has begun is removed
        when it ends.
        """
        if self._ahead is not None:
            self._ahead.add_done_callback(lambda _: self._remove_files())
        self._remove_files()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _remove_files(self) -> None:
        for builder in self._builders:
            shutil.rmtree(builder.tmp_dir, ignore_errors=True)

    def _start(self, measure_inputs: Sequence[MeasureInput]) -> Future[list[Any]]:
        return self._thread.submit(next(self._next_builder).build, measure_inputs)
