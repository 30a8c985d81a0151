"""``python -m autotvm_opevo.tvmc``: TVM's ``tvmc`` with OpEvo among its tuners."""


def main() -> int:
    """Run ``tvmc``; returns the exit status. Ctrl-C ends it without a traceback, also while modules are imported."""
    try:
        from autotvm_opevo.cli.tvmc import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
