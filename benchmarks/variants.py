"""Variants of the surrogate for the ablation."""

from __future__ import annotations

from collections.abc import Callable

from tvm.autotvm.tuner import Tuner

TUNERS: dict[str, Callable[..., Tuner]] = {}
