"""From a Relax network to the functions that are tuned, and from their best schedules to an executable."""

from __future__ import annotations

import logging
from os import PathLike
from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm_ffi import structural_equal

from autotvm_opevo._utils.text import pluralize
from autotvm_opevo._utils.timeouts import run_compiler
from autotvm_opevo.meta_schedule.database import best_of, database_with, open_existing, seconds
from autotvm_opevo.meta_schedule.fast_math import FAST_MATH
from autotvm_opevo.meta_schedule.layouts import block_names, pack_weights, with_channels_last, with_packable_weights
from autotvm_opevo.meta_schedule.targets import as_target
from autotvm_opevo.meta_schedule.winograd import legalize_conv2d

logger = logging.getLogger(__name__)


def compile_network(
    mod: tvm.IRModule,
    params: dict[str, tvm.runtime.Tensor] | None,
    target: str | dict[str, Any] | tvm.target.Target,
    database: str | PathLike[str] | ms.database.Database | None = None,
) -> Any:
    """Compile a network with the best schedules of a database that `tune_network` made; untuned without one.

    Parameters
    ----------
    mod : tvm.IRModule
        The network, as it was tuned.
    params : dict, optional
        Its weights, by name: the executable holds them in the layouts that its schedules need.
    target : str, dict or tvm.target.Target
    database : str, path or Database, optional
        ``result.best_file``, or any database, of which each operator gets the fastest record for this target, or else for another
        one, with a warning. Operators without any stay untuned, with a warning, too.

    Returns
    -------
    tvm.relax.VMExecutable

    Raises
    ------
    ValueError
        If the target is unknown, or there is no database of that name.
    TimeoutError
        If TVM takes more than an hour.

    Examples
    --------
    >>> import tempfile
    >>> from autotvm_opevo.meta_schedule import compile_network, tune_network, workloads
    >>> mod, params = workloads.operator("matmul", [(8, 64), (64, 32)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = tune_network(mod, params, "llvm", folder, trials=4, evaluate=False)
    ...     executable = compile_network(mod, params, "llvm", result.best_file)
    >>> type(executable).__name__  # for tvm.relax.VirtualMachine
    'VMExecutable'
    """
    target = as_target(target)
    found = open_existing(Path(database)) if isinstance(database, (str, PathLike)) else database

    def compiled() -> Any:
        lowered = lower_for_tuning(mod, params, target)
        return build(lowered, target, None if found is None else _best_records(found, lowered, target))

    return run_compiler(compiled)


def _best_records(database: ms.database.Database, lowered: tvm.IRModule, target: tvm.target.Target) -> ms.database.Database:
    """The best record for each operator of a lowered network, with warnings about those that have none for the target."""
    mods = [task.dispatched[0] for task in ms.relax_integration.extract_tasks(lowered, target)]
    best = [best_of(database, mod, target) for mod in mods]
    others = {str(record.target): record.target for record in database.get_all_tuning_records()}.values()
    for i, mod in enumerate(mods):
        if best[i] is None:
            elsewhere = [record for other in others if (record := best_of(database, mod, other))]
            best[i] = min(elsewhere, key=lambda record: seconds(record.run_secs), default=None)
    if foreign := [record for record in best if record is not None and not structural_equal(record.target, target)]:
        names = ", ".join(sorted({str(record.target) for record in foreign}))
        logger.warning("%s applied that the database has for %s only, not %s", pluralize(len(foreign), "record"), names, target)
    warn_of_untuned("the database", best.count(None), len(best))
    return database_with(best)


def warn_of_untuned(name: str, untuned: int, operators: int) -> None:
    """Warn if a database has no record for some operators of a network."""
    if untuned:
        logger.warning(
            "%s has no record for %d of %s, which stay untuned: they may have been lowered differently, by another version or as "
            "another network",
            name,
            untuned,
            pluralize(operators, "operator"),
        )


