"""Builders and runners: in worker processes on this machine, of which one keeps its tensors, or on
the devices of an RPC tracker.
"""

from __future__ import annotations

import math
import socket
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import numpy as np
import tvm
from tvm.ir import IRModule
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.builder import BuilderInput, BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.runner import (
    EvaluatorConfig,
    PyRunner,
    RPCConfig,
    RPCRunner,
    RunnerInput,
)
from tvm.s_tir.meta_schedule.runner.local_runner import LocalRunnerFuture
from tvm.s_tir.meta_schedule.runner.utils import alloc_argument_common
from tvm.target import Target

from autotvm_opevo._utils.atomic_files import check_room
from autotvm_opevo._utils.cpu_cores import usable_cpus
from autotvm_opevo._utils.validation import as_integer, as_seconds
from autotvm_opevo.meta_schedule.worker import INDICES, WORKER_MODULE, build_artifact, run_artifact
from autotvm_opevo.tuning.programs import device_addresses
from autotvm_opevo.tuning.workers import ForkServerError, Worker, WorkerPool

_CPU_CONFIG = EvaluatorConfig(number=1, repeat=3, min_repeat_ms=10)
# Seconds to wait for the tracker.
_CONNECT_TIMEOUT = 10
# Seconds of a session on a device, which TVM keeps as an integer.
_LONGEST_SESSION = 86_400.0


@derived_object
class LocalBuilder(PyBuilder):
    """Build on this machine; a drop-in replacement for MetaSchedule's ``LocalBuilder``.

    TVM's starts new processes for every batch, and each imports TVM and all tensor intrinsics, for
    seconds. Here workers are forked from one process that has imported TVM, and stay.

    Parameters
    ----------
    max_workers : int, optional
        Number of parallel builds; by default that of the CPUs that this process may use.
    timeout_sec : float
        Seconds for one build.
    link : bool
        Link shared libraries, for a runner on this machine, which would do that itself, one after
        the other. For such a runner, `tune_network` has them linked in any case.

    Raises
    ------
    ForkServerError
        By `build`, if no worker process can be started.
    RuntimeError
        By `build`, if the temporary folder is full.
    ValueError
        If a parameter is not positive.
    """

    def __init__(
        self, max_workers: int | None = None, timeout_sec: float = 30.0, *, link: bool = False
    ) -> None:
        super().__init__()
        if max_workers is None:
            max_workers = usable_cpus()
        self.max_workers = as_integer("max_workers", max_workers)
        self.timeout_sec, self.link = as_seconds("timeout_sec", timeout_sec), link
        self.workers = WorkerPool(WORKER_MODULE, self.max_workers)
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of what is built

    def build(self, build_inputs: list[BuilderInput]) -> list[BuilderResult]:
        """Build schedules; returns results in the same order."""
        try:
            futures = [self.start(build.mod, build.target) for build in build_inputs]
            return [self.result(future)[0] for future in futures]
        except BaseException:
            self.close()
            raise

    def start(self, mod: IRModule, target: Target, link: bool = False) -> Future[Any]:
        """Start to build a schedule, and to link it if that is asked for, here or of all; `result`
        waits for it.
        """
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="autotvm_opevo_")
        build = mod, target, link or self.link, self._folder.name
        return self.workers.submit(build_artifact, *build, timeout=self.timeout_sec)

    def result(self, future: Future[Any]) -> tuple[BuilderResult, float]:
        """Wait for what was built, or an error; with the seconds of the processor that it took.
        Raises `OSError` if the temporary folder is full.
        """
        try:
            artifact, seconds = future.result()
            return BuilderResult(artifact, None), seconds
        except TimeoutError:
            message = f"LocalBuilder: Timeout, killed after {self.timeout_sec:g} seconds"
            return BuilderResult(None, message), self.timeout_sec
        except ForkServerError:
            raise
        except Exception as error:
            if self._folder is not None:
                check_room(self._folder.name, error)
            return BuilderResult(None, f"LocalBuilder: An exception occurred\n{error}"), 0.0

    def close(self) -> None:
        """End all workers and delete what they have built; the next build starts new ones."""
        self.workers.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


