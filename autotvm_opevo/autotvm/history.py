"""What tuners learn from: records of other tasks of the same template, for other shapes, targets or
devices, and, before any, the bundled tuning records.
"""

from __future__ import annotations

import json
import logging
import platform
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import tvm
from tvm import autotvm
from tvm.autotvm.measure import MeasureInput
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import ConfigEntity
from tvm.target import Target

from autotvm_opevo._utils.interrupts import interrupts_in_tvm
from autotvm_opevo._utils.text import pluralize
from autotvm_opevo.autotvm.log import Record, UnknownTarget, fitness, key_of, parse, read_fields
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.search.transfer import Source, subsample
from autotvm_opevo.tuning.logs import about, best_file
from autotvm_opevo.tuning.prior import read_prior

# Of one template, at most this many tasks are looked at, those with the most records, and of each
# at most this many records.
_MAX_TASKS, _MAX_RECORDS = 32, 512
# The architectures of the CPUs that the package knows layers of.
_X86 = {"x86_64", "amd64", "i386", "i686"}
# TVM's function, by its name in the registry: its module is not the same in all versions.
_LANES = "tvm.topi.x86.utils.get_simd_32bit_lanes"

logger = logging.getLogger(__name__)


class _Trials(NamedTuple):
    """Of one task: one of its inputs, and the configurations and fitnesses of its records."""

    example: MeasureInput
    configs: list[str]  # JSON, which takes a tenth of the memory of a `ConfigEntity`
    fitnesses: list[float]


class History:
    """Records, by template and task; their search spaces are created when they are needed."""

    def __init__(self) -> None:
        self._trials: dict[str, dict[Any, _Trials]] = {}  # by template and task
        self._sources: dict[Any, Source | None] = {}

    def describe(self, templates: Collection[str], target: Target) -> str:
        """How much of it is of some templates and for a target, see `sources`, and how much is
        not.
        """
        used: list[int] = []
        unused = 0
        for name, tasks in self._trials.items():
            for trials in tasks.values():
                if name in templates and is_cpu(trials.example.target) == is_cpu(target):
                    used.append(len(trials.configs))
                else:
                    unused += len(trials.configs)
        text = f"{pluralize(sum(used), 'record')} of {pluralize(len(used), 'task')}"
        return text + (f"; {unused} are of other templates or kinds of device" if unused else "")

    def add(self, records: Iterable[Record]) -> None:
        """Add records."""
        for measured, result in records:
            trials = self._of_task(measured)
            trials.configs.append(json.dumps(measured.config.to_json_dict()))
            trials.fitnesses.append(fitness(result))

    def read(self, path: Path, name: str) -> None:
        """Add the records of a log, at least one. It repeats the input of a task with each of them,
        which is parsed once. `name` is what warnings call the log.
        """
        tasks: dict[str, _Trials] = {}
        left_out: Counter[str] = Counter()  # records that cannot be used, by the reason
        for line, fields in read_fields(path):
            key = json.dumps(fields.input)
            try:
                if key not in tasks and (record := parse(line)):
                    tasks[key] = self._of_task(record[0])
            except UnknownTarget as error:
                left_out[str(error)] += 1
                continue
            except ValueError:
                continue
            tasks[key].configs.append(json.dumps(fields.config))
            tasks[key].fitnesses.append(fitness(fields.result))
        if not tasks:
            unusable = next((f" that can be used, {why}: leave it out" for why in left_out), "")
            why = unusable or about(path, "leave it out, or check its name")
            raise ValueError(f"history must be logs of AutoTVM, {path} has no record{why}")
        for why, count in left_out.items():
            logger.warning("%s of %s left out, %s", pluralize(count, "record"), name, why)

    def _of_task(self, example: MeasureInput) -> _Trials:
        """The trials of a task, to which some are added."""
        key = key_of(example.target, example.task)
        tasks = self._trials.setdefault(example.task.name, {})
        trials = tasks.setdefault(key, _Trials(example, [], []))
        self._sources.pop(key, None)
        return trials

    def __bool__(self) -> bool:
        return bool(self._trials)

    def sources(self, template: str, target: Target) -> list[Source]:
        """The tasks of a template whose records can be used: for a target on a CPU, those of CPUs,
        otherwise of other devices.

        Where one template has both, its knobs mean something else on a GPU, such as threads.
        """
        tasks = {
            key: trials
            for key, trials in self._trials.get(template, {}).items()
            if is_cpu(trials.example.target) == is_cpu(target)
        }
        used = sorted(tasks, key=lambda key: -len(tasks[key].configs))[:_MAX_TASKS]
        for key in used:
            if key not in self._sources:
                self._sources[key] = _source(tasks[key])
        return [source for key in used if (source := self._sources[key]) is not None]


def is_cpu(target: Target) -> bool:
    return "cpu" in target.keys


def _source(trials: _Trials) -> Source | None:
    """The results of one task; None if its search space cannot be created here, or none of its
    trials succeeded.
    """
    measured = trials.example
    try:
        with interrupts_in_tvm(defer=True):
            task: Task = autotvm.task.create(
                measured.task.name, measured.task.args, measured.target
            )
        knobs = KnobSpace(task.config_space)
    except Exception:  # of a template, for arguments or a target that it was not made for
        return None
    results: dict[int, float] = {}
    best: dict[str, float] = {}
    # of equal ones, the first
    for value, config in sorted(zip(trials.fitnesses, trials.configs), key=lambda pair: -pair[0]):
        best.setdefault(config, value)
    for config, value in subsample(list(best.items()), _MAX_RECORDS):
        # recorded with another version of the template, or no configuration at all
        with suppress(Exception):
            entity = ConfigEntity.from_json_dict(json.loads(config))
            results.setdefault(knobs.space.index(knobs.configuration(entity)), value)
    return Source(knobs.space, results) if any(results.values()) else None


def read_history(files: Iterable[str | PathLike[str]], log: Path) -> History:
    """Read logs, except for `log` and the file of its best records, which count as this run's; a
    `ValueError` if a file has no AutoTVM record that can be used, or is a folder.
    """
    history, own = History(), log.resolve()  # the file of the best is beside what a link names
    for path, given in {Path(file).resolve(): file for file in files}.items():
        if path in (own, best_file(own).resolve()):
            continue
        if path.is_dir():
            raise ValueError(
                f"history must be logs of AutoTVM, {path} is a "
                f"folder{about(path, 'name the logs in it')}"
            )
        history.read(path, str(given))
    return history


def prior(task: Task) -> Sequence[Source]:
    """The sources that come with this package for a task: of the same template, for other shapes;
    none unless for an x86 CPU.
    """
    target = task.target
    # older versions leave this machine's out
    triple = str(target.attrs.get("mtriple", "")) or platform.machine()
    if target.kind.name != "llvm" or triple.partition("-")[0].lower() not in _X86:
        return ()  # TVM tunes other CPUs with some of these templates, too
    return read_prior(prior_file(target)).get(task.name, ())


def prior_file(target: tvm.target.Target) -> Path:
    """The file for a CPU: what is best depends on how many values a vector has, and on the number
    of registers.
    """
    lanes = tvm.get_global_func(_LANES, allow_missing=True)
    with target, interrupts_in_tvm(defer=True):
        wide = lanes is not None and lanes() == 16
    return Path(__file__).with_name("avx512_prior.json" if wide else "avx2_prior.json")
