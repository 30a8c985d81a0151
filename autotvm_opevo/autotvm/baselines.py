"""The baselines of the paper as AutoTVM tuners, with the seeds, history and freedom from duplicates
of OpEvoTuner.
"""

from __future__ import annotations

from typing import Any

from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.search_tuner import SearchTuner
from autotvm_opevo.baselines import GBFS, NA2C, NoSE
from autotvm_opevo.search.space import Space


class GBFSTuner(SearchTuner):
    """Tune an AutoTVM task with G-BFS (Zhang et al. 2019); see `GBFS`.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
        Task to tune; all knobs must be splits into factors.
    sample_size : int
        rho: number of neighbours of the best configuration to measure.
    seed : int, optional
        The same seed and the same measurements give the same proposals. Drawn at random by default.
    **xgb_only
        Options of XGBTuner that do not apply; ignored with a warning, once per process.

    Raises
    ------
    TypeError
        If an option is unknown to both this tuner and XGBTuner.
    ValueError
        If a knob is not a factorization, or an argument is out of range.

    Examples
    --------
    >>> from tvm import autotvm, te
    >>> tensors = te.placeholder((64, 64)), te.placeholder((64, 64))
    >>> task = autotvm.task.create("dense_nopack.x86", (*tensors, None, "float32"), "llvm")
    >>> tuner = GBFSTuner(task, seed=0)
    >>> [list(split.size) for split in tuner.next_batch(8)[0]._entity_map.values()]
    [[-1, 1], [-1, 1], [-1, 1]]
    """

    def __init__(
        self, task: Task, *, sample_size: int = 5, seed: int | None = None, **xgb_only: Any
    ) -> None:
        super().__init__(task, lambda space: GBFS(space, sample_size, seed), **xgb_only)


class NA2CTuner(SearchTuner):
    """Tune an AutoTVM task with N-A2C (Zhang et al. 2019); see `NA2C`.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
        Task to tune; all knobs must be splits into factors.
    steps : int
        T: number of steps per walk.
    seed : int, optional
        The same seed and the same measurements give the same proposals. Drawn at random by default.
    **xgb_only
        Options of XGBTuner that do not apply; ignored with a warning, once per process.

    Raises
    ------
    TypeError
        If an option is unknown to both this tuner and XGBTuner.
    ValueError
        If a knob is not a factorization, or an argument is out of range.
    """

    def __init__(
        self, task: Task, *, steps: int = 3, seed: int | None = None, **xgb_only: Any
    ) -> None:
        super().__init__(task, lambda space: NA2C(space, steps, seed=seed), **xgb_only)


class NoSETuner(SearchTuner):
    """Tune an AutoTVM task with NoSE (Gatopoulos et al.); see `NoSE`.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
        Task to tune.
    population_size : int
        N. A generation has 1.5 N children, of which 0.3 N are measured.
    mutation_rate : float
        p: probability that a knob is resampled.
    neighbours : int
        k: number of nearest measured configurations in an estimate.
    seed : int, optional
        The same seed and the same measurements give the same proposals. Drawn at random by default.
    **xgb_only
        Options of XGBTuner that do not apply; ignored with a warning, once per process.

    Raises
    ------
    TypeError
        If an option is unknown to both this tuner and XGBTuner.
    ValueError
        If an argument is out of range.
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
        def make_search(space: Space) -> NoSE:
            return NoSE(
                space,
                population_size,
                mutation_rate=mutation_rate,
                neighbours=neighbours,
                seed=seed,
            )

        super().__init__(task, make_search, **xgb_only)
