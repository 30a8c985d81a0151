"""Profile a network to see which operators tuning made slower there.

A trial times an operator alone: its weights lie where no network has them, nothing runs before it,
and the transforms that its layouts need are missing. On a CPU whose untuned operators are near
their limit, that can be more than what tuning gains.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.runtime.profiling import Report

from autotvm_opevo._utils.timeouts import run_with_timeout
from autotvm_opevo.tuning.programs import Array

# What AutoTVM has templates for, in the names of Relay's operators and of the functions that are
# built for them.
_TUNABLE = re.compile(r"conv[123]d|dense|matmul|correlation|scatter_elements")
# Number of times that the networks are put into new memory, whose place alone makes a kernel faster
# or slower, and how often they are profiled there, each time after three runs.
_ROUNDS, _REPEATS = 5, 3
# Seconds after which a round hangs, and that it has to end after Ctrl-C. After so many seconds no
# further round is begun.
_ROUND_TIMEOUT, _GRACE, _SECONDS = 300.0, 5.0, 60.0


class Call(NamedTuple):
    """A call of an operator that can have a template, in the order of the network.

    Attributes
    ----------
    operator : int or None
        Its position among the tunable ones; None if it has no template for the target.
    elements : int
        Number of elements of its output, in whichever layout; 0 if unknown.
    """

    operator: int | None
    elements: int


class ProfiledInstance:
    """A built network in newly allocated memory of a device, whose operators can be timed."""

    def __init__(self, library: Any, device: tvm.runtime.Device, inputs: dict[str, Array]) -> None:
        module = library["debug_create"]("default", device)
        graph_executor.GraphModule(module).set_input(**inputs)
        self._profile = module["profile_rpc"]

    def calls(self) -> list[tuple[str, int, float]]:
        """Run it; returns the name of each function that is called, the number of elements of its
        output, and seconds.
        """
        return [
            (
                str(call["Name"]),
                _elements(str(call["Argument Shapes"])),
                call["Duration (us)"].microseconds / 1e6,
            )
            for call in Report.from_json(self._profile()).calls
        ]


def find_calls(
    network: relay.Function, operator: Callable[[relay.Function], int | None]
) -> list[Call]:
    """The calls of a network, fused and typed; `operator` returns the position of what a fused
    function computes.
    """
    found = []

    def visit(expression: relay.Expr) -> None:
        if (
            isinstance(expression, relay.Call)
            and isinstance(expression.op, relay.Function)
            and find_tunable(expression.op)
        ):
            kind = expression.checked_type
            known = isinstance(kind, relay.TensorType) and all(
                isinstance(extent, tvm.tir.IntImm) for extent in kind.shape
            )
            found.append(Call(operator(expression.op), prod(map(int, kind.shape)) if known else 0))

    relay.analysis.post_order_visit(network, visit)
    return found


def find_tunable(function: relay.Function) -> relay.Call | None:
    """The call within a fused function, which has at most one, for which AutoTVM can have
    templates; None without one.
    """
    found = []

    def visit(expression: relay.Expr) -> None:
        if (
            isinstance(expression, relay.Call)
            and isinstance(expression.op, tvm.ir.Op)
            and _TUNABLE.search(expression.op.name)
        ):
            found.append(expression)

    relay.analysis.post_order_visit(function.body, visit)
    return found[0] if found else None


def find_slower(
    untuned: Callable[[], ProfiledInstance],
    tuned: Callable[[], ProfiledInstance],
    calls: Sequence[Call],
    parts: Sequence[int],
) -> list[int]:
    """The operators, by position, of the parts that take longer in the tuned network than in the
    untuned one.

    Parameters
    ----------
    untuned, tuned : callable
        Put the network into newly allocated memory.
    calls : sequence of Call
        Of the network.
    parts : sequence of int
        The part of each operator. What is not tunable counts to the operator before it.

    Raises
    ------
    RuntimeError
        If the networks do not call what `calls` says.
    TimeoutError
        If the device does not answer.
    """
    ratios: list[Array] = []
    end = time.monotonic() + _SECONDS
    while len(ratios) < _ROUNDS and (not ratios or time.monotonic() < end):
        # whatever comes first is in another place
        order = [untuned, tuned] if len(ratios) % 2 else [tuned, untuned]

        def profile(order: Sequence[Callable[[], ProfiledInstance]] = order) -> Array:
            instances = {network: network() for network in order}
            rows = [
                {network: _by_part(one.calls(), calls, parts) for network, one in instances.items()}
                for _ in range(_REPEATS)
            ]
            before, after = (
                np.median([row[network] for row in rows], axis=0) for network in (untuned, tuned)
            )
            ratio: Array = np.divide(after, before, out=np.ones_like(after), where=before > 0)
            return np.log(ratio)

        ratios.append(
            run_with_timeout(_ROUND_TIMEOUT, profile, "the device to profile the networks", _GRACE)
        )
    slower = np.mean(ratios, axis=0) > 0
    return [i for i, part in enumerate(parts) if slower[part]]


def _by_part(
    timed: Sequence[tuple[str, int, float]], calls: Sequence[Call], parts: Sequence[int]
) -> Array:
    """Seconds of each part in a run."""
    found = [bool(_TUNABLE.search(name)) for name, _, _ in timed]
    if not calls or [elements for (_, elements, _), one in zip(timed, found) if one] != [
        call.elements for call in calls
    ]:
        raise RuntimeError("a built network has other calls than the network that was extracted")
    seconds = np.zeros(1 + max(parts))
    for (_, _, duration), number in zip(timed, accumulate(found)):
        operator = calls[max(0, number - 1)].operator
        if operator is not None:
            seconds[parts[operator]] += duration
    return seconds


def _elements(shapes: str) -> int:
    """Number of elements of the last of a call's arguments, its output, as in ``"float32[1, 8],
    float32[1, 4]"``.
    """
    found = re.findall(r"\[([^\]]*)\]", shapes)
    return prod(int(extent) for extent in found[-1].split(",") if extent.strip()) if found else 0
