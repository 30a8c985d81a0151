"""Values of knobs, in numbers and in words."""

import math

import pytest

from autotvm_opevo.reporting.knob_graphs import format_value
from autotvm_opevo.reporting.trials import Knob


def knob_of(groups):
    """A knob with these latencies of each of its values."""
    knob = Knob("number")
    for value, latencies in enumerate(groups):
        for latency in latencies:
            knob.add(value, float(latency))
    return knob


def test_merging_logs_is_adding_their_trials():
    first, second = knob_of([[1.0, 2.0], [3.0, math.inf]]), knob_of([[0.5], [4.0], [5.0]])
    for value, one in second.stats.items():
        first.merge(value, one)
    together = knob_of([[1.0, 2.0, 0.5], [3.0, math.inf, 4.0], [5.0]])
    assert first.stats == together.stats


@pytest.mark.parametrize("text", ['["none", "vec', '["' + "[" * 200_000])
def test_text_that_only_looks_like_an_annotation_is_kept(text):
    assert format_value(text) == text
