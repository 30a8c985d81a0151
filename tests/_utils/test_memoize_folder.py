"""Importing TVM leaves nothing in the working directory."""

import subprocess
import sys

MEMOIZE_FOLDER = ".pkl_memoize_py3"
# TVM is imported first, as in most scripts.
SCRIPT = """
import tvm
from autotvm_opevo._utils.imports import require
require("tvm", "TVM", str, "")
"""


def run(folder, script=SCRIPT):
    subprocess.run([sys.executable, "-c", script], check=True, timeout=240, cwd=folder)


def test_importing_tvm_leaves_no_folder(tmp_path):
    run(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_with_files_is_kept(tmp_path):
    (tmp_path / MEMOIZE_FOLDER).mkdir()
    (tmp_path / MEMOIZE_FOLDER / "mine.pkl").write_bytes(b"results")
    run(tmp_path)
    assert (tmp_path / MEMOIZE_FOLDER / "mine.pkl").read_bytes() == b"results"


def test_memoized_results_are_still_saved(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # where later TVMs keep them
    script = """
from tvm.contrib.pickle_memoize import memoize
@memoize("a test", save_at_exit=True)
def square(n):
    return n * n
square(3)
"""
    run(tmp_path, SCRIPT + script)
    assert len(list(tmp_path.rglob("*.pkl"))) == 1
