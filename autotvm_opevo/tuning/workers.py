"""Worker processes that start in milliseconds, forked from one server process that has imported
TVM. Imports none itself.

AutoTVM starts about seven processes for a tuning run, each of which imports TVM, for four seconds.
Here one does, once for all builders, runners and tasks of this process. Workers do not get Ctrl-C,
and end with this process, however it ends. Needs POSIX.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import LifoQueue
from typing import Any, ClassVar

import cloudpickle

from autotvm_opevo._utils.cpu_cores import affinity

# Seconds for the server to import TVM and start a worker, on a busy machine; for a message to be
# taken; and for a process to be gone once it is killed, which takes a while if it has to give back
# a GPU.
FORK_TIMEOUT, _SEND_TIMEOUT, _KILL_TIMEOUT = 120.0, 60, 10.0
# Seconds for a single call of some kernels, on a busy machine.
_ONCE_TIMEOUT = 60.0
# TVM's compiler does not free all memory; after so many calls, a worker of a pool is replaced.
_MAX_CALLS = 1000
# Seconds between looks at what may have changed.
_POLL_INTERVAL = 0.02
# Seconds of a single wait for an answer. No more count for it: all processes of a job may have been
# stopped meanwhile.
_ANSWER_POLL = 1.0


class ForkServerError(RuntimeError):
    """Worker processes cannot be started. No fault of what they were to do."""


class ForkServer:
    """A process that imports a module, such as ``"autotvm_opevo.autotvm"``, and then forks."""

    _shared: ClassVar[dict[str, ForkServer]] = {}
    _sharing = threading.Lock()

    def __init__(self, module: str) -> None:
        self._owner = os.getpid()
        self._socket, theirs = socket.socketpair()
        # everything is imported from where this process would import it
        path = (
            f"import sys; sys.path[:] = {[entry for entry in sys.path if isinstance(entry, str)]!r}"
        )
        # not on those of the thread that starts it, which TVM binds to some when it runs a kernel
        main = f"{path}; from autotvm_opevo.tuning.fork_server import main; main({affinity()!r})"
        with theirs:
            # in a session of its own, since Ctrl-C is for this process to handle
            self._process = subprocess.Popen(
                [sys.executable, "-c", main, module, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @classmethod
    def start(cls, module: str) -> ForkServer:
        """This process's server for a module; returns before the module is imported."""
        with cls._sharing:
            if module not in cls._shared or not cls._shared[module]._running():
                cls._shared[module] = cls(module)
            return cls._shared[module]

    def fork(self) -> Connection:
        """Ask for a worker; returns a connection to it, on which it first sends its process id."""
        ours, theirs = socket.socketpair()
        # A worker that hangs must not block this process.
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_TIMEOUT, 0))
        with theirs, suppress(OSError):  # if it is gone, the connection ends at once
            socket.send_fds(self._socket, [b"f"], [theirs.fileno()])
        return Connection(ours.detach())

    def _running(self) -> bool:
        return self._owner == os.getpid() and self._process.poll() is None


class Worker:
    """A process that calls functions, with a module imported; started by the first call, and again
    after it died or was killed, with the environment and the working directory that this process
    has then. One thread may call at a time.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._pid: int | None = None  # also of its process group
        self._connection: Connection | None = None
        self._interrupted = False
        self._paused_at: float | None = None
        self._paused_seconds = 0.0  # in earlier pauses
        self.calls = 0  # since it was started

    def call(self, function: Callable[..., Any], *arguments: Any, timeout: float) -> Any:
        """Call a function in the worker; raises what that raises, `TimeoutError` if it takes longer
        than `timeout` seconds, for which the worker is killed, `ChildProcessError` if it dies, and
        `ForkServerError` if it cannot be started.
        """
        try:
            # Nothing was asked, so it has ended, as by the kernel when memory ran out.
            if self._connection is not None and self._connection.poll():
                self.kill()
            connection = self._connection or self._start()
            self.calls += 1
            try:
                connection.send_bytes(cloudpickle.dumps((function, arguments)))
                if not self._answers(connection, timeout):
                    raise TimeoutError(f"took longer than {timeout:g} seconds")
                failed, value = pickle.loads(connection.recv_bytes())
            except BlockingIOError as error:
                waited = f"for {_SEND_TIMEOUT} seconds"
                raise TimeoutError(f"the worker process took no message {waited}") from error
            except (EOFError, ConnectionError) as error:
                raise ChildProcessError("the worker process died") from error
        except BaseException:
            self.kill()  # what it still does must not answer the next call
            raise
        if failed:
            raise value
        return value

    def interrupt(self) -> None:
        """Kill it and what it started, from any thread; a call raises `ChildProcessError`."""
        self._interrupted = True
        self._signal(signal.SIGKILL)

    def pause(self) -> None:
        """Stop it, what it started, and a call's time, until `resume`; from any thread."""
        self._paused_at = time.monotonic()
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process go on."""
        self._paused_seconds, self._paused_at = self._paused(), None
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process, and wait until it is gone; the next call starts another."""
        self.interrupt()
        pid, connection = self._pid, self._connection
        self._pid = self._connection = None
        if connection is not None:
            with connection, suppress(EOFError, OSError):
                # one that is still starting ends without us
                while pid is not None and connection.poll(_KILL_TIMEOUT):
                    connection.recv_bytes()

    def _signal(self, number: signal.Signals) -> None:
        pid = self._pid
        if pid is not None:
            # macOS says the latter of a process that has ended
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)

    def _paused(self) -> float:
        """Seconds of all pauses so far."""
        since = self._paused_at
        return self._paused_seconds + (time.monotonic() - since if since is not None else 0.0)

    def _answers(self, connection: Connection, timeout: float) -> bool:
        """Wait for an answer, for `timeout` seconds that were no pause."""
        running = time.monotonic() - self._paused()
        while timeout > 0:
            wait = min(timeout, _ANSWER_POLL)
            if connection.poll(wait):
                return True
            before, running = running, time.monotonic() - self._paused()
            timeout -= min(max(0.0, running - before), wait)
        return connection.poll()

    def _start(self) -> Connection:
        self._interrupted, self.calls = False, 0
        try:
            self._connection = connection = ForkServer.start(self._module).fork()
            end = time.monotonic() + FORK_TIMEOUT
            while not connection.poll(_POLL_INTERVAL):
                if self._interrupted:
                    raise ChildProcessError("the worker process was killed")
                if time.monotonic() > end:
                    took = f"took longer than {FORK_TIMEOUT:g} seconds"
                    raise ForkServerError(f"importing {self._module} in a new process {took}")
            self._pid = pickle.loads(connection.recv_bytes())
            if self._paused_at is not None:  # while it started
                self._signal(signal.SIGSTOP)
                if self._paused_at is None:  # and resumed meanwhile
                    self._signal(signal.SIGCONT)
            connection.send_bytes(cloudpickle.dumps((dict(os.environ), os.getcwd(), sys.path)))
        except ChildProcessError:
            raise
        except (EOFError, ConnectionError) as error:
            raise ForkServerError(
                f"no worker process could be started: the process that imports {self._module} "
                "ended or failed; see its output"
            ) from error
        except OSError as error:  # such as a missing working directory, or too many open files
            raise ForkServerError(
                f"no worker process could be started: {error.strerror or error}"
            ) from error
        return connection


