"""Choose the records of a network's convolutions together, since it transforms the data between two of them whose layouts differ.

On a CPU, AutoTVM's convolutions store channels in blocks, as in NCHW16c, and how many channels a block has is up to their knobs.
No trial contains the transforms between operators, so that the fastest record of each task need not make the fastest network (Liu
et al., USENIX ATC 2019, Section 3.3). TVM's graph tuners choose a record for each node of a graph; ``apply_history_best``, for
which `tune_network` writes its best records, has one for each workload.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, prod
from typing import NamedTuple

import tvm
from tvm import relay
from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.log import Record, seconds

# What is not among a task's finalists was measured once, by chance too fast rather than too slow.
_NOISE = 0.01


class Connection(NamedTuple):
    """Two operators that layouts connect, by position.

    Attributes
    ----------
    producer, consumer : int
    added : bool
        Whether what one returns is added to what the other returns, or joined with it, rather than the consumer's input.
    size : int
        Bytes that a run of the network transforms if the layouts differ.
    """

    producer: int
    consumer: int
    added: bool
    size: int


class Candidate(NamedTuple):
    """A record with its latency in seconds, and how many channels a block of its input and of its output has."""

    record: Record
    latency: float
    input: int
    output: int


def find_connections(network: relay.Function, operator: Callable[[relay.Function], int | None]) -> list[Connection]:
    """Find the convolutions that layouts connect.

    Parameters
    ----------
    network : relay.Function
        Fused and typed, before the compiler chooses layouts.
    operator : callable
        Takes one of its fused functions, and returns the operator's position; None if it is not tunable.
    """
    sizes: Counter[tuple[int, int, bool]] = Counter()
    sources: dict[relay.Expr, frozenset[int]] = {}  # the convolutions whose layout an expression has

    def visit(expression: relay.Expr) -> None:
        if isinstance(expression, relay.Tuple):
            sources[expression] = frozenset().union(*(sources.get(field, frozenset()) for field in expression.fields))
        elif isinstance(expression, relay.TupleGetItem):
            sources[expression] = sources.get(expression.tuple_value, frozenset())
        elif isinstance(expression, relay.Call) and isinstance(expression.op, relay.Function):
            sources[expression] = connect(expression)

    def connect(call: relay.Call) -> frozenset[int]:
        before = [sources.get(argument, frozenset()) for argument in call.args]
        data, consumer = _data(call.op), operator(call.op)
        if consumer is None or not data:
            found = frozenset().union(*before) if _keeps_layout(call.op) else frozenset()
            joined = sorted(found)
            sizes.update({(*pair, True): _size(call) for pair in zip(joined, joined[1:])})
            return found
        for parameter, argument, producers in zip(call.op.params, call.args, before):
            added = parameter not in data
            size = _size(call if added else argument)
            sizes.update({(producer, consumer, added): size for producer in producers})
        return frozenset([consumer])

    relay.analysis.post_order_visit(network, visit)
    return [Connection(*key, size) for key, size in sizes.items()]


def candidates(task: Task, records: Iterable[Record], best: Record, latency: float) -> list[Candidate]:
    """The fastest record of each pair of layouts; none if the template has no blocks of channels.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
    records : iterable of (MeasureInput, MeasureResult)
        Of the task, without the machine's drift.
    best : (MeasureInput, MeasureResult)
        That with the lowest latency, as confirmed.
    latency : float
        Its latency in seconds.
    """
    if "NCHWc" not in task.name:
        return []
    found: dict[tuple[int, int], Candidate] = {}
    for record in [best, *records]:
        # Whatever else seems faster than what was confirmed was lucky.
        time = latency if record is best else (1 + _NOISE) * max(latency, seconds(record[1]))
        layouts = _blocks(record)
        if time < (found[layouts].latency if layouts in found else inf):
            found[layouts] = Candidate(record, time, *layouts)
    return list(found.values())


def choose(
    candidates: Mapping[int, Sequence[Candidate]],
    counts: Sequence[int],
    connections: Iterable[Connection],
    seconds_per_byte: float,
) -> dict[int, Candidate]:
    """Choose a candidate for each operator, so that they and the transforms between them take the least time.

    One operator after the other takes what is best beside all others, until nothing changes; first from the fastest of each, then
    from each size of blocks, and the best of these results counts.

    Parameters
    ----------
    candidates : mapping
        By the operator's position; those without candidates are left out.
    counts : sequence of int
        How often the network runs each operator.
    connections : iterable of Connection
    seconds_per_byte : float
        What a transform takes.
    """
    candidates = {i: sorted(found, key=lambda one: one.latency) for i, found in candidates.items() if found}
    touching: dict[int, list[Connection]] = defaultdict(list)
    for connection in connections:
        if {connection.producer, connection.consumer} <= candidates.keys():
            touching[connection.producer].append(connection)
            if connection.consumer != connection.producer:
                touching[connection.consumer].append(connection)

    def transforms(i: int, chosen: Mapping[int, Candidate]) -> float:
        return seconds_per_byte * sum(one.size for one in touching[i] if _differs(one, chosen))

    def cost(i: int, candidate: Candidate, chosen: Mapping[int, Candidate]) -> float:
        return counts[i] * candidate.latency + transforms(i, {**chosen, i: candidate})

    def descend(chosen: dict[int, Candidate]) -> dict[int, Candidate]:
        improved = True
        while improved:
            improved = False
            for i, found in candidates.items():
                best = min(found, key=lambda one: cost(i, one, chosen))
                if cost(i, best, chosen) < cost(i, chosen[i], chosen):
                    chosen[i], improved = best, True
        return chosen

    def total(chosen: Mapping[int, Candidate]) -> float:
        own = sum(counts[i] * one.latency for i, one in chosen.items())
        different = {one for i in chosen for one in touching[i] if _differs(one, chosen)}
        return own + seconds_per_byte * sum(one.size for one in different)

    starts = [{i: found[0] for i, found in candidates.items()}]
    for block in sorted({one.output for found in candidates.values() for one in found}):
        starts.append({i: next((one for one in found if one.output == block), found[0]) for i, found in candidates.items()})
    return min(map(descend, starts), key=total)


def _differs(connection: Connection, chosen: Mapping[int, Candidate]) -> bool:
    consumer = chosen[connection.consumer]
    return chosen[connection.producer].output != (consumer.output if connection.added else consumer.input)


def _blocks(record: Record) -> tuple[int, int]:
    config = record[0].config
    return int(config["tile_ic"].size[-1]), int(config["tile_oc"].size[-1])


def _data(function: relay.Function) -> list[relay.Var]:
    """The parameters of a fused function that its convolution's input is made of; none without a convolution."""
    found: list[relay.Var] = []

    def visit(expression: relay.Expr) -> None:
        if _operator_name(expression) == "nn.conv2d":
            found.extend(relay.analysis.free_vars(expression.args[0]))

    relay.analysis.post_order_visit(function.body, visit)
    return found


# They tell the compiler how layouts change, and change them.
_CHANGES_LAYOUT = {"reshape", "transpose", "nn.batch_flatten"}


def _keeps_layout(function: relay.Function) -> bool:
    """Whether the compiler passes a layout on through all operators of a fused function."""
    names: list[str] = []
    relay.analysis.post_order_visit(function.body, lambda expression: names.append(_operator_name(expression)))
    return all(
        name not in _CHANGES_LAYOUT and tvm.ir.Op.get(name).get_attr("FInferCorrectLayout") is not None for name in names if name
    )


def _operator_name(expression: relay.Expr) -> str:
    """The name of the operator that is called; empty if none is."""
    return str(expression.op.name) if isinstance(expression, relay.Call) and isinstance(expression.op, tvm.ir.Op) else ""


def _size(expression: relay.Expr) -> int:
    """Bytes of a tensor, or of the tensors of a tuple."""
    kind = expression.checked_type
    tensors = kind.fields if isinstance(kind, relay.TupleType) else [kind]
    return sum(prod(map(int, one.shape)) * tvm.DataType(one.dtype).bits // 8 for one in tensors)
