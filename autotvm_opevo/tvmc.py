"""TVM's command line ``tvmc`` with OpEvo among its tuners: ``python -m autotvm_opevo.tvmc tune
--tuner opevo ...``.
"""

import json
import sys
from pathlib import Path
from typing import Any, Optional
from unittest.mock import patch

from autotvm_opevo._utils import jsonl
from autotvm_opevo.autotvm import tuner  # before TVM: its error says which one is missing

# isort: split
from tvm.autotvm import record
from tvm.driver.tvmc import autotuner
from tvm.driver.tvmc import main as tvmc


def main(arguments: Optional[list[str]] = None) -> int:
    """Run ``tvmc``; returns its exit status."""
    parsers, read = [*tvmc.REGISTERED_PARSER, _offer_opevo], tvmc.read_and_convert_json_into_dict

    def read_config(options: Any) -> Any:  # some wheels lack the default one
        return {"targets": [{"kind": "llvm"}]} if options.config == "default" else read(options)

    with patch.multiple(
        tvmc, REGISTERED_PARSER=parsers, read_and_convert_json_into_dict=read_config
    ):
        return int(tvmc._main(sys.argv[1:] if arguments is None else arguments) or 0)


def _offer_opevo(subparsers: Any, *_: Any) -> None:
    """Let ``tvmc tune``, whose tuners are hard-coded, take OpEvoTuner for its RandomTuner."""
    parser = subparsers.choices["tune"]
    tune = parser.get_default("func")
    next(action for action in parser._actions if action.dest == "tuner").choices.append("opevo")
    parser.add_argument(
        "--seed",
        type=int,
        help="seed of the opevo tuner, the same for every task; random by default",
    )

    def drive_tune(options: Any) -> Any:
        uses_opevo = options.tuner == "opevo" and not options.enable_autoscheduler
        if options.seed is not None and not (uses_opevo and options.seed >= 0):
            parser.error(
                "argument --seed: must be at least 0, and is only for --tuner opevo without "
                "AutoScheduler"
            )
        if not uses_opevo:
            return tune(options)
        output, options.tuner = Path(options.output), "random"

        class OpEvoTuner(tuner.OpEvoTuner):
            def load_history(self, *records: Any, **keywords: Any) -> None:
                """Add the best to the output, too, which ``tvmc compile`` is to read in place of
                the old file.
                """
                super().load_history(*records, **keywords)
                row = record.encode(*self.best_loaded) if self.best_loaded else ""
                self.best_loaded = None  # nothing to warn of
                if row not in ("", *(output.read_text().splitlines() if output.exists() else ())):
                    jsonl.append(output, json.loads(row))

        with patch.object(
            autotuner, "RandomTuner", lambda task: OpEvoTuner(task, seed=options.seed)
        ):
            return tune(options)

    parser.set_defaults(func=drive_tune)


if __name__ == "__main__":
    raise SystemExit(main())
