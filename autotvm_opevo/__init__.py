"""Bayesian and evolutionary optimization of tensor programs, for Apache TVM and without it.

Every knob of a search space is a graph. `OpEvo` mutates configurations by random walks on these
graphs and picks the most promising candidates with a Gaussian process; it searches any `Space` and
needs no TVM. `OpEvoTuner` is an AutoTVM tuner, `tune_network` tunes a whole Relay network, and
`report` summarizes logs; all are imported on first access. `autotvm_opevo.meta_schedule` has the
same for MetaSchedule.

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

from autotvm_opevo._utils import affinity as _affinity  # noqa: F401 it has to be known now
from autotvm_opevo._version import __version__

# as in `typing`, which takes milliseconds to import, in which Ctrl-C would not be quiet yet
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from autotvm_opevo._utils.cpu_cores import use_all_cores as use_all_cores
    from autotvm_opevo.autotvm import OpEvoTuner as OpEvoTuner
    from autotvm_opevo.autotvm import tune_network as tune_network
    from autotvm_opevo.reporting.page import report as report
    from autotvm_opevo.search import random_walk as random_walk
    from autotvm_opevo.search.opevo import OpEvo as OpEvo
    from autotvm_opevo.search.space import Space as Space

__all__ = ["OpEvo", "Space", "__version__", "random_walk", "use_all_cores"]

# Imported on first access: the command must end quietly on Ctrl-C from its first moment, and
# importing scipy takes longer than that. The last three are not in `__all__`: they need TVM or the
# extra ``report``, and ``import *`` must work without.
_LAZY = {
    "OpEvo": "search.opevo",
    "Space": "search.space",
    "random_walk": "search",
    "use_all_cores": "_utils.cpu_cores",
    "OpEvoTuner": "autotvm",
    "report": "reporting.page",
    "tune_network": "autotvm",
}


def __dir__() -> list[str]:
    return sorted({*__all__, *_LAZY, "topology"})


def __getattr__(name: str) -> Any:
    if name == "topology":
        return import_module("autotvm_opevo.topology")
    if name in _LAZY:
        return getattr(import_module(f"autotvm_opevo.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
