"""TVM's own command line with OpEvo: ``python -m autotvm_opevo.tvmc tune --tuner opevo ...``."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``tvmc``; returns its exit status."""
    try:
        from autotvm_opevo.autotvm.tvmc import run
    except ImportError as error:
        print(f"autotvm_opevo.tvmc: {error}", file=sys.stderr)
        return 1
    return run(sys.argv[1:] if arguments is None else arguments)
