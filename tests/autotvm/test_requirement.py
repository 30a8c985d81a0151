"""Without AutoTVM the core works, and importing OpEvoTuner raises an error with what was found and
what to do.
"""

import subprocess
import sys

import pytest

CORE = """
import autotvm_opevo, sys
from autotvm_opevo.topology import Discrete
assert autotvm_opevo.OpEvo(autotvm_opevo.Space({"x": Discrete([1, 2])}), seed=0).ask(1)
assert "tvm" not in sys.modules
"""
IMPORT = """
try:
    from autotvm_opevo import OpEvoTuner
except ImportError as error:
    print(error)
"""
WHAT_TO_DO = "OpEvoTuner needs a TVM with AutoTVM, 0.8 to 0.19"


def test_a_folder_of_the_packages_name_does_not_shadow_it(tmp_path):
    """A clone's folder has the name of the package: a script next to it must import the package,
    not the folder.
    """
    (tmp_path / "autotvm_opevo").mkdir()
    subprocess.run([sys.executable, "-c", CORE], check=True, cwd=tmp_path)


def test_dir_lists_the_tuner():
    import autotvm_opevo

    assert {"OpEvo", "OpEvoTuner", "Space", "random_walk"} <= set(dir(autotvm_opevo))


def test_no_tvm():
    block = "import sys; sys.modules['tvm'] = None\n"
    core = CORE.replace('assert "tvm" not in sys.modules', "")
    done = subprocess.run(
        [sys.executable, "-c", block + core + IMPORT], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("found no TVM: ")
    assert WHAT_TO_DO in done.stdout


def test_a_tvm_without_autotvm(tmp_path):
    (tmp_path / "tvm").mkdir()
    (tmp_path / "tvm" / "__init__.py").write_text("__version__ = '0.25.0'")
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", path + CORE + IMPORT], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(
        f"found TVM 0.25.0 in {tmp_path / 'tvm'}, which has no AutoTVM: it was removed in TVM "
        "0.20. "
    )
    assert WHAT_TO_DO in done.stdout


def test_unknown_names_raise_attribute_error():
    import autotvm_opevo

    with pytest.raises(AttributeError, match="no attribute 'OpEvoTuna'"):
        autotvm_opevo.OpEvoTuna  # noqa: B018


def test_the_meta_schedule_adapter_needs_another_tvm():
    with pytest.raises(
        ImportError,
        match=r"found TVM 0\.17.* whose AutoTVM has OpEvoTuner .* no tvm.s_tir.meta_schedule",
    ):
        import autotvm_opevo.meta_schedule  # noqa: F401
