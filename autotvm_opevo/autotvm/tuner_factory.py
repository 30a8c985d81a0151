"""What is known of a tuner before it is made, from the class or the function that makes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from tvm.autotvm.tuner import Tuner

from autotvm_opevo.autotvm.search_tuner import SearchTuner
from autotvm_opevo.autotvm.tuner import OpEvoTuner

# A tuner class of AutoTVM, or any function from a task to a tuner.
TunerFactory = Callable[..., Tuner]


def takes_seed(make_tuner: TunerFactory) -> bool:
    """Whether its tuners take a seed; AutoTVM's draw from the global generator."""
    return "seed" in inspect.signature(make_tuner).parameters


def may_refuse_knobs(make_tuner: TunerFactory) -> bool:
    """Whether its tuners may search some spaces only."""
    made, _ = _unwrap(make_tuner)
    return (
        isinstance(made, type)
        and issubclass(made, SearchTuner)
        and not issubclass(made, OpEvoTuner)
    )


def can_learn(make_tuner: TunerFactory) -> bool:
    """Whether its tuners may learn from other tasks: of a function, nobody knows."""
    made, options = _unwrap(make_tuner)
    if not isinstance(made, type):
        return True
    return (
        issubclass(made, OpEvoTuner)
        and options.get("surrogate", "gp") == "gp"
        and options.get("transfer", True)
    )


def _unwrap(make_tuner: TunerFactory) -> tuple[Any, dict[str, Any]]:
    """What a partial calls, and with which options."""
    return (
        (make_tuner.func, make_tuner.keywords)
        if isinstance(make_tuner, partial)
        else (make_tuner, {})
    )
