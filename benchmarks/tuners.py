"""The tuners that are compared, each at its defaults."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from tvm import autotvm
from tvm.autotvm.task import Task
from tvm.autotvm.tuner import Tuner, xgboost_cost_model
from tvm.contrib.popen_pool import MapResult, StatusKind

from autotvm_opevo.autotvm import GBFSTuner, NA2CTuner, NoSETuner, OpEvoTuner

OWN: dict[str, Callable[..., Tuner]] = {"OpEvo": OpEvoTuner, "G-BFS": GBFSTuner, "N-A2C": NA2CTuner, "NoSE": NoSETuner}
AUTOTVM: dict[str, Callable[..., Tuner]] = {
    "XGB": autotvm.tuner.XGBTuner,
    "GA": autotvm.tuner.GATuner,
    "Random": autotvm.tuner.RandomTuner,
    "Grid": autotvm.tuner.GridSearchTuner,
    "Droplet": autotvm.tuner.DropletTuner,
}
NAMES = [*OWN, *AUTOTVM]


def make(name: str, task: Task, seed: int, lowered: bool = True) -> Tuner:
    """A tuner at its defaults.

    Parameters
    ----------
    name : str
        One of `NAMES`; options may follow, as in ``"OpEvo mutation_rate=0.3"``.
    task : tvm.autotvm.task.Task
    seed : int
        Also of the global generators, which AutoTVM's own tuners draw from.
    lowered : bool
        Whether the task can be lowered; if not, XGBTuner sees the knobs instead of the loops.

    Raises
    ------
    ValueError
        If the tuner cannot handle the task's space.
    """
    name, *settings = name.split()
    options = {option: json.loads(value) for option, value in (setting.split("=") for setting in settings)}
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  it is what they use
    if name in OWN:
        return OWN[name](task, seed=seed, **options)
    if name == "XGB" and not lowered:
        options = {"feature_type": "knob", **options}
    return AUTOTVM[name](task, **options)


@contextmanager
def features_in_this_process() -> Any:
    """XGBTuner takes features in worker processes, which start anew whenever it trains: in a replay that is most of its time.

    In here it takes the same features in this process, and keeps them for the next run on the same task.
    """
    before = xgboost_cost_model.PopenPoolExecutor
    xgboost_cost_model.PopenPoolExecutor = _ThisProcess
    try:
        yield
    finally:
        xgboost_cost_model.PopenPoolExecutor = before


class _ThisProcess:
    """What XGBTuner needs of TVM's pool."""

    _kept: ClassVar[dict[Any, dict[int, Any]]] = {}

    def __init__(self, max_workers: int | None, initializer: Callable[..., None], initargs: tuple[Any, ...]) -> None:
        initializer(*initargs)
        task = initargs[-1]
        self._features = self._kept.setdefault((task.name, task.args, str(task.target)), {})

    def map_with_error_catching(self, function: Callable[[int], Any], numbers: list[int]) -> list[Any]:
        return [self._call(function, int(number)) for number in numbers]

    def _call(self, function: Callable[[int], Any], number: int) -> Any:
        key = (function.__name__, number)
        if key not in self._features:
            try:
                self._features[key] = MapResult(StatusKind.COMPLETE, function(number))
            except Exception as error:
                self._features[key] = MapResult(StatusKind.EXCEPTION, error)
        return self._features[key]
