"""The paper's operators (appendix B) as MetaSchedule workloads, and small versions for a CPU.

The operators are named as in `benchmarks.operators`; the versions for a CPU are

=====  =============================================
MM1    512 x 512 times 512 x 512
BMM1   192 of 128 x 128 times 128 x 64
C1     1 image of 3 x 227 x 227, 64 kernels of 11 x 11, stride 4
C2     1 image of 64 x 27 x 27, 192 kernels of 5 x 5, padding 2
=====  =============================================

and `WORKLOADS` has others for a CPU, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import te, topi

from benchmarks.tensors import batch_matmul


def matmul(n: int, k: int, m: int) -> Any:
    """Z_nm = sum over k of X_nk Y_km."""
    x, y = te.placeholder((n, k), name="X"), te.placeholder((k, m), name="Y")
    r = te.reduce_axis((0, k), name="k")
    return te.create_prim_func(
        [x, y, te.compute((n, m), lambda i, j: te.sum(x[i, r] * y[r, j], axis=r), name="Z")]
    )


def convolution(image: tuple[int, ...], kernel: tuple[int, ...], stride: int, padding: int) -> Any:
    """A convolution in NCHW."""
    x, w = te.placeholder(image, name="I"), te.placeholder(kernel, name="K")
    return te.create_prim_func([x, w, topi.nn.conv2d_nchw(x, w, stride, padding, 1)])


def depthwise(image: tuple[int, ...], stride: int) -> Any:
    """A depthwise convolution of 3 x 3 in NCHW."""
    x, w = te.placeholder(image, name="I"), te.placeholder((image[1], 1, 3, 3), name="K")
    return te.create_prim_func([x, w, topi.nn.depthwise_conv2d_nchw(x, w, stride, 1, 1)])


def softmax(shape: tuple[int, int]) -> Any:
    """A softmax over the last axis."""
    x = te.placeholder(shape, name="A")
    return te.create_prim_func([x, topi.nn.softmax(x)])


PAPER: dict[str, Callable[[], Any]] = {
    "MM1": lambda: matmul(512, 1024, 1024),
    "MM2": lambda: matmul(512, 1024, 4096),
    "MM3": lambda: matmul(512, 4096, 1024),
    "BMM1": lambda: te.create_prim_func(batch_matmul(960, 128, 128, 64, "NN")),
    "BMM2": lambda: te.create_prim_func(batch_matmul(960, 128, 128, 64, "TN")),
    "BMM3": lambda: te.create_prim_func(batch_matmul(960, 128, 64, 128, "NT")),
    "C1": lambda: convolution((512, 3, 227, 227), (64, 3, 11, 11), 4, 0),
    "C2": lambda: convolution((512, 64, 27, 27), (192, 64, 5, 5), 1, 2),
}

CPU: dict[str, Callable[[], Any]] = {
    "MM1": lambda: matmul(512, 512, 512),
    "BMM1": lambda: te.create_prim_func(batch_matmul(192, 128, 128, 64, "NN")),
    "C1": lambda: convolution((1, 3, 227, 227), (64, 3, 11, 11), 4, 0),
    "C2": lambda: convolution((1, 64, 27, 27), (192, 64, 5, 5), 1, 2),
}

# The last four are held out: no search was developed on them.
WORKLOADS: dict[str, Callable[[], Any]] = {
    **CPU,
    "DW": lambda: depthwise((1, 96, 56, 56), 1),
    "softmax": lambda: softmax((512, 1000)),
    "MM-h": lambda: matmul(320, 448, 832),
    "C3-h": lambda: convolution((1, 128, 28, 28), (256, 128, 3, 3), 1, 1),
    "C4-h": lambda: convolution((1, 256, 14, 14), (512, 256, 1, 1), 1, 0),
    "DW-h": lambda: depthwise((1, 192, 28, 28), 2),
}


def cpu(cores: int = 2) -> tvm.target.Target:
    """The target for a CPU with AVX2."""
    return tvm.target.Target({"kind": "llvm", "mcpu": "core-avx2", "num-cores": cores})
