"""Make an environment with today's TVM, from the package registry, and this package in it.

    python3 tools/setup_tvm.py .venv/tvm

Safe to run twice and to interrupt, as `setup_autotvm.py` is, which does the work.
"""

import os
import sys

import setup_autotvm as setup

SELF_CHECK = """
import tvm, xgboost
from tvm.s_tir import meta_schedule as ms
import autotvm_opevo
print(tvm.__version__)
"""


def check_machine():
    """Refuse what cannot work before anything is downloaded."""
    if sys.version_info < (3, 10):
        found = "Python %d.%d" % sys.version_info[:2]
        hint = "choose another with PYTHON=python3.12 make ..."
        raise setup.SetupError("today's TVM needs Python 3.10 or later, this is %s: %s" % (found, hint))
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise setup.SetupError("this Python has no venv module (Debian, Ubuntu: apt install python3-venv)") from None


def install(env):
    """Fill a fresh environment."""
    package = ["--config-settings", "editable_mode=compat", "-e", setup.ROOT + "[tvm,plot,report,test]"]
    setup.pip(env, "installing TVM and packages", "install", *package)
    setup.run(env, "trying the new TVM", os.path.join(env, "bin", "python"), "-c", SELF_CHECK)


if __name__ == "__main__":
    setup.main("today's TVM", check_machine, install, __file__)
