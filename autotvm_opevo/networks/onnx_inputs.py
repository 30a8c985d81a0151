"""ONNX files: their inputs by the names in the file, the shapes that a user gives for them, and
what TVM could not import. Imports no TVM.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from traceback import format_exception_only, walk_tb
from typing import Any

from autotvm_opevo._utils.imports import ONNX
from autotvm_opevo._utils.text import last_line, pluralize
from autotvm_opevo._utils.validation import as_integer

# How a file begins that stands for another one.
_GIT_LFS = b"version https://git-lfs.github.com/"
# Of an input whose rank is not known either: an image, for example.
_EXAMPLE = (1, 3, 224, 224)


def load_onnx(path: str | PathLike[str]) -> Any:
    """Read an ONNX file.

    Raises
    ------
    ValueError
        If it cannot be read.
    ImportError
        If onnx is not installed.
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError(f"to read {path}, pip install '{ONNX}'") from error
    try:
        model = onnx.load(str(path))
        if model.functions:  # of the file's own, which TVM's importers do not look for
            from onnx.inliner import inline_local_functions

            model = inline_local_functions(model)
    except Exception as error:  # onnx and protobuf raise many kinds
        raise ValueError(f"cannot read {path}: {_hint(Path(path))}{error}") from error
    if not model.ir_version:
        raise ValueError(f"cannot read {path}: it is empty, or no ONNX file")
    return model


def _hint(path: Path) -> str:
    """Why a file may be unreadable; empty if that is not known."""
    if path.is_file():
        with open(path, "rb") as file:
            if file.read(len(_GIT_LFS)) == _GIT_LFS:
                return "it is a pointer of Git LFS, fetch the file with git lfs pull; "
        if path.suffix.lower() != ".onnx":
            return "models must be ONNX files, to which other formats can be exported; "
    return ""


def import_error(
    path: str | PathLike[str], error: Exception, shapes: Mapping[str, Sequence[int]]
) -> ValueError:
    """The error for a file that one of TVM's importers refuses with these shapes.

    Theirs may be long, and not say which operator it is: it is in their frames.
    """
    nodes = [
        frame.f_locals["node"]
        for frame, _ in walk_tb(error.__traceback__)
        if frame.f_code.co_name == "_construct_nodes"
    ]
    where = f" at {nodes[-1].op_type} {nodes[-1].name}".rstrip() if nodes else ""
    is_named = nodes or type(error).__name__ == "OpNotImplemented"
    without = " without that operator, or" if is_named else ""
    why = last_line("".join(format_exception_only(type(error), error))).rstrip(".")
    return ValueError(
        f"cannot read {path}: TVM's importer fails{where}, {why}. "
        + (f"Check the shapes, {dict(shapes)}, or export" if shapes else "Export")
        + f" the model{without} with another opset"
    )


def inputs_of(model: Any) -> list[Any]:
    """A model's inputs; older files list the weights, too, which are left out."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [tensor for tensor in model.graph.input if tensor.name not in weights]


def static_shapes(
    path: str | PathLike[str],
    model: Any,
    shapes: Mapping[str, Sequence[int]] | None,
    other_names: Callable[[], Mapping[str, str]] = dict,
) -> dict[str, list[int]]:
    """The shapes that are given, by the names in the file.

    Parameters
    ----------
    path : str or path
        For error messages.
    model : ModelProto
    shapes : dict, optional
        By the names in the file, or by others.
    other_names : callable
        Returns what else inputs are called, each with the name in the file.

    Raises
    ------
    ValueError
        If there is no input of a name, a shape is none of its rank, the file leaves a shape open
        that is not given, or an input is no tensor of numbers.
    """
    _check_kinds(model, path)
    known = {tensor.name: _extents(tensor) for tensor in inputs_of(model)}
    static: dict[str, list[int]] = {}
    for given, shape in (shapes or {}).items():
        name = given if given in known else other_names().get(given)
        if name is None:
            there_are = (
                f"its inputs are {', '.join(map(repr, known))}" if known else "it has no inputs"
            )
            raise ValueError(f"shapes must be of inputs of {path}, {given!r} given: {there_are}")
        extents = [as_integer(f"each extent of {given!r}", extent) for extent in shape]
        rank = known[name]
        if rank is not None and len(rank) != len(extents):
            dimensions = pluralize(len(rank), "dimension")
            raise ValueError(
                f"the shape of input {name!r} of {path} must have {dimensions}, "
                f"{tuple(shape)} given"
            )
        if static.setdefault(name, extents) != extents:
            raise ValueError(
                f"input {name!r} of {path} must have one shape, {tuple(static[name])} and "
                f"{tuple(shape)} given"
            )
    check_known({name: shape for name, shape in known.items() if name not in static}, path)
    return static


def _check_kinds(model: Any, path: str | PathLike[str]) -> None:
    """Raise if an input is a sequence, for example, or has strings."""
    from onnx import TensorProto

    for tensor in inputs_of(model):
        kind = (tensor.type.WhichOneof("value") or "value without type").removesuffix("_type")
        if tensor.type.tensor_type.elem_type == TensorProto.STRING:
            kind = "tensor of strings"
        if kind != "tensor":
            raise ValueError(
                f"inputs of {path} must be tensors of numbers, {tensor.name!r} is a {kind}: export "
                "the model without what reads it"
            )


def check_known(
    shapes: Mapping[str, Sequence[int | None] | None], path: str | PathLike[str]
) -> None:
    """Raise `ValueError` for shapes that a file leaves open, by the names of its inputs, with what
    to give for all of them.
    """
    unknown = {
        name: extents for name, extents in shapes.items() if extents is None or None in extents
    }
    if not unknown:
        return
    examples = {
        name: tuple(extent or 1 for extent in extents) if extents is not None else _EXAMPLE
        for name, extents in unknown.items()
    }
    options = " ".join(
        "--shape " + shlex.quote(f"{name}={'x'.join(map(str, shape))}")
        for name, shape in examples.items()
    )
    name, extents = next(iter(unknown.items()))
    what = "a dynamic shape" if extents is not None else "a shape of unknown rank"
    raise ValueError(
        f"input {name!r} of {path} has {what}, which must be given: for example {options} on the "
        f"command line, or shapes={examples} in Python"
    )


def _extents(value: Any) -> list[int | None] | None:
    """The extents of an input, None for those that the file leaves open; None if not even their
    number is known.
    """
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [
        dimension.dim_value if dimension.dim_value > 0 else None for dimension in tensor.shape.dim
    ]
