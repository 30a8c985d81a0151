"""AutoTVM's builders and runners, started once for all tasks of a network, and limited in time whatever they do."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from tvm import autotvm, rpc
from tvm.autotvm.env import AutotvmGlobalScope, reset_global_scope
from tvm.autotvm.measure import LocalRunner, MeasureErrorNo, MeasureInput, MeasureResult, RPCRunner, create_measure_batch
from tvm.autotvm.measure.measure import Runner
from tvm.autotvm.measure.measure_methods import request_remote
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import ConfigEntity
from tvm.contrib.popen_pool import PopenPoolExecutor

from autotvm_opevo.autotvm import guardian
from autotvm_opevo.autotvm.history import Record

T = TypeVar("T")

# Seconds: for a tracker to answer, for a farm that has lost its last device to get one back, for worker processes to start.
_ANSWER, _PATIENCE, _START = 30.0, 60.0, 120.0

_NOT_BUILT = (MeasureErrorNo.INSTANTIATION_ERROR, MeasureErrorNo.COMPILE_HOST, MeasureErrorNo.BUILD_TIMEOUT)


class FarmError(RuntimeError):
    """The tracker or its devices are not there; nothing measured so far is lost."""


class Measurer:
    """Measure configurations of any task, to be used in a ``with`` statement, which ends every child process.

    Parameters
    ----------
    measure_option : dict
        What ``autotvm.measure_option`` returns. Its builder and runner can be used again afterwards.

    Attributes
    ----------
    batch : int
        How many configurations at once keep the builder and all devices busy.

    Raises
    ------
    FarmError
        If an ``RPCRunner``'s tracker does not answer or has no device of its key.
    """

    def __init__(self, measure_option: dict[str, Any]) -> None:
        self._option = measure_option
        self._builder, self._runner = measure_option["builder"], measure_option["runner"]
        self.batch: int = max(self._builder.n_parallel, self._runner.n_parallel)
        self._in_tuning: bool = False
        self._guardian = _Guardian()
        self._task: Task | None = None
        self._measure: Callable[[list[MeasureInput]], list[MeasureResult]] | None = None
        self._farm = Farm(self._runner) if is_farm(self._runner) else None
        self._build_kwargs: dict[str, Any] = {}  # by target

    def __enter__(self) -> Measurer:
        # Before the children start, who are told it: some templates leave out while tuning what cannot be measured alone.
        self._in_tuning, autotvm.GLOBAL_SCOPE.in_tuning = autotvm.GLOBAL_SCOPE.in_tuning, True
        try:
            # Ctrl-C in a terminal reaches every process of its group: it is for this one to end the others.
            with _no_interrupts_in_children():
                self._guardian.start()
                for owner in (self._builder, self._runner):
                    _start(getattr(owner, "executor", None), owner.n_parallel)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        autotvm.GLOBAL_SCOPE.in_tuning = self._in_tuning
        self._measure = self._task = None  # LocalRunner's tracker and server end with what `set_task` returned
        for owner in (self._builder, self._runner):
            _stop(getattr(owner, "executor", None))
        if getattr(self._builder, "tmp_dir", None):
            shutil.rmtree(self._builder.tmp_dir, ignore_errors=True)
        self._guardian.stop()

    def __call__(self, task: Task, configs: Sequence[ConfigEntity]) -> list[Record]:
        """Build and run, in the order given.

        Raises
        ------
        FarmError
            If the last device is gone, and none came back in a minute.
        """
        inputs = [MeasureInput(task.target, task, config) for config in configs]
        with self._limit(len(inputs)):
            results = self._for(task)(inputs)
        ran = [result for result in results if result.error_no not in _NOT_BUILT]
        if self._farm is None and ran and all(result.error_no == MeasureErrorNo.RUN_TIMEOUT for result in ran):
            self._measure = None  # a server ends a slow trial in time: LocalRunner's is gone, and the next batch has a new one
        return list(zip(inputs, results))

    def _for(self, task: Task) -> Callable[[list[MeasureInput]], list[MeasureResult]]:
        """AutoTVM's measure_batch for a task. LocalRunner's `set_task` starts a tracker and a server: once is enough."""
        if self._measure is not None and task is self._task:
            return self._measure
        if self._farm or (self._measure is not None and isinstance(self._runner, LocalRunner)):
            self._runner.task = task
            self._builder.set_task(task, self._device_limits(task))
            measure = self._on_farm if self._farm else self._measure
        else:
            with _no_interrupts_in_children():
                measure = within(_START, lambda: create_measure_batch(task, self._option), "a device to answer")
        assert measure is not None
        self._measure, self._task = measure, task
        return measure

    def _device_limits(self, task: Task) -> Any:
        """What the builder must know of the device, a GPU's shared memory for example. Asked once: that takes a device."""
        target = str(task.target)
        for attempt in range(2):
            if target not in self._build_kwargs:
                try:
                    self._build_kwargs[target] = within(_PATIENCE, self._runner.get_build_kwargs, "a device to describe itself")
                except (OSError, RuntimeError) as error:
                    if attempt:
                        raise FarmError(f"no device of key {self._runner.key!r} answers: {error}") from error
        return self._build_kwargs[target]

    def _on_farm(self, inputs: list[MeasureInput]) -> list[MeasureResult]:
        assert self._farm is not None
        return self._farm.run(inputs, self._builder.build(inputs))

    @contextmanager
    def _limit(self, trials: int) -> Iterator[None]:
        """AutoTVM's own limits are kept by the children; one that hangs for good is ended from here."""
        seconds = 2 * trials * (self._builder.timeout + (self._runner.n_parallel + 1) * self._runner.timeout)
        seconds += _START + _PATIENCE
        executors = [getattr(owner, "executor", None) for owner in (self._builder, self._runner)]
        done = threading.Event()

        def watch() -> None:
            while not done.wait(seconds):
                for executor in executors:
                    _kill(executor)

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            done.set()