def call_once(module: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a worker of its own, which may die of it; see `Worker.call`."""
    worker = Worker(module)
    try:
        return worker.call(function, *arguments, timeout=_ONCE_TIMEOUT)
    finally:
        worker.kill()


class WorkerPool:
    """Up to `size` workers, each replaced after many calls, for calls at the same time."""

    def __init__(self, module: str, size: int) -> None:
        self._module, self._size = module, size
        self._threads: ThreadPoolExecutor | None = None
        # the last one first: of many workers, no more start than there are calls at a time
        self._idle: LifoQueue[Worker] = LifoQueue()
        self._workers: list[Worker] = []
        self._running = threading.Event()  # not paused
        self._running.set()
        self._futures: list[Future[Any]] = []  # of calls that may still run

    def submit(self, function: Callable[..., Any], *arguments: Any, timeout: float) -> Future[Any]:
        """Call a function in one of the workers, as `Worker.call`."""
        if self._threads is None:
            self._kill()
            self._threads = ThreadPoolExecutor(self._size)
            self._workers = [Worker(self._module) for _ in range(self._size)]
            self._idle = LifoQueue()
            for worker in self._workers:
                self._idle.put(worker)
        future = self._threads.submit(self._call, function, *arguments, timeout=timeout)
        self._futures = [other for other in self._futures if not other.done()] + [future]
        return future

    def pause(self) -> None:
        """Pause all workers until `resume`, and begin no further call."""
        self._running.clear()
        for worker in self._workers:
            worker.pause()

    def resume(self) -> None:
        """Let all workers go on."""
        for worker in self._workers:
            worker.resume()
        self._running.set()

    def close(self) -> None:
        """Cancel all calls and kill all workers; the next call starts new ones."""
        self._running.set()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
        self._kill()

    def _kill(self) -> None:
        """Kill all workers; if this is interrupted, the next call or `close` does it."""
        # more than once: a worker may just be starting
        while not all(future.done() for future in self._futures):
            for worker in self._workers:
                worker.interrupt()
            time.sleep(_POLL_INTERVAL)
        for worker in self._workers:
            worker.kill()

    def _call(self, function: Callable[..., Any], *arguments: Any, timeout: float) -> Any:
        self._running.wait()
        worker = self._idle.get()
        try:
            return worker.call(function, *arguments, timeout=timeout)
        finally:
            if worker.calls >= _MAX_CALLS:
                worker.kill()
            self._idle.put(worker)


def kill_tvm_pool(executor: Any) -> None:
    """Kill the processes of a pool of TVM's own, if there is one; from any thread. Those that wait
    for their results see the end of the pipe.
    """
    for worker in list(getattr(executor, "_worker_map", {}).values()):
        with suppress(AttributeError):  # its own thread ends it, too, and may be faster
            worker._proc.kill()


def stop_tvm_pool(executor: Any) -> None:
    """Stop the processes of a pool of TVM's own, if there is one; its next use starts others."""
    kill_tvm_pool(executor)  # first: a worker would finish its job before it exits
    for worker in list(getattr(executor, "_worker_map", {}).values()):
        with suppress(AttributeError):
            worker.kill()
