"""The benchmark of the tuners' own cost, on less."""

import pytest

from benchmarks import operators, overhead, tuners


@pytest.mark.parametrize("name", ["OpEvo", "OpEvo-published", "Random", "GA"])
def test_overhead_times_every_tuner(name):
    task = operators.task("MM1", overhead.TARGET)
    assert overhead.milliseconds(tuners.make(name, task, 0), task, 24) > 0
