"""Whether a lowered network computes what it does as imported."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from autotvm_opevo._utils.text import last_line
from autotvm_opevo._utils.timeouts import run_compiler, say_if_long
from autotvm_opevo.lowering.entry import bind_params, entry_name, unbind_params
from autotvm_opevo.lowering.network import build, lower, lower_as_imported
from autotvm_opevo.lowering.plain_schedules import with_plain_schedules
from autotvm_opevo.lowering.rewriting import fold_views
from autotvm_opevo.meta_schedule.evaluation import Instance, computed_dtypes, random_inputs
from autotvm_opevo.meta_schedule.worker import WORKER_MODULE
from autotvm_opevo.tuning.programs import Array, compare_outputs
from autotvm_opevo.tuning.workers import ForkServerError, WorkerPool

logger = logging.getLogger(__name__)

# Seconds to build and run a network as imported or lowered.
_SECONDS = 30.0
# Of weights, which are in a worker's memory several times: beyond which the networks run one after
# the other, and beyond which they are not verified.
_LARGE, _MAX_BYTES = 5e8, 2e9


@contextmanager
def verifying(mod: tvm.IRModule, target: tvm.target.Target) -> Iterator[Callable[[], bool | None]]:
    """Run a network as imported and lowered, on random inputs on this machine's CPU, while this
    process does something else.

    Worker processes run the networks, since with random integers they may divide by zero, which
    ends a process.

    Parameters
    ----------
    mod : tvm.IRModule
        The network as imported, with bound weights.
    target : tvm.target.Target

    Yields
    ------
    callable
        Returns whether `lower` keeps the outputs, but for rounding, once both have run; a warning
        says if it does not. None if that is not known, since the network cannot be run as
        imported, that takes too long, its outputs have no finite number, or it has more than 2 GB
        of weights.

    Examples
    --------
    >>> from autotvm_opevo.networks.relax import operator
    >>> mod, _ = operator("matmul", [(8, 64), (64, 32)])
    >>> with verifying(mod, tvm.target.Target("llvm")) as keeps_outputs:
    ...     keeps_outputs()
    True
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        begun = None
        try:
            dtypes = run_compiler(partial(computed_dtypes, mod), "reading the network")
            size = run_compiler(partial(_save, mod, folder), "writing the network")
            workers = WorkerPool(WORKER_MODULE, 1 if size > _LARGE else 2)
            stack.enter_context(closing(workers))
            run = partial(workers.submit, _run, folder, target, timeout=_SECONDS)
            begun = run(lower_as_imported), run(lower)
        except Exception as error:
            _say_not_verified(error)

        def keeps_outputs() -> bool | None:
            if begun is None:
                return None
            as_imported, lowered = begun
            try:
                with say_if_long("verifying the lowered network"):
                    expected = as_imported.result()
                    # again, alone, if it fails: beside the other one, there may be too little
                    # memory
                    difference = _difference(lowered.result, expected, dtypes) and _difference(
                        lambda: run(lower).result(), expected, dtypes
                    )
            except Exception as error:
                _say_not_verified(error)
                return None
            if not difference and not any(np.isfinite(x.astype("float64")).any() for x in expected):
                _say_not_verified(ValueError("on random inputs, no output has a finite number"))
                return None
            if difference:
                logger.warning(
                    "lowering changes the outputs of this network (%s), which is tuned as TVM "
                    "lowers it: please report it",
                    difference,
                )
            return not difference

        yield keeps_outputs


def _say_not_verified(error: Exception) -> None:
    logger.info("the lowered network was not verified before tuning: %s", last_line(str(error)))


def _difference(outputs: Callable[[], list[Array]], expected: list[Array], dtypes: set[str]) -> str:
    """How a lowered network fails; empty if it does not."""
    try:
        actual = outputs()
    except (TimeoutError, MemoryError, ForkServerError):
        raise
    except Exception as failure:  # of the compiler, or of what it has made
        return last_line(str(failure))
    error, match = compare_outputs(expected, actual, dtypes)
    return "" if match else f"relative error {error:.1e}"


def _run(folder: str, target: tvm.target.Target, lowering: Callable[..., Any]) -> list[Array]:
    """The outputs of a network on random inputs, lowered in one of two ways."""
    # What is quicker to lower, and to compile: the comparison after tuning does neither.
    mod = fold_views(_load(folder))
    quick = tvm.target.Target({**dict(target.export()), "opt-level": 2})
    executable = build(with_plain_schedules(lowering(mod, target)), quick)
    return Instance(executable, tvm.cpu(), random_inputs(mod), entry_name(mod)).outputs()


# The files of a network, and of its weights, which would take ten times as long in JSON.
_NETWORK, _WEIGHTS = "network.json", "weights"


def _save(mod: tvm.IRModule, folder: str) -> float:
    """Write a network to files; returns the bytes of its weights."""
    # without functions that nothing calls, whose weights would be written as JSON
    mod = relax.transform.DeadCodeElimination([entry_name(mod)])(mod)
    mod, weights = unbind_params(mod)
    size: float = sum(
        math.prod(weight.shape) * tvm.DataType(str(weight.dtype)).bits / 8
        for weight in weights.values()
    )
    if size > _MAX_BYTES:
        raise ValueError(f"its weights of {size / 1e9:.1f} GB would be in memory several times")
    Path(folder, _NETWORK).write_text(tvm.ir.save_json(mod))
    tvm.runtime.save_param_dict_to_file(weights, str(Path(folder, _WEIGHTS)))
    return size


def _load(folder: str) -> tvm.IRModule:
    weights = tvm.runtime.load_param_dict_from_file(str(Path(folder, _WEIGHTS)))
    return bind_params(tvm.ir.load_json(Path(folder, _NETWORK).read_text()), dict(weights.items()))
