"""The tuners that are compared, each at its defaults."""

from __future__ import annotations

import json
import logging
import random
import time
import zlib
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from tvm import autotvm
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import SplitSpace
from tvm.autotvm.tuner import Tuner, xgboost_cost_model
from tvm.contrib.popen_pool import MapResult, StatusKind

from autotvm_opevo.autotvm import GBFSTuner, NA2CTuner, NoSETuner, OpEvoTuner
from benchmarks import variants

OWN: dict[str, Callable[..., Tuner]] = {"OpEvo": OpEvoTuner, "G-BFS": GBFSTuner, "N-A2C": NA2CTuner, "NoSE": NoSETuner}
AUTOTVM: dict[str, Callable[..., Tuner]] = {
    "XGB": autotvm.tuner.XGBTuner,
    "GA": autotvm.tuner.GATuner,
    "Random": autotvm.tuner.RandomTuner,
    "Grid": autotvm.tuner.GridSearchTuner,
    "Droplet": autotvm.tuner.DropletTuner,
}
QWALK = 'OpEvo surrogate="q-walk"'
NAMES = [QWALK, *OWN, *AUTOTVM]


def make(name: str, task: Task, seed: int) -> Tuner:
    """A tuner at its defaults.

    Parameters
    ----------
    name : str
        One of `NAMES`; options may follow, as in ``"OpEvo mutation_rate=0.3"``.
    task : tvm.autotvm.task.Task
        One that the tuner `handles`.
    seed : int
        AutoTVM's own tuners draw from the global generators, each tuner from a place of its own.
    """
    kind, *settings = name.split()
    options = {option: json.loads(value) for option, value in (setting.split("=") for setting in settings)}
    own = zlib.crc32(f"{kind} {seed}".encode())
    random.seed(own)
    np.random.seed(own)  # noqa: NPY002  it is what they use
    ours = OWN.get(kind) or variants.TUNERS.get(kind)
    tuner = ours(task, seed=own, **options) if ours else AUTOTVM[kind](task, **options)
    tuner.set_error_threshold(float("inf"))  # after 150 failures in a row AutoTVM would begin to print every trial
    return tuner


def handles(name: str, task: Task) -> bool:
    """Whether a tuner can search a task's space: G-BFS and N-A2C know nothing but splits."""
    knobs = task.config_space.space_map.values()
    return name not in ("G-BFS", "N-A2C") or all(isinstance(knob, SplitSpace) for knob in knobs)


def batch(name: str) -> int:
    """How many configurations at once: Droplet's own default is 16, and with less it misses most directions."""
    return 16 if name == "Droplet" else 8


class Stopwatch:
    """The seconds that a tuner takes for itself.

    Attributes
    ----------
    seconds : float
    """

    def __init__(self, tuner: Tuner) -> None:
        self.seconds = 0.0
        self._running = False
        for method in ("has_next", "next_batch", "update"):
            setattr(tuner, method, self._timed(getattr(tuner, method)))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if self._running:  # one of them calls another
                return function(*arguments)
            self._running, start = True, time.perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.perf_counter() - start
                self._running = False

        return call


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


@contextmanager
def quiet() -> Any:
    """Without AutoTVM's words on every trial and tuner."""
    logger = logging.getLogger("autotvm")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


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
