"""The prior: a file of results by role, which is read as it was written, and known to searches on a CPU only."""

import pytest
from sketches import decision_space

from autotvm_opevo.meta_schedule.prior import read_prior, write_prior
from autotvm_opevo.search.source import Source
from autotvm_opevo.search.space import Space
from autotvm_opevo.topology import Categorical, Discrete, Factorization


def test_what_is_written_is_read(tmp_path):
    space = Space(
        {"tile in 3 (1)": Factorization(360, 3), "sketch (1)": Categorical(range(3)), "location (1)": Discrete([-2, -1, 0])}
    )
    results = {i * 7: float(1 + i) for i in range(20)}
    path = tmp_path / "prior.json"
    write_prior(path, [Source(space, results), Source(space, {5: 2.0, 6: 0.0})])
    first, second = read_prior(path)
    assert [repr(topology) for topology in first.space.knobs.values()] == [repr(topology) for topology in space.knobs.values()]
    assert first.results == pytest.approx({index: fitness / 20 for index, fitness in results.items()}, rel=1e-2)
    assert second.results == {5: 1.0, 6: 0.0}


def test_the_best_half_is_kept_and_the_others_are_thinned_out(tmp_path):
    space = Space({"x": Discrete(range(1000))})
    path = tmp_path / "prior.json"
    write_prior(path, [Source(space, {i: float(i) for i in range(1000)})])
    (source,) = read_prior(path)
    assert len(source.results) == 32
    assert set(range(984, 1000)) <= source.results.keys()
    assert min(source.results) < 100


@pytest.mark.parametrize("workload", ["MM1", "C1", "C2", "softmax"])
def test_the_package_knows_workloads_like_these(workload):
    decisions = decision_space(workload, "llvm")
    sources = [source for one in read_prior() if (source := decisions.translate(one))]
    assert len(sources) >= 2
    for source in sources:
        assert len(source.results) >= 16
        assert max(source.results.values()) == 1.0
        assert all(0 <= fitness <= 1 for fitness in source.results.values())
