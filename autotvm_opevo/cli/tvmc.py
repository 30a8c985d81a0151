"""``tvmc`` with one more tuner: ``python -m autotvm_opevo.cli.tvmc tune --tuner opevo ...``.

Everything else is TVM's own command line, which has its tuners' names built in. This one is added for this process only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotvm_opevo.autotvm.requirement import require_autotvm


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``tvmc``; returns its exit status."""
    try:
        require_autotvm()
        from tvm.driver.tvmc import main as tvmc
    except ImportError as error:
        print(f"autotvm_opevo.cli.tvmc: {error}", file=sys.stderr)
        return 1
    _add_opevo()
    tvmc.REGISTERED_PARSER.append(_offer_opevo)
    with tempfile.TemporaryDirectory() as folder:
        _find_configuration(Path(folder))
        status: int = tvmc._main(list(sys.argv[1:] if arguments is None else arguments))
    return status


def _add_opevo() -> None:
    """Let ``tune_tasks`` make an OpEvoTuner where it would make the tuner it knows as "random"."""
    from tvm.driver.tvmc import autotuner

    from autotvm_opevo.autotvm import OpEvoTuner

    theirs = autotuner.tune_tasks

    def tune_tasks(*arguments: Any, tuner: str, **options: Any) -> Any:
        if tuner != "opevo":
            return theirs(*arguments, tuner=tuner, **options)
        random, autotuner.RandomTuner = autotuner.RandomTuner, OpEvoTuner
        try:
            return theirs(*arguments, tuner="random", **options)
        finally:
            autotuner.RandomTuner = random

    autotuner.tune_tasks = tune_tasks


def _offer_opevo(subparsers: Any, parser: argparse.ArgumentParser, parameters: Any) -> None:
    """Make "opevo" a choice of ``tvmc tune --tuner``."""
    tuner = next(action for action in subparsers.choices["tune"]._actions if action.dest == "tuner")
    tuner.choices = [*tuner.choices, "opevo"]


def _find_configuration(folder: Path) -> None:
    """Without TVM's folder of default arguments, which wheels may lack, ``tvmc`` would not start."""
    from tvm.driver.tvmc.config_options import ConfigsJsonNotFoundError, get_configs_json_dir

    try:
        get_configs_json_dir()
    except ConfigsJsonNotFoundError:
        (folder / "host").mkdir()
        (folder / "host" / "default.json").write_text(json.dumps({"targets": [{"kind": "llvm"}]}))
        os.environ["TVM_CONFIGS_JSON_DIR"] = str(folder)
