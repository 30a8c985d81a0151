"""Names of AutoTVM's tasks, and of tuners and strategies, in logs and for people. Imports no
TVM.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any


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
    shapes = ["x".join(map(str, argument[1])) for argument in arguments if _is_tensor(argument)]
    others = [str(argument) for argument in arguments if isinstance(argument, (int, str))]
    return " ".join([template, *(shapes or others)])


def _is_tensor(argument: Any) -> bool:
    return isinstance(argument, (list, tuple)) and len(argument) > 1 and argument[0] == "TENSOR"


def describe_tuner(tuner: Any, seed: int | None, **others: Any) -> str:
    """Name a tuner, or a function that makes one, with its options, others that it gets, and the
    seed.

    >>> from autotvm_opevo import OpEvo
    >>> describe_tuner(partial(OpEvo, surrogate=None), 0)
    'OpEvo surrogate=None, seed 0'
    >>> describe_tuner(OpEvo, None, transfer=False)
    'OpEvo transfer=False'
    """
    options = tuner.keywords if isinstance(tuner, partial) else {}
    factory = tuner.func if isinstance(tuner, partial) else tuner
    return describe(
        getattr(factory, "__name__", type(factory).__name__), {**options, **others}, seed
    )


def describe(name: str, options: dict[str, Any], seed: int | None) -> str:
    """Join a name, options and a seed.

    >>> describe("OpEvo", {"mutation_rate": 0.3}, None)
    'OpEvo mutation_rate=0.3'
    """
    text = "".join(f" {option}={value!r}" for option, value in options.items())
    return name + text + ("" if seed is None else f", seed {seed}")
