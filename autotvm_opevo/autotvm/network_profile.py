"""Profile a network to see which operators tuning made slower there.

A trial times an operator alone: its weights lie where no network has them, nothing runs before it, and the transforms that its
layouts need are missing. On a CPU whose untuned operators are near their limit, that can be more than what tuning gains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.runtime.profiling import Report

from autotvm_opevo.tuning.programs import Array

# What AutoTVM has templates for, in the names of Relay's operators and of the functions that are built for them.
_TUNABLE = re.compile(r"conv[123]d|dense|matmul")
# Number of times that the networks are put into new memory, whose place alone makes a kernel faster or slower, and of runs there.
_ROUNDS, _REPEATS = 5, 3


class Call(NamedTuple):
    """A call of an operator that can have a template, in the order of the network.

    Attributes
    ----------
    operator : int or None
        Its position among the tunable ones; None if it has no template for the target.
    elements : int
        Number of elements of its output, in whichever layout.
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
        """Run it; returns the name of each function that is called, the number of elements of its output, and seconds."""
        return [
            (str(call["Name"]), _elements(str(call["Argument Shapes"])), call["Duration (us)"].microseconds / 1e6)
            for call in Report.from_json(self._profile()).calls
        ]


def find_calls(network: relay.Function, operator: Callable[[relay.Function], int | None]) -> list[Call]:
    """The calls of a network, fused and typed; `operator` returns the position of what a fused function computes."""
    found = []

    def visit(expression: relay.Expr) -> None:
        if isinstance(expression, relay.Call) and isinstance(expression.op, relay.Function) and find_tunable(expression.op):
            kind = expression.checked_type
            elements = prod(map(int, kind.shape)) if isinstance(kind, relay.TensorType) else 0
            found.append(Call(operator(expression.op), elements))

    relay.analysis.post_order_visit(network, visit)
    return found


def find_tunable(function: relay.Function) -> relay.Call | None:
    """The call within a fused function, which has at most one, for which AutoTVM can have templates; None without one."""
    found = []

    def visit(expression: relay.Expr) -> None:
        if isinstance(expression, relay.Call) and isinstance(expression.op, tvm.ir.Op) and _TUNABLE.search(expression.op.name):
            found.append(expression)

    relay.analysis.post_order_visit(function.body, visit)
    return found[0] if found else None


def find_slower(
    untuned: Callable[[], ProfiledInstance],
    tuned: Callable[[], ProfiledInstance],
    calls: Sequence[Call],
    parts: Sequence[int],
) -> list[int]:
    """The operators, by position, of the parts that take longer in the tuned network than in the untuned one.

    Parameters
    ----------
    untuned, tuned : callable
        Put the network into newly allocated memory.
    calls : sequence of Call
        Of the network.
    parts : sequence of int
        The part of each operator. What is not tunable counts to the operator before it.

    Returns
    -------
    list of int
        Empty if the networks do not call what `calls` says.
    """
    ratios = []
    for _ in range(_ROUNDS):
        instances = [untuned(), tuned()]
        rows: list[list[Array]] = [[], []]
        for _ in range(1 + _REPEATS):
            for row, instance in zip(rows, instances):
                seconds = _by_part(instance.calls(), calls, parts)
                if seconds is None:
                    return []
                row.append(seconds)
        before, after = (np.median(row[1:], axis=0) for row in rows)  # the first run has no warm caches
        ratios.append(np.log(after / before))
    slower = np.mean(ratios, axis=0) > 0
    return [i for i, part in enumerate(parts) if slower[part]]


def _by_part(timed: Sequence[tuple[str, int, float]], calls: Sequence[Call], parts: Sequence[int]) -> Array | None:
    """Seconds of each part in a run; None if it does not consist of the calls."""
    found = [bool(_TUNABLE.search(name)) for name, _, _ in timed]
    if [elements for (_, elements, _), one in zip(timed, found) if one] != [call.elements for call in calls]:
        return None
    seconds = np.zeros(1 + max(parts))
    for (_, _, duration), number in zip(timed, accumulate(found)):
        operator = calls[max(0, number - 1)].operator
        if operator is not None:
            seconds[parts[operator]] += duration
    return seconds


def _elements(shapes: str) -> int:
    """Number of elements of the last of a call's arguments, its output, as in ``"float32[1, 8], float32[1, 4]"``."""
    found = re.findall(r"\[([^\]]*)\]", shapes)
    return prod(int(extent) for extent in found[-1].split(",") if extent.strip()) if found else 0
