"""Bayesian and evolutionary optimization of tensor programs, for Apache TVM and without it.

Every knob of a search space is a graph. `OpEvo` mutates configurations by random walks on these graphs and picks the most
promising candidates with a Gaussian process; it searches any `Space` and needs no TVM. `OpEvoTuner` is an AutoTVM tuner,
`tune_network` tunes a whole Relay network, and `report` summarizes logs; these three are imported on first access.
`autotvm_opevo.meta_schedule` has the same for MetaSchedule.

Examples
--------
>>> from autotvm_opevo import OpEvo, Space
>>> from autotvm_opevo.topology import Factorization, Permutation
>>> search = OpEvo(Space({"tile": Factorization(512, parts=4), "order": Permutation(3)}), seed=0)
>>> configurations = search.ask(8)
>>> search.tell(configurations, [1.0 / c["tile"][-1] for c in configurations])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from autotvm_opevo._version import __version__
from autotvm_opevo.search import random_walk
from autotvm_opevo.search.opevo import OpEvo
from autotvm_opevo.search.space import Space

if TYPE_CHECKING:
    from autotvm_opevo.autotvm import OpEvoTuner as OpEvoTuner
    from autotvm_opevo.autotvm import tune_network as tune_network
    from autotvm_opevo.reporting.report import report as report

__all__ = ["OpEvo", "Space", "__version__", "random_walk"]

# Not in `__all__`: they need TVM or the extra ``report``, and ``import *`` must work without.
_LAZY = {"OpEvoTuner": "autotvm", "report": "reporting", "tune_network": "autotvm"}


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY, "topology"])


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"autotvm_opevo.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
