"""A space with every kind of knob, and targets on it."""

import numpy as np

from autotvm_opevo import Space
from autotvm_opevo.search.gp import GraphKernel
from autotvm_opevo.topology import Categorical, Discrete, Factorization, Permutation

SPACE = Space(
    {
        "tile": Factorization(64, 3),
        "order": Permutation(3),
        "unroll": Discrete(range(9)),
        "flag": Categorical("ab"),
    }
)


def sample(space, n, seed=0):
    """A kernel, distinct configurations encoded by it, and targets that depend on the knobs."""
    rng = np.random.default_rng(seed)
    kernel = GraphKernel(space)
    numbers = rng.choice(space.size, n, replace=False)
    x = kernel.encode([space.vertices(int(i)) for i in numbers])
    return kernel, x, x @ rng.normal(size=x.shape[1]) + 0.1 * rng.normal(size=n)