def is_farm(runner: Runner) -> bool:
    """Whether a runner's devices are behind a tracker; a ``LocalRunner``, whose tracker is its own, is none."""
    return isinstance(runner, RPCRunner) and not isinstance(runner, LocalRunner)


def devices(key: str, host: str, port: int) -> int:
    """How many devices of a key a tracker knows, busy ones included.

    Raises
    ------
    FarmError
        If no tracker answers there.
    """

    def servers() -> list[dict[str, Any]]:
        session = rpc.connect_tracker(host, port)
        try:
            known: list[dict[str, Any]] = session.summary()["server_info"]
            return known
        finally:
            session.close()

    try:
        return sum(server["key"] == f"server:{key}" for server in within(_ANSWER, servers, "an answer"))
    except (OSError, RuntimeError) as error:
        raise FarmError(
            f"no tracker answers at {host}:{port} ({error}): start one with python -m tvm.exec.rpc_tracker --port {port}"
        ) from error


class Farm:
    """The devices behind an ``RPCRunner``: every trial on whichever is free, once more where its session broke."""

    def __init__(self, runner: RPCRunner) -> None:
        self._runner = runner
        self._over = False
        if not self._devices():
            raise FarmError(
                f"the tracker at {self._address} has no device of key {runner.key!r}: start one with "
                f"python -m tvm.exec.rpc_server --tracker {self._address} --key {runner.key}"
            )
        if runner.n_parallel > (os.cpu_count() or 1):  # AutoTVM runs no more at once than this machine has cores
            runner.executor = PopenPoolExecutor(
                max_workers=runner.n_parallel,
                timeout=runner.timeout * (runner.n_parallel + 1),
                initializer=reset_global_scope,
                initargs=(AutotvmGlobalScope.current,),
            )

    @property
    def _address(self) -> str:
        return f"{self._runner.host}:{self._runner.port}"

    def _devices(self) -> int:
        return devices(self._runner.key, self._runner.host, self._runner.port)

    def run(self, inputs: Sequence[MeasureInput], builds: Sequence[Any]) -> list[MeasureResult]:
        """Run what was built, as many at once as the runner may."""
        threads = ThreadPoolExecutor(self._runner.n_parallel)
        try:
            return list(threads.map(self._trial, inputs, builds))
        except BaseException:
            self._over = True
            _kill(getattr(self._runner, "executor", None))  # nobody waits for what runs
            raise
        finally:
            threads.shutdown(cancel_futures=True)

    def _trial(self, measured: MeasureInput, build: Any) -> MeasureResult:
        result = self._runner.run([measured], [build])[0]
        if _broke(result) and not isinstance(build, MeasureResult) and not self._over:
            self._await_a_device()
            result = self._runner.run([measured], [build])[0]
            if _broke(result) and not self._over:
                self._try_a_session()
        return result

    def _try_a_session(self) -> None:
        """A trial that broke two sessions may have itself to blame, or a farm whose last device hangs."""
        try:
            within(_PATIENCE, self._session, "a device that answers")
        except (OSError, RuntimeError) as error:
            raise FarmError(f"no device of key {self._runner.key!r} answers any more: {error}") from error

    def _session(self) -> None:
        request_remote(self._runner.key, self._runner.host, self._runner.port, timeout=int(_PATIENCE))

    def _await_a_device(self) -> None:
        """A farm without any would fail every trial, and the log would say so of configurations that are good."""
        end = time.monotonic() + _PATIENCE
        while not self._devices():
            if time.monotonic() > end:
                raise FarmError(f"the last device of key {self._runner.key!r} has left the tracker at {self._address}")
            time.sleep(1.0)


