"""What is known of a machine's limits, as a function of operations and bytes."""

from autotvm_opevo.tuning.roofline import Roofline


def test_what_caches_hold_is_read_faster():
    roofline = Roofline(bandwidths=((1e3, 1e9), (1e6, 1e6)))
    assert [roofline.latency(0, size) for size in (999, 1e3, 1e5, 1e6, 2e6)] == [0, 1e-6, 1e-4, 1.0, 2.0]
