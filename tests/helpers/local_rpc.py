"""TVM's tracker with one server on this machine."""

import time
from contextlib import contextmanager

from tvm.s_tir.meta_schedule.runner import RPCConfig
from tvm.s_tir.meta_schedule.testing.local_rpc import LocalRPC

PATIENCE = 120  # seconds; the server registers in some of them, more if the machine is busy


@contextmanager
def local_rpc():
    """Run both; yields TVM's `LocalRPC`, which itself does not wait until the server has
    registered.
    """
    with LocalRPC(silent=True) as rpc:
        config = RPCConfig(rpc.tracker_host, rpc.tracker_port, rpc.tracker_key)
        end = time.monotonic() + PATIENCE
        while not config.count_num_servers():
            if time.monotonic() > end:
                raise TimeoutError(f"the server has not registered within {PATIENCE} s")
            time.sleep(0.1)
        yield rpc
