"""Convolutions by Winograd's algorithm (Lavin and Gray 2016): fewer multiplications, most of them a
batched matrix product.

A tile of m x m outputs of an r x r kernel needs alpha x alpha inputs d, with alpha = m + r - 1, and
alpha^2 instead of m^2 r^2 multiplications::

    Y = A^T [(G g G^T) * (B^T d B)] A

The product * is element by element; summed over input channels, for all tiles, it is alpha^2 matrix
products. Constant weights g are transformed when the network is lowered. So a convolution becomes
three operators, each tuned on its own, and what follows is fused into the last one.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import relax, te, topi

from autotvm_opevo.lowering.rewriting import static_shape

# Of the Toom-Cook algorithm, infinity aside. Few points, near 1, give the most accurate results
# (Barabasz et al. 2020).
_POINTS = (0.0, 1.0, -1.0, 0.5, -2.0)
# Extents of a tile's inputs, those that have enough points.
_ALPHAS = (4, 6)
# Operations that a CPU does while it reads one float32 weight from memory: two cores of an AMD EPYC
# have 210 GFLOPS and 30 GB/s. Layers with fewer operations per weight take as long as reading them;
# transformed, there are alpha^2 / r^2 times as many.
_PER_WEIGHT = 28.0
# Expected speedup from which on Winograd's algorithm is chosen.
_MIN_SPEEDUP = 1.4
# TVM's kOutEWiseFusable: operators into which elementwise ones are fused. It would not find out
# that the last one is of these.
_OUT_ELEMENTWISE_FUSABLE = 4


class _Convolution(NamedTuple):
    """Images, height and width of the output, channels, and the extent of a square kernel."""

    n: int
    h: int
    w: int
    ci: int
    co: int
    r: int


class _Tiling(NamedTuple):
    """A convolution by Winograd's algorithm: tiles of alpha x alpha inputs and of m x m outputs, of
    which an image has `rows` x `columns`, and all images have `tiles`.
    """

    conv: _Convolution
    alpha: int
    m: int
    rows: int
    columns: int
    tiles: int


def choose_tiling(conv: _Convolution) -> _Tiling | None:
    """The tiling with the least cost; None if the direct convolution is about as fast.

    Costs are operations, or those that could be done while the weights are read, if more; with
    transforms of inputs and outputs.
    """
    n, h, w, ci, co, r = conv
    direct = max(2.0 * n * h * w, _PER_WEIGHT) * ci * co * r**2
    tilings = []
    for alpha in (alpha for alpha in _ALPHAS if alpha > r):
        m = alpha - r + 1
        rows, columns = -(-h // m), -(-w // m)
        tiles = n * rows * columns
        products = max(2.0 * tiles, _PER_WEIGHT) * ci * co * alpha**2
        transforms = 2 * tiles * (2 * ci * alpha**3 + co * m**2 * alpha**2)
        tiling = _Tiling(conv, alpha, m, rows, columns, tiles)
        if direct >= _MIN_SPEEDUP * (products + transforms):
            tilings.append((products + transforms, tiling))
    return min(tilings)[1] if tilings else None


def transform_matrices(alpha: int, r: int) -> tuple[Any, Any, Any]:
    """The matrices A, shape (alpha, m), B, shape (alpha, alpha), and G, shape (alpha, r), in
    float64.

    Examples
    --------
    >>> a, b, g = transform_matrices(6, 3)
    >>> d, weights = np.arange(6.0), np.array([1.0, 10.0, 100.0])
    >>> (a.T @ ((g @ weights) * (b.T @ d))).round(9)  # the dot products with d[0:3], d[1:4], ...
    array([210., 321., 432., 543.])
    """

    points = np.array(_POINTS[: alpha - 1])

    def evaluate(size: int) -> Any:
        """The values of polynomials with `size` coefficients at the points and, their leading
        coefficient, at infinity.
        """
        return np.vstack([np.vander(points, size, increasing=True), np.eye(size)[-1]])

    # Polynomials are multiplied by values, which are interpolated; the transpose of that, in one
    # factor, correlates. TVM's `winograd_transform_matrices` has the same for a kernel, as tensor
    # expressions.
    a, b, g = evaluate(alpha - r + 1), np.linalg.inv(evaluate(alpha)), evaluate(r)
    # Denominators belong into G, which is applied in float64, so that B is exact in float32.
    denominators = [*(np.prod([p - q for q in points if q != p]) for p in points), 1.0]
    return a, b * denominators, g / np.array(denominators)[:, None]


def legalize_conv2d(builder: relax.BlockBuilder, call: relax.Call) -> Any:
    """Legalize a convolution by Winograd's algorithm where that pays, else as TVM does it; for
    ``LegalizeOps``.
    """
    conv = _convolution(call)
    tiling = choose_tiling(conv) if conv else None
    if conv is None or tiling is None:
        return call.op.get_attr("FLegalize")(builder, call)
    alpha = tiling.alpha
    a, b, g = transform_matrices(alpha, conv.r)
    weights = np.einsum(
        "ei,fj,ijkl->efkl", g, g, call.args[1].value.numpy().astype("float64"), optimize=True
    )
    both_a = np.einsum("eh,fw->hwef", a, a).reshape(-1, alpha**2)
    arrays = b, weights.reshape(alpha**2, conv.ci, conv.co), both_a
    b, weights, both_a = (relax.const(array.astype("float32")) for array in arrays)
    padding = [int(extent) for extent in call.attrs.padding]  # top, left, bottom, right
    x = call.args[0]
    for function, constant, name in (
        (partial(_transform_input, tiling=tiling, padding=padding), b, "winograd_input"),
        (_multiply, weights, "winograd_product"),
    ):
        x = builder.emit(builder.call_te(function, x, constant, primfunc_name_hint=name))
    return builder.call_te(
        partial(_transform_output, tiling=tiling),
        x,
        both_a,
        primfunc_name_hint="winograd_output",
        primfunc_attrs={"op_pattern": _OUT_ELEMENTWISE_FUSABLE},
    )


def _convolution(call: relax.Call) -> _Convolution | None:
    """None where Winograd's algorithm does not apply."""
    attributes, (data, weights), shape = call.attrs, call.args, static_shape(call)
    if (
        not isinstance(weights, tvm.ir.Constant)
        or shape is None
        or static_shape(data) is None
        or any(tensor.ty.dtype != "float32" for tensor in (data, weights, call))
        or (attributes.data_layout, attributes.kernel_layout, attributes.out_layout)
        != ("NHWC", "HWIO", "NHWC")
        or attributes.groups != 1
        or {*map(int, attributes.strides), *map(int, attributes.dilation)} != {1}
    ):
        return None
    n, h, w, co = shape
    r, columns, ci, _ = map(int, weights.ty.shape)
    return _Convolution(n, h, w, ci, co, r) if r == columns and r in (3, 5) else None


