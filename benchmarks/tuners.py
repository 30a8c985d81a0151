"""The tuners under comparison, each at its defaults."""

from __future__ import annotations

import json
import logging
import random
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, ClassVar
from unittest import mock

import numpy as np
from tvm import autotvm
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import SplitSpace
from tvm.autotvm.tuner import Tuner, xgboost_cost_model
from tvm.contrib.popen_pool import MapResult, StatusKind

from autotvm_opevo.autotvm import GBFSTuner, NA2CTuner, NoSETuner, OpEvoTuner, history
from autotvm_opevo.autotvm import tuner as tuner_module
from autotvm_opevo.search.transfer import Source
from benchmarks import variants


class LeftOutTuner(OpEvoTuner):
    """OpEvo without the bundled records of convolutions larger than 1x1."""

    def learn_from(self, sources: Sequence[Source]) -> list[Source]:
        kept = [one for one in history.prior(self.task) if "unroll_kw" not in one.space.knobs]
        with mock.patch.object(tuner_module, "prior", return_value=kept):
            return super().learn_from(sources)


NO_TRANSFER, LEFT_OUT = "OpEvo-no-transfer", "OpEvo-left-out"
OWN: dict[str, Callable[..., Tuner]] = {
    "OpEvo": OpEvoTuner,
    NO_TRANSFER: partial(OpEvoTuner, transfer=False),
    LEFT_OUT: LeftOutTuner,
    "OpEvo-published": partial(OpEvoTuner, surrogate=None),
    "G-BFS": GBFSTuner,
    "N-A2C": NA2CTuner,
    "NoSE": NoSETuner,
}
AUTOTVM: dict[str, Callable[..., Tuner]] = {
    "XGB": autotvm.tuner.XGBTuner,
    "GA": autotvm.tuner.GATuner,
    "Random": autotvm.tuner.RandomTuner,
    "Grid": autotvm.tuner.GridSearchTuner,
    "Droplet": autotvm.tuner.DropletTuner,
}
NAMES = [*OWN, *AUTOTVM]


def make(name: str, task: Task, seed: int) -> Tuner:
    """Create a tuner.

    Parameters
    ----------
    name : str
        One of `NAMES` or of the variants, optionally followed by options, as in ``"OpEvo
        mutation_rate=0.3"``.
    task : tvm.autotvm.task.Task
        A task that the tuner `handles`.
    seed : int
        Seeds the tuner, and the global generators that AutoTVM's own tuners draw from.
    """
    kind, *settings = name.split()
    options = {
        option: json.loads(value) for option, value in (setting.split("=") for setting in settings)
    }
    # With the same seed, all of OpEvo and the variants start from the same random configurations.
    opevo = kind.startswith("OpEvo") or kind in variants.TUNERS
    own = zlib.crc32(f"{'OpEvo' if opevo else kind} {seed}".encode())
    random.seed(own)
    np.random.seed(own)  # noqa: NPY002  the generator that AutoTVM's tuners use
    ours = OWN.get(kind) or variants.TUNERS.get(kind)
    tuner = ours(task, seed=own, **options) if ours else AUTOTVM[kind](task, **options)
    # after 150 consecutive failures AutoTVM would print every trial
    tuner.set_error_threshold(float("inf"))
    return tuner


def handles(name: str, task: Task) -> bool:
    """Whether a tuner supports a task's space: G-BFS and N-A2C support splits only."""
    knobs = task.config_space.space_map.values()
    return name not in ("G-BFS", "N-A2C") or all(isinstance(knob, SplitSpace) for knob in knobs)


class Stopwatch:
    """Accumulate the time that a tuner itself takes.

    Parameters
    ----------
    tuner : tvm.autotvm.tuner.Tuner
    clock : callable
        Returns seconds. ``time.process_time`` counts only this process and is thus independent of
        the machine's load.

    Attributes
    ----------
    seconds : float
        Spent in ``has_next``, ``next_batch`` and ``update``.
    proposed : float
        The value of `seconds` when the latest batch was proposed.
    """

    def __init__(self, tuner: Tuner, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds = self.proposed = 0.0
        self._clock = clock
        self._running = False
        for method in ("has_next", "next_batch", "update"):
            setattr(tuner, method, self._timed(method, getattr(tuner, method)))

    def _timed(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if self._running:  # one of them calls another
                return method(*arguments)
            self._running, start = True, self._clock()
            try:
                return method(*arguments)
            finally:
                self.seconds += self._clock() - start
                self._running = False
                if name == "next_batch":
                    self.proposed = self.seconds

        return call


def in_process_features() -> AbstractContextManager[Any]:
    """Let XGBTuner extract features in this process, and cache them for later runs on the same
    task.

    It otherwise starts worker processes each time it trains, which is most of the time of a replay.
    The features are the same.
    """
    return mock.patch.object(xgboost_cost_model, "PopenPoolExecutor", _InProcessExecutor)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence AutoTVM's messages about trials and tuners."""
    logger = logging.getLogger("autotvm")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


class _InProcessExecutor:
    """The part of TVM's ``PopenPoolExecutor`` that XGBTuner uses."""

    _cache: ClassVar[dict[Any, dict[tuple[str, int], Any]]] = {}

    def __init__(
        self, max_workers: int | None, initializer: Callable[..., None], initargs: tuple[Any, ...]
    ) -> None:
        initializer(*initargs)
        task = initargs[-1]
        self._features = self._cache.setdefault((task.name, task.args, str(task.target)), {})

    def map_with_error_catching(
        self, function: Callable[[int], Any], numbers: list[int]
    ) -> list[Any]:
        return [self._call(function, int(number)) for number in numbers]

    def _call(self, function: Callable[[int], Any], number: int) -> Any:
        key = (function.__name__, number)
        if key not in self._features:
            try:
                self._features[key] = MapResult(StatusKind.COMPLETE, function(number))
            except Exception as error:
                self._features[key] = MapResult(StatusKind.EXCEPTION, error)
        return self._features[key]
