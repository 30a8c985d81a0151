"""The prior: a file of bundled tuning records, which is read as it was written."""

import pytest
from tvm import autotvm, te

from autotvm_opevo.search.space import Space
from autotvm_opevo.search.transfer import Source
from autotvm_opevo.topology import (
    Categorical,
    Discrete,
    Factorization,
    InducedSubgraph,
    Permutation,
    Tiling,
)
from autotvm_opevo.tuning.prior import read_prior
from benchmarks.layers import write_prior
from benchmarks.tuners import LEFT_OUT, make

TILES = [(1,), (4,), (7,), (12,)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "prior.json"


def test_what_is_written_is_read(path):
    space = Space(
        {
            "tile in 3 (1)": Factorization(360, 3),
            "with tail": InducedSubgraph(Tiling(TILES), TILES),
            "sketch (1)": Categorical(range(3)),
            "annotation": Categorical(["null", '"unroll"']),
            "location (1)": Discrete([-2, -1, 0]),
            "order": Permutation(3),
        }
    )
    results = {i * 7: float(1 + i) for i in range(20)}
    write_prior(path, {"conv2d": [Source(space, results), Source(space, {5: 2.0, 6: 0.0})]})
    first, second = read_prior(path)["conv2d"]
    assert [repr(topology) for topology in first.space.knobs.values()] == [
        repr(topology) for topology in space.knobs.values()
    ]
    assert first.results == pytest.approx(
        {index: fitness / 20 for index, fitness in results.items()}, rel=1e-2
    )
    assert second.results == {5: 1.0, 6: 0.0}


def test_sources_are_read_by_template_or_without_one(path):
    space = Space({"x": Discrete(range(9))})
    write_prior(
        path,
        {
            "dense": [Source(space, {0: 1.0})],
            "": [Source(space, {1: 1.0}), Source(space, {2: 1.0})],
        },
    )
    found = {
        template: [list(source.results) for source in sources]
        for template, sources in read_prior(path).items()
    }
    assert found == {"dense": [[0]], "": [[1], [2]]}


def test_of_a_subgraph_the_whole_graph_is_written(path):
    tiles = [(8, 1), (2, 4), (1, 8)]
    space = Space({"tile": InducedSubgraph(Factorization(8, 2), tiles)})
    write_prior(path, {"": [Source(space, {0: 1.0, 1: 2.0})]})
    (source,) = read_prior(path)[""]
    assert repr(source.space.knobs["tile"]) == repr(Factorization(8, 2))
    assert {source.space[index]["tile"]: fitness for index, fitness in source.results.items()} == {
        (8, 1): 0.5,
        (2, 4): 1.0,
    }


def test_the_best_half_is_kept_and_the_others_are_thinned_out(path):
    space = Space({"x": Discrete(range(1000))})
    write_prior(path, {"": [Source(space, {i: float(i) for i in range(1000)})]})
    (source,) = read_prior(path)[""]
    assert len(source.results) == 32
    assert set(range(984, 1000)) <= source.results.keys()
    assert min(source.results) < 100


def test_larger_convolutions_are_left_out_and_those_of_1x1_stay():
    shapes = te.placeholder((1, 32, 26, 26)), te.placeholder((48, 32, 3, 3))
    arguments = (*shapes, (1, 1), (1, 1, 1, 1), (1, 1), "NCHW", "NCHW", "float32")
    task = autotvm.task.create("conv2d_NCHWc.x86", arguments, "llvm")
    everything = [source.space.knobs for source in make("OpEvo", task, 0).learn_from([])]
    kept = [source.space.knobs for source in make(LEFT_OUT, task, 0).learn_from([])]
    assert any("unroll_kw" in knobs for knobs in everything)
    assert kept
    assert all("tile_oh" in knobs and "unroll_kw" not in knobs for knobs in kept)
