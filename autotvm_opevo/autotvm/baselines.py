"""The searches that OpEvo is compared with, as AutoTVM's tuners: no duplicates, seeds and history as OpEvoTuner has them."""

from __future__ import annotations

from typing import Any

from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.tuner import SearchTuner
from autotvm_opevo.baselines import GBFS, NA2C, NoSE


class GBFSTuner(SearchTuner):
    """Tune an AutoTVM task with G-BFS (Zhang et al. 2019); see `GBFS`.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
        Whose knobs are splits, and nothing else.
    sample_size : int
        rho: how many neighbours of the best configuration are measured.
    seed : int, optional
        The same seed and the same measurements give the same proposals. None draws one.
    **xgb_only
        Ignored with a line on the ``autotvm`` logger.

    Raises
    ------
    TypeError
        If an option is neither this tuner's nor XGBTuner's.
    ValueError
        If a knob is no factorization, or an argument is not what it should be.

    Examples
    --------
    >>> from tvm import autotvm, te
    >>> tensors = te.placeholder((64, 64)), te.placeholder((64, 64))
    >>> task = autotvm.task.create("dense_nopack.x86", args=(*tensors, None, "float32"), target="llvm")
    >>> tuner = GBFSTuner(task, seed=0)
    >>> [list(split.size) for split in tuner.next_batch(8)[0]._entity_map.values()]
    [[-1, 1], [-1, 1], [-1, 1]]
    """

    def __init__(self, task: Task, *, sample_size: int = 5, seed: int | None = None, **xgb_only: Any) -> None:
        super().__init__(task, lambda space: GBFS(space, sample_size, seed), **xgb_only)


class NA2CTuner(SearchTuner):
    """Tune an AutoTVM task with N-A2C (Zhang et al. 2019); see `NA2C`.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
        Whose knobs are splits, and nothing else.
    steps : int
        T: how many steps a walk takes.
    seed : int, optional
        The same seed and the same measurements give the same proposals. None draws one.
    **xgb_only
        Ignored with a line on the ``autotvm`` logger.

    Raises
    ------
    TypeError
        If an option is neither this tuner's nor XGBTuner's.
    ValueError
        If a knob is no factorization, or an argument is not what it should be.
    """

    def __init__(self, task: Task, *, steps: int = 3, seed: int | None = None, **xgb_only: Any) -> None:
        super().__init__(task, lambda space: NA2C(space, steps, seed=seed), **xgb_only)


class NoSETuner(SearchTuner):
    """Tune an AutoTVM task with NoSE (Gatopoulos et al.); see `NoSE`.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
    population_size : int
        N; 1.5 times as many children are made in a generation, and 0.3 times as many of them measured.
    mutation_rate : float
        p: the probability that a knob takes a random value.
    neighbours : int
        k: how many measured configurations an estimate looks at.
    seed : int, optional
        The same seed and the same measurements give the same proposals. None draws one.
    **xgb_only
        Ignored with a line on the ``autotvm`` logger.

    Raises
    ------
    TypeError
        If an option is neither this tuner's nor XGBTuner's.
    ValueError
        If an argument is not what it should be.
    """

    def __init__(
        self,
        task: Task,
        *,
        population_size: int = 100,
        mutation_rate: float = 0.3,
        neighbours: int = 9,
        seed: int | None = None,
        **xgb_only: Any,
    ) -> None:
        def search(space: Any) -> NoSE:
            return NoSE(space, population_size, mutation_rate=mutation_rate, neighbours=neighbours, seed=seed)

        super().__init__(task, search, **xgb_only)
