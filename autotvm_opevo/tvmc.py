"""``python -m autotvm_opevo.tvmc``: TVM's ``tvmc`` with OpEvo among its tuners."""

from autotvm_opevo.cli.tvmc import main

if __name__ == "__main__":
    raise SystemExit(main())
