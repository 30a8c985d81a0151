"""Where Zhang et al. start, and the only spaces they know: products of factorizations."""

from __future__ import annotations

from typing import cast

from autotvm_opevo.search.space import Configuration, Space
from autotvm_opevo.topology import Factorization


def factorizations(space: Space, who: str) -> dict[str, Factorization]:
    """The knobs of a space of nothing but factorizations; raises `ValueError` for any other."""
    others = [f"{name!r} is a {type(knob).__name__}" for name, knob in space.knobs.items() if not isinstance(knob, Factorization)]
    if others or not space.knobs:
        raise ValueError(
            f"{who} moves prime factors between the parts of a loop, and nothing else: its space must have factorizations only, "
            f"and at least one; {', '.join(others) or 'no knobs'} given. OpEvo and NoSE search any space"
        )
    return cast(dict[str, Factorization], space.knobs)


def untiled(space: Space) -> Configuration:
    """The configuration without multi-level tiling, [N, 1, ..., 1], of a space of factorizations (appendix B)."""
    knobs = cast(dict[str, Factorization], space.knobs)
    return {name: (knob.product, *[1] * (knob.parts - 1)) for name, knob in knobs.items()}
