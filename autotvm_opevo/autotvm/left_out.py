"""What of a network AutoTVM has no template for, and whether it would have one in another
layout.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

import tvm
from tvm import relay
from tvm.relay.ty import is_dynamic

# Operators that take most of the time of networks, and that have templates for some targets.
_HEAVY = re.compile(r"conv[123]d|dense|matmul")
# The layout with channels first, by the dimensions of a convolution.
_CONVOLUTION, _LAYOUTS = re.compile(r"conv([123])d"), {"1": "NCW", "2": "NCHW", "3": "NCDHW"}


def describe_left_out(
    calls: Iterable[tuple[relay.Call, int]],
    mod: tvm.IRModule,
    has_template: Callable[[tvm.IRModule], bool],
) -> str:
    """Operators without a template, in words, and how to convert the network so that they have one;
    empty if there are none.

    Parameters
    ----------
    calls : iterable of (relay.Call, int)
        Operators without a template, typed, and how often the network has each.
    mod : tvm.IRModule
        The network, before the compiler changes its operators.
    has_template : callable
        Whether there is one for the operator of a module.
    """
    counts: Counter[str] = Counter()
    # the one in which there would be a template, or none, by description: shapes do not matter
    layouts: dict[str, str] = {}
    for call, count in calls:
        if _HEAVY.search(call.op.name):
            what = _describe(call)
            counts[what] += count
            if what not in layouts:
                layouts[what] = _better_layout(call, has_template)
    text = ", ".join(f"{count} {what}" for what, count in counts.items())
    if not any(layouts.values()):
        return text
    converted: Counter[str] = Counter()
    for what, count in counts.items():
        converted[layouts[what]] += count
    would = " and ".join(
        f"{count} would have one in {layout}" for layout, count in converted.items() if layout
    )
    command = (
        " (of a model file on the command line, with --layout NCHW)" if "NCHW" in converted else ""
    )
    return (
        f"{text}. Of them, {would}. To convert the network before it is tuned{command}:\n"
        "    with tvm.transform.PassContext(opt_level=3):\n"
        "        mod = "
        f"tvm.transform.Sequential([relay.transform.ConvertLayout({_convertible(mod)})])(mod)"
    )


def _describe(call: relay.Call) -> str:
    """An operator, and what decides whether it has a template."""
    layout, groups = getattr(call.attrs, "data_layout", ""), int(getattr(call.attrs, "groups", 1))
    dtype = call.args[0].checked_type.dtype
    return (
        str(call.op.name)
        + (f" in {layout}" if layout else "")
        + (f" of {dtype}" if dtype != "float32" else "")
        + (f" with {groups} groups" if groups > 1 else "")
        + (" of unknown shape" if _is_open(call) else "")
    )


def _is_open(call: relay.Call) -> bool:
    return any(is_dynamic(one.checked_type) for one in [*call.args, call])


def _better_layout(call: relay.Call, has_template: Callable[[tvm.IRModule], bool]) -> str:
    """The layout in which an operator would have a template; empty if there is none."""
    if _is_open(call) or not _is_convertible(call):
        return ""
    inputs = [
        relay.var(f"p{i}", type_annotation=one.checked_type) for i, one in enumerate(call.args)
    ]
    alone = tvm.IRModule.from_expr(relay.Function(inputs, relay.Call(call.op, inputs, call.attrs)))
    with tvm.transform.PassContext(opt_level=3):
        converted = tvm.transform.Sequential([relay.transform.ConvertLayout(_convertible(alone))])(
            alone
        )
    return _layout(call.op.name) if has_template(converted) else ""


def _convertible(mod: tvm.IRModule) -> dict[str, list[str]]:
    """The layouts of data and weights that convolutions should have, by operator, as
    ``ConvertLayout`` takes them.
    """
    names: set[str] = set()

    def visit(expression: relay.Expr) -> None:
        if isinstance(expression, relay.Call) and _is_convertible(expression):
            names.add(expression.op.name)

    relay.analysis.post_order_visit(mod["main"], visit)
    return {name: [_layout(name), "default"] for name in sorted(names)}


def _is_convertible(call: relay.Call) -> bool:
    """Whether an operator is a convolution whose layout TVM can convert."""
    is_convolution = (
        isinstance(call.op, tvm.ir.Op)
        and _CONVOLUTION.search(call.op.name)
        and hasattr(call.attrs, "data_layout")
    )
    return bool(is_convolution) and call.op.get_attr("FTVMConvertOpLayout") is not None


def _layout(name: str) -> str:
    """The layout with channels first of a convolution."""
    found = _CONVOLUTION.search(name)
    return _LAYOUTS[found[1]] if found else ""
