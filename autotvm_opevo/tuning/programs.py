"""Built programs: what links them, their way to a remote device, their random inputs, and the
comparison of their outputs. Imports no TVM.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from autotvm_opevo._utils.text import last_line
from autotvm_opevo._utils.timeouts import run_with_timeout, say_if_long
from autotvm_opevo.tuning.workers import call_once

Array = np.ndarray[Any, Any]
# Takes a built library to the device that runs the trials; what it returns loads it there.
Uploader = Callable[[Any], Callable[[], Any]]

# Seconds to wait for a free remote device, and for a tracker's answer.
REQUEST_TIMEOUT = 300
_TRACKER_TIMEOUT = 30.0
# The longest session that the tracker's protocol can tell.
_LONGEST_SESSION = 2**31 - 1
# Seconds to give one back.
_CLOSE_TIMEOUT = 10
# Seconds for a new process to load an empty library.
_LOAD_TIMEOUT = 600
# The shortest duration of one timing, in milliseconds.
_MIN_REPEAT_MS = 50
# Largest error that rounding explains, relative to an output's largest value: where numbers have 16
# bits, and otherwise.
_HALF_TOLERANCE, _TOLERANCE = 3e-2, 1e-3
# Where values are quantized to eight bits or fewer: the same, and the root mean square of errors
# relative to that of values. What is rounded to the next step changes sums of the next layer, and
# so which of these are: errors of a step or two are common.
_QUANTIZED_TOLERANCE, _QUANTIZED_RMS = 0.2, 8e-2
# The smallest numbers, if below minus this, stand for a minus infinity: beside these, all other
# errors would seem small.
_MASKED = 1e8
# Share of integers, such as positions of the largest values, that rounding changes: with quantized
# values, and otherwise.
_QUANTIZED_SHARE, _SHARE = 5e-2, 1e-3


class Timed:
    """A function of a built program on a device of its TVM, with arguments in newly allocated
    memory there.
    """

    def __init__(self, program: Any, name: str, device: Any, arguments: Sequence[Any]) -> None:
        self._arguments = arguments
        self._evaluate = program.time_evaluator(
            name, device, number=1, repeat=1, min_repeat_ms=_MIN_REPEAT_MS
        )

    def seconds(self) -> float:
        """The latency of one run, timed for a moment."""
        return float(self._evaluate(*self._arguments).mean)


class Instance(Timed, ABC):
    """A built network, with inputs."""

    @abstractmethod
    def outputs(self) -> list[Array]:
        """Run it; returns its output tensors."""


def device_addresses(key: str, connect: Callable[[], Any]) -> list[str]:
    """Where the devices of a key are, busy ones included, as far as a tracker knows, to which
    `connect` makes a session; all behind one RPC proxy count as one. An `OSError` or a
    `RuntimeError` if it does not answer.
    """

    def ask() -> list[dict[str, Any]]:
        tracker = connect()
        try:
            servers: list[dict[str, Any]] = tracker.summary()["server_info"]
            return servers
        finally:
            tracker.close()

    known = []
    for server in run_with_timeout(_TRACKER_TIMEOUT, ask, "an answer"):
        name, address = str(server["key"]), ":".join(map(str, server["addr"]))
        kind, _, keys = name.partition("[")  # of a proxy, such as server:proxy[board,phone]
        if name == f"server:{key}":
            known.append(address)
        elif kind == "server:proxy" and f",{key}," in f",{keys.removesuffix(']')},":
            known.append(f"{address} (proxy)")
    return known


def check_linker(cc: Any) -> None:
    """Raise `RuntimeError` if TVM, whose module `cc` is, cannot link shared libraries here, or they
    cannot be loaded: every trial on this machine would fail, and stay a failure in the log.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "empty.c"
        source.touch()
        library = str(source.with_suffix(".so"))
        try:
            cc.create_shared(library, [str(source)])
        except Exception as error:  # of many kinds
            why = last_line(str(error)) if cc.get_cc() else "none is on the PATH"
            raise RuntimeError(
                "trials on this machine need a C++ compiler, which links them: install g++ or "
                f"clang, or name one in CXX ({why})"
            ) from error
        # in another process: on some shared folders, what is loaded cannot be removed
        load = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
        command = [sys.executable, "-I", "-c", load, library]
        loaded = subprocess.run(command, capture_output=True, text=True, timeout=_LOAD_TIMEOUT)
        if loaded.returncode:
            raise RuntimeError(
                f"libraries in {tempfile.gettempdir()} cannot be loaded; it may be mounted noexec: "
                f"set TMPDIR to another folder ({last_line(loaded.stderr)})"
            )


@contextmanager
def remote_session(
    request: Callable[[int], Any], key: str, seconds: float
) -> Iterator[tuple[Any, Uploader]]:
    """A session on a free remote device of this key, and a function that takes built libraries
    there: `request` returns a session that ends after so many seconds. The device is given back
    at the end. Raises `TimeoutError` if none is free for minutes.
    """
    seconds = int(min(seconds, _LONGEST_SESSION))
    device = f"a free device of key {key!r}"
    with say_if_long(f"waiting for {device}"):
        session = run_with_timeout(REQUEST_TIMEOUT, lambda: request(seconds), device)
    names, may_be_used = count(), False
    try:
        with tempfile.TemporaryDirectory() as folder:

            def upload(library: Any) -> Callable[[], Any]:
                # object code, which is linked over there
                file = Path(folder) / f"{next(names)}.tar"
                library.export_library(str(file))
                session.upload(str(file))
                # once: the server links it, and keeps what it has loaded
                module = session.load_module(file.name)
                return lambda: module

            yield session, upload
    except (KeyboardInterrupt, TimeoutError):
        may_be_used = True  # by a thread
        raise
    finally:
        if not may_be_used:  # the garbage collector may find what is left of it much later
            with suppress(Exception):  # a device that is gone
                close = session.get_function("CloseRPCConnection")
                run_with_timeout(_CLOSE_TIMEOUT, close, "a device to be given back")


