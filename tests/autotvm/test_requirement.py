"""Without an AutoTVM the core works, and touching OpEvoTuner says what was found and what to do."""

import subprocess
import sys

import pytest

CORE = """
import autotvm_opevo, sys
from autotvm_opevo.topology import Discrete
assert autotvm_opevo.OpEvo(autotvm_opevo.Space({"x": Discrete([1, 2])}), seed=0).ask(1)
assert "tvm" not in sys.modules
"""
TOUCH = """
try:
    from autotvm_opevo import OpEvoTuner
except ImportError as error:
    print(error)
"""
WHAT_TO_DO = "OpEvoTuner needs a TVM with AutoTVM, 0.8 to 0.19"


def touched_with(tmp_path, **files):
    """What touching OpEvoTuner prints in a process whose 'tvm' is the given files: a TVM of another kind, or a broken one."""
    for name, text in files.items():
        path = tmp_path / "tvm" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    done = subprocess.run([sys.executable, "-c", path + CORE + TOUCH], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_package_imports_no_tvm():
    subprocess.run([sys.executable, "-c", CORE], check=True)


def test_the_package_imports_beside_a_clone_of_its_name(tmp_path):
    """The folder of a clone has the package's name: a script beside it must find the package, not the folder."""
    (tmp_path / "autotvm_opevo").mkdir()
    subprocess.run([sys.executable, "-c", CORE], check=True, cwd=tmp_path)


def test_the_tuner_is_among_the_names_of_the_package():
    import autotvm_opevo

    assert {"OpEvo", "OpEvoTuner", "Space", "random_walk"} <= set(dir(autotvm_opevo))


def test_no_tvm_at_all():
    block = "import sys; sys.modules['tvm'] = None\n"
    core = CORE.replace('assert "tvm" not in sys.modules', "")
    done = subprocess.run([sys.executable, "-c", block + core + TOUCH], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("found no TVM: ")
    assert WHAT_TO_DO in done.stdout


def test_a_tvm_that_has_lost_autotvm(tmp_path):
    printed = touched_with(tmp_path, __init__="__version__ = '0.25.0'")
    assert printed.startswith(f"found TVM 0.25.0 in {tmp_path / 'tvm'}, which has no AutoTVM: it was removed in TVM 0.20. ")
    assert WHAT_TO_DO in printed


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise OSError('libtvm.so: cannot open shared object file')", "OSError: libtvm.so: cannot open shared object file"),
        ("import a_module_that_is_not_there", "found a TVM that lacks a module of its own: No module named"),
    ],
)
def test_a_tvm_that_cannot_be_imported(tmp_path, source, message):
    printed = touched_with(tmp_path, __init__=source)
    assert message in printed
    assert WHAT_TO_DO in printed


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import a_module_that_is_not_there", "whose AutoTVM lacks a module: No module named 'a_module_that_is_not_there'"),
        ("import sys; sys.no_such", "whose AutoTVM cannot be imported: AttributeError: module 'sys' has no attribute 'no_such'"),
        ("raise OSError('no library')", "whose AutoTVM cannot be imported: OSError: no library"),
    ],
)
def test_an_autotvm_that_cannot_be_imported(tmp_path, source, message):
    printed = touched_with(tmp_path, __init__="__version__ = '0.14.0'", autotvm=source)
    assert "found TVM 0.14.0 in" in printed
    assert message in printed
    assert WHAT_TO_DO in printed


def test_other_names_are_missing_as_usual():
    import autotvm_opevo

    with pytest.raises(AttributeError, match="no attribute 'OpEvoTuna'"):
        autotvm_opevo.OpEvoTuna  # noqa: B018


def test_todays_strategy_says_that_this_is_another_tvm():
    with pytest.raises(ImportError, match=r"found TVM 0\.17.* whose AutoTVM has OpEvoTuner .* no tvm.s_tir.meta_schedule"):
        import autotvm_opevo.meta_schedule  # noqa: F401
