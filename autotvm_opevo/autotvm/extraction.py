"""What a Relay network has to tune: AutoTVM's tasks, and how often the network runs what each of them computes."""

from __future__ import annotations

from collections import Counter

import tvm
from tvm import autotvm, relay
from tvm.autotvm.task import Task

from autotvm_opevo.tuning.task_scheduler import Operator


def extract(mod: tvm.IRModule, params: dict[str, tvm.nd.NDArray], target: tvm.target.Target) -> tuple[list[Task], list[Operator]]:
    """The tasks of a network, each distinct workload once, and its operators, which count and group them.

    AutoTVM's extraction finds the tasks and forgets where. So the network is fused as the compiler does it; every distinct
    fused function, which holds one tunable operator at most, is given to AutoTVM's extraction by itself, and the tasks that come
    of it are the ways to compute that operator.

    Returns
    -------
    tasks : list of Task
        In the network's order.
    operators : list of Operator
        Those that can be tuned. A dense layer on a CPU, for example, has two tasks, and the compiler takes the faster.

    Raises
    ------
    ValueError
        If there is nothing to tune.
    """
    tasks: dict[tuple[object, ...], Task] = {}
    counts: dict[tuple[tuple[object, ...], ...], int] = {}
    with autotvm.apply_history_best([]):  # without a context TVM would look for pre-tuned configurations on the network
        for function, count in _fused(mod, params, target):
            found = {task.workload: task for task in autotvm.task.extract_from_program(_alone(function), {}, target)}
            if found:
                tasks.update((workload, task) for workload, task in found.items() if workload not in tasks)
                ways = tuple(sorted(found, key=str))
                counts[ways] = counts.get(ways, 0) + count
    if not tasks:
        raise ValueError(f"there is nothing to tune: AutoTVM has no template for any operator of this network on {target}")
    positions = {workload: i for i, workload in enumerate(tasks)}
    operators = [Operator(count, tuple(positions[workload] for workload in ways)) for ways, count in counts.items()]
    return list(tasks.values()), operators


def _fused(mod: tvm.IRModule, params: dict[str, tvm.nd.NDArray], target: tvm.target.Target) -> list[tuple[relay.Function, int]]:
    """The network's fused functions, equal ones once with their number."""
    # As AutoTVM's extraction does it: the layouts that a tuned network will have are not yet chosen.
    with tvm.transform.PassContext(opt_level=3, disabled_pass={"AlterOpLayout"}):
        optimized, _ = relay.optimize(mod, target=target, params=params)
    distinct: dict[int, relay.Function] = {}  # by a hash of 64 bits that equal functions share
    counts: Counter[int] = Counter()

    def visit(expression: relay.Expr) -> None:
        if isinstance(expression, relay.Call) and isinstance(expression.op, relay.Function):
            key = tvm.ir.structural_hash(expression.op)
            distinct.setdefault(key, expression.op)
            counts[key] += 1

    relay.analysis.post_order_visit(optimized["main"], visit)
    return [(function, counts[key]) for key, function in distinct.items()]


def _alone(function: relay.Function) -> tvm.IRModule:
    """A module that does nothing but call the function."""
    inputs = [relay.var(f"p{i}", type_annotation=p.checked_type) for i, p in enumerate(function.params)]
    return tvm.IRModule.from_expr(relay.Function(inputs, relay.Call(function, inputs)))
