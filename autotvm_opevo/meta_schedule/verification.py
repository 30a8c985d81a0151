"""Whether a lowered network computes what it does as imported; if not, which operators differ."""

from __future__ import annotations

import logging
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path

import tvm
from tvm import relax

from autotvm_opevo._utils.text import last_line
from autotvm_opevo._utils.timeouts import run_compiler, say_if_long
from autotvm_opevo.lowering.entry import bind_params, entry_name, unbind_params
from autotvm_opevo.lowering.network import EVERYTHING, build, lower, lower_as_imported, operators_of
from autotvm_opevo.lowering.plain_schedules import with_plain_schedules
from autotvm_opevo.meta_schedule.evaluation import Instance, computed_dtypes, random_inputs
from autotvm_opevo.meta_schedule.worker import WORKER_MODULE
from autotvm_opevo.tuning.programs import Array, compare_outputs
from autotvm_opevo.tuning.workers import ForkServerError, WorkerPool

logger = logging.getLogger(__name__)

# Seconds to build and run a network as imported or lowered, and to find which operators are wrong.
_SECONDS, _SEARCH_SECONDS = 30.0, 60.0
# Of weights, which are in a worker's memory several times: beyond which the networks run one after
# the other, and beyond which they are not verified.
_LARGE, _MAX_BYTES = 5e8, 2e9


@contextmanager
def verifying(
    mod: tvm.IRModule, target: tvm.target.Target
) -> Iterator[Callable[[], list[str] | None]]:
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
        Returns the operators for which `lower` changes the outputs, once both have run: those of
        `operators_of` that have to be lowered as imported, or `EVERYTHING`. A warning names them.
        None if they are not known, since the network cannot be run as imported, that takes too
        long, or it has more than 2 GB of weights.

    Examples
    --------
    >>> from autotvm_opevo.networks.relax import operator
    >>> mod, _ = operator("matmul", [(8, 64), (64, 32)])
    >>> with verifying(mod, tvm.target.Target("llvm")) as find_wrong_operators:
    ...     find_wrong_operators()
    []
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        begun: list[Future[list[Array]]] = []
        try:
            dtypes = run_compiler(partial(computed_dtypes, mod), "reading the network")
            size = run_compiler(partial(_save, mod, folder), "writing the network")
            workers = WorkerPool(WORKER_MODULE, 1 if size > _LARGE else 2)
            stack.enter_context(closing(workers))
            run = partial(workers.submit, _run, folder, target)
            begun = [run(None, timeout=_SECONDS), run([], timeout=_SECONDS)]
        except Exception as error:
            _say_not_verified(error)

        def find_wrong_operators() -> list[str] | None:
            if not begun:
                return None
            with say_if_long("verifying the lowered network"):
                return _find_wrong_operators(folder, workers, run, begun, dtypes)

        yield find_wrong_operators


def _say_not_verified(error: Exception) -> None:
    logger.info("the lowered network was not verified before tuning: %s", last_line(str(error)))


def _find_wrong_operators(
    folder: str,
    workers: WorkerPool,
    run: Callable[..., Future[list[Array]]],
    begun: Sequence[Future[list[Array]]],
    dtypes: set[str],
) -> list[str] | None:
    as_imported, lowered = begun

    def difference(outputs: Future[list[Array]]) -> str:
        """How a lowered network fails; empty if it does not."""
        try:
            actual = outputs.result()
        except (TimeoutError, MemoryError, ForkServerError):
            raise
        except Exception as failure:  # of the compiler, or of what it has made
            return last_line(str(failure))
        error, match = compare_outputs(expected, actual, dtypes)
        return "" if match else f"relative error {error:.1e}"

    try:
        expected = as_imported.result()
        # alone, if it fails: beside the other one, there may be too little memory
        failure = difference(lowered) and difference(run([], timeout=_SECONDS))
    except Exception as error:
        _say_not_verified(error)
        return None
    if not failure:
        return []
    end = time.monotonic() + _SEARCH_SECONDS

    def is_wrong(names: list[str]) -> bool:
        return bool(difference(run(names, timeout=max(0.0, end - time.monotonic()))))

    wrong = [EVERYTHING]
    with suppress(Exception):  # such as a TimeoutError: what was found is right
        operators = workers.submit(_operators, folder, timeout=_SEARCH_SECONDS).result()
        for better in find_culprits(operators, is_wrong):
            wrong = better
    what, left = f"lowering {wrong[0]}", "stays as imported"
    if wrong == [EVERYTHING]:
        what, left = "lowering", "is tuned as TVM lowers it"
    elif len(wrong) > 1:
        what, left = f"{what} and {len(wrong) - 1} more", "stay as imported"
    logger.warning(
        "%s changes the outputs of this network (%s), which %s: please report it",
        what,
        failure,
        left,
    )
    return wrong


def find_culprits(names: list[str], is_wrong: Callable[[list[str]], bool]) -> Iterator[list[str]]:
    """Find the operators without which nothing is wrong, by bisection; yields smaller and smaller
    sets that contain them.

    Where two operators of a kind are wrong, all of them are taken to be.

    Parameters
    ----------
    names : list of str
        Of all operators: their kinds, followed by a parenthesis.
    is_wrong : callable
        Whether something is wrong without some of them.

    Examples
    --------
    >>> names = ["conv(x)", "relu(y)", "pool(z)", "relu(u)", "dense(v)"]
    >>> list(find_culprits(names, lambda without: "pool(z)" not in without))
    [['pool(z)', 'relu(u)', 'dense(v)'], ['pool(z)']]
    """
    wrong, right = list[str](), 0
    while right < len(names):
        # Without those that are known to be wrong, so many at the front are right, and too many.
        bad = len(names)
        while bad - right > 1:
            middle = (right + bad) // 2
            without = [*wrong, *names[middle:]]
            if is_wrong(without):
                bad = middle
            else:
                right = middle
                yield without
        culprit, right = names[bad - 1], bad
        alike = [name for name in names if _kind(name) == _kind(culprit)]
        more = alike if {*alike} & {*wrong} else [culprit]
        wrong = list(dict.fromkeys([*wrong, *more]))
        if not is_wrong(wrong):
            yield wrong
            return


def _kind(name: str) -> str:
    return name.partition("(")[0]


def _run(folder: str, target: tvm.target.Target, as_imported: list[str] | None) -> list[Array]:
    """The outputs of a network on random inputs: lowered, but for some operators; or, with None, as
    TVM lowers it.
    """
    mod = _load(folder)
    lowered = (
        lower_as_imported(mod, target) if as_imported is None else lower(mod, target, as_imported)
    )
    executable = build(with_plain_schedules(lowered), target)
    return Instance(executable, tvm.cpu(), random_inputs(mod), entry_name(mod)).outputs()


def _operators(folder: str) -> list[str]:
    return operators_of(_load(folder))


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


@lru_cache(maxsize=1)
def _load(folder: str) -> tvm.IRModule:
    weights = tvm.runtime.load_param_dict_from_file(str(Path(folder, _WEIGHTS)))
    return bind_params(tvm.ir.load_json(Path(folder, _NETWORK).read_text()), dict(weights.items()))
