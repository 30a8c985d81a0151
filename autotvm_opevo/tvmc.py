"""TVM's command line ``tvmc`` with OpEvo among its tuners: ``python -m autotvm_opevo.tvmc tune --tuner opevo ...``.

Its tuners are hard-coded: this extends its parser, and puts OpEvoTuner in the place of RandomTuner while it tunes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

# What --tuner calls them.
_SURROGATES = {"opevo": "gp", "opevo-published": None}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``tvmc``; returns its exit status. Ctrl-C ends it without a traceback, also while modules are imported."""
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        print(f"autotvm_opevo.tvmc: {error}", file=sys.stderr)
        return 1


def _run(arguments: list[str]) -> int:
    from autotvm_opevo.autotvm.requirement import require_autotvm

    require_autotvm()
    from tvm.driver.tvmc import config_options
    from tvm.driver.tvmc import main as tvmc

    with tempfile.TemporaryDirectory() as folder, patch.object(config_options, "CONFIGS_JSON_DIR", None):
        try:
            config_options.get_configs_json_dir()
        except config_options.ConfigsJsonNotFoundError:  # some wheels lack TVM's default arguments
            (Path(folder) / "host").mkdir()
            (Path(folder) / "host" / "default.json").write_text(json.dumps({"targets": [{"kind": "llvm"}]}))
            config_options.CONFIGS_JSON_DIR = folder
        with patch.object(tvmc, "REGISTERED_PARSER", [*tvmc.REGISTERED_PARSER, _extend_parser]):
            status: int = tvmc._main(arguments)
    return status


def _extend_parser(subparsers: Any, _parser: argparse.ArgumentParser, _defaults: Any) -> None:
    """Offer the tuners and their seed in ``tvmc tune``."""
    from tvm.driver.tvmc import autotuner

    parser: argparse.ArgumentParser = subparsers.choices["tune"]
    choice = next(action for action in parser._actions if action.dest == "tuner")
    choice.choices = [*(choice.choices or ()), *_SURROGATES]
    tuners = " and ".join(_SURROGATES)
    parser.add_argument("--seed", type=_seed, help=f"seed of the {tuners} tuners, the same for every task; random by default")
    tune, tune_tasks = parser.get_default("func"), autotuner.tune_tasks

    def drive_tune(options: argparse.Namespace) -> Any:
        if options.tuner not in _SURROGATES or options.enable_autoscheduler:
            if options.seed is not None:
                parser.error(f"argument --seed: only for --tuner {tuners}, which AutoScheduler does not use")
            return tune(options)
        tuner = _tuner(Path(options.output), surrogate=_SURROGATES[options.tuner], seed=options.seed)
        with patch.multiple(
            autotuner,  # tune_tasks refuses names that it does not know
            tune_tasks=lambda *arguments, **known: tune_tasks(*arguments, **{**known, "tuner": "random"}),
            RandomTuner=tuner,
        ):
            return tune(options)

    parser.set_defaults(func=drive_tune)


def _tuner(output: Path, **options: Any) -> Any:
    """A tuner that adds the best loaded record to the output, which ``tvmc compile`` is to read in place of the old file."""
    from tvm.autotvm import record

    from autotvm_opevo._utils import jsonl
    from autotvm_opevo.autotvm import OpEvoTuner

    class Tuner(OpEvoTuner):
        def tune(self, *arguments: Any, **keywords: Any) -> None:
            if self.best_loaded is not None:
                row = record.encode(*self.best_loaded)
                if not output.exists() or row.encode() not in output.read_bytes().splitlines():
                    jsonl.append(output, json.loads(row))
                self.best_loaded = None  # nothing to warn of
            super().tune(*arguments, **keywords)

    Tuner.__name__ = OpEvoTuner.__name__  # in messages
    return lambda task: Tuner(task, **options)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, {text!r} given")
    return int(text)


if __name__ == "__main__":
    raise SystemExit(main())
