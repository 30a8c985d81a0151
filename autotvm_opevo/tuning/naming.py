"""What tasks and tuners of AutoTVM are called, by their logs and by people. Knows no TVM."""

from __future__ import annotations

import json
from functools import partial
from typing import Any


def task_key(target: str, template: str, arguments: Any) -> str:
    """What tells a task from others, in a log's own words.

    >>> task_key("llvm", "dense", (("TENSOR", (1, 8), "float32"),))
    '["llvm", "dense", [["TENSOR", [1, 8], "float32"]]]'
    """
    return json.dumps([target, template, arguments])


def task_name(template: str, arguments: Any) -> str:
    """The template and the shapes of its tensors, or, where it has none, its other arguments.

    >>> task_name("dense", (("TENSOR", (1, 8), "float32"), None)), task_name("matmul", (512, "float32"))
    ('dense 1x8', 'matmul 512 float32')
    """
    shapes = ["x".join(map(str, argument[1])) for argument in arguments if _is_tensor(argument)]
    others = [str(argument) for argument in arguments if isinstance(argument, (int, str))]
    return " ".join([template, *(shapes or others)])


def _is_tensor(argument: Any) -> bool:
    return isinstance(argument, (list, tuple)) and len(argument) > 1 and argument[0] == "TENSOR"


def describe_tuner(tuner: Any, seed: int | None) -> str:
    """What makes tuners, and the seed it was given.

    >>> from autotvm_opevo import OpEvo
    >>> describe_tuner(partial(OpEvo, surrogate="gp"), 0), describe_tuner(OpEvo, None)
    ("OpEvo surrogate='q-walk', seed 0", 'OpEvo')
    """
    options = "".join(f" {name}={value!r}" for name, value in tuner.keywords.items()) if isinstance(tuner, partial) else ""
    made_by = tuner.func if isinstance(tuner, partial) else tuner
    return getattr(made_by, "__name__", type(made_by).__name__) + options + ("" if seed is None else f", seed {seed}")
