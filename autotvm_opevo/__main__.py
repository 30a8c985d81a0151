"""``python -m autotvm_opevo``, and the console script."""

import sys
from io import TextIOWrapper


def main() -> int:
    """Run a command; returns the exit status. Ctrl-C ends it without a traceback, also while
    modules are imported.
    """
    if isinstance(sys.stdout, TextIOWrapper):  # a name may have bytes that are no text
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from autotvm_opevo.cli.main import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
