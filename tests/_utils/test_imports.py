"""Errors for a missing, broken or different TVM."""

import sys

import pytest

from autotvm_opevo._utils.imports import require


@pytest.fixture
def make_tvm(tmp_path, monkeypatch):
    """A function that makes `tvm` a package of given files."""

    def make(**files):
        for name in [name for name in sys.modules if name == "tvm" or name.startswith("tvm.")]:
            monkeypatch.delitem(sys.modules, name)
        for name, text in files.items():
            path = tmp_path / "tvm" / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        monkeypatch.syspath_prepend(tmp_path)

    known = set(sys.modules)
    yield make
    for name in [
        name for name in sys.modules if name.partition(".")[0] == "tvm" and name not in known
    ]:
        del sys.modules[name]


def require_part():
    return require("tvm.part", "Part", lambda: "which has no part", "Install another")


def test_returns_the_version_and_place(make_tvm, tmp_path):
    make_tvm(__init__="__version__ = '1.2'", part="")
    assert require_part() == f"TVM 1.2 in {tmp_path / 'tvm'}"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"__init__": "import tvm_lacks_this"}, "lacks a module: .*tvm_lacks_this.*Install"),
        ({"__init__": "raise OSError('libtvm.so')"}, r"OSError: libtvm\.so.*Install another"),
        ({"__init__": ""}, "TVM of unknown version .*which has no part.*Install another"),
        (
            {"__init__": "__version__ = '1.2'", "part": "import tvm_lacks_this"},
            r"TVM 1\.2 .*Part lacks a module: .*tvm_lacks_this",
        ),
        (
            {"__init__": "__version__ = '1.2'", "part": "1 / 0"},
            r"TVM 1\.2 .*Part .*ZeroDivisionError",
        ),
    ],
)
def test_error_says_what_was_found_and_what_to_do(make_tvm, files, message):
    make_tvm(**files)
    with pytest.raises(ImportError, match=message):
        require_part()


def test_error_without_any_tvm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tvm", None)
    with pytest.raises(ImportError, match=r"'tvm'.*Install another"):
        require_part()