@derived_object
class LocalRunner(PyRunner):
    """Run on this machine's device; a drop-in replacement for MetaSchedule's ``LocalRunner``.

    One worker keeps the device and the tensors for all candidates, and is replaced when one crashes
    or takes too long. So all candidates of a task are measured in the same memory: where it lies
    makes kernels that wait for it up to twice as fast.

    Parameters
    ----------
    timeout_sec : float
        Seconds for one candidate.
    evaluator_config : EvaluatorConfig, optional
        MetaSchedule's: how often, and for how long, one candidate is run. By default three times,
        for 10 ms each, on a CPU; other devices take longer to reach full speed, and get TVM's
        default.

    Raises
    ------
    ForkServerError
        By `run`, if no worker process can be started.
    ValueError
        If `timeout_sec` is not positive.
    """

    def __init__(
        self, timeout_sec: float = 30.0, evaluator_config: EvaluatorConfig | None = None
    ) -> None:
        super().__init__()
        self.timeout_sec = as_seconds("timeout_sec", timeout_sec)
        self.evaluator_config = evaluator_config
        self._worker = Worker(WORKER_MODULE)

    def run(self, runner_inputs: list[RunnerInput]) -> list[LocalRunnerFuture]:
        """Run candidates one after the other; returns results in the same order."""
        return [
            LocalRunnerFuture(
                *self.run_alone(str(run.artifact_path), str(run.device_type), run.args_info)
            )
            for run in runner_inputs
        ]

    def close(self) -> None:
        """End the worker, which frees device and memory; the next run starts another."""
        self._worker.kill()

    def interrupt(self) -> None:
        """End what runs, from any thread; it fails."""
        self._worker.interrupt()

    def run_alone(
        self, artifact: str, device_type: str, args_info: Iterable[ArgInfo]
    ) -> tuple[list[float] | None, str | None]:
        """Run what was built; returns its latencies in seconds, and an error message."""
        tensors = [tensor.as_json() for tensor in args_info]
        default = _CPU_CONFIG if device_type == "cpu" else EvaluatorConfig()
        run = artifact, device_type, tensors, self.evaluator_config or default
        try:
            return self._worker.call(run_artifact, *run, timeout=self.timeout_sec), None
        except TimeoutError:
            return None, f"LocalRunner: Timeout, killed after {self.timeout_sec:g} seconds"
        except ForkServerError:
            raise
        except Exception as error:
            if device_type != "cpu":
                self._worker.kill()  # after some errors, a GPU's context fails whatever runs next
            return None, f"LocalRunner: An exception occurred\n{error}"


def is_local(runner: Any) -> bool:
    """Whether a runner, this package's or TVM's, runs on this machine."""
    return isinstance(runner, (LocalRunner, ms.runner.LocalRunner))


def make_runner(
    timeout: float, key: str | None = None, host: str | None = None, port: int | None = None
) -> Any:
    """Create a runner on this machine, or one of TVM's with one worker for each device.

    Parameters
    ----------
    timeout : float
        Seconds for one candidate.
    key, host, port : optional
        Of the devices, and of their tracker; this machine by default.

    Raises
    ------
    ValueError
        If `timeout` is not positive, or only some of `key`, `host` and `port` are given.
    RuntimeError
        If the tracker cannot be reached or has no such device, so that every trial would fail.
    """
    if key is None and host is None and port is None:
        return LocalRunner(timeout_sec=timeout)
    if key is None or host is None or port is None:
        raise ValueError(
            f"devices need a key and their tracker's host and port; {key!r}, {host!r} and "
            f"{port!r} given"
        )
    seconds = min(as_seconds("timeout", timeout), _LONGEST_SESSION)
    # whole ones; TVM takes 0 as no limit
    config = RPCConfig(host, port, key, session_timeout_sec=math.ceil(seconds))
    try:
        # TVM itself would retry for a minute
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT).close()
        devices = count_devices(config)
    except Exception as error:  # of sockets and of TVM's
        raise RuntimeError(f"cannot reach the tracker at {host}:{port}: {error}") from error
    if not devices:
        raise RuntimeError(
            f"the tracker at {host}:{port} has no device of key {key!r}: start a server "
            "there, or check the key"
        )
    return RPCRunner(config, max_workers=devices, f_alloc_argument=_allocator())


def count_devices(config: RPCConfig) -> int:
    """The number of devices of a tracker's key, see `device_addresses`."""
    try:
        return len(device_addresses(str(config.tracker_key), config.connect_tracker))
    except ValueError as error:  # TVM's, of a tracker that does not answer
        raise RuntimeError(str(error)) from error


def _allocator() -> Callable[..., Any]:
    """What allocates a kernel's tensors on a remote device; integers, maybe indices, are 1."""

    def allocate(
        session: Any, device: tvm.runtime.Device, args_info: Any, alloc_repeat: int
    ) -> Any:
        random_fill = session.get_function("tvm.contrib.random.random_fill_for_measure")

        def fill(tensor: tvm.runtime.Tensor) -> None:
            dtype = str(tensor.dtype)
            if dtype in INDICES:
                tensor.copyfrom(np.ones(tensor.shape, dtype))
            else:
                random_fill(tensor)

        return alloc_argument_common(fill, device, args_info, alloc_repeat)

    # a nested function goes to TVM's processes by value, which need not find this package
    return allocate
