"""Extraction of a Relay network's AutoTVM tasks, how often the network runs each operator, and
which of them layouts connect.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb
from typing import NamedTuple

import tvm
from tvm import autotvm, relay, te
from tvm.autotvm.task import Task, relay_integration
from tvm.relay.ty import is_dynamic

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.autotvm.layouts import Connection, find_connections
from autotvm_opevo.autotvm.left_out import describe_left_out
from autotvm_opevo.tuning.task_scheduler import Operator

# Relay's operators that AutoTVM has templates for.
_TUNABLE = re.compile(r"conv[123]d|dense|matmul|correlation|scatter_elements")

logger = logging.getLogger(__name__)


class Extraction(NamedTuple):
    """What a network consists of.

    Attributes
    ----------
    tasks : list of Task
        In network order.
    operators : list of Operator
        Tunable operators. A dense layer on a CPU, for example, has two tasks, and the compiler uses
        the faster one; the first if neither is tuned.
    connections : list of Connection
        Operators between which the network transforms data if their layouts differ.
    left_out : str
        The convolutions, dense layers and the like without a template, in words, and what helps;
        empty if there are none.
    only_vm : str
        What the network has that only TVM's VM can run, in words; empty if the graph executor can
        run it.
    """

    tasks: list[Task]
    operators: list[Operator]
    connections: list[Connection]
    left_out: str
    only_vm: str


def extract(mod: tvm.IRModule, target: tvm.target.Target) -> Extraction:
    """Extract a network's tasks, one for each distinct workload, and the operators that they
    implement.

    AutoTVM's own extraction does not tell which tasks implement the same operator, nor how often it
    runs. So the network is fused as the compiler does, and AutoTVM's extraction is applied to each
    distinct fused function, which has at most one tunable operator: the tasks it finds are
    alternative implementations of that operator. Operators whose shape depends on data are left
    alone; what a loop or a branch has counts once.

    Raises
    ------
    ValueError
        If no operator is tunable.
    """
    network = _optimize(mod, target)
    tasks: dict[tuple[object, ...], Task] = {}
    counts: dict[tuple[tuple[object, ...], ...], int] = {}
    operator: dict[int, int] = {}  # its position, by structural hash of the fused function
    others: list[tuple[relay.Call, int]] = []
    # Without a context, TVM would download pre-tuned configurations.
    with autotvm.apply_history_best([]), _failures() as failures:
        for function, count in _fused(network):
            is_open = any(is_dynamic(one.checked_type) for one in [*function.params, function.body])
            found = (
                {}
                if is_open
                else {task.workload: task for task in _find_tasks(_as_module(function), target)}
            )
            if found:
                tasks.update(
                    (workload, task) for workload, task in found.items() if workload not in tasks
                )
                workloads = _default_first(sorted(found, key=str), function, target)
                counts[workloads] = counts.get(workloads, 0) + count
                operator[tvm.ir.structural_hash(function)] = list(counts).index(workloads)
            elif call := _find_tunable(function):
                others.append((call, count))
        for message in dict.fromkeys(failures):
            logger.warning("TVM cannot compile an operator of this network: %s", message)
        left_out = describe_left_out(others, mod, lambda alone: bool(_find_tasks(alone, target)))
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
    connections = find_connections(
        network["main"], lambda function: operator.get(tvm.ir.structural_hash(function))
    )
    return Extraction(list(tasks.values()), operators, connections, left_out, _only_vm(network))


def _optimize(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """The network, fused as the compiler does, before it chooses layouts, which depend on the
    tuning results.
    """
    with (
        autotvm.apply_history_best([]),
        tvm.transform.PassContext(opt_level=3, disabled_pass={"AlterOpLayout"}),
    ):
        optimized, _ = relay.optimize(mod, target=target)
    return optimized


def _fused(network: tvm.IRModule) -> list[tuple[relay.Function, int]]:
    """Distinct fused functions of a network, each with its number of calls."""
    distinct: dict[int, relay.Function] = {}  # by structural hash
    counts: Counter[int] = Counter()

    def visit(expression: relay.Expr) -> None:
        if isinstance(expression, relay.Call) and _is_kernel(expression.op):
            key = tvm.ir.structural_hash(expression.op)
            distinct.setdefault(key, expression.op)
            counts[key] += 1

    names = sorted(
        network.get_global_vars(), key=lambda one: (one.name_hint != "main", one.name_hint)
    )
    for function in map(network.__getitem__, names):  # besides `main` those that call themselves
        if isinstance(function, relay.Function) and not _has(function, "Compiler"):
            relay.analysis.post_order_visit(function, visit)
    return [(function, counts[key]) for key, function in distinct.items()]


def _is_kernel(op: relay.Expr) -> bool:
    """Whether what is called is a function that TVM compiles as a whole."""
    return isinstance(op, relay.Function) and _has(op, "Primitive") and not _has(op, "Compiler")


def _has(function: relay.Function, attribute: str) -> bool:
    return function.attrs is not None and attribute in function.attrs


def _find_tasks(mod: tvm.IRModule, target: tvm.target.Target) -> list[Task]:
    tasks: list[Task] = autotvm.task.extract_from_program(mod, {}, target)
    return tasks


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
    found: set[str] = set()

    def is_kernel(op: relay.Expr) -> bool:
        """Whether what is called is an operator, or a function that is compiled as a whole, by TVM
        or another code generator.
        """
        called = network[op] if isinstance(op, relay.GlobalVar) else op
        is_function = isinstance(called, relay.Function) and (
            _has(called, "Primitive") or _has(called, "Compiler")
        )
        return is_function or isinstance(called, tvm.ir.Op)

    def visit(expression: relay.Expr) -> None:
        op = expression.op if isinstance(expression, relay.Call) else None
        if isinstance(expression, relay.If):
            found.add("branches")
        elif isinstance(expression, relay.RefCreate):
            found.add("references")
        elif isinstance(expression, relay.Match) or isinstance(op, relay.Constructor):
            found.add("algebraic data types")
        elif op is not None and not is_kernel(op):
            found.add("loops or closures")
        elif op is not None and is_dynamic(expression.checked_type):
            found.add("shapes that depend on data")

    relay.analysis.post_order_visit(network["main"], visit)
    if any(
        isinstance(variable.checked_type, relay.TupleType) for variable in network["main"].params
    ):
        found.add("tuples as inputs")
    return ", ".join(sorted(found))


def _find_tunable(function: relay.Function) -> relay.Call | None:
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


def _default_first(
    workloads: list[tuple[object, ...]], function: relay.Function, target: tvm.target.Target
) -> tuple[tuple[object, ...], ...]:
    """The workloads of an operator's alternatives, that of the implementation which the compiler
    takes without records first.
    """
    call = _find_tunable(function)
    if len(workloads) > 1 and call:
        inputs = [
            te.placeholder(one.checked_type.shape, one.checked_type.dtype) for one in call.args
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
    """A module whose main function only calls `function`."""
    inputs = [
        relay.var(f"p{i}", type_annotation=p.checked_type) for i, p in enumerate(function.params)
    ]
    return tvm.IRModule.from_expr(relay.Function(inputs, relay.Call(function, inputs)))
