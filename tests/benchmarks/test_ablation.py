"""Variants for the ablation: kernels against their mathematics, and every variant replayed."""

from functools import cache

import numpy as np
import pytest

from autotvm_opevo import OpEvo, Space, random_walk
from autotvm_opevo.topology import Discrete, Factorization, Permutation
from benchmarks import replay, tuners, variants
from benchmarks.landscape import FOLDER, load


@pytest.mark.parametrize("graph", [Factorization(24, 3), Permutation(4), Discrete(range(7))])
@pytest.mark.parametrize("q", [0.1, 0.6, 0.95])
def test_the_regularized_laplacian_is_the_stopping_distribution_made_symmetric(graph, q):
    kernel = variants.RegularizedLaplacianKernel(Space({"x": graph}))
    x = kernel.encode([(i,) for i in range(len(graph))])
    found = kernel.gram(x, x, np.array([-np.log(q)]))
    stopping = np.array([random_walk.distribution(graph, value, q) for value in graph])
    degrees = np.sqrt([len(graph.neighbours(value)) for value in graph])
    stopping *= degrees[:, None] / degrees  # it is D^1/2 (I - qN)^-1 D^-1/2, up to a factor
    scale = np.sqrt(np.diag(stopping))
    assert found == pytest.approx(stopping / np.outer(scale, scale))
    assert np.linalg.eigvalsh(found).min() > 0


def test_the_categorical_kernel_has_all_other_values_equally_far():
    kernel = variants.CategoricalKernel(Space({"x": Discrete(range(5)), "y": Discrete(range(3))}))
    x = kernel.encode([(0, 0), (0, 2), (4, 2), (1, 0)])
    assert kernel.pairwise_distances(x).sum(axis=0).tolist() == [
        [0, 1, 2, 1],
        [1, 0, 1, 2],
        [2, 1, 0, 2],
        [1, 2, 2, 0],
    ]
    assert kernel.gram(x, x, np.array([0.5, 2.0]))[0] == pytest.approx(np.exp([0, -2, -2.5, -0.5]))


@cache
def proposed(name, landscape, batch, trials):
    """The first configurations."""
    whole = load(FOLDER / f"{landscape}.npz")
    tuner = tuners.make(name, replay.task(whole), seed=0)
    seen = []
    option = replay.measure_option(whole, batch)
    tuner.tune(
        trials,
        option,
        callbacks=[lambda _, inputs, __: seen.extend(i.config.index for i in inputs)],
    )
    return seen


# no recorded space is large enough for another number of candidates
@pytest.mark.parametrize("name", [name for name in variants.TUNERS if name != "FewCandidates"])
def test_every_variant_is_another_search_that_proposes_nothing_twice(name):
    # with two splits into three parts, or where failures are many and all kinds of values matter
    landscape = "splits-64" if name == "WithoutLogSums" else "registers-64"
    batch = 64 if name.endswith("Batches") else 8
    trials = 128 if name == "OnlyChildren" else 64  # which differs where the search stands still
    seen = proposed(name, landscape, batch, trials)
    assert len(set(seen)) == trials
    assert seen != proposed("OpEvo", landscape, batch, trials)


def test_few_candidates_are_another_search_in_a_large_space():
    def proposals(search):
        search.tell([space[i] for i in range(32)], list(range(1, 33)))
        return search.ask(8)

    space = Space({"y": Factorization(1024, 4), "x": Factorization(1024, 4)})
    assert proposals(variants.SEARCHES["FewCandidates"](space, seed=0)) != proposals(
        OpEvo(space, seed=0)
    )


def tilings(configuration):
    """Smooth on the graphs: every step towards the best tiles is worth a quarter."""
    best = (("y", 3, 4), ("y", 2, 2), ("x", 3, 3), ("x", 1, 2), ("k", 3, 5), ("k", 0, 4))
    return float(
        np.exp(
            -0.3 * sum(abs(np.log2(configuration[knob][part]) - log) for knob, part, log in best)
        )
    )


def best_tilings(make, seed):
    """What is found in 64 trials."""
    space = Space({knob: Factorization(1024, 4) for knob in "yxk"})
    search = make(space, seed=seed)
    for _ in range(8):
        configurations = search.ask(8)
        search.tell(configurations, list(map(tilings, configurations)))
    return search.best[1]


@pytest.mark.soak
def test_on_knobs_with_hundreds_of_values_graph_distances_make_the_better_kernel():
    found = {
        name: np.mean([best_tilings(variants.SEARCHES.get(name, OpEvo), seed) for seed in range(5)])
        for name in ("OpEvo", "CategoricalKernel", "RegularizedLaplacianKernel")
    }
    assert found["CategoricalKernel"] < 0.9 * found["OpEvo"]
    assert found["RegularizedLaplacianKernel"] < 0.7 * found["OpEvo"]
