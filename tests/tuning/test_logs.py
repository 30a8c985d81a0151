"""Which files logs are, and what they must be to be compared."""

import pytest

from autotvm_opevo.tuning.file_formats import describe_file, kind_of_file
from autotvm_opevo.tuning.logs import RECORD_FILE, WORKLOAD_FILE, check_logs, common_target


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


RECORD = '[0, [[[], []], [0.1], {"kind": "llvm"}, []]]\n'


@pytest.mark.parametrize(
    ("text", "kind", "description"),
    [
        (
            '{"input": ["llvm"], "config": {}, "result": []}\n',
            "AutoTVM",
            "is a log of AutoTVM, not a database of MetaSchedule: it needs TVM",
        ),
        (
            RECORD,
            RECORD_FILE,
            f"call it {RECORD_FILE}, put it into a folder with the {WORKLOAD_FILE} that "
            "belongs to it",
        ),
        (f"# copied\n\n[torn\n{RECORD}", RECORD_FILE, f"call it {RECORD_FILE}"),
        ('{"i": ["llvm"], "r": [], "v": 0.1}\n', "AutoTVM", "is a log of AutoTVM"),
        (
            '["123", "eyJy"]\n',
            WORKLOAD_FILE,
            f"call it {WORKLOAD_FILE}, put it into a folder with the {RECORD_FILE}",
        ),
        ("", "", "is a file, not a database of MetaSchedule: name the folder of one"),
        ("# notes\n", "", "is a file, not a database"),
        ("[1, 2]\n", "", "is a file, not a database"),
        ('{"version": 1}\n', "", "is a file, not a database"),
    ],
)
def test_a_file_is_known_by_its_first_line(tmp_path, text, kind, description):
    path = tmp_path / "file.json"
    path.write_text(text)
    assert kind_of_file(path) == kind
    assert describe_file(path).startswith(f"{path} is ")
    assert description in describe_file(path)


@pytest.mark.parametrize("name", [RECORD_FILE, WORKLOAD_FILE])
def test_the_files_of_a_database_stand_for_their_folder(tmp_path, name):
    (tmp_path / name).write_text("")
    assert describe_file(tmp_path / name).endswith(f"name their folder, {tmp_path}")
