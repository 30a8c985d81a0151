"""Create an environment with MetaSchedule (TVM 0.27 from PyPI) and this package.

    python3 tools/setup_tvm.py .venv/tvm

Safe to repeat and to interrupt, like `setup_autotvm.py`, whose functions it uses.
"""

import os
import sys

import setup_autotvm as setup

SELF_CHECK = """
import tvm, xgboost
from tvm.s_tir import meta_schedule as ms
import autotvm_opevo.meta_schedule
print(tvm.__version__)
"""


def check_machine():
    """Raise on unsupported machines before anything is downloaded."""
    if sys.version_info < (3, 10):
        found = "Python %d.%d" % sys.version_info[:2]
        hint = "choose another with PYTHON=python3.12 make ..."
        raise setup.SetupError(
            "TVM 0.27 requires Python 3.10 or later, this is %s: %s" % (found, hint)
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise setup.SetupError(
            "this Python has no venv module (Debian, Ubuntu: apt install python3-venv)"
        ) from None


def install(env):
    """Install everything into a fresh environment."""
    package = [
        "--config-settings",
        "editable_mode=compat",
        "-e",
        setup.ROOT + "[tvm,plot,report,test]",
    ]
    setup.pip(env, "installing TVM and packages", "install", *package)
    setup.run(env, "testing TVM", os.path.join(env, "bin", "python"), "-c", SELF_CHECK)


if __name__ == "__main__":
    setup.main("MetaSchedule (TVM 0.27)", check_machine, install, __file__)
