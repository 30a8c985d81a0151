"""``python -m autotvm_opevo``, and the console script."""

import sys
from io import TextIOWrapper


def main() -> int:
    """Run a command; returns the exit status. Ctrl-C ends it without a traceback, also while
    modules are imported, and SIGTERM and SIGHUP do as Ctrl-C.
    """
    if isinstance(sys.stdout, TextIOWrapper):  # a name may have bytes that are no text
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        _take_for_ctrl_c()
        from autotvm_opevo.cli.main import main

        return main()
    except KeyboardInterrupt:
        return 130


def _take_for_ctrl_c() -> None:
    """Results are printed and saved also if a job scheduler or a lost connection ends the run."""
    import signal

    def interrupt(number: int, frame: object) -> None:
        for one in taken:  # the process and its group may each get one
            signal.signal(one, signal.SIG_IGN)
        handler = signal.getsignal(signal.SIGINT)  # which may defer it
        if not callable(handler):  # ignored, as in a background job
            raise KeyboardInterrupt
        handler(number, None)

    numbers = signal.SIGTERM, signal.SIGHUP
    taken = [one for one in numbers if signal.getsignal(one) is signal.SIG_DFL]  # nohup ignores
    for one in taken:
        signal.signal(one, interrupt)


if __name__ == "__main__":
    raise SystemExit(main())
