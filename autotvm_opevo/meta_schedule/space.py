"""MetaSchedule's sampling instructions as topologies: the sketches of a workload become one Space.

A sketch is a trace whose sampling instructions are undecided. All sketches of a workload share one
space, in which the choice of the sketch is a knob of its own: a child may inherit its sketch from
one parent and its tiles from another, so sketches learn from each other's tiles. Most sketches have
the same knobs (a matrix product's differ in where the result is written). A knob that the chosen
sketch lacks is inactive and has its first value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm.ir import IRModule
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate
from tvm.s_tir.schedule import Instruction, Schedule, Trace

from autotvm_opevo.search.space import Configuration, Space
from autotvm_opevo.search.transfer import Source
from autotvm_opevo.topology import Categorical, Discrete, Factorization, Topology

SKETCH = "sketch"
# A compute location is a loop's index, -1 for outside all loops, or this for inlined.
_INLINED = -2
# Threads per block to try for seed configurations, in this order.
_THREADS = (128, 64, 256, 32, 512, 1024)


class DecisionSpace:
    """The decisions of a workload's sketches as a `Space`.

    Parameters
    ----------
    mod : tvm.IRModule
        The workload.
    sketches : sequence of tvm.s_tir.Schedule
        From a space generator.
    postprocs : sequence of Postproc
        Applied to every schedule; any of them can reject it.

    Attributes
    ----------
    space : Space
        The sketch's index and categorical choices are `Categorical`, perfect tiles `Factorization`
        with a bound on the innermost part, compute locations `Discrete`. All other instructions
        keep the sketch's decisions.
    """

    def __init__(
        self, mod: IRModule, sketches: Sequence[Schedule], postprocs: Sequence[Any]
    ) -> None:
        self._postprocs = list(postprocs)
        self._sketches = [_Sketch(mod, sketch.trace.simplified(True)) for sketch in sketches]
        self._by_skeleton = {
            sketch.skeleton: number for number, sketch in reversed(list(enumerate(self._sketches)))
        }
        knobs: dict[str, _Decision] = {}
        for sketch in self._sketches:
            for name, decision in sketch.decisions.items():
                # more loops, more locations
                if name not in knobs or decision.topology.size > knobs[name].topology.size:
                    knobs[name] = decision
        topologies: dict[str, Topology] = {SKETCH: Categorical(range(len(self._sketches)))}
        topologies.update((name, decision.topology) for name, decision in knobs.items())
        self.space = Space(topologies, self._is_feasible)

    def candidate(
        self, configuration: Configuration
    ) -> tuple[MeasureCandidate | None, Configuration]:
        """The candidate that TVM builds and measures, and its configuration as its trace has it.

        TVM adjusts some decisions: inside a loop of one iteration, a compute location moves outside
        it. Several configurations can therefore yield the same candidate.

        Returns
        -------
        candidate : MeasureCandidate or None
            None if the trace cannot be applied, or a postprocessor rejects the schedule.
        configuration : Configuration
            The given one, if there is no candidate.
        """
        sketch = self._sketches[configuration[SKETCH]]
        schedule = sketch.apply(configuration)
        if schedule is None:
            return None, configuration
        effective = self._complete(configuration[SKETCH], sketch.read(schedule.trace))
        try:
            if effective is None or not self.space.is_feasible(effective):
                return None, configuration
            schedule.enter_postproc()
            if not all(postproc.apply(schedule) for postproc in self._postprocs):
                return None, configuration
            arguments = ArgInfo.from_entry_func(schedule.mod, remove_preproc=True)
        except RuntimeError:  # some postprocessors raise instead of rejecting
            return None, configuration
        return MeasureCandidate(schedule, arguments), effective

    def canonicalize(self, configuration: Configuration) -> Configuration:
        """The same configuration with its inactive knobs at their first values."""
        active = self._sketches[configuration[SKETCH]].decisions
        return {
            name: configuration[name] if name in active or name == SKETCH else topology[0]
            for name, topology in self.space.knobs.items()
        }

    def configuration(self, trace: Trace) -> Configuration:
        """The configuration of a trace, such as a database's.

        Raises
        ------
        ValueError
            If the trace belongs to none of the sketches, or has a decision outside the space.
        """
        simplified = trace.simplified(True)
        number = self._by_skeleton.get(_skeleton(simplified))
        if number is None:
            raise ValueError(
                "trace must be of one of the sketches of this workload; it has other instructions"
            )
        configuration = self._complete(number, self._sketches[number].read(simplified))
        if configuration is None:
            raise ValueError(
                "trace must have decisions of this workload's space; one of them is outside it"
            )
        return configuration

    def seed_configurations(self) -> Iterator[Iterator[Configuration]]:
        """For each sketch, simple configurations that are likely to be valid, the likeliest first.

        On a GPU most tilings are not: their blocks need too much memory or too many threads. These
        have all loops outermost, so that nothing is large; then a common number of threads, on the
        axes that are contiguous in memory.
        """
        for number, sketch in enumerate(self._sketches):
            yield (
                self.canonicalize({**self.space[0], **seed, SKETCH: number})
                for seed in sketch.seed_configurations()
            )

    def by_role(self, results: Mapping[int, float]) -> Source:
        """Results of this workload, the knobs named by what they are for, whatever the extents of
        the loops.

        A role is the k-th tile in as many parts, the k-th choice of the same, or the k-th location.
        """
        roles = self._roles()
        return Source(
            Space({roles[name]: topology for name, topology in self.space.knobs.items()}), results
        )

    def translate(self, other: Source) -> Source | None:
        """Results by role (see `by_role`) under the names of this space's knobs; None if the
        sketches have another structure.

        The structure is the number of sketches, and of tiles in as many parts. Locations and
        choices may differ.
        """
        names = {role: name for name, role in self._roles().items()}
        knobs = other.space.knobs
        if _structure(knobs) != _structure(
            {role: self.space.knobs[name] for role, name in names.items()}
        ):
            return None
        return other._replace(
            space=Space({names.get(role, role): topology for role, topology in knobs.items()})
        )

    def _roles(self) -> dict[str, str]:
        """By the knobs' names."""
        roles: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for name, topology in self.space.knobs.items():
            kind = (
                f"tile in {topology.parts}"
                if isinstance(topology, Factorization)
                else name.rpartition(" (")[0] or name
            )
            counts[kind] += 1
            roles[name] = f"{kind} ({counts[kind]})"
        return roles

    def _complete(self, number: int, active: Configuration) -> Configuration | None:
        """Add the sketch and the inactive knobs; None if a value is outside the space."""
        configuration = {
            name: active.get(name, topology[0]) for name, topology in self.space.knobs.items()
        } | {SKETCH: number}
        return (
            configuration
            if all(value in self.space.knobs[name] for name, value in active.items())
            else None
        )

    def _is_feasible(self, configuration: Configuration) -> bool:
        decisions = self._sketches[configuration[SKETCH]].decisions
        return all(
            decision.innermost is None or configuration[name][-1] <= decision.innermost
            for name, decision in decisions.items()
        )