def _transform_input(x: te.Tensor, b: te.Tensor, tiling: _Tiling, padding: list[int]) -> te.Tensor:
    """B^T d B of all tiles and channels, shape (alpha^2, tiles, channels): first of their columns,
    then of their rows.
    """
    conv, alpha, m = tiling.conv, tiling.alpha, tiling.m
    top, left, bottom, right = padding
    bottom, right = bottom + tiling.rows * m - conv.h, right + tiling.columns * m - conv.w
    padded = topi.nn.pad(x, [0, top, left, 0], [0, bottom, right, 0], name="winograd_pad")
    per_image = tiling.rows * tiling.columns
    i, j = (te.reduce_axis((0, alpha), name) for name in "ij")

    def element(tile: Any, row: Any, column: Any, c: Any) -> Any:
        first_row, first_column = tile % per_image // tiling.columns * m, tile % tiling.columns * m
        return padded[tile // per_image, first_row + row, first_column + column, c]

    columns = te.compute(
        (alpha, alpha, tiling.tiles, conv.ci),
        lambda e, column, tile, c: te.sum(b[i, e] * element(tile, i, column, c), axis=i),
        name="winograd_input_columns",
    )
    return te.compute(
        (alpha**2, tiling.tiles, conv.ci),
        lambda e, tile, c: te.sum(b[j, e % alpha] * columns[e // alpha, j, tile, c], axis=j),
        name="winograd_input",
    )


def _multiply(x: te.Tensor, weights: te.Tensor) -> te.Tensor:
    """Products of alpha^2 matrices, summed over input channels; a matrix product of Relax would
    have no name of its own.
    """
    k = te.reduce_axis((0, x.shape[2]), "k")
    return te.compute(
        (*x.shape[:2], weights.shape[2]),
        lambda e, tile, c: te.sum(x[e, tile, k] * weights[e, k, c], axis=k),
        name="winograd_product",
    )


def _transform_output(x: te.Tensor, a: te.Tensor, tiling: _Tiling) -> te.Tensor:
    """A^T x A of all tiles and channels, in NHWC; `a` has both factors, shape (m^2, alpha^2)."""
    conv, m, k = tiling.conv, tiling.m, te.reduce_axis((0, tiling.alpha**2), "k")
    return te.compute(
        (conv.n, conv.h, conv.w, conv.co),
        lambda n, h, w, c: te.sum(
            a[h % m * m + w % m, k] * x[k, (n * tiling.rows + h // m) * tiling.columns + w // m, c],
            axis=k,
        ),
        name="winograd_output",
    )