def within(seconds: float, function: Callable[[], T], what: str) -> T:
    """What a function returns, if it does so in time; else `TimeoutError`, and the function is left to itself."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def call() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise TimeoutError(f"waited {seconds:g} seconds for {what}")
    return outcome[0]


def _broke(result: MeasureResult) -> bool:
    """Whether the session ended without an answer: time ran out, or the server, or the kernel took the server with it."""
    if result.error_no == MeasureErrorNo.RUNTIME_DEVICE:
        # These are answers of the device: an error of the kernel, and that it took too long.
        return not any(answer in str(result.costs[0]) for answer in ("Error caught from RPC call", "RPCSessionTimeoutError"))
    return bool(result.error_no == MeasureErrorNo.RUN_TIMEOUT)


class _Guardian:
    """Ends this run's processes when this one is killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        mark = os.environ[guardian.VARIABLE] = uuid.uuid4().hex
        self._process = subprocess.Popen([sys.executable, guardian.__file__, mark], stdin=subprocess.PIPE, text=True)

    def stop(self) -> None:
        os.environ.pop(guardian.VARIABLE, None)
        if self._process is not None:
            self._process.communicate("done\n", timeout=10)
            self._process = None


@contextmanager
def _no_interrupts_in_children() -> Iterator[None]:
    """Threads and processes made in here, and all that these make, never see Ctrl-C; this thread sees it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(executor: PopenPoolExecutor | None, parallel: int) -> None:
    """Start the workers of AutoTVM's pool, a thread and a process each; it may reach for one more than run at once."""
    if executor is not None:
        for started in [executor.submit(int) for _ in range(min(parallel + 1, executor._threadpool._max_workers))]:
            started.result(_START)


def _stop(executor: PopenPoolExecutor | None) -> None:
    """End the processes of AutoTVM's pool, which starts new ones when it is used again."""
    _kill(executor)  # first, since a worker's own end waits until what it runs is done
    for worker in list(getattr(executor, "_worker_map", {}).values()):
        worker.kill()


def _kill(executor: PopenPoolExecutor | None) -> None:
    """End processes that others are waiting for: those waiting see the end of the pipe."""
    for worker in list(getattr(executor, "_worker_map", {}).values()):
        process = worker._proc
        if process is not None:
            process.kill()
