"""Without MetaSchedule, importing the strategy raises an error that says what was found and what to
do.
"""

import subprocess
import sys

import pytest

from autotvm_opevo.meta_schedule import requirement

IMPORT = """
try:
    from autotvm_opevo.meta_schedule import OpEvoStrategy
except ImportError as error:
    print(error)
"""
WHAT_TO_DO = (
    "OpEvoStrategy needs apache-tvm 0.27, which has MetaSchedule, and Python 3.10 or "
    "later: pip install '.[tvm]'"
)


def import_after(code):
    """Output of the import in a process that first runs some code."""
    command = [sys.executable, "-c", code + IMPORT]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def import_with(tmp_path, **files):
    """Output of the import in a process whose ``tvm`` package consists of the given files."""
    for name, text in files.items():
        path = tmp_path / "tvm" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return import_after(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n")


def test_a_tvm_with_autotvm(tmp_path):
    printed = import_with(tmp_path, __init__="__version__ = '0.17.0'", autotvm="")
    assert printed.startswith(
        f"found TVM 0.17.0 in {tmp_path / 'tvm'}, whose AutoTVM has OpEvoTuner ("
    )
    assert WHAT_TO_DO in printed


def test_a_tvm_with_neither(tmp_path):
    printed = import_with(tmp_path, __init__="__version__ = '0.21.0'")
    assert printed.startswith(
        f"found TVM 0.21.0 in {tmp_path / 'tvm'}, which has no tvm.s_tir.meta_schedule. "
    )


def test_without_what_tvm_counts_cores_with():
    missing = "import sys; sys.modules['psutil'] = None\n"
    assert import_after(missing).endswith("cannot tune without psutil: pip install psutil\n")


def test_a_version_of_tvm_ffi_that_crashes():
    newer = (
        "import importlib.metadata as metadata; known = metadata.version\n"
        "metadata.version = lambda package: '0.1.15.post1' if package == 'apache-tvm-ffi' "
        "else known(package)\n"
    )
    assert import_after(newer).endswith(
        "with apache-tvm-ffi 0.1.15, with which it crashes: pip install 'apache-tvm-ffi<0.1.15'\n"
    )


@pytest.mark.parametrize(
    ("file", "nvcc", "given", "chosen"),
    [
        ("", "/bin/nvcc", None, "nvcc"),
        ("", "/bin/nvcc", "nvrtc", "nvrtc"),
        ("", None, None, None),
        ("cuda/other.py", "/bin/nvcc", None, "nvcc"),
        ("cuda/bindings/__init__.py", "/bin/nvcc", None, None),
        ("cuda.py", "/bin/nvcc", None, "nvcc"),
    ],
)
def test_cuda_is_compiled_by_what_there_is(monkeypatch, tmp_path, file, nvcc, given, chosen):
    """A file cuda.py of the user's is not run for it."""
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    if file:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("raise AssertionError('imported')")
    monkeypatch.setattr("shutil.which", lambda _: nvcc)
    environment = {} if given is None else {"TVM_CUDA_COMPILE_MODE": given}
    monkeypatch.setattr("os.environ", environment)
    requirement.choose_cuda_compiler()
    assert environment.get("TVM_CUDA_COMPILE_MODE") == chosen
