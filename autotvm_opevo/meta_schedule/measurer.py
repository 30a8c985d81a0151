"""Measuring with MetaSchedule: where candidates are run, and results taken as soon as they are there."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Sequence
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.builder import PyBuilder
from tvm.s_tir.meta_schedule.measure_callback import PyMeasureCallback
from tvm.s_tir.meta_schedule.runner import LocalRunner, PyRunner, RPCConfig, RPCRunner

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.meta_schedule.database import seconds
from autotvm_opevo.meta_schedule.interrupts import SigintGuard

# Seconds for a tracker to be there.
_PATIENCE = 10


def make_runner(timeout: float, key: str | None = None, host: str | None = None, port: int | None = None) -> Any:
    """A runner of TVM's, with as many workers as there are devices.

    Parameters
    ----------
    timeout : float
        Seconds for one candidate.
    key, host, port : optional
        Of the devices, and of the tracker that has them; this machine unless given.

    Raises
    ------
    RuntimeError
        If the tracker cannot be reached, or has no such device: every trial would fail.
    """
    if key is None or port is None:
        return LocalRunner(timeout_sec=timeout)
    config = RPCConfig(host, port, key, session_timeout_sec=int(timeout))
    try:
        socket.create_connection((host, port), timeout=_PATIENCE).close()  # TVM's own asking goes on for a minute
        devices = config.count_num_servers(allow_missing=True)
    except Exception as error:  # of sockets and of TVM's
        raise RuntimeError(f"cannot reach the tracker at {host}:{port}: {error}") from error
    if not devices:
        raise RuntimeError(f"the tracker at {host}:{port} has no device of key {key!r}: start a server there, or check the key")
    return RPCRunner(config, max_workers=devices)


class ResultFlusher:
    """Has TVM take the results of all tasks that are finished.

    Its gradient scheduler goes once through all tasks before it takes any result: a network that is stopped meanwhile would lose
    them.
    """

    def __init__(self, task_scheduler: Any, tasks: int, interrupts: SigintGuard) -> None:
        self._task_scheduler, self._tasks, self._interrupts = task_scheduler, tasks, interrupts

    def __call__(self) -> None:
        with self._interrupts.held():
            for task in range(self._tasks):
                self._task_scheduler.touch_task(task)


@derived_object
class FlushingBuilder(PyBuilder):
    """A builder before whose work results are taken."""

    def __init__(self, builder: Any, take_results: Callable[[], None]) -> None:
        super().__init__()
        self._builder, self._take_results = builder, take_results

    def build(self, build_inputs: list[Any]) -> list[Any]:
        """Called by TVM for every batch."""
        self._take_results()
        return list(self._builder.build(build_inputs))


@derived_object
class FlushingRunner(PyRunner):
    """A runner before whose work results are taken: those of other devices come meanwhile."""

    def __init__(self, runner: Any, take_results: Callable[[], None]) -> None:
        super().__init__()
        self._runner, self._take_results = runner, take_results

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        """Called by TVM for every batch."""
        self._take_results()
        return list(self._runner.run(runner_inputs))


@derived_object
class ProgressCallback(PyMeasureCallback):
    """Calls a function with the number of a task, and the latency and the failure of each of its new candidates."""

    def __init__(self, watch: Callable[[int, Sequence[tuple[float, Failure]]], None]) -> None:
        super().__init__()
        self._watch = watch

    def apply(self, task_scheduler: Any, task_id: int, candidates: Any, builds: Any, results: Any) -> None:
        """Called by TVM after every batch."""
        self._watch(task_id, [(seconds(result.run_secs), failure(build, result)) for build, result in zip(builds, results)])


Failure = tuple[str, str]


def failure(build: Any, result: Any) -> Failure:
    """The kind of a failure in words, and the last line of its message; both empty for what worked."""
    if seconds(result.run_secs) < math.inf:
        return "", ""
    message = last_line(build.error_msg or result.error_msg)
    kind = "build" if build.error_msg else "run"
    return f"{kind} timeout" if "Timeout, killed" in message else kind, message[:300]
