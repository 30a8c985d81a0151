"""Extraction of a Relay network's AutoTVM tasks, how often the network runs each operator, and for
which others AutoTVM has no template.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from traceback import walk_tb
from typing import NamedTuple

import tvm
from tvm import autotvm, relay, te
from tvm.autotvm.task import Task, relay_integration
from tvm.autotvm.tophub import AUTOTVM_TOPHUB_LOC_VAR, AUTOTVM_TOPHUB_NONE_LOC
from tvm.relay.ty import is_dynamic

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.autotvm.folding import nodes, operator_name
from autotvm_opevo.tuning.task_scheduler import Operator

# Relay's operators that AutoTVM has templates for.
_TUNABLE = re.compile(r"conv[123]d|dense|matmul|correlation|scatter_elements")
# Operators that take most of the time of networks, and that have templates for some targets.
_HEAVY = re.compile(r"conv[123]d|dense|matmul")

logger = logging.getLogger(__name__)


class Extraction(NamedTuple):
    """What a network consists of."""

    tasks: list[Task]  # in network order
    # Tunable ones. A dense layer on a CPU, for example, has two tasks, and the compiler uses the
    # faster one; the first if neither is tuned.
    operators: list[Operator]
    # In words: the convolutions, dense layers and the like without a template, and what helps; and
    # what only TVM's VM can run, since the graph executor cannot. Empty if there is nothing.
    left_out: str
    only_vm: str


def extract(mod: tvm.IRModule, target: tvm.target.Target) -> Extraction:
    """Extract a network's tasks, one for each distinct workload, and the operators that they
    implement; a `ValueError` if there are none.

    AutoTVM's own extraction does not tell which tasks implement the same operator, nor how often it
    runs. So the network is fused as the compiler does, and AutoTVM's extraction is applied to each
    distinct fused function, which has at most one tunable operator: the tasks it finds are
    alternative implementations of that operator. Operators whose shape depends on data are left
    alone; what a loop or a branch has counts once.
    """
    with (
        autotvm.apply_history_best([]),  # without a context, TVM would download records
        # before the compiler chooses layouts, which depend on the tuning results
        tvm.transform.PassContext(opt_level=3, disabled_pass={"AlterOpLayout"}),
    ):
        network, _ = relay.optimize(mod, target=target)
    tasks: dict[tuple[object, ...], Task] = {}
    counts: dict[tuple[tuple[object, ...], ...], int] = {}
    others: list[tuple[relay.Call, int]] = []
    with autotvm.apply_history_best([]), _failures() as failures:
        for function, count in _fused(network):
            alternatives: list[Task] = []
            if not _is_open(*function.params, function.body):
                alternatives = autotvm.task.extract_from_program(_as_module(function), {}, target)
            for task in alternatives:
                tasks.setdefault(task.workload, task)
            if alternatives:
                workloads = _default_first(alternatives, function, target)
                counts[workloads] = counts.get(workloads, 0) + count
            elif call := _find_tunable(function):
                others.append((call, count))
        for message in dict.fromkeys(failures):
            logger.warning("TVM cannot compile an operator of this network: %s", message)
    left_out = _describe_left_out(others, mod)
    if not tasks:
        why = f": {left_out}" if left_out else ""
        raise ValueError(
            "nothing to tune: AutoTVM has no template for any operator of this network on "
            f"{target}{why}"
        )
    positions = {workload: i for i, workload in enumerate(tasks)}
    operators = [
        Operator(count, tuple(positions[workload] for workload in workloads))
        for workloads, count in counts.items()
    ]
    return Extraction(list(tasks.values()), operators, left_out, _only_vm(network))


def _fused(network: tvm.IRModule) -> list[tuple[relay.Function, int]]:
    """Distinct fused functions of a network, each with its number of calls."""
    distinct: dict[int, relay.Function] = {}  # by structural hash
    counts: Counter[int] = Counter()
    variables = sorted(
        network.get_global_vars(),
        key=lambda variable: (variable.name_hint != "main", variable.name_hint),
    )
    # besides `main` those that call themselves
    for function in map(network.__getitem__, variables):
        if isinstance(function, relay.Function) and not _has(function, "Compiler"):
            for node in nodes(function):
                op = node.op if isinstance(node, relay.Call) else None
                if _has(op, "Primitive") and not _has(op, "Compiler"):
                    key = tvm.ir.structural_hash(op)
                    distinct.setdefault(key, op)
                    counts[key] += 1
    return [(function, counts[key]) for key, function in distinct.items()]


def _has(op: object, attribute: str) -> bool:
    """Whether it is a function with an attribute: Primitive, if it is compiled as a whole;
    Compiler, if by another code generator.
    """
    return isinstance(op, relay.Function) and op.attrs is not None and attribute in op.attrs


@contextmanager
def _failures() -> Iterator[list[str]]:
    """The messages of the errors in AutoTVM's extraction, which compiles in threads, instead of
    their tracebacks.
    """
    messages: list[str] = []
    before = threading.excepthook

    def keep(failed: threading.ExceptHookArgs) -> None:
        if relay_integration._lower.__code__ in [
            frame.f_code for frame, _ in walk_tb(failed.exc_traceback)
        ]:
            messages.append(last_line(str(failed.exc_value)) or failed.exc_type.__name__)
        else:
            before(failed)

    threading.excepthook = keep
    try:
        yield messages
    finally:
        threading.excepthook = before


def _only_vm(network: tvm.IRModule) -> str:
    """What a network has that the graph executor cannot run, in words; empty if there is
    nothing.
    """
    reasons: set[str] = set()
    for node in nodes(network["main"]):
        op = node.op if isinstance(node, relay.Call) else None
        called = network[op] if isinstance(op, relay.GlobalVar) else op
        is_kernel = _has(called, "Primitive") or _has(called, "Compiler")
        if isinstance(node, relay.If):
            reasons.add("branches")
        elif isinstance(node, relay.Match) or isinstance(op, relay.Constructor):
            reasons.add("algebraic data types")
        elif op is not None and not is_kernel and not isinstance(called, tvm.ir.Op):
            reasons.add("loops or closures")
        elif op is not None and is_dynamic(node.checked_type):
            reasons.add("shapes that depend on data")
    if any(
        isinstance(variable.checked_type, relay.TupleType) for variable in network["main"].params
    ):
        reasons.add("tuples as inputs")
    return ", ".join(sorted(reasons))


def _find_tunable(function: relay.Function) -> relay.Call | None:
    """The call of a fused function, which has at most one, that AutoTVM can have templates for."""
    calls = (node for node in nodes(function.body) if _TUNABLE.search(operator_name(node)))
    return next(calls, None)


def _default_first(
    tasks: Iterable[Task], function: relay.Function, target: tvm.target.Target
) -> tuple[tuple[object, ...], ...]:
    """The workloads of an operator's alternatives, that of the implementation which the compiler
    takes without records first.
    """
    workloads = sorted({task.workload for task in tasks}, key=str)
    call = _find_tunable(function)
    if len(workloads) > 1 and call:
        inputs = [
            te.placeholder(argument.checked_type.shape, argument.checked_type.dtype)
            for argument in call.args
        ]
        with target:
            _, outputs = relay.backend.te_compiler.select_implementation(
                call.op, call.attrs, inputs, call.checked_type, target
            )
        workloads = sorted(
            workloads, key=lambda workload: workload != autotvm.task.get_workload(outputs)
        )
    return tuple(workloads)


def _as_module(function: relay.Function) -> tvm.IRModule:
    """A module whose main function only calls a fused one."""
    inputs = [
        relay.var(f"p{i}", type_annotation=parameter.checked_type)
        for i, parameter in enumerate(function.params)
    ]
    return tvm.IRModule.from_expr(relay.Function(inputs, relay.Call(function, inputs)))


def _describe_left_out(calls: Sequence[tuple[relay.Call, int]], mod: tvm.IRModule) -> str:
    """Operators without a template, typed and counted, in words, and how to convert the network, as
    it was given, to the layout of most templates; empty if there are none.
    """
    counts: Counter[str] = Counter()
    for call, count in calls:
        if _HEAVY.search(call.op.name):
            counts[_describe(call)] += count
    text = ", ".join(f"{count} {what}" for what, count in counts.items())
    # which may have another operator for a convolution, such as qnn.conv2d
    names = sorted({node.op.name for node in nodes(mod["main"]) if _other_layout(node)})
    layouts = {name: ["NCHW", "default"] for name in names}
    if not layouts or not any(_other_layout(c) and not _is_open(*c.args, c) for c, _ in calls):
        return text
    return (
        f"{text}. Most templates of 2D convolutions are for NCHW. To convert the network before it "
        "is tuned (of a model file on the command line, with --layout NCHW):\n"
        "    with tvm.transform.PassContext(opt_level=3):\n"
        f"        mod = tvm.transform.Sequential([relay.transform.ConvertLayout({layouts})])(mod)"
    )


def _other_layout(node: relay.Expr) -> bool:
    """Whether it is a 2D convolution in another layout than NCHW that TVM can convert."""
    return (
        "conv2d" in operator_name(node)
        and getattr(node.attrs, "data_layout", "NCHW") != "NCHW"
        and node.op.get_attr("FTVMConvertOpLayout") is not None
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
        + (" of unknown shape" if _is_open(*call.args, call) else "")
    )


def _is_open(*expressions: relay.Expr) -> bool:
    """Whether one of several shapes depends on data."""
    return any(is_dynamic(expression.checked_type) for expression in expressions)


@contextmanager
def without_tophub() -> Iterator[None]:
    """Keep TVM from downloading, as templates for ARM and GPUs do for a configuration that is not
    tuned, without a time limit.
    """
    before = os.environ.get(AUTOTVM_TOPHUB_LOC_VAR)
    os.environ[AUTOTVM_TOPHUB_LOC_VAR] = AUTOTVM_TOPHUB_NONE_LOC
    try:
        yield
    finally:
        if before is None:
            del os.environ[AUTOTVM_TOPHUB_LOC_VAR]
        else:
            os.environ[AUTOTVM_TOPHUB_LOC_VAR] = before