@dataclass(frozen=True)
class _Decision:
    """One sampling instruction as a knob."""

    label: str
    topology: Topology
    write: Callable[[Any], Any]  # from the topology's value to TVM's decision
    read: Callable[[Any], Any]  # and back
    innermost: int | None = None  # bound of a tile's last part


class _Sketch:
    """A trace with undecided sampling instructions.

    Attributes
    ----------
    skeleton : str
        Its instructions without the decisions.
    decisions : dict of str to _Decision
        By the names of their knobs, in the order of the instructions. Knobs of different sketches
        share a name if they are the k-th with the same values.
    """

    def __init__(self, mod: IRModule, trace: Trace) -> None:
        self._mod = mod
        self._instructions: list[Instruction] = list(trace.insts)
        self._base = {i: trace.decisions[i] for i in self._instructions if i in trace.decisions}
        self.skeleton = _skeleton(trace)
        self.decisions: dict[str, _Decision] = {}
        self._positions: dict[str, int] = {}
        labels: Counter[str] = Counter()
        for position, instruction in enumerate(self._instructions):
            decision = self._decision(position, instruction)
            if decision is not None:
                labels[decision.label] += 1
                name = f"{decision.label} ({labels[decision.label]})"
                self.decisions[name], self._positions[name] = decision, position

    def apply(self, configuration: Configuration) -> Schedule | None:
        """A schedule with these decisions; None if TVM cannot apply them."""
        decisions = dict(self._base)
        for name, decision in self.decisions.items():
            instruction = self._instructions[self._positions[name]]
            decisions[instruction] = decision.write(configuration[name])
        try:
            return self._apply(self._instructions, decisions)
        except RuntimeError:  # such as TVM's ScheduleError
            return None

    def read(self, trace: Trace) -> Configuration:
        """The values of the knobs in a trace that begins with this sketch's instructions."""
        instructions = list(trace.insts)
        return {
            name: decision.read(trace.get_decision(instructions[self._positions[name]]))
            for name, decision in self.decisions.items()
        }

    def seed_configurations(self) -> Iterator[Configuration]:
        """All loops outermost; then threads at each depth of the deepest tiles, beginning with the
        last axis.
        """
        tiles = {
            name: d.topology
            for name, d in self.decisions.items()
            if isinstance(d.topology, Factorization)
        }
        outermost = {name: (tile.product, *[1] * (tile.parts - 1)) for name, tile in tiles.items()}
        others = {
            name: decision.topology[0]
            for name, decision in self.decisions.items()
            if name not in tiles
        }
        yield {**others, **outermost}
        depth = max((tile.parts for tile in tiles.values()), default=0)
        for threads in _THREADS:
            for position in range(1, depth):
                seed, left = dict(outermost), threads
                for name, tile in reversed(tiles.items()):
                    if tile.parts == depth:
                        inner = max(
                            d
                            for d in range(1, min(left, tile.product) + 1)
                            if tile.product % d == 0
                        )
                        parts = [tile.product // inner, *[1] * (depth - 1)]
                        parts[position] = inner
                        seed[name] = tuple(parts)
                        left //= inner
                yield {**others, **seed}

    def _decision(self, position: int, instruction: Instruction) -> _Decision | None:
        kind = instruction.kind.name
        if kind == "SamplePerfectTile":
            parts, innermost = map(int, instruction.attrs)
            extent = prod(map(int, self._base[instruction]))
            bound = innermost if 0 < innermost < extent else None  # TVM's -1 is none
            label = f"tile {extent} in {parts}" + (f", last to {bound}" if bound else "")
            return _Decision(
                label, Factorization(extent, parts), list, lambda tile: tuple(map(int, tile)), bound
            )
        if kind == "SampleCategorical":
            candidates = [getattr(value, "value", value) for value in instruction.attrs[0]]
            if len(set(candidates)) < len(candidates):
                return None
            label = f"choice of {', '.join(map(str, candidates))}"
            return _Decision(
                label,
                Categorical(candidates),
                candidates.index,
                lambda index: candidates[int(index)],
            )
        if kind == "SampleComputeLocation":
            return _Decision("location", Discrete(range(_INLINED, self._loops(position))), int, int)
        return None

    def _loops(self, position: int) -> int:
        """Maximum number of loops around a block at that instruction, which chooses one of them.

        It depends on the locations before. These are sampled here, always alike: with the sketch's
        own, which TVM samples with a seed, another run of the same task would have another space.
        """
        schedule = self._apply(self._instructions[:position], {})
        blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
        return max(len(schedule.get_loops(block)) for block in blocks)

    def _apply(
        self, instructions: Sequence[Instruction], decisions: dict[Instruction, Any]
    ) -> Schedule:
        # undecided instructions are sampled alike
        schedule = Schedule(self._mod, seed=1, error_render_level="none")
        Trace(list(instructions), decisions).apply_to_schedule(schedule, remove_postproc=True)
        return schedule


def _structure(knobs: Mapping[str, Topology]) -> set[tuple[str, int]]:
    """Of the sketches with these knobs, by role."""
    return {
        (role, topology.size if role.startswith(SKETCH) else 0)
        for role, topology in knobs.items()
        if role.startswith(SKETCH) or isinstance(topology, Factorization)
    }


def _skeleton(trace: Trace) -> str:
    return str(trace.as_json(True)[0])
