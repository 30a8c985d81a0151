"""Lines of AutoTVM's logs as people keep them: written by another TVM, or joined; and the keys and
names of their tasks. What lines of MetaSchedule's databases say. Imports no TVM.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

# Options of the whole compiler, which targets had in TVM 0.7 to 0.9. They change how a program is
# called, and no schedule.
UNUSED_OPTIONS = frozenset(
    {
        "constants-byte-alignment",
        "executor",
        "interface-api",
        "link-params",
        "runtime",
        "system-lib",
        "unpacked-api",
        "workspace-byte-alignment",
    }
)
_OPTION = re.compile(r"\s+-+(?P<name>[A-Za-z_][\w.-]*)(?:=\S*|\s+[^-\s]\S*)?")
# Seconds, in a database, of a schedule that was chosen without a trial: TVM takes it only where
# there is no other.
UNMEASURED = 1e8
# From where on TVM takes none; and of a failed trial.
UNUSABLE_FROM = 1e9
FAILED = 1e10
# In the order of AutoTVM's MeasureErrorNo.
FAILURES = (
    "",
    "instantiation",
    "compile host",
    "compile device",
    "runtime device",
    "wrong answer",
    "build timeout",
    "run timeout",
    "unknown",
)
# How a record begins, and a line that is blank or looks like one JSON value.
RECORD_HEAD = b'{"input"'
_WHOLE = re.compile(rb"\s*(\{.*\}\s*)?$", re.DOTALL)
# Where a record begins, and where anything does.
_RECORD, _SOMETHING, _DECODER = re.compile(r'(?=\{"input")'), re.compile(r"\S"), json.JSONDecoder()


def option_names(target: str) -> set[str]:
    """The names of a target's options.

    >>> sorted(option_names("llvm -keys=cpu -link-params=0 --system-lib -mattr=+avx,-sse"))
    ['keys', 'link-params', 'mattr', 'system-lib']
    """
    return {match["name"] for match in _OPTION.finditer(target)}


def without_options(target: str, names: Collection[str] = UNUSED_OPTIONS) -> str:
    """A target without some options, and with that of the name that `target` had until TVM 0.6
    under today's.

    >>> without_options("llvm -keys=cpu -link-params=0 --system-lib -target=aarch64-linux-gnu")
    'llvm -keys=cpu -mtriple=aarch64-linux-gnu'
    """
    text = _OPTION.sub(lambda match: "" if match["name"] in names else match[0], target)
    return re.sub(r"(?<=\s)-+target=", "-mtriple=", text)


def split_line(line: str) -> list[str]:
    """The records of a line, where there should be one, and what else is there.

    Files that are joined where the first has no line end have such lines, and those that a power
    cut has damaged.

    >>> split_line('{"input": 1}{"input": 2}, {"input": ["ll{"input": 3} # best')
    ['{"input": 1}', '{"input": 2}', ',', '{"input": ["ll', '{"input": 3}', '# best']
    """
    parts = []
    for text in _RECORD.split(line.lstrip("\ufeff").rstrip()):
        end = 0
        while rest := _SOMETHING.search(text, end):
            start = rest.start()
            try:
                _, end = _DECODER.raw_decode(text, start)
            except (RecursionError, ValueError):
                end = len(text)
            parts.append(text[start:end].rstrip())
    return parts


def split_records(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines with a record each, as joined files may not have them; a record that is repeated there
    is one trial.

    >>> list(split_records([b'{"input": 1}{"input": 2}', b'{"input": 1}', b"# {"]))
    [b'{"input": 1}', b'{"input": 2}', b'# {']
    """
    seen: set[int] = set()
    for line in lines:
        parts = [line]
        if not line.startswith(b"#") and (not _WHOLE.match(line) or line.find(RECORD_HEAD, 1) >= 0):
            texts = split_line(line.decode(errors="surrogateescape"))
            parts = [text.encode(errors="surrogateescape") for text in texts]
        for part in parts:
            if not part.startswith(RECORD_HEAD):
                yield part
            elif (number := hash(part.strip())) not in seen:
                seen.add(number)
                yield part


def task_key(target: str, template: str, arguments: Any) -> str:
    """Identify a task by what a log holds of it.

    >>> task_key("llvm", "dense", (("TENSOR", (1, 8), "float32"),))
    '["llvm", "dense", [["TENSOR", [1, 8], "float32"]]]'
    """
    return json.dumps([target, template, arguments])


def task_name(template: str, arguments: Any) -> str:
    """Name a task by its template and the shapes of its tensors, or its other arguments if it has
    no tensors.

    >>> task_name("dense", (("TENSOR", (1, 8), "float32"), None))
    'dense 1x8'
    >>> task_name("matmul", (512, "float32"))
    'matmul 512 float32'
    """
    lists = [argument for argument in arguments if isinstance(argument, (list, tuple))]
    tensors = [argument for argument in lists if len(argument) > 1 and argument[0] == "TENSOR"]
    shapes = ["x".join(map(str, tensor[1])) for tensor in tensors]
    others = [str(argument) for argument in arguments if isinstance(argument, (int, str))]
    return " ".join([template, *(shapes or others)])


def workload_hash(value: Any) -> str | None:
    """Hash of a workload, which a line of a database's own holds beside the module."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value):
        return str(value[0])
    return None


def workload_number(value: Any) -> int | None:
    """Line number of a record's workload in a database; the record itself follows it."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], int) and value[0] >= 0:
        return value[0] if isinstance(value[1], list) and len(value[1]) == 4 else None
    return None


def seconds(run_secs: Iterable[Any] | None) -> float:
    """Mean latency of a trial in a database; infinite for a failure, and without one.

    >>> seconds([0.5, 1.5]), seconds(None), seconds([FAILED])
    (1.0, inf, inf)
    """
    mean = recorded_mean(run_secs)
    return mean if 0 < mean < UNMEASURED else math.inf


def recorded_mean(run_secs: Iterable[Any] | None) -> float:
    """The same as it was written, also of what was not measured or failed."""
    times = [float(time) for time in run_secs or ()]
    return sum(times) / len(times) if times else math.inf
