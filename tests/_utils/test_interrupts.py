"""SIGTERM that the command takes for Ctrl-C, while TVM's code runs."""

import signal

import pytest

from autotvm_opevo._utils.interrupts import interrupts_in_tvm


@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_IGN])
def test_an_interrupt_is_deferred_to_the_end_also_where_ctrl_c_is_ignored(before):
    original = signal.signal(signal.SIGINT, before)
    try:
        deferring = interrupts_in_tvm(defer=True)
        deferring.__enter__()
        signal.getsignal(signal.SIGINT)(signal.SIGTERM, None)  # raises nothing yet
        with pytest.raises(KeyboardInterrupt):
            deferring.__exit__(None, None, None)
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, original)


def test_where_ctrl_c_is_ignored_it_stays_so():
    original = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_in_tvm():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, original)
