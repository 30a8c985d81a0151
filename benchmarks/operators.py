"""The paper's operators (appendix B) as AutoTVM tasks, and small versions for a CPU, whose trials
take well under a second.

=====  =========================================  =============================================
name   on CUDA                                    on a CPU
=====  =========================================  =============================================
MM1    512 x 1024 times 1024 x 1024               64 x 128 times 128 x 128
MM2    512 x 1024 times 1024 x 4096               64 x 128 times 128 x 512
MM3    512 x 4096 times 4096 x 1024               64 x 512 times 512 x 128
BMM1   960 of 128 x 128 times 128 x 64            16 of 32 x 32 times 32 x 16
BMM2   BMM1 with the first operand transposed     the same
BMM3   960 of 128 x 64 times 128 x 64 transposed  16 of 32 x 16 times 32 x 16 transposed
C1     512 images of 3 x 227 x 227, 64 kernels    1 image of 3 x 59 x 59, 16 kernels
       of 11 x 11, stride 4                       of 11 x 11, stride 4
C2     512 images of 64 x 27 x 27, 192 kernels    1 image of 16 x 14 x 14, 32 kernels
       of 5 x 5, padding 2                        of 5 x 5, padding 2
=====  =========================================  =============================================

On CUDA, MM and C are TOPI's templates, which have the paper's spaces (except for C's unroll steps:
0, 512 and 1500 instead of 0, 125 and 256); BMM is a template of this module, since TOPI's has fewer
splits. On a CPU all of these are templates of this module, with splits, a reorder and switches.

`TOPI` and `TOPI_HELD_OUT` are layers of networks with TOPI's own templates for x86, which AutoTVM
tunes. Their spaces are small enough to record: they have at most 1,000 points, few of which take
long to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import autotvm, te, topi
from tvm.autotvm.task import Task
from tvm.target import Target

from benchmarks.tensors import batch_matmul


def names(target: Target | str) -> list[str]:
    """The operators available for a target."""
    return list(_CUDA if _is_gpu(Target(target)) else _CPU)


def task(name: str, target: Target | str) -> Task:
    """Create the AutoTVM task of an operator.

    Raises
    ------
    ValueError
        If the operator is unknown.
    """
    target = Target(target)
    operators = _CUDA if _is_gpu(target) else _CPU
    if name not in operators:
        raise ValueError(f"operator must be one of {', '.join(operators)}; {name!r} given")
    return operators[name](target)


def _is_gpu(target: Target) -> bool:
    return target.kind.name != "llvm"


def _of(template: str, *arguments: Any) -> Callable[[Target], Task]:
    return lambda target: autotvm.task.create(template, args=arguments, target=target)


def _of_this_module(template: str, *arguments: Any) -> Callable[[Target], Task]:
    return _of(f"autotvm_opevo/{template}", *arguments)


def _dense(template: str, rows: int, inputs: int, outputs: int) -> Callable[[Target], Task]:
    tensors = te.placeholder((rows, inputs), name="X"), te.placeholder((outputs, inputs), name="Y")
    return _of(template, *tensors, None, "float32")


# --- CUDA


def _conv2d_cuda(
    image: tuple[int, ...], kernel: tuple[int, ...], stride: int, padding: int
) -> Callable[[Target], Task]:
    tensors = te.placeholder(image, name="I"), te.placeholder(kernel, name="K")
    attributes = (stride, stride), (padding, padding), (1, 1), "float32"
    return _of("conv2d_nchw.cuda", *tensors, *attributes)


@autotvm.template("autotvm_opevo/batch_matmul.cuda")
def batch_matmul_cuda(
    batch: int, n: int, k: int, m: int, transpose: str
) -> tuple[te.Schedule, list[te.Tensor]]:
    """The batch is split into blocks and threads; rows and columns also into virtual threads and
    tiles, as in TOPI's dense.
    """
    x, y, z = batch_matmul(batch, n, k, m, transpose)
    s = te.create_schedule(z.op)
    tiles = [(tensor, s.cache_read(tensor, "shared", [z])) for tensor in (x, y)]
    registers = [s.cache_read(shared, "local", [z]) for _, shared in tiles]
    sums = s.cache_write(z, "local")

    cfg = autotvm.get_config()
    b, i, j = s[z].op.axis
    (r,) = s[sums].op.reduce_axis
    cfg.define_split("tile_b", b, num_outputs=2)
    cfg.define_split("tile_k", r, num_outputs=3)
    cfg.define_split("tile_y", i, num_outputs=4)
    cfg.define_split("tile_x", j, num_outputs=4)
    cfg.add_flop(2.0 * batch * n * k * m)

    block_z, thread_z = cfg["tile_b"].apply(s, z, b)
    block_y, virtual_y, thread_y, tile_y = cfg["tile_y"].apply(s, z, i)
    block_x, virtual_x, thread_x, tile_x = cfg["tile_x"].apply(s, z, j)
    s[z].reorder(
        *(block_z, block_y, block_x, virtual_y, virtual_x),
        *(thread_z, thread_y, thread_x, tile_y, tile_x),
    )
    for axis, thread in [
        *[(block_z, "blockIdx.z"), (block_y, "blockIdx.y"), (block_x, "blockIdx.x")],
        *[(virtual_y, "vthread"), (virtual_x, "vthread")],
        *[(thread_z, "threadIdx.z"), (thread_y, "threadIdx.y"), (thread_x, "threadIdx.x")],
    ]:
        s[z].bind(axis, te.thread_axis(thread))

    s[sums].compute_at(s[z], thread_x)
    outer, middle, inner = cfg["tile_k"].apply(s, sums, r)
    s[sums].reorder(outer, middle, inner, *s[sums].op.axis)
    for (_, shared), local in zip(tiles, registers):
        s[shared].compute_at(s[sums], outer)
        s[local].compute_at(s[sums], middle)
        rest = s[shared].fuse(*s[shared].op.axis)
        for name, split in (("threadIdx.x", "tile_x"), ("threadIdx.y", "tile_y")):
            rest, thread = s[shared].split(rest, factor=cfg[split].size[2])
            s[shared].bind(thread, te.thread_axis(name))
        rest, thread = s[shared].split(rest, factor=cfg["tile_b"].size[1])
        s[shared].bind(thread, te.thread_axis("threadIdx.z"))
    return s, [x, y, z]


_CUDA: dict[str, Callable[[Target], Task]] = {
    "MM1": _dense("dense_large_batch.gpu", 512, 1024, 1024),
    "MM2": _dense("dense_large_batch.gpu", 512, 1024, 4096),
    "MM3": _dense("dense_large_batch.gpu", 512, 4096, 1024),
    "BMM1": _of_this_module("batch_matmul.cuda", 960, 128, 128, 64, "NN"),
    "BMM2": _of_this_module("batch_matmul.cuda", 960, 128, 128, 64, "TN"),
    "BMM3": _of_this_module("batch_matmul.cuda", 960, 128, 64, 128, "NT"),
    "C1": _conv2d_cuda((512, 3, 227, 227), (64, 3, 11, 11), 4, 0),
    "C2": _conv2d_cuda((512, 64, 27, 27), (192, 64, 5, 5), 1, 2),
}

# --- CPU


@autotvm.template("autotvm_opevo/batch_matmul.cpu")
def batch_matmul_cpu(
    batch: int, n: int, k: int, m: int, transpose: str, parts: int
) -> tuple[te.Schedule, list[te.Tensor]]:
    """Rows and the reduction split in two, columns in `parts`; a reorder of three inner loops; a
    switch and a number.
    """
    x, y, z = batch_matmul(batch, n, k, m, transpose)
    s = te.create_schedule(z.op)
    cfg = autotvm.get_config()
    b, i, j = s[z].op.axis
    (r,) = s[z].op.reduce_axis
    cfg.define_split("tile_y", i, num_outputs=2)
    cfg.define_split("tile_x", j, num_outputs=parts)
    cfg.define_split("tile_k", r, num_outputs=2)
    outer_y, inner_y = cfg["tile_y"].apply(s, z, i)
    outer_x, *inner_x = cfg["tile_x"].apply(s, z, j)
    outer_k, inner_k = cfg["tile_k"].apply(s, z, r)
    inside = [inner_y, outer_k, inner_x[0]] if parts == 3 else [inner_y, outer_k, inner_k]
    cfg.define_reorder("order", inside, policy="all")
    cfg.define_knob("vectorize", [False, True])
    cfg.define_knob("unroll", [0, 16])
    cfg.add_flop(2.0 * batch * n * k * m)

    rest = [inner_k, inner_x[1]] if parts == 3 else inner_x
    s[z].reorder(b, outer_y, outer_x, *[inside[position] for position in cfg["order"].perm], *rest)
    if cfg["vectorize"].val:
        s[z].vectorize(inner_x[-1])
    s[z].pragma(b, "auto_unroll_max_step", cfg["unroll"].val)
    s[z].pragma(b, "unroll_explicit", True)
    return s, [x, y, z]


@autotvm.template("autotvm_opevo/conv2d.cpu")
def conv2d_cpu(
    channels: int, size: int, kernels: int, kernel: int, stride: int, padding: int
) -> tuple[te.Schedule, list[te.Tensor]]:
    """Kernels, columns and channels split in two; a reorder of the reduction loops; an annotation
    of the innermost; a number.
    """
    image = te.placeholder((1, channels, size, size), name="I")
    weights = te.placeholder((kernels, channels, kernel, kernel), name="K")
    z = topi.nn.conv2d_nchw(image, weights, stride, padding, 1)
    s = te.create_schedule(z.op)
    padded = z.op.input_tensors[0]
    s[padded].compute_inline()
    cfg = autotvm.get_config()
    _, f, y, x = s[z].op.axis
    c, ry, rx = s[z].op.reduce_axis
    cfg.define_split("tile_f", f, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_split("tile_c", c, num_outputs=2)
    outer_f, inner_f = cfg["tile_f"].apply(s, z, f)
    outer_x, inner_x = cfg["tile_x"].apply(s, z, x)
    outer_c, inner_c = cfg["tile_c"].apply(s, z, c)
    inside = [inner_c, ry, rx]
    cfg.define_reorder("order", inside, policy="all")
    cfg.define_annotate("innermost", [inner_f, inner_x], policy="try_unroll_vec")
    cfg.define_knob("unroll", [0, 16])
    cfg.add_flop(2.0 * kernels * channels * kernel**2 * int(y.dom.extent) * int(x.dom.extent))

    order = [inside[position] for position in cfg["order"].perm]
    s[z].reorder(outer_f, y, outer_x, outer_c, *order, inner_f, inner_x)
    cfg["innermost"].apply(s, z, [inner_f, inner_x])
    s[z].pragma(outer_f, "auto_unroll_max_step", cfg["unroll"].val)
    s[z].pragma(outer_f, "unroll_explicit", True)
    return s, [image, weights, z]


@autotvm.template("autotvm_opevo/tiled_matmul.cpu")
def tiled_matmul_cpu(n: int, k: int, m: int, registers: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """Tiles accumulate in registers; the template rejects tiles that do not fit, as on a GPU."""
    x, y, z = batch_matmul(1, n, k, m, "NN")
    s = te.create_schedule(z.op)
    sums = s.cache_write(z, "local")
    cfg = autotvm.get_config()
    _, i, j = s[z].op.axis
    cfg.define_split("tile_y", i, num_outputs=2)
    cfg.define_split("tile_x", j, num_outputs=3)
    (r,) = s[sums].op.reduce_axis
    cfg.define_split("tile_k", r, num_outputs=2)
    outer_y, inner_y = cfg["tile_y"].apply(s, z, i)
    outer_x, middle_x, inner_x = cfg["tile_x"].apply(s, z, j)
    s[z].reorder(outer_x, outer_y, middle_x, inner_y, inner_x)
    s[sums].compute_at(s[z], middle_x)
    _, tile_y, tile_x = s[sums].op.axis
    outer_k, inner_k = cfg["tile_k"].apply(s, sums, r)
    s[sums].reorder(outer_k, inner_k, tile_y, tile_x)
    cfg.define_annotate("innermost", [tile_y, tile_x], policy="try_unroll_vec")
    cfg.add_flop(2.0 * n * k * m)
    lanes = 8
    vectors = cfg["tile_y"].size[-1] * -(-cfg["tile_x"].size[-1] // lanes)
    if vectors > registers:
        cfg.raise_error(f"a tile of {vectors} vectors does not fit into {registers} registers")
    cfg["innermost"].apply(s, sums, [tile_y, tile_x])
    return s, [x, y, z]


@autotvm.template("autotvm_opevo/split_matmul.cpu")
def split_matmul_cpu(n: int, k: int, m: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """Splits only, as G-BFS and N-A2C require."""
    x, y, z = batch_matmul(1, n, k, m, "NN")
    s = te.create_schedule(z.op)
    cfg = autotvm.get_config()
    _, i, j = s[z].op.axis
    (r,) = s[z].op.reduce_axis
    cfg.define_split("tile_y", i, num_outputs=3)
    cfg.define_split("tile_x", j, num_outputs=3)
    cfg.define_split("tile_k", r, num_outputs=2)
    cfg.add_flop(2.0 * n * k * m)
    outer_y, middle_y, inner_y = cfg["tile_y"].apply(s, z, i)
    outer_x, middle_x, inner_x = cfg["tile_x"].apply(s, z, j)
    outer_k, inner_k = cfg["tile_k"].apply(s, z, r)
    s[z].reorder(outer_y, outer_x, outer_k, middle_y, middle_x, inner_k, inner_y, inner_x)
    s[z].vectorize(inner_x)
    return s, [x, y, z]


@autotvm.template("autotvm_opevo/reordered_matmul.cpu")
def reordered_matmul_cpu(n: int, k: int, m: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """What `benchmarks.tune_matmul` tunes, always vectorized and unrolled, so that the space can be
    recorded.
    """
    x, y, z = batch_matmul(1, n, k, m, "NN")
    s = te.create_schedule(z.op)
    cfg = autotvm.get_config()
    b, i, j = s[z].op.axis
    (r,) = s[z].op.reduce_axis
    cfg.define_split("tile_y", i, num_outputs=3, filter=lambda tile: max(tile.size[1:]) <= 8)
    cfg.define_split(
        "tile_x", j, num_outputs=3, filter=lambda tile: tile.size[1] <= 8 and tile.size[2] <= 64
    )
    cfg.define_split("tile_k", r, num_outputs=2, filter=lambda tile: tile.size[1] in (1, 16))
    outer_y, middle_y, inner_y = cfg["tile_y"].apply(s, z, i)
    outer_x, middle_x, inner_x = cfg["tile_x"].apply(s, z, j)
    inside = [*cfg["tile_k"].apply(s, z, r), inner_y]
    cfg.define_reorder("order", inside, policy="all")
    cfg.add_flop(2.0 * n * k * m)

    order = [inside[position] for position in cfg["order"].perm]
    s[z].reorder(b, outer_y, outer_x, middle_y, middle_x, *order, inner_x)
    s[z].vectorize(inner_x)
    s[z].pragma(b, "auto_unroll_max_step", 16)
    return s, [x, y, z]


# --- TOPI's own templates for x86


def _conv2d_x86(
    channels: int, size: int, kernels: int, kernel: int, stride: int
) -> Callable[[Target], Task]:
    tensors = (
        te.placeholder((1, channels, size, size), name="I"),
        te.placeholder((kernels, channels, kernel, kernel), name="K"),
    )
    return _of("conv2d_NCHWc.x86", *tensors, *_convolution(kernel, stride))


def _depthwise_x86(channels: int, size: int, stride: int) -> Callable[[Target], Task]:
    tensors = (
        te.placeholder((1, channels, size, size), name="I"),
        te.placeholder((channels, 1, 3, 3), name="K"),
    )
    return _of("depthwise_conv2d_NCHWc.x86", *tensors, *_convolution(3, stride))


def _convolution(kernel: int, stride: int) -> tuple[Any, ...]:
    """Strides, padding to the same size, dilation, layouts and dtype."""
    return (stride,) * 2, (kernel // 2,) * 4, (1, 1), "NCHW", "NCHW", "float32"


def _batch_matmul_x86(batch: int, n: int, k: int, m: int) -> Callable[[Target], Task]:
    tensors = te.placeholder((batch, n, k), name="X"), te.placeholder((batch, m, k), name="Y")
    return _of("batch_matmul.x86", *tensors, None, "float32", False, True)


TOPI: dict[str, Callable[[Target], Task]] = {
    "resnet18-conv7x7s2": _conv2d_x86(3, 224, 64, 7, 2),
    "resnet18-conv3x3s2": _conv2d_x86(256, 14, 512, 3, 2),
    "resnet18-conv1x1s2": _conv2d_x86(256, 14, 512, 1, 2),
    "resnet50-conv1x1": _conv2d_x86(2048, 7, 512, 1, 1),
    "mobilenet-conv1x1": _conv2d_x86(512, 7, 1024, 1, 1),
    "mobilenet-depthwise": _depthwise_x86(1024, 7, 1),
    "mobilenet-depthwise-s2": _depthwise_x86(256, 28, 2),
    "mobilenet-dense": _dense("dense_nopack.x86", 1, 1024, 1000),
    "bert-small-pooler": _dense("dense_pack.x86", 1, 512, 512),
    "bert-small-scores": _batch_matmul_x86(8, 128, 64, 128),
}
TOPI_HELD_OUT: dict[str, Callable[[Target], Task]] = {
    "resnet18-conv3x3": _conv2d_x86(512, 7, 512, 3, 1),
    "mobilenet-conv3x3s2": _conv2d_x86(3, 224, 32, 3, 2),
    "mobilenet-v2-conv1x1": _conv2d_x86(32, 112, 16, 1, 1),
    "mobilenet-depthwise-7s2": _depthwise_x86(512, 14, 2),
    "resnet50-dense": _dense("dense_nopack.x86", 1, 2048, 1000),
    "bert-small-attention": _batch_matmul_x86(8, 128, 128, 64),
}

# --- all of a CPU

# Rows, reduction and columns; channels, size, kernels, size of a kernel, stride and padding.
_MATMULS = [(49, 16, 32), (27, 24, 35), (16, 27, 64), (64, 9, 16), (25, 32, 24), (128, 6, 10)]
_CONVOLUTIONS = [
    (5, 15, 10, 5, 1, 2),
    (4, 7, 8, 3, 1, 1),
    (3, 14, 6, 3, 1, 1),
    (4, 9, 8, 3, 1, 1),
    (16, 7, 4, 1, 1, 0),
    (3, 28, 4, 3, 1, 1),
]

_CPU: dict[str, Callable[[Target], Task]] = {
    "MM1": _of_this_module("batch_matmul.cpu", 1, 64, 128, 128, "NN", 3),
    "MM2": _of_this_module("batch_matmul.cpu", 1, 64, 128, 512, "NN", 3),
    "MM3": _of_this_module("batch_matmul.cpu", 1, 64, 512, 128, "NN", 3),
    "BMM1": _of_this_module("batch_matmul.cpu", 16, 32, 32, 16, "NN", 3),
    "BMM2": _of_this_module("batch_matmul.cpu", 16, 32, 32, 16, "TN", 3),
    "BMM3": _of_this_module("batch_matmul.cpu", 16, 32, 16, 32, "NT", 3),
    "C1": _of_this_module("conv2d.cpu", 3, 59, 16, 11, 4, 0),
    "C2": _of_this_module("conv2d.cpu", 16, 14, 32, 5, 1, 2),
    # Small enough to record the whole space.
    "matmul-64": _of_this_module("batch_matmul.cpu", 1, 64, 64, 64, "NN", 2),
    "conv-14": _of_this_module("conv2d.cpu", 4, 14, 8, 3, 1, 1),
    "batch-16": _of_this_module("batch_matmul.cpu", 64, 16, 16, 16, "TN", 3),
    "splits-64": _of_this_module("split_matmul.cpu", 64, 64, 64),
    "registers-64": _of_this_module("tiled_matmul.cpu", 64, 64, 64, 12),
    "matmul-512": _of_this_module("reordered_matmul.cpu", 512, 512, 512),
    # Families of shapes, to transfer between.
    **{
        f"matmul-{n}x{k}x{m}": _of_this_module("batch_matmul.cpu", 1, n, k, m, "NN", 2)
        for n, k, m in _MATMULS
    },
    **{
        f"conv-{'x'.join(map(str, shape))}": _of_this_module("conv2d.cpu", *shape)
        for shape in _CONVOLUTIONS
    },
    **TOPI,
    **TOPI_HELD_OUT,
}