def lower_for_tuning(
    mod: tvm.IRModule, params: dict[str, tvm.runtime.Tensor] | None, target: str | dict[str, Any] | tvm.target.Target
) -> tvm.IRModule:
    """Bind a network's weights and lower it to the functions that are tuned: operators, fused as TVM fuses them.

    For a CPU, convolutions are converted to NHWC, and to Winograd's algorithm where that pays; schedules may choose the
    layout of constant weights; exp, tanh and erf become polynomials. The schedules of a database apply only to a network that was
    lowered like this; `compile_network` does it all.

    Parameters
    ----------
    mod : tvm.IRModule
        As imported by one of Relax's frontends.
    params : dict, optional
        Its weights, by name.
    target : str, dict or tvm.target.Target

    Returns
    -------
    tvm.IRModule
        Its function ``main`` calls the operators, which are its other functions.

    Examples
    --------
    >>> from autotvm_opevo.meta_schedule import workloads
    >>> lowered = lower_for_tuning(*workloads.operator("matmul", [(8, 64), (64, 32)]), "llvm")
    >>> len(lowered.functions)
    2
    """
    target = as_target(target)
    mod = _bind(mod, params)
    if target.kind.name != "llvm":
        return _fuse(mod, target)
    folded = relax.transform.FoldConstant()(mod)  # or weights that are computed from constants would not be found
    folded = relax.transform.FoldConstant()(with_channels_last(folded))
    legalized = relax.transform.LegalizeOps({"relax.nn.conv2d": legalize_conv2d, **FAST_MATH})(folded)
    return with_packable_weights(_fuse(legalized, target))


def check_shapes(mod: tvm.IRModule) -> None:
    """Raise `ValueError` if an input of a network has a shape that is not known: TVM cannot tune for it."""
    for variable in mod["main"].params:
        shape = getattr(variable.ty, "shape", ())
        if shape is None or any(not isinstance(extent, (int, tvm.tirx.IntImm)) for extent in shape):
            raise ValueError(
                f"mod must have inputs of known shapes, {variable.name} is {variable.ty}: set them, with "
                "relax.transform.BindSymbolicVars"
            )


def count_changes(lowered: tvm.IRModule) -> dict[str, int]:
    """Number of operators that `lower_for_tuning` changed.

    Returns
    -------
    dict of str to int
        ``"nhwc"``, convolutions in NHWC; ``"packed"``, operators whose schedules may pack constant weights; ``"winograd"``,
        convolutions by Winograd's algorithm; ``"fast_math"``, operators with polynomials.
    """
    operators = [function for function in lowered.functions.values() if isinstance(function, tvm.tirx.PrimFunc)]
    blocks = [block_names(operator) for operator in operators]
    return {
        "nhwc": sum("conv2d_nhwc" in names for names in blocks),
        "packed": sum(bool(operator.attrs and operator.attrs.get("layout_free_buffers")) for operator in operators),
        "winograd": sum("winograd_output" in names for names in blocks),
        "fast_math": sum("T_fast_" in names for names in blocks),
    }


def lower_as_imported(mod: tvm.IRModule, params: dict[str, tvm.runtime.Tensor] | None, target: tvm.target.Target) -> tvm.IRModule:
    """Lower a network as TVM does: layouts stay, convolutions are direct, and exp, tanh and erf call the C library."""
    return _fuse(_bind(mod, params), target)


def _bind(mod: tvm.IRModule, params: dict[str, tvm.runtime.Tensor] | None) -> tvm.IRModule:
    return relax.transform.BindParams("main", params)(mod) if params else mod


def _fuse(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    with target:
        return relax.get_pipeline("zero")(mod)


def build(mod: tvm.IRModule, target: tvm.target.Target, database: ms.database.Database | None = None) -> Any:
    """Build a lowered network with the best schedules of a database, or untuned."""
    # Not with TVM's compile_relax: it fuses operators once more, and the database's schedules no longer apply.
    with target, database or ms.database.MemoryDatabase(), tvm.transform.PassContext(opt_level=3):
        return tvm.compile(pack_weights(relax.transform.MetaScheduleApplyDatabase()(mod)), target)
