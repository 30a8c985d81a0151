"""What logs must be to be compared."""

import pytest

from autotvm_opevo.tuning.logs import check_logs, common_target


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/best", "b/best", "b/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


def test_names_are_as_short_as_can_be(folder):
    assert check_logs(["a/best", "b/x"]) == ["best", "x"]
    assert check_logs([folder / "a" / "best", folder / "b" / "best"]) == ["a/best", "b/best"]


def test_one_log_is_enough(folder):
    assert check_logs(["a/best"]) == ["best"]
    with pytest.raises(ValueError, match="at least one log"):
        check_logs([])


def test_a_missing_log_is_named(folder):
    with pytest.raises(FileNotFoundError) as caught:
        check_logs(["a/best", "c/best"])
    assert caught.value.filename == "c/best"


def test_the_same_log_twice_is_refused(folder):
    (folder / "link").symlink_to(folder / "a" / "best")
    for again in ("a/best", "a/../a/best", "link"):
        with pytest.raises(ValueError, match=f"logs must differ, {again} is given twice"):
            check_logs(["a/best", again])


def test_the_only_common_target_is_taken():
    assert common_target([["llvm", "cuda"], ["llvm"]]) == "llvm"
    with pytest.raises(ValueError, match="no target in common: cuda, llvm"):
        common_target([["cuda"], ["llvm"]])
    with pytest.raises(ValueError, match="more than one target in common: cuda, llvm"):
        common_target([["cuda", "llvm"], ["llvm", "cuda"]])
