"""Setup of the environment with AutoTVM: one line per problem, before anything is downloaded."""

import ast
import fcntl
import hashlib
import importlib.util
import platform
import re
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "setup_autotvm.py"


@pytest.fixture
def setup(monkeypatch):
    spec = importlib.util.spec_from_file_location("setup_autotvm", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "pip", lambda *arguments: pytest.fail("a download"))
    return module


def refusal(setup, monkeypatch, env):
    """The line with which `main` exits."""
    monkeypatch.setattr(sys, "argv", ["setup_autotvm.py", str(env)])
    with pytest.raises(SystemExit) as stopped:
        setup.main()
    assert "\n" not in stopped.value.code
    return stopped.value.code


@pytest.mark.parametrize(
    ("what", "value", "message"),
    [
        (
            "sys.version_info",
            (3, 8, 18),
            "Python 3.9 or later is required, this is Python 3.8: choose another with PYTHON=",
        ),
        (
            "platform.machine",
            lambda: "aarch64",
            "unsupported platform: .* this is Linux aarch64 with glibc",
        ),
        ("platform.system", lambda: "Darwin", "unsupported platform: .* this is Darwin x86_64"),
        (
            "platform.libc_ver",
            lambda: ("glibc", "2.31"),
            "glibc 2.34 or later, this is Linux x86_64 with glibc 2.31",
        ),
        ("platform.libc_ver", lambda: ("", ""), "unsupported platform: .* with another libc"),
        ("shutil.which", lambda name: None, "no C compiler: install gcc"),
    ],
)
def test_unsupported_machines_are_one_line(setup, monkeypatch, tmp_path, what, value, message):
    monkeypatch.setattr(what, value)
    assert re.search(message, refusal(setup, monkeypatch, tmp_path / "env"))


def test_keeps_a_folder_that_is_no_environment(setup, monkeypatch, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    assert "is neither empty nor a virtual environment" in refusal(setup, monkeypatch, tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_refuses_a_concurrent_setup(setup, monkeypatch, tmp_path):
    with open(f"{tmp_path / 'env'}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another setup of" in refusal(setup, monkeypatch, tmp_path / "env")


def test_a_failed_step_raises_its_error_and_keeps_the_log(setup, tmp_path):
    code = (
        "import sys; print('Collecting numpy'); print('ERROR: No matching distribution found "
        "for numpy'); sys.exit(1)"
    )
    with pytest.raises(setup.SetupError) as failed:
        setup.run(str(tmp_path / "env"), "installing packages", sys.executable, "-c", code)
    assert str(failed.value).startswith(
        "installing packages failed: ERROR: No matching distribution found for numpy (full log"
    )
    assert "Collecting numpy" in (tmp_path / "env.log").read_text()


def test_an_incomplete_download_is_repeated(setup, monkeypatch, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "bitblas.whl").write_bytes(b"half of")
    whole = b"half of it and the rest"
    monkeypatch.setattr(setup, "TVM_WHEEL_SHA256", hashlib.sha256(whole).hexdigest())
    monkeypatch.setattr(setup, "pip", lambda *arguments: (cache / "bitblas.whl").write_bytes(whole))
    assert Path(setup.fetch_tvm(str(tmp_path / "env"))).read_bytes() == whole


def test_keeps_a_finished_environment_unless_another_python_is_requested(
    setup, monkeypatch, tmp_path
):
    (tmp_path / ".ready").write_text(setup.fingerprint("3.9.0"))
    monkeypatch.setattr(setup, "version_of", lambda env: "3.9.0")
    assert platform.python_version() != "3.9.0"
    setup.set_up(str(tmp_path), any_python=True)
    with pytest.raises(setup.SetupError, match="is neither empty"):  # it would be made again
        setup.set_up(str(tmp_path), any_python=False)


def test_an_unsupported_python_can_parse_the_script():
    ast.parse(SCRIPT.read_text(), feature_version=(3, 6))
