"""OpEvo for Apache TVM: a tuner that walks on the graphs of its knobs.

`OpEvo` searches any `Space` of topologies and needs no TVM. `OpEvoTuner` does the same inside AutoTVM and is imported when
it is first touched.

Examples
--------
>>> from autotvm_opevo import OpEvo, Space
>>> from autotvm_opevo.topology import Factorization, Permutation
>>> search = OpEvo(Space({"tile": Factorization(512, parts=4), "order": Permutation(3)}), seed=0)
>>> configurations = search.ask(8)
>>> search.tell(configurations, [1.0 / c["tile"][-1] for c in configurations])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autotvm_opevo import random_walk
from autotvm_opevo._version import __version__
from autotvm_opevo.evolution import OpEvo
from autotvm_opevo.space import Space

if TYPE_CHECKING:
    from autotvm_opevo.autotvm import OpEvoTuner as OpEvoTuner

__all__ = ["OpEvo", "Space", "__version__", "random_walk"]


def __dir__() -> list[str]:
    return sorted([*globals(), "OpEvoTuner"])


def __getattr__(name: str) -> Any:
    if name == "OpEvoTuner":
        from autotvm_opevo.autotvm import OpEvoTuner

        return OpEvoTuner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
