"""Which files logs are, what they must be to be compared, and what other files are."""

import gzip
import json
import pickle
from base64 import b64encode

import pytest

from autotvm_opevo.tuning.logs import (
    RECORD_FILE,
    WORKLOAD_FILE,
    about,
    check_logs,
    common_target,
    describe_file,
    identify,
    kind_of_file,
)

TENSOR = ["TENSOR", [8, 64], "float32"]
ANSOR = json.dumps(
    {
        "i": [
            ['["b71", 8, 64]', "llvm -link-params=0", [8, 64, 64, 0], "", 1, []],
            [[], [["SP", 2, 0, 8, [1, 4, 2], 1]]],
        ],
        "r": [[0.00012], 0, 1.2, 1630000000],
        "v": "v0.6",
    }
)
OLD = json.dumps(
    {
        "i": [
            "llvm",
            "topi_nn_dense",
            [TENSOR],
            {},
            ["dense", TENSOR],
            {"i": 3, "t": "direct", "c": None, "e": []},
        ],
        "r": [[0.001], 0, 1.2, 1550000000.0],
        "v": 0.1,
    }
)
WORKLOAD = '["1033843721384939238", "eyJyb290IjogMX0="]'
RUN_LOG = (
    '{"type": "RunStarted", "time": 1795260407.0, "operators": [], "tuner": "OpEvoTuner", '
    '"budget": 8}'
)
PICKLED = "\t".join(
    [
        "llvm",
        *(b64encode(pickle.dumps(value)).decode() for value in (["dense"], 1, 2)),
        "0.2",
        "0.7.0",
    ]
)
LINE = '{"input": ["llvm", "dense", [], {}], "config": {}, "result": [[1.0], 0, 1, 1]}'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "best").touch()
    return tmp_path


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


FORMATS = {
    "compressed with gzip: unpack it with gunzip": lambda path: path.write_bytes(
        gzip.compress(LINE.encode())
    ),
    "a binary file": lambda path: path.write_bytes(b"\x7fELF\0\0\0\1\n\0\0"),
    "a log of Ansor": lambda path: path.write_text(f"{ANSOR}\n{ANSOR}\n"),
    "a log in AutoTVM's format 0.1": lambda path: path.write_text(f"# by hand\n{OLD}\n"),
    "a log in AutoTVM's pickle format": lambda path: path.write_text(f"{PICKLED}\n"),
    "a MetaSchedule database": lambda path: path.write_text(f"{RECORD}\n"),
    "a MetaSchedule database, whose": lambda path: path.write_text(f"{WORKLOAD}\n"),
    "the run log of tune_network: name the log beside it": lambda path: path.write_text(
        f"{RUN_LOG}\n"
    ),
    "empty": lambda path: path.touch(),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_known_by_its_content(tmp_path, name):
    FORMATS[name](tmp_path / "log.json")
    text = about(tmp_path / "log.json", "leave it out")
    assert f", it is {name}" in text
    assert text.endswith("leave it out")


@pytest.mark.parametrize(
    "content",
    [
        "of nobody's\nbusiness",
        "# Notes\n",
        '{"inp',
        "[1, 2]",
        "1\n2\n",
        "a\tb\tc\td\n1\t2\t3\t4\n",
        "trial,seconds\n1,0.5\n",
    ],
)
def test_of_text_nothing_is_said(tmp_path, content):
    (tmp_path / "notes").write_text(content)
    assert about(tmp_path / "notes", "check its name") == ": check its name"


def test_the_folder_of_a_database_is_told_from_others(tmp_path):
    assert not identify(tmp_path)
    (tmp_path / "database_tuning_record.json").touch()
    assert identify(tmp_path).startswith("a MetaSchedule database")
