"""Tune ONNX files by the command line, as a user would: what becomes faster, whether outputs match,
and how long nothing is said.

    # the nine networks that come with the onnx package
    python -m benchmarks.onnx_models --trials 1 48 300
    python -m benchmarks.onnx_models model.onnx --trials 48 --time-limit 5m

It takes the TVM of the environment that it runs in. A run that has ended is not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import onnx

from autotvm_opevo.cli.argument_types import positive
from autotvm_opevo.tuning.run_log import NetworkCompared, read
from benchmarks import markdown, publish

COLUMNS = (
    "network",
    "trials",
    "s",
    "longest silence, s",
    "untuned, ms",
    "best file, ms",
    "times as fast",
    "outputs",
)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Tune ONNX files by the command line.")
    parser.add_argument(
        "models",
        nargs="*",
        type=Path,
        help="ONNX files (default: those that come with the onnx package)",
    )
    parser.add_argument(
        "--trials", type=positive, nargs="+", default=[48], help="of each run (default: 48)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("tuned/onnx_models"), help="folder of the logs"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=1800.0,
        metavar="SECONDS",
        help="end a run after so long (default: 1800)",
    )
    publish.add_option(parser)
    options, others = parser.parse_known_args(arguments)  # the others are for `tune`
    models = options.models or sorted(
        Path(onnx.__file__).parent.glob("backend/test/data/light/*.onnx")
    )
    rows = []
    for model in models:
        for trials in options.trials:
            rows.append(run(model, trials, options.out, options.limit, others))
            print(markdown.table(COLUMNS, [rows[-1]]).splitlines()[-1], flush=True)
    text = markdown.table(COLUMNS, rows)
    if options.publish:
        publish.publish(options.publish, text, "onnx_models", arguments)
    print(text)


def run(model: Path, trials: int, out: Path, limit: float, others: list[str]) -> list[Any]:
    """A row of the table."""
    name = model.stem.removeprefix("light_")
    folder = out / f"{name}-{trials}"
    result = folder / "result.json"
    if not result.exists():
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "log.json"
        command = [
            sys.executable,
            "-m",
            "autotvm_opevo",
            "tune",
            "--model",
            model,
            "--log",
            log,
            "--trials",
            trials,
            "--seed",
            0,
        ]
        result.write_text(json.dumps(watch([*map(str, command), *others], limit)))
    said = json.loads(result.read_text())
    run_logs = [folder / "log.json.journal", folder / "log.json" / "journal"]
    compared = [
        event
        for run_log in run_logs
        for event in read(run_log)
        if isinstance(event, NetworkCompared)
    ][-1:]
    last = said["lines"][-1]
    match = next(
        (
            word
            for line in said["lines"]
            for word in ("match", "DIFFER")
            if f"outputs {word}" in line
        ),
        last,
    )
    latencies = [f"{1e3 * one.before:.2f}" for one in compared] + [
        f"{1e3 * one.after:.2f}" for one in compared
    ]
    ratio = [f"{one.before / one.after:.2f}" for one in compared]
    kept = " (untuned)" if any("has the untuned network" in line for line in said["lines"]) else ""
    cells = [*(latencies or ["", ""]), *(ratio or [""]), match + kept]
    return [name, trials, f"{said['seconds']:.0f}", f"{said['silence']:.1f}", *cells]


def watch(command: list[str], limit: float) -> dict[str, Any]:
    """Run a command; returns what it said, the seconds that it took, and the longest in which it
    said nothing.
    """
    print(" ".join(command), file=sys.stderr)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )
    assert process.stdout is not None
    start = before = time.monotonic()
    silence, silent_after, lines = 0.0, "", [""]
    for line in _lines(process.stdout, start + limit):
        now = time.monotonic()
        if now - before > silence:
            silence, silent_after = now - before, lines[-1]
        before = now
        lines.append(line)
    if process.poll() is None and time.monotonic() > start + limit:
        process.kill()
        lines.append(f"killed after {limit:g} s")
    process.wait()
    return {
        "seconds": time.monotonic() - start,
        "silence": silence,
        "silent after": silent_after,
        "status": process.returncode,
        "lines": lines,
    }


def _lines(stream: IO[bytes], end: float) -> Iterator[str]:
    """The lines of a stream as they come, until a time by ``time.monotonic()``."""
    found: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read_all() -> None:
        for line in stream:
            found.put(line)
        found.put(b"")

    threading.Thread(target=read_all, daemon=True).start()
    while True:
        try:
            line = found.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            return
        if not line:
            return
        yield line.decode(errors="replace").rstrip()


if __name__ == "__main__":
    main()
