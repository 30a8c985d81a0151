"""The device that runs the trials, opened to time networks and kernels there: this machine's, or
one of an RPC tracker.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir.meta_schedule.runner import RPCRunner

from autotvm_opevo._utils.timeouts import run_with_timeout
from autotvm_opevo.meta_schedule.targets import device_type

# Takes a built library to the device; what it returns loads the library, on this machine into newly
# allocated memory each time.
Put = Callable[[Any], Callable[[], Any]]

# Seconds to wait for a free remote device, and for which it is then reserved, so that networks can
# be built and run once.
_REQUEST_TIMEOUT, _SESSION_TIMEOUT = 300, 3600
# The longest time that the tracker's protocol can tell.
_LONGEST = 2**31 - 1


@contextmanager
def open_device(
    target: tvm.target.Target, runner: Any = None, seconds: float = 0.0
) -> Iterator[tuple[tvm.runtime.Device, Put]]:
    """A device, and a function that puts libraries there.

    Parameters
    ----------
    target : tvm.target.Target
    runner : optional
        TVM's ``RPCRunner`` for a device of its tracker; this machine's with any other.
    seconds : float
        For which a remote device is reserved longer than it takes to run some networks once.

    Raises
    ------
    TimeoutError
        If no remote device is free for minutes.
    """
    names = count()
    with tempfile.TemporaryDirectory() as folder:
        if not isinstance(runner, RPCRunner):

            def put(library: Any) -> Callable[[], Any]:
                file = str(Path(folder) / f"{next(names)}.so")
                library.export_library(file)
                # Only a loaded one has weights of its own; they are freed with it, for which TVM's
                # `load_module` has no option.
                return lambda: tvm_ffi.load_module(file, keep_module_alive=False)

            yield tvm.device(device_type(target), 0), put
            return
        session = _request(runner.rpc_config, _SESSION_TIMEOUT + seconds)

        def upload(library: Any) -> Callable[[], Any]:
            file = Path(folder) / f"{next(names)}.tar"  # object code, which is linked over there
            library.export_library(str(file))
            session.upload(str(file))
            # once: the server links it, and keeps what it has loaded
            module = session.load_module(file.name)
            return lambda: module

        try:
            yield session.device(device_type(target), 0), upload
        except (KeyboardInterrupt, TimeoutError):
            raise  # a thread may still use the session
        except BaseException:
            _close(session)
            raise
        _close(session)


def _close(session: Any) -> None:
    """Give the device back; the garbage collector may find what is left of the networks much
    later.
    """
    session.get_function("CloseRPCConnection")()


def _request(config: Any, seconds: float) -> Any:
    """A session on a free device."""

    def request() -> Any:
        return config.connect_tracker().request(
            config.tracker_key, config.session_priority, session_timeout=int(min(seconds, _LONGEST))
        )

    return run_with_timeout(
        _REQUEST_TIMEOUT, request, f"a free device of key {config.tracker_key!r}"
    )
