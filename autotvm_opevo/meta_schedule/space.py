"""MetaSchedule's sampling instructions as topologies: the sketches of a workload become one Space.

A sketch is a trace whose sampling instructions are open. All sketches of a workload share one space, in which the choice of the
sketch is a knob of its own: a child may have its sketch from one parent and its tiles from another, so what one sketch has taught
about tiles the others know. Sketches mostly have the same knobs (a matrix product's differ in where the result is written);
where they do not, a knob that the sketch at hand has not is idle and counts as its first value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm.ir import IRModule
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate
from tvm.s_tir.schedule import Instruction, Schedule, Trace

from autotvm_opevo.search.space import Configuration, Space
from autotvm_opevo.topology import Categorical, Discrete, Factorization, Topology

SKETCH = "sketch"
# Of a computation's locations, which are the numbers of loops, the least: inlined. -1 is outside of all loops.
_INLINED = -2
# So many threads a block are tried for a start, in this order.
_THREADS = (128, 64, 256, 32, 512, 1024)


class DecisionSpace:
    """The decisions of a workload's sketches as a `Space`.

    Parameters
    ----------
    mod : tvm.IRModule
        The workload.
    sketches : sequence of tvm.s_tir.Schedule
        What a space generator made of it.
    postprocs : sequence of Postproc
        What a schedule must pass.

    Attributes
    ----------
    space : Space
        The sketch's number is categorical, a perfect tile a `Factorization` whose innermost part has a bound, a categorical
        choice `Categorical`, a computation's location `Discrete`. All other instructions keep the sketch's decisions.
    """

    def __init__(self, mod: IRModule, sketches: Sequence[Schedule], postprocs: Sequence[Any]) -> None:
        self._mod, self._postprocs = mod, list(postprocs)
        self._sketches = [_Sketch(mod, sketch.trace.simplified(True)) for sketch in sketches]
        self._by_skeleton = {sketch.skeleton: number for number, sketch in reversed(list(enumerate(self._sketches)))}
        knobs: dict[str, _Decision] = {}
        for sketch in self._sketches:
            for name, decision in sketch.decisions.items():
                if name not in knobs or decision.topology.size > knobs[name].topology.size:  # more loops, more locations
                    knobs[name] = decision
        topologies: dict[str, Topology] = {name: decision.topology for name, decision in knobs.items()}
        self.space = Space({SKETCH: Categorical(range(len(self._sketches))), **topologies}, self._allows)

    def candidate(self, configuration: Configuration) -> tuple[MeasureCandidate | None, Configuration]:
        """What TVM builds and measures, and the configuration that it is.

        TVM mends some decisions: where a loop has one iteration, the location inside it is the one outside. So several
        configurations can be one candidate; it is called by what its trace says.

        Returns
        -------
        candidate : MeasureCandidate or None
            None where the trace cannot be applied, or a postprocessor rejects what comes out.
        configuration : Configuration
            As given, if there is no candidate.
        """
        sketch = self._sketches[configuration[SKETCH]]
        schedule = sketch.applied({name: configuration[name] for name in sketch.decisions})
        if schedule is None:
            return None, configuration
        effective = self._completed(configuration[SKETCH], sketch.read(schedule.trace))
        try:
            if effective is None or not self.space.is_feasible(effective):
                return None, configuration
            schedule.enter_postproc()
            if not all(postproc.apply(schedule) for postproc in self._postprocs):
                return None, configuration
            arguments = ArgInfo.from_entry_func(schedule.mod, remove_preproc=True)
        except RuntimeError:  # of TVM's errors: a postprocessor that cannot say no
            return None, configuration
        return MeasureCandidate(schedule, arguments), effective

    def canonicalize(self, configuration: Configuration) -> Configuration:
        """The same with its idle knobs at their first values."""
        active = self._sketches[configuration[SKETCH]].decisions
        return {
            name: configuration[name] if name in active or name == SKETCH else topology[0]
            for name, topology in self.space.knobs.items()
        }

    def configuration(self, trace: Trace) -> Configuration:
        """The configuration of a trace, also of one from a database.

        Raises
        ------
        ValueError
            If it is of no sketch, or has a decision that is none of the space's.
        """
        simplified = trace.simplified(True)
        number = self._by_skeleton.get(_skeleton(simplified))
        if number is None:
            raise ValueError("trace must be of one of the sketches of this workload, it has other instructions")
        configuration = self._completed(number, self._sketches[number].read(simplified))
        if configuration is None:
            raise ValueError("trace must have decisions of this workload's space, one of them is not")
        return configuration

    def seed_configurations(self) -> Iterator[Iterator[Configuration]]:
        """For each sketch, simple configurations of which one should work, the likeliest first.

        On a GPU most tilings do not: too much memory or too many threads in a block. These have all loops outermost, in
        which nothing is large; then as many threads as are usual, on the axes that are contiguous in memory.
        """
        for number, sketch in enumerate(self._sketches):
            yield (self.canonicalize({**self.space[0], **simple, SKETCH: number}) for simple in sketch.simple())

    def _completed(self, number: int, active: Configuration) -> Configuration | None:
        whole = {name: active.get(name, topology[0]) for name, topology in self.space.knobs.items()} | {SKETCH: number}
        return whole if all(value in self.space.knobs[name] for name, value in active.items()) else None

    def _allows(self, configuration: Configuration) -> bool:
        decisions = self._sketches[configuration[SKETCH]].decisions
        return all(
            decision.innermost is None or configuration[name][-1] <= decision.innermost for name, decision in decisions.items()
        )


@dataclass(frozen=True)
class _Decision:
    """One sampling instruction as a knob."""

    label: str
    topology: Topology
    write: Callable[[Any], Any]  # a value as TVM's decision
    read: Callable[[Any], Any]  # and back
    innermost: int | None = None  # the largest last part of a tile


class _Sketch:
    """A trace with open decisions.

    Attributes
    ----------
    skeleton : str
        Its instructions without the decisions.
    decisions : dict of str to _Decision
        By the names of their knobs, in the order of the instructions. Knobs of different sketches have the same name
        when they are the k-th with the same values.
    """

    def __init__(self, mod: IRModule, trace: Trace) -> None:
        self._mod = mod
        self._instructions: list[Instruction] = list(trace.insts)
        self._base = {i: trace.decisions[i] for i in self._instructions if i in trace.decisions}
        self.skeleton = _skeleton(trace)
        self.decisions: dict[str, _Decision] = {}
        self._at: dict[str, int] = {}
        labels: Counter[str] = Counter()
        for position, instruction in enumerate(self._instructions):
            decision = self._decision(position, instruction)
            if decision is not None:
                labels[decision.label] += 1
                name = f"{decision.label} ({labels[decision.label]})"
                self.decisions[name], self._at[name] = decision, position

    def applied(self, values: Configuration) -> Schedule | None:
        """A schedule with these decisions; None where TVM cannot apply them."""
        decisions = dict(self._base)
        for name, value in values.items():
            decisions[self._instructions[self._at[name]]] = self.decisions[name].write(value)
        try:
            return self._apply(self._instructions, decisions)
        except RuntimeError:  # of TVM's errors: ScheduleError is one
            return None

    def read(self, trace: Trace) -> Configuration:
        """The values in a trace that begins with these instructions."""
        instructions = list(trace.insts)
        return {
            name: decision.read(trace.get_decision(instructions[self._at[name]])) for name, decision in self.decisions.items()
        }

    def simple(self) -> Iterator[Configuration]:
        """Everything outermost; then so many threads at each depth of the deepest tiles, from the last axis on."""
        tiles = {name: d.topology for name, d in self.decisions.items() if isinstance(d.topology, Factorization)}
        outermost = {name: (tile.product, *[1] * (tile.parts - 1)) for name, tile in tiles.items()}
        others = {name: decision.topology[0] for name, decision in self.decisions.items() if name not in tiles}
        yield {**others, **outermost}
        depth = max((tile.parts for tile in tiles.values()), default=0)
        for threads in _THREADS:
            for position in range(1, depth):
                simple, left = dict(outermost), threads
                for name, tile in reversed(tiles.items()):
                    if tile.parts == depth:
                        inner = max(d for d in range(1, min(left, tile.product) + 1) if tile.product % d == 0)
                        parts = [tile.product // inner, *[1] * (depth - 1)]
                        parts[position] = inner
                        simple[name] = tuple(parts)
                        left //= inner
                yield {**others, **simple}

    def _decision(self, position: int, instruction: Instruction) -> _Decision | None:
        kind = instruction.kind.name
        if kind == "SamplePerfectTile":
            parts, innermost = map(int, instruction.attrs)
            extent = prod(map(int, self._base[instruction]))
            label = f"tile {extent} in {parts}" + (f", last to {innermost}" if innermost < extent else "")
            return _Decision(label, Factorization(extent, parts), list, lambda tile: tuple(map(int, tile)), innermost)
        if kind == "SampleCategorical":
            candidates = [_plain(candidate) for candidate in instruction.attrs[0]]
            if len(set(candidates)) < len(candidates):
                return None
            label = f"choice of {', '.join(map(str, candidates))}"
            return _Decision(label, Categorical(candidates), candidates.index, lambda index: candidates[int(index)])
        if kind == "SampleComputeLocation":
            return _Decision("location", Discrete(range(_INLINED, self._loops(position))), int, int)
        return None

    def _loops(self, position: int) -> int:
        """How many loops there are around any block when that instruction comes: it may choose one of them."""
        schedule = self._apply(self._instructions[:position], self._base)
        blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
        return max(len(schedule.get_loops(block)) for block in blocks)

    def _apply(self, instructions: Sequence[Instruction], decisions: dict[Instruction, Any]) -> Schedule:
        schedule = Schedule(self._mod, seed=1, error_render_level="none")  # what is left to sample is sampled alike
        known = {instruction: decisions[instruction] for instruction in instructions if instruction in decisions}
        Trace(list(instructions), known).apply_to_schedule(schedule, remove_postproc=True)
        return schedule


def _skeleton(trace: Trace) -> str:
    return str(trace.as_json(True)[0])


def _plain(number: Any) -> Any:
    return getattr(number, "value", number)
