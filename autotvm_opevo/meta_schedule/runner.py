"""Runners: this machine, or the devices of an RPC tracker."""

from __future__ import annotations

import socket
from typing import Any

from tvm.s_tir.meta_schedule.runner import LocalRunner, RPCConfig, RPCRunner

from autotvm_opevo._utils.interrupts import no_interrupts_in_children

# Seconds to wait for the tracker.
_CONNECT_TIMEOUT = 10


def make_runner(timeout: float, key: str | None = None, host: str | None = None, port: int | None = None) -> Any:
    """Create one of TVM's runners, with one worker for each device.

    Parameters
    ----------
    timeout : float
        Seconds for one candidate.
    key, host, port : optional
        Of the devices, and of their tracker; this machine by default.

    Raises
    ------
    RuntimeError
        If the tracker cannot be reached or has no such device, so that every trial would fail.
    """
    if key is None or port is None:
        with no_interrupts_in_children():  # TVM starts one to check itself
            return LocalRunner(timeout_sec=timeout)
    config = RPCConfig(host, port, key, session_timeout_sec=int(timeout))
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT).close()  # TVM itself would retry for a minute
        devices = config.count_num_servers(allow_missing=True)
    except Exception as error:  # of sockets and of TVM's
        raise RuntimeError(f"cannot reach the tracker at {host}:{port}: {error}") from error
    if not devices:
        raise RuntimeError(f"the tracker at {host}:{port} has no device of key {key!r}: start a server there, or check the key")
    return RPCRunner(config, max_workers=devices)
