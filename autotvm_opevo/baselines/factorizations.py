"""The search spaces of Zhang et al., products of factorizations, and where searches start."""

from __future__ import annotations

from typing import cast

from autotvm_opevo.search.space import Configuration, Space
from autotvm_opevo.topology import Factorization


def require_factorizations(space: Space, method: str) -> dict[str, Factorization]:
    """Return the knobs of a space of factorizations; raises `ValueError` if there are other knobs,
    or none.

    >>> require_factorizations(Space({"tile": Factorization(8, parts=2)}), "G-BFS")
    {'tile': Factorization(8, parts=2)}
    """
    others = [
        f"{name!r} is a {type(knob).__name__}"
        for name, knob in space.knobs.items()
        if not isinstance(knob, Factorization)
    ]
    if others or not space.knobs:
        raise ValueError(
            f"{method} only moves prime factors between the parts of a loop: every knob of its "
            "space must be a Factorization, and there must be at least one; "
            f"{', '.join(others) or 'no knobs'} given. OpEvo and NoSE search any space"
        )
    return cast(dict[str, Factorization], space.knobs)


def untiled(space: Space) -> Configuration:
    """Return the configuration without multi-level tiling, [N, 1, ..., 1], of a space of
    factorizations (appendix B).

    >>> untiled(Space({"tile": Factorization(8, parts=3), "k": Factorization(7, parts=1)}))
    {'tile': (8, 1, 1), 'k': (7,)}
    """
    knobs = cast(dict[str, Factorization], space.knobs)
    return {name: (knob.product, *[1] * (knob.parts - 1)) for name, knob in knobs.items()}
