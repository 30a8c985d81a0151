"""OpEvo for Apache TVM: a tuner that walks on the graphs of its knobs.

`OpEvo` searches any `Space` of topologies and needs no TVM. `OpEvoTuner` does the same inside AutoTVM, and `tune_network` gives
it a whole Relay network; `report` shows what tuning has found. They are imported when they are first touched.

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
    from autotvm_opevo.reporting import report as report

__all__ = ["OpEvo", "Space", "__version__", "random_walk"]


_NEED_MORE = {"OpEvoTuner": "autotvm", "report": "reporting", "tune_network": "autotvm"}


def __dir__() -> list[str]:
    return sorted([*globals(), *_NEED_MORE])


def __getattr__(name: str) -> Any:
    if name in _NEED_MORE:
        return getattr(import_module(f"autotvm_opevo.{_NEED_MORE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
