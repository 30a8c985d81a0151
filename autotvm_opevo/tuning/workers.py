"""Worker processes that start in milliseconds, forked from one server process that has imported TVM. Imports none itself.

AutoTVM starts about seven processes for a tuning run, each of which imports TVM, for four seconds. Here one does, once for all
builders, runners and tasks of this process. Workers do not get Ctrl-C, and end with this process, however it ends.
"""

from __future__ import annotations

import json
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
from queue import SimpleQueue
from typing import Any, ClassVar

import cloudpickle

# Seconds for the server to import TVM and start a worker, on a busy machine.
START_TIMEOUT = 120.0
# Seconds between looks at whether killed workers are gone.
_PATIENCE = 0.02
# How the process id of a new worker is sent.
PID = struct.Struct("<i")

# Imports nothing that is not found where this process finds it.
_SERVER = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from autotvm_opevo.tuning import fork_server; fork_server.main()"
)


class ForkServer:
    """A process that imports a module and then starts others by forking.

    Parameters
    ----------
    module : str
        What the workers need, such as ``"autotvm_opevo.autotvm"``.
    """

    _shared: ClassVar[dict[str, ForkServer]] = {}
    _sharing = threading.Lock()

    def __init__(self, module: str) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(START_TIMEOUT)
        self._lock = threading.Lock()
        self._owner = os.getpid()
        with theirs:
            command = [sys.executable, "-c", _SERVER, json.dumps(sys.path), module, str(theirs.fileno())]
            # A session of its own keeps it and its children from Ctrl-C, which is for this process to handle.
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )

    @classmethod
    def start(cls, module: str) -> ForkServer:
        """This process's server for a module, started if it does not run; returns before the module is imported."""
        with cls._sharing:
            if module not in cls._shared or not cls._shared[module]._running():
                cls._shared[module] = cls(module)
            return cls._shared[module]

    def fork(self) -> tuple[int, Connection]:
        """Start a worker; returns its process id, which is that of its process group, and a connection to it."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            try:
                socket.send_fds(self._socket, [b"f"], [theirs.fileno()])
                answer = self._socket.recv(PID.size, socket.MSG_WAITALL)
            except OSError:
                answer = b""
        if len(answer) < PID.size:
            ours.close()
            raise ChildProcessError("the server that starts worker processes has died")
        return PID.unpack(answer)[0], Connection(ours.detach())

    def _running(self) -> bool:
        return self._owner == os.getpid() and self._process.poll() is None


class Worker:
    """A process that calls functions, one at a time; started by the first call, and again after it died or was killed.

    Parameters
    ----------
    module : str
        Imported before it starts.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._pid: int | None = None
        self._connection: Connection | None = None

    def call(self, function: Callable[..., Any], *arguments: Any, timeout: float) -> Any:
        """Call a function in the worker.

        Raises
        ------
        TimeoutError
            If it takes longer than `timeout` seconds. The worker is killed.
        ChildProcessError
            If the worker dies.
        Exception
            As raised by the function.
        """
        try:
            failed, value = self._exchange((function, arguments), timeout)
        except BaseException:
            self.kill()  # what it still does must not answer the next call
            raise
        if failed:
            raise value
        return value

    def interrupt(self) -> None:
        """Kill the process, and what it has started; from any thread. A call that waits for it raises `ChildProcessError`."""
        pid = self._pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the process; the next call starts another."""
        self.interrupt()
        if self._connection is not None:
            self._connection.close()
        self._pid = self._connection = None

    def _exchange(self, message: Any, timeout: float) -> tuple[bool, Any]:
        if self._connection is None:
            self._pid, self._connection = ForkServer.start(self._module).fork()
            self._connection.send_bytes(cloudpickle.dumps((dict(os.environ), os.getcwd(), sys.path)))
        connection = self._connection
        try:
            connection.send_bytes(cloudpickle.dumps(message))
            if not connection.poll(timeout):
                raise TimeoutError(f"took longer than {timeout:g} seconds")
            answer: tuple[bool, Any] = pickle.loads(connection.recv_bytes())
        except (EOFError, ConnectionError) as error:
            raise ChildProcessError("the worker process died") from error
        return answer


class WorkerPool:
    """Up to `size` workers, which call functions at the same time."""

    def __init__(self, module: str, size: int) -> None:
        self._module, self._size = module, size
        self._threads: ThreadPoolExecutor | None = None
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._workers: list[Worker] = []
        self._futures: list[Future[Any]] = []  # of calls that may still run

    def submit(self, function: Callable[..., Any], *arguments: Any, timeout: float) -> Future[Any]:
        """Call a function in one of the workers, as `Worker.call`."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._size)
            self._workers = [Worker(self._module) for _ in range(self._size)]
            for worker in self._workers:
                self._idle.put(worker)
        future = self._threads.submit(self._call, function, *arguments, timeout=timeout)
        self._futures = [other for other in self._futures if not other.done()] + [future]
        return future

    def close(self) -> None:
        """Cancel all calls and kill all workers; the next call starts new ones."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in self._futures):  # more than once: a worker may just be starting
                for worker in self._workers:
                    worker.interrupt()
                time.sleep(_PATIENCE)
            for worker in self._workers:
                worker.kill()
        self._threads = None

    def _call(self, function: Callable[..., Any], *arguments: Any, timeout: float) -> Any:
        worker = self._idle.get()
        try:
            return worker.call(function, *arguments, timeout=timeout)
        finally:
            self._idle.put(worker)
