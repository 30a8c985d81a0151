"""Whether a lowered network computes what it does as imported; if not, which pass is wrong."""

from __future__ import annotations

import logging
import time
from contextlib import suppress

import tvm
from tvm_ffi import structural_equal

from autotvm_opevo._utils.text import last_line
from autotvm_opevo._utils.timeouts import run_compiler
from autotvm_opevo.lowering.entry import entry_name
from autotvm_opevo.lowering.network import PASSES, build, lower, lower_as_imported
from autotvm_opevo.lowering.plain_schedules import with_plain_schedules
from autotvm_opevo.meta_schedule.evaluation import Instance, computed_dtypes, random_inputs
from autotvm_opevo.tuning.programs import Array, compare_outputs

logger = logging.getLogger(__name__)

# Types whose random values are safe to compute with: a wrong index or a division by zero would end
# this process.
_SAFE = {"float16", "bfloat16", "float32", "float64", "bool"}
# Seconds after which no other network is built: to find out whether one is wrong, and then which
# pass.
_SECONDS, _SEARCH_SECONDS = 20.0, 60.0


def find_wrong_passes(
    mod: tvm.IRModule, lowered: tvm.IRModule, target: tvm.target.Target
) -> list[str] | None:
    """The passes of `lower` that change what a network computes, on random inputs on this machine's
    CPU.

    A warning names the one that is wrong, since the outputs are right without it; without such a
    one it is all of them.

    Parameters
    ----------
    mod : tvm.IRModule
        The network as imported, with bound weights.
    lowered : tvm.IRModule
        The same, lowered with all passes.
    target : tvm.target.Target

    Returns
    -------
    list of str or None
        Names of `PASSES`; None if it is not known, since it takes too long, the network has
        integers, which can be indices or divisors, or it cannot be run as imported.

    Examples
    --------
    >>> from autotvm_opevo.networks.relax import operator
    >>> mod, _ = operator("matmul", [(8, 64), (64, 32)])
    >>> target = tvm.target.Target("llvm")
    >>> find_wrong_passes(mod, lower(mod, target), target)
    []
    """
    return run_compiler(
        lambda: _find_wrong_passes(mod, lowered, target), "verifying the lowered network"
    )


def _find_wrong_passes(
    mod: tvm.IRModule, lowered: tvm.IRModule, target: tvm.target.Target
) -> list[str] | None:
    end, name = time.monotonic() + _SECONDS, entry_name(mod)

    def outputs(one: tvm.IRModule) -> list[Array]:
        if time.monotonic() > end:
            raise TimeoutError("it takes too long")
        return Instance(build(with_plain_schedules(one), target), tvm.cpu(), inputs, name).outputs()

    def difference(one: tvm.IRModule) -> str:
        """How a lowered network fails; empty if it does not."""
        try:
            error, match = compare_outputs(expected, outputs(one), dtypes)
        except TimeoutError:
            raise
        except Exception as failure:  # of the compiler, or of what it has made
            return last_line(str(failure))
        return "" if match else f"relative error {error:.1e}"

    try:
        inputs, dtypes = random_inputs(mod), computed_dtypes(mod)
        others = {*dtypes, *(str(array.dtype) for array in inputs)} - _SAFE
        if others:
            raise ValueError(f"it has values in {', '.join(sorted(others))}")
        expected = outputs(lower_as_imported(mod, target))
        found = difference(lowered)
    except Exception as error:
        logger.info("the lowered network was not verified before tuning: %s", last_line(str(error)))
        return None
    if not found:
        return []
    end = time.monotonic() + _SEARCH_SECONDS
    with suppress(TimeoutError):
        for one in reversed(PASSES):
            without = lower(mod, target, {one})
            if not structural_equal(without, lowered) and not difference(without):
                what = (
                    "%s changes the outputs of this network (%s), and is left out: please report it"
                )
                logger.warning(what, PASSES[one], found)
                return [one]
    what = (
        "lowering changes the outputs of this network (%s), which is tuned as TVM lowers it: "
        "please report it"
    )
    logger.warning(what, found)
    return list(PASSES)