def may_crash(inputs: Iterable[Array], dtypes: Iterable[str]) -> bool:
    """Whether a network may end the process that runs it, since random integers may be divisors or
    indices; `dtypes` are of what it computes.

    >>> may_crash([np.ones(2, "float32")], ["float32"]), may_crash([np.ones(2, "int32")], [])
    (False, True)
    """
    return any("int" in name for name in (*dtypes, *(array.dtype.name for array in inputs)))


def run_alone(kind: str, module: str, run: Callable[..., Any], *arguments: Any) -> None:
    """Run a network once in a worker process; raises `RuntimeError` if that dies of it."""
    try:
        with say_if_long(f"running the {kind} network once"):
            call_once(module, run, *arguments)
    except ChildProcessError as error:
        why = "by which it may divide" if kind == "untuned" else "unlike the untuned one"
        why += ", or memory ran out"
        raise RuntimeError(
            f"the {kind} network ends the process that runs it on random integers, {why}"
        ) from error
    except Exception:
        pass  # it fails here, too, or calls a function that only this process has


def compare_outputs(
    expected: Sequence[Array], actual: Sequence[Array], dtypes: Iterable[str] = ()
) -> tuple[float, bool]:
    """The largest relative error of an output, and whether rounding explains all errors.

    The coarsest of the `dtypes` of what the network computes in between decides by how much outputs
    may differ. Without floating-point numbers, nothing is rounded, and they may not.

    >>> compare_outputs([np.array([1.0, 2.0])], [np.array([1.0, 1.0])])
    (0.5, False)
    >>> compare_outputs([np.array([1.0, 2.0])], [np.array([1.0, 1.99])])[1]
    False
    >>> compare_outputs([np.array([1.0, 2.0])], [np.array([1.0, 1.99])], ["float32", "int8"])[1]
    True
    >>> compare_outputs([np.array([100, 200])], [np.array([100, 201])], ["int8", "int32"])[1]
    False
    """
    if [x.shape for x in expected] != [y.shape for y in actual]:
        return float("inf"), False
    dtypes = set(dtypes)
    names = {*dtypes, *(x.dtype.name for x in expected)}  # bfloat16 is of kind "V"
    quantized, half = is_quantized(names), any("float16" in name for name in names)
    errors = [_errors(x, y) for x, y in zip(expected, actual)]
    largest = max((error for error, _ in errors), default=0.0)
    if dtypes and not any("float" in name for name in names):
        return largest, not largest
    tolerance = _HALF_TOLERANCE if half else _TOLERANCE
    share = _QUANTIZED_SHARE if quantized else _SHARE
    matches = [
        error <= tolerance
        or (quantized and error <= _QUANTIZED_TOLERANCE and rms <= _QUANTIZED_RMS)
        or (x.dtype.kind in "biu" and (x != y).mean() <= share)
        for x, y, (error, rms) in zip(expected, actual, errors)
    ]
    return largest, all(matches)


def is_quantized(dtypes: Iterable[str]) -> bool:
    """Whether one of several dtypes has eight bits or fewer, and is no truth value.

    >>> is_quantized(["int8"]), is_quantized(["float8_e4m3fn"]), is_quantized(["bool", "bfloat16"])
    (True, True, False)
    """
    numbers = (re.search(r"\d+", name) for name in dtypes)
    return any(int(bits.group()) <= 8 for bits in numbers if bits)


def random_arrays(tensors: Iterable[Any]) -> list[Array]:
    """Reproducible random tensors of the shapes and dtypes of others, or of TVM's types of tensors.
    Integers of eight bits have any value, as quantized ones do; others, which may be indices, are 0
    or 1.

    >>> arrays = random_arrays([np.empty((2, 3), "float16"), np.empty(4, "int32")])
    >>> [(array.shape, str(array.dtype)) for array in arrays]
    [((2, 3), 'float16'), ((4,), 'int32')]
    """
    rng, arrays = np.random.default_rng(0), []
    ranges = {"int8": (-128, 128), "uint8": (0, 256)}
    for tensor in tensors:
        shape, dtype = tuple(map(int, tensor.shape)), str(tensor.dtype)
        is_real, (low, high) = "float" in dtype, ranges.get(dtype, (0, 2))
        values = rng.standard_normal(shape) if is_real else rng.integers(low, high, shape)
        arrays.append(values.astype(dtype))
    return arrays


def _errors(x: Array, y: Array) -> tuple[float, float]:
    """Largest difference relative to the largest `x`, and root mean square of the differences
    relative to that of `x`; infinite if one alone is not finite. Without those that are masked.
    """
    x, y = x.astype("float64"), y.astype("float64")
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return float("inf"), float("inf")
    x, y = x[np.isfinite(x)], y[np.isfinite(y)]
    masked = x <= min(-_MASKED, 0.9 * x.min(initial=0.0))
    if not np.allclose(x[masked], y[masked], _HALF_TOLERANCE):
        return float("inf"), float("inf")
    x, y = x[~masked], y[~masked]
    largest = np.abs(x - y).max(initial=0.0) / (np.abs(x).max(initial=0.0) or 1.0)
    return float(largest), float(np.sqrt(np.square(x - y).sum() / (np.square(x).sum() or 1.0)))
