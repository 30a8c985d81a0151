"""Names of the tasks of a Relax network."""

from __future__ import annotations

import re
from typing import Any

from tvm.s_tir.meta_schedule.arg_info import ArgInfo


def kind_of(task: Any) -> str:
    """The operators of a task, without the numbers by which TVM tells functions apart.

    >>> from types import SimpleNamespace
    >>> kind_of(SimpleNamespace(task_name="fused_conv2d1_add2_relu11"))
    'fused_conv2d_add_relu'
    """
    return re.sub(r"(?<=[a-z])\d+(?=_|$)", "", str(task.task_name))


def task_name(task: Any) -> str:
    """The operators of a task and the shapes of its first two tensors, such as an image and the
    weights.
    """
    shapes = [
        "x".join(map(str, tensor.shape)) or "scalar"
        for tensor in ArgInfo.from_prim_func(task.dispatched[0]["main"])[:2]
    ]
    return " ".join([kind_of(task), *shapes])
