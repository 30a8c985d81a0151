"""Ctrl-C while the command is starting: modules that raise KeyboardInterrupt when they are imported
stand for it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", ["argparse", "tvm"])
@pytest.mark.parametrize(
    "start",
    [
        ["-m", "autotvm_opevo"],
        ["-c", "from autotvm_opevo.__main__ import main; raise SystemExit(main())"],
    ],
)
def test_ctrl_c_during_an_import_ends_quietly(tmp_path, module, start):
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt")
    options = ["--network", "mlp", "--log", str(tmp_path / "log.json")]
    command = [sys.executable, *start, "tune", *options]
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": path}
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_importing_the_package_imports_no_library():
    """It would take time in which Ctrl-C prints a traceback."""
    code = "import sys, autotvm_opevo; print(*{'numpy', 'scipy', 'tqdm', 'tvm'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    assert (done.stdout, done.stderr) == ("\n", "")
