"""Extraction of a Relay network's AutoTVM tasks, how often the network runs each operator, and which of them layouts connect."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import tvm
from tvm import autotvm, relay, te
from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.layouts import Connection, connected_parts, find_connections, has_blocks
from autotvm_opevo.autotvm.network_profile import Call, find_calls, find_tunable
from autotvm_opevo.tuning.task_scheduler import Operator


class Extraction(NamedTuple):
    """What a network consists of.

    Attributes
    ----------
    tasks : list of Task
        In network order.
    operators : list of Operator
        Tunable operators. A dense layer on a CPU, for example, has two tasks, and the compiler uses the faster one; the first if
        neither is tuned.
    connections : list of Connection
        Operators between which the network transforms data if their layouts differ.
    calls : list of Call
        In the order in which the network runs them.
    """

    tasks: list[Task]
    operators: list[Operator]
    connections: list[Connection]
    calls: list[Call]

    @property
    def parts(self) -> list[int]:
        """The part of the network that each operator belongs to: what layouts connect is one, every other operator is its own."""
        blocks = [all(has_blocks(self.tasks[i]) for i in operator.tasks) for operator in self.operators]
        connections = [one for one in self.connections if blocks[one.producer] and blocks[one.consumer]]
        return connected_parts(len(self.operators), connections)


def extract(mod: tvm.IRModule, target: tvm.target.Target) -> Extraction:
    """Extract a network's tasks, one for each distinct workload, and the operators that they implement.

    AutoTVM's own extraction does not tell which tasks implement the same operator, nor how often it runs. So the network is fused
    as the compiler does, and AutoTVM's extraction is applied to each distinct fused function, which has at most one tunable
    operator: the tasks it finds are alternative implementations of that operator.

    Raises
    ------
    ValueError
        If no operator is tunable.
    """
    network = _optimize(mod, target)
    tasks: dict[tuple[object, ...], Task] = {}
    counts: dict[tuple[tuple[object, ...], ...], int] = {}
    operator: dict[int, int] = {}  # its position, by structural hash of the fused function
    with autotvm.apply_history_best([]):  # without a context, TVM would download pre-tuned configurations
        for function, count in _fused(network):
            found = {task.workload: task for task in autotvm.task.extract_from_program(_as_module(function), {}, target)}
            if found:
                tasks.update((workload, task) for workload, task in found.items() if workload not in tasks)
                workloads = _default_first(sorted(found, key=str), function, target)
                counts[workloads] = counts.get(workloads, 0) + count
                operator[tvm.ir.structural_hash(function)] = list(counts).index(workloads)
    if not tasks:
        raise ValueError(f"nothing to tune: AutoTVM has no template for any operator of this network on {target}")
    positions = {workload: i for i, workload in enumerate(tasks)}
    operators = [Operator(count, tuple(positions[workload] for workload in workloads)) for workloads, count in counts.items()]

    def position(function: relay.Function) -> int | None:
        return operator.get(tvm.ir.structural_hash(function))

    return Extraction(list(tasks.values()), operators, find_connections(network, position), find_calls(network, position))


def _optimize(mod: tvm.IRModule, target: tvm.target.Target) -> relay.Function:
    """The network, fused as the compiler does, before it chooses layouts, which depend on the tuning results."""
    with autotvm.apply_history_best([]), tvm.transform.PassContext(opt_level=3, disabled_pass={"AlterOpLayout"}):
        optimized, _ = relay.optimize(mod, target=target)
    return optimized["main"]


def _fused(network: relay.Function) -> list[tuple[relay.Function, int]]:
    """Distinct fused functions of a network, each with its number of calls."""
    distinct: dict[int, relay.Function] = {}  # by structural hash
    counts: Counter[int] = Counter()

    def visit(expression: relay.Expr) -> None:
        if isinstance(expression, relay.Call) and isinstance(expression.op, relay.Function):
            key = tvm.ir.structural_hash(expression.op)
            distinct.setdefault(key, expression.op)
            counts[key] += 1

    relay.analysis.post_order_visit(network, visit)
    return [(function, counts[key]) for key, function in distinct.items()]


def _default_first(
    workloads: list[tuple[object, ...]], function: relay.Function, target: tvm.target.Target
) -> tuple[tuple[object, ...], ...]:
    """The workloads of an operator's alternatives, that of the implementation which the compiler takes without records first."""
    call = find_tunable(function)
    if len(workloads) > 1 and call:
        inputs = [te.placeholder(one.checked_type.shape, one.checked_type.dtype) for one in call.args]
        with target:
            _, outputs = relay.backend.te_compiler.select_implementation(call.op, call.attrs, inputs, call.checked_type, target)
        workloads = sorted(workloads, key=lambda workload: workload != autotvm.task.get_workload(outputs))
    return tuple(workloads)


def _as_module(function: relay.Function) -> tvm.IRModule:
    """A module whose main function only calls `function`."""
    inputs = [relay.var(f"p{i}", type_annotation=p.checked_type) for i, p in enumerate(function.params)]
    return tvm.IRModule.from_expr(relay.Function(inputs, relay.Call(function, inputs)))
