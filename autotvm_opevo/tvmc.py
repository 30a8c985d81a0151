"""``python -m autotvm_opevo.tvmc``: TVM's ``tvmc`` with one more tuner; see `autotvm_opevo.cli.tvmc`."""

from autotvm_opevo.cli.tvmc import main

if __name__ == "__main__":
    raise SystemExit(main())
