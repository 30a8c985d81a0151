"""Choose the records of a network's convolutions together, since it transforms the data between two
of them whose layouts differ.

On an x86 CPU, AutoTVM's convolutions store channels in blocks, as in NCHW16c, and how many channels
a block has is up to their knobs. No trial contains the transforms between operators, so that the
fastest record of each task need not make the fastest network (Liu et al., USENIX ATC 2019, Section
3.3). TVM's graph tuners choose a record for each node of a graph; ``apply_history_best``, for which
`tune_network` writes its best records, has one for each workload.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, prod
from typing import NamedTuple

import tvm
from tvm import relay
from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.folding import nodes, operator_name
from autotvm_opevo.autotvm.log import Record, seconds

# The templates whose knobs tile_ic and tile_oc are the blocks of channels.
_TEMPLATES = {"conv2d_NCHWc.x86", "conv2d_NCHWc_int8.x86", "depthwise_conv2d_NCHWc.x86"}
# Operators that keep a layout besides those on single elements, which can be broadcast.
_KEEP_LAYOUT = {
    "concatenate",
    "nn.max_pool2d",
    "nn.avg_pool2d",
    "nn.global_max_pool2d",
    "nn.global_avg_pool2d",
    "nn.adaptive_max_pool2d",
    "nn.adaptive_avg_pool2d",
    "nn.pad",
    "nn.upsampling",
    "image.resize2d",
}
# What is not the confirmed best was timed less often, and is by chance too fast rather than too
# slow.
_NOISE = 0.01
# How many times as long as reading the same bytes again and again a transform takes within a
# network: it writes, too, in strides, what other cores have in their caches. By TVM's debug
# executor, those of MobileNet take 5 to 7 times as long.
_TRANSFERS = 5.0


class Connection(NamedTuple):
    """Two convolutions, by position, of which one reads what the other returns, or whose outputs
    are added or concatenated.

    Attributes
    ----------
    producer, consumer : int
    joined : bool
        Whether their outputs are, so that the consumer's output should have the layout of the
        producer's, not its input.
    size : int
        Bytes to transform in a run of the network if the layouts differ. What two operators read
        counts twice.
    """

    producer: int
    consumer: int
    joined: bool
    size: int


class Candidate(NamedTuple):
    """A record with its latency in seconds, and how many channels a block of its input and of its
    output has.
    """

    record: Record
    latency: float
    input: int
    output: int


def find_connections(
    network: relay.Function, operator: Callable[[relay.Function], int | None]
) -> list[Connection]:
    """Find the convolutions that layouts connect.

    Parameters
    ----------
    network : relay.Function
        Fused and typed, before the compiler chooses layouts.
    operator : callable
        Takes one of its fused functions, and returns the operator's position; None if it is not
        tunable.
    """
    sizes: Counter[tuple[int, int, bool]] = Counter()
    sources: dict[relay.Expr, int] = {}  # the convolution whose layout an expression has
    for node in nodes(network):
        if isinstance(node, relay.TupleGetItem) and node.tuple_value in sources:
            sources[node] = sources[node.tuple_value]
        if not isinstance(node, relay.Call) or not isinstance(node.op, relay.Function):
            continue
        data, others = _parameters(node.op)
        consumer = operator(node.op) if data else None
        if consumer is not None:
            sources[node] = consumer
            for parameter, argument in zip(node.op.params, node.args):
                if argument in sources and parameter in data:
                    sizes[sources[argument], consumer, False] += _size(argument)
                if argument in sources and parameter in others:
                    sizes[sources[argument], consumer, True] += min(_size(argument), _size(node))
            continue
        tensors = [
            tensor
            for argument in node.args
            for tensor in (argument.fields if isinstance(argument, relay.Tuple) else [argument])
            if tensor in sources
        ]
        if tensors and _keeps_layout(node.op):
            first, *joined = tensors
            sources[node] = sources[first]
            for other in joined:
                sizes[sources[first], sources[other], True] += _size(other)
    return [Connection(*key, size) for key, size in sizes.items() if key[0] != key[1] or not key[2]]


def candidates(task: Task, records: Iterable[Record], best: Record) -> list[Candidate]:
    """The fastest record of each pair of layouts; none if the template has no blocks of channels.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
    records : iterable of (MeasureInput, MeasureResult)
        Those of the task.
    best : (MeasureInput, MeasureResult)
        That with the lowest latency, as confirmed.
    """
    if task.name not in _TEMPLATES:
        return []
    latency = seconds(best[1])
    by_layout = {_blocks(best): Candidate(best, latency, *_blocks(best))}
    for record in records:
        # What seems faster than what was confirmed was lucky.
        time = (1 + _NOISE) * max(latency, seconds(record[1]))
        layouts = _blocks(record)
        if time < (by_layout[layouts].latency if layouts in by_layout else inf):
            by_layout[layouts] = Candidate(record, time, *layouts)
    return list(by_layout.values())


def choose(
    candidates: Mapping[int, Sequence[Candidate]],
    counts: Sequence[int],
    connections: Iterable[Connection],
    bandwidth: float,
) -> dict[int, Candidate]:
    """Choose a candidate for each operator, so that they and the transforms between them take
    little time.

    One operator after the other takes what is best beside all others, until nothing changes; first
    from the fastest of each, then from each size of blocks, and the best of these results counts.

    Parameters
    ----------
    candidates : mapping
        By the operator's position; those without candidates are left out.
    counts : sequence of int
        How often the network runs each operator.
    connections : iterable of Connection
    bandwidth : float
        Bytes per second of reading small arrays.
    """
    candidates = {
        i: sorted(of_operator, key=lambda candidate: candidate.latency)
        for i, of_operator in candidates.items()
        if of_operator
    }
    connected = [
        connection
        for connection in connections
        if {connection.producer, connection.consumer} <= candidates.keys()
    ]
    touching: defaultdict[int, list[Connection]] = defaultdict(list)
    for connection in connected:
        for i in {connection.producer, connection.consumer}:
            touching[i].append(connection)

    def transforms(some: Iterable[Connection], chosen: Mapping[int, Candidate]) -> float:
        size = sum(
            size
            for producer, consumer, joined, size in some
            if chosen[producer].output
            != (chosen[consumer].output if joined else chosen[consumer].input)
        )
        return size * _TRANSFERS / bandwidth

    def total(chosen: Mapping[int, Candidate]) -> float:
        alone = sum(counts[i] * candidate.latency for i, candidate in chosen.items())
        return alone + transforms(connected, chosen)

    def descend(chosen: dict[int, Candidate]) -> dict[int, Candidate]:
        def cost(candidate: Candidate) -> float:
            moved = transforms(touching[i], {**chosen, i: candidate})
            return counts[i] * candidate.latency + moved

        improved = True
        while improved:
            improved = False
            for i, of_operator in candidates.items():
                best = min([chosen[i], *of_operator], key=cost)  # itself, of equal ones
                improved |= best is not chosen[i]
                chosen[i] = best
        return chosen

    outputs = {candidate.output for of_operator in candidates.values() for candidate in of_operator}
    starts = [{i: of_operator[0] for i, of_operator in candidates.items()}]
    for block in sorted(outputs):
        # the fastest with outputs in such blocks, as far as there are any
        starts.append(
            {
                i: next((best for best in of_operator if best.output == block), of_operator[0])
                for i, of_operator in candidates.items()
            }
        )
    return min(map(descend, starts), key=total)


def _blocks(record: Record) -> tuple[int, int]:
    config = record[0].config
    return int(config["tile_ic"].size[-1]), int(config["tile_oc"].size[-1])


def _parameters(function: relay.Function) -> tuple[list[relay.Var], list[relay.Var]]:
    """The parameters of a fused function that are its convolution's input, and those of its other
    operators; none without one.
    """
    data: list[relay.Var] = []
    others: list[relay.Var] = []
    for node in nodes(function.body):
        if operator_name(node) == "nn.conv2d":
            data.extend(relay.analysis.free_vars(node.args[0]))
        elif isinstance(node, relay.Call):
            others.extend(argument for argument in node.args if isinstance(argument, relay.Var))
    return (data, others) if data else ([], [])


def _keeps_layout(function: relay.Function) -> bool:
    """Whether the compiler passes a layout on through all operators of a fused function."""
    names = {operator_name(node) for node in nodes(function.body)} - _KEEP_LAYOUT - {""}
    patterns = [tvm.ir.Op.get(name).get_attr("TOpPattern") for name in names]
    return all(
        pattern is not None and pattern <= relay.op.OpPattern.BROADCAST for pattern in patterns
    )


def _size(expression: relay.Expr) -> int:
    """Bytes of a tensor, or of the tensors of a tuple, with an extent of 1 where it depends on
    data.
    """
    type_ = expression.checked_type
    size = 0
    for tensor in type_.fields if isinstance(type_, relay.TupleType) else [type_]:
        known = [int(extent) for extent in tensor.shape if isinstance(extent, tvm.tir.IntImm)]
        size += prod(known) * tvm.DataType(tensor.dtype).bits // 8
    return size
