"""The baselines of the paper as AutoTVM tuners, with the seeds, history and freedom from duplicates
of OpEvoTuner. Their parameters are among those of the search that each is named after; see
`SearchTuner` for others.
"""

from __future__ import annotations

from typing import Any

from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.tuner import SearchTuner
from autotvm_opevo.baselines import GBFS, NA2C, NoSE


class GBFSTuner(SearchTuner):
    """Tune an AutoTVM task, all of whose knobs are splits into factors, with G-BFS (Zhang et al.
    2019); see `GBFS`.

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
    """Tune an AutoTVM task, all of whose knobs are splits into factors, with N-A2C (Zhang et al.
    2019); see `NA2C`.
    """

    def __init__(
        self, task: Task, *, steps: int = 3, seed: int | None = None, **xgb_only: Any
    ) -> None:
        super().__init__(task, lambda space: NA2C(space, steps, seed=seed), **xgb_only)


class NoSETuner(SearchTuner):
    """Tune an AutoTVM task with NoSE (Gatopoulos et al.); see `NoSE`."""

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
        super().__init__(
            task,
            lambda space: NoSE(
                space,
                population_size,
                mutation_rate=mutation_rate,
                neighbours=neighbours,
                seed=seed,
            ),
            **xgb_only,
        )
