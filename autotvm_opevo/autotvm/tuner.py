"""OpEvo as an AutoTVM tuner."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tvm.autotvm.task import Task
from tvm.autotvm.tuner import Tuner

from autotvm_opevo.autotvm.search_tuner import SearchTuner
from autotvm_opevo.search.opevo import OpEvo

# A tuner class of AutoTVM, or any function from a task to a tuner.
TunerFactory = Callable[..., Tuner]


class OpEvoTuner(SearchTuner):
    """Tune an AutoTVM task with OpEvo (Algorithm 1): no feature extraction, no pre-training, no
    repeated measurement.

    A drop-in replacement for ``autotvm.tuner.XGBTuner``; callbacks, builders and runners are
    AutoTVM's.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
        Task to tune.
    plan_size : int, optional
        XGBTuner's second positional parameter; ignored with a warning, once per process.
    parents_size : int
        lambda: number of configurations that reproduce.
    offspring_size : int
        rho: number of children per generation.
    mutation_rate : float
        q, 0 < q < 1: near 0 exploits good configurations, near 1 explores.
    surrogate : {"gp", None}
        A Gaussian process that selects among the children, or None for OpEvo as published; see
        `OpEvo`.
    transfer : bool
        Whether to learn from other tasks of the same template: those of records that `load_history`
        gets, and on a CPU the bundled tuning records. Needs ``surrogate="gp"``.
    seed : int, optional
        The same seed and the same measurements give the same proposals. Drawn at random by default.
    **xgb_only
        Options of XGBTuner that do not apply; ignored with a warning, once per process.

    Attributes
    ----------
    seed : int
        As given, or drawn at random.
    best_loaded : (MeasureInput, MeasureResult) or None
        Fastest record that `load_history` took.

    Raises
    ------
    TypeError
        If an option is unknown to both this tuner and XGBTuner.
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from tvm import autotvm, te
    >>> from autotvm_opevo import OpEvoTuner
    >>> tensors = te.placeholder((64, 64)), te.placeholder((64, 64))
    >>> task = autotvm.task.create("dense_nopack.x86", (*tensors, None, "float32"), "llvm")
    >>> tuner = OpEvoTuner(task, seed=0)
    >>> len(tuner.next_batch(8))
    8
    """

    def __init__(
        self,
        task: Task,
        plan_size: int | None = None,
        *,
        parents_size: int = 8,
        offspring_size: int = 8,
        mutation_rate: float = 0.5,
        surrogate: str | None = "gp",
        transfer: bool = True,
        seed: int | None = None,
        **xgb_only: Any,
    ) -> None:
        options = parents_size, offspring_size, mutation_rate, seed, surrogate
        if plan_size is not None:
            xgb_only["plan_size"] = plan_size
        super().__init__(task, lambda space: OpEvo(space, *options), **xgb_only)
        self.transfer = transfer


def takes_seed(make_tuner: TunerFactory) -> bool:
    """Whether its tuners take a seed; AutoTVM's draw from the global generator."""
    return "seed" in inspect.signature(make_tuner).parameters


def may_refuse_knobs(make_tuner: TunerFactory) -> bool:
    """Whether its tuners may search some spaces only."""
    made = getattr(make_tuner, "func", make_tuner)  # of a partial
    return (
        isinstance(made, type)
        and issubclass(made, SearchTuner)
        and not issubclass(made, OpEvoTuner)
    )


def can_learn(make_tuner: TunerFactory) -> bool:
    """Whether its tuners may learn from other tasks: of a function, nobody knows."""
    made, options = getattr(make_tuner, "func", make_tuner), getattr(make_tuner, "keywords", {})
    if not isinstance(made, type):
        return True
    return (
        issubclass(made, OpEvoTuner)
        and options.get("surrogate", "gp") == "gp"
        and options.get("transfer", True)
    )
