"""OpEvo in TVM's command line ``tvmc``, whose tuners are hard-coded: extends its parser, and replaces a tuner while it runs."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tvm.autotvm import record
from tvm.driver.tvmc import autotuner, config_options
from tvm.driver.tvmc import main as tvmc

import autotvm_opevo.autotvm.tuner as tuner
from autotvm_opevo._utils import jsonl

# What --tuner calls them.
_SURROGATES = {"opevo": "gp", "opevo-published": None}


class OpEvoTuner(tuner.OpEvoTuner):
    """OpEvoTuner that adds the best loaded record to the output file, which ``tvmc compile`` is to read in place of the old one.

    Parameters
    ----------
    output : path
        Where ``tvmc`` logs results.
    """

    def __init__(self, task: Any, *, output: Path, **options: Any) -> None:
        super().__init__(task, **options)
        self._output = output

    def tune(self, *arguments: Any, **options: Any) -> None:
        """Tune as usual, after adding the best loaded record to the output, unless it is there."""
        if self.best_loaded is not None:
            row = record.encode(*self.best_loaded)
            if not self._output.exists() or row.encode() not in self._output.read_bytes().splitlines():
                jsonl.append(self._output, json.loads(row))
            self.best_loaded = None  # nothing to warn of
        super().tune(*arguments, **options)


def run(arguments: Sequence[str]) -> int:
    """Run ``tvmc`` with the additional tuners; returns its exit status."""
    tvmc.REGISTERED_PARSER.append(_extend_parser)
    try:
        with _default_arguments():
            status: int = tvmc._main(list(arguments))
    finally:
        tvmc.REGISTERED_PARSER.remove(_extend_parser)
    return status


def _extend_parser(subparsers: Any, _parser: argparse.ArgumentParser, _defaults: Any) -> None:
    """Offer the tuners and their seed in ``tvmc tune``."""
    parser: argparse.ArgumentParser = subparsers.choices["tune"]
    choice = next(action for action in parser._actions if action.dest == "tuner")
    choice.choices = [*(choice.choices or ()), *_SURROGATES]
    parser.add_argument(
        "--seed", type=_seed, help="seed of the opevo and opevo-published tuners, the same for every task; random by default"
    )
    theirs = parser.get_default("func")

    def drive_tune(options: argparse.Namespace) -> Any:
        if options.tuner in _SURROGATES and not options.enable_autoscheduler:
            with _opevo_as_random(Path(options.output), options.seed):
                return theirs(options)
        if options.seed is not None:
            parser.error(f"argument --seed: only for --tuner {' and '.join(_SURROGATES)}, which AutoScheduler does not use")
        return theirs(options)

    parser.set_defaults(func=drive_tune)


@contextmanager
def _opevo_as_random(output: Path, seed: int | None) -> Iterator[None]:
    """Let ``tune_tasks``, which refuses names that it does not know, create OpEvoTuner where it would create RandomTuner."""
    theirs, random = autotuner.tune_tasks, autotuner.RandomTuner

    def tune_tasks(*arguments: Any, tuner: str, **options: Any) -> Any:
        autotuner.RandomTuner = lambda task: OpEvoTuner(task, output=output, surrogate=_SURROGATES[tuner], seed=seed)
        return theirs(*arguments, tuner="random", **options)

    autotuner.tune_tasks = tune_tasks
    try:
        yield
    finally:
        autotuner.tune_tasks, autotuner.RandomTuner = theirs, random


@contextmanager
def _default_arguments() -> Iterator[None]:
    """Replace TVM's folder of default arguments if it is missing, as in some wheels: ``tvmc`` does not start without."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            config_options.get_configs_json_dir()
        except config_options.ConfigsJsonNotFoundError:
            (Path(folder) / "host").mkdir()
            (Path(folder) / "host" / "default.json").write_text(json.dumps({"targets": [{"kind": "llvm"}]}))
            config_options.CONFIGS_JSON_DIR = folder
        found = config_options.CONFIGS_JSON_DIR
        try:
            yield
        finally:
            config_options.CONFIGS_JSON_DIR = None if found == folder else found


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, {text!r} given")
    return int(text)
