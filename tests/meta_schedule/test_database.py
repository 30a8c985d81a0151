"""open_database repairs a torn database, which TVM can then read, and loses nothing; other files it rejects."""

import json
import shutil

import pytest
from quick_tuning import traces, tune
from tvm.s_tir.meta_schedule.database import JSONDatabase

from autotvm_opevo._utils.atomic_files import Lock
from autotvm_opevo.meta_schedule import open_database

RECORDS, WORKLOADS = "database_tuning_record.json", "database_workload.json"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A work directory with four records."""
    folder = tmp_path_factory.mktemp("tuned")
    tune(folder, 4)
    return folder


@pytest.fixture
def folder(tuned, tmp_path):
    return shutil.copytree(tuned, tmp_path / "copy")


def tear(folder, name, keep):
    """Cut the last line of a file, as a power cut does."""
    lines = (folder / name).read_bytes().splitlines(keepends=True)
    (folder / name).write_bytes(b"".join(lines[:-1]) + lines[-1][:keep])
    return lines


def test_tvm_rejects_a_torn_database(folder):
    """The reason for `open_database`."""
    tear(folder, RECORDS, keep=100)
    with pytest.raises(Exception):  # noqa: B017, PT011  any
        JSONDatabase(work_dir=str(folder))


@pytest.mark.parametrize("keep", [1, 100, -3])
def test_a_torn_record_is_set_aside_and_the_others_are_read(folder, keep):
    lines = tear(folder, RECORDS, keep)
    assert len(open_database(folder)) == 3
    assert (folder / RECORDS).read_bytes() == b"".join(lines[:-1])
    assert (folder / f"{RECORDS}.rejected").read_bytes().rstrip(b"\n") == lines[-1][:keep].rstrip(b"\n")
    assert len(JSONDatabase(work_dir=str(folder))) == 3  # TVM's own reader


def test_a_record_that_lacks_only_its_newline_is_kept(folder):
    lines = tear(folder, RECORDS, keep=-1)
    assert len(open_database(folder)) == 4
    assert (folder / RECORDS).read_bytes() == b"".join(lines)
    assert not (folder / f"{RECORDS}.rejected").exists()


def test_records_of_a_torn_workload_are_set_aside_with_it(folder):
    tear(folder, WORKLOADS, keep=50)
    assert len(open_database(folder)) == 0
    assert len((folder / f"{RECORDS}.rejected").read_bytes().splitlines()) == 4
    assert len((folder / f"{WORKLOADS}.rejected").read_bytes().splitlines()) == 1


def test_workloads_after_a_malformed_one_are_set_aside_with_it(folder):
    """Records refer to workloads by line number."""
    whole = (folder / WORKLOADS).read_bytes()
    (folder / WORKLOADS).write_bytes(whole + b"[torn\n" + whole)
    with open(folder / RECORDS, "a") as file:
        file.write("[2, [1, 2, 3, 4]]\n")
    assert len(open_database(folder)) == 4
    assert (folder / WORKLOADS).read_bytes() == whole
    assert (folder / f"{WORKLOADS}.rejected").read_bytes() == b"[torn\n" + whole
    assert (folder / f"{RECORDS}.rejected").read_text() == "[2, [1, 2, 3, 4]]\n"


def test_nothing_is_repaired_while_a_network_is_being_tuned(folder):
    tear(folder, RECORDS, keep=-1)
    malformed = (folder / RECORDS).read_bytes()
    lock = Lock(folder / "lock")
    lock.acquire(folder)
    try:
        assert len(open_database(folder)) == 4
    finally:
        lock.release()
    assert (folder / RECORDS).read_bytes() == malformed


@pytest.mark.parametrize(
    "line", ["", "nonsense", "[]", "{}", "[7, [1, 2, 3, 4]]", "[0, 3]", "[0, [1, 2]]", '["a", [1, 2, 3, 4]]']
)
def test_lines_that_are_no_records_are_set_aside(folder, line):
    with open(folder / RECORDS, "a") as file:
        file.write(line + "\n")
    assert len(open_database(folder)) == 4
    assert (folder / f"{RECORDS}.rejected").read_text() == line + "\n"


def test_an_intact_database_stays_unchanged_and_can_be_resumed(folder):
    before = (folder / RECORDS).read_bytes()
    assert len(open_database(folder)) == 4
    assert (folder / RECORDS).read_bytes() == before
    assert len(set(traces(tune(folder, 6)))) == 6
    assert (folder / RECORDS).read_bytes().startswith(before)


def test_well_formed_lines_that_tvm_cannot_read_raise(folder):
    name = folder / WORKLOADS
    ((digest, _),) = map(json.loads, name.read_text().splitlines())
    name.write_text(json.dumps([digest, "bm90aGluZw=="]) + "\n")
    with pytest.raises(ValueError, match=r"work_dir must have a database that TVM 0\.27.* can read"):
        open_database(folder)


def test_a_new_database_is_created_with_its_folder(tmp_path):
    assert len(open_database(tmp_path / "a" / "b")) == 0


@pytest.mark.parametrize(
    "text",
    [
        "# Notes\n\n- first\n- second\n",
        "#!/bin/sh\necho done\n",
        "import json\n\nprint(json.dumps([1, 2]))\n",
        '{"version": 1, "records": []}\n',
        '{\n  "records": [\n    [0, 1]\n  ]\n}',
        "[1, 2, 3]",
        "[0, 3]\n",
        "[torn\n",
        "name,seconds\nconv,0.1\n",
        "0\n1\n",
        "# a comment\n# and nothing else\n",
        "notes without an end",
        "\xff\xfe",
    ],
)
@pytest.mark.parametrize("name", [RECORDS, WORKLOADS])
def test_a_file_without_a_line_of_a_database_is_rejected_untouched(folder, name, text):
    (folder / name).write_bytes(text.encode("latin-1"))
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(ValueError, match=rf"no line of {folder / name} is of a database: name another"):
        open_database(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("text", [b"[", b'["95931779", "okYA', b"\0" * 64, b"\n\n"], ids=["bracket", "torn", "zeros", "blank"])
def test_a_single_torn_line_is_set_aside(folder, text):
    (folder / WORKLOADS).write_bytes(text)
    assert len(open_database(folder)) == 0
    assert (folder / f"{WORKLOADS}.rejected").read_bytes().rstrip(b"\n") == text.rstrip(b"\n")
    assert len((folder / f"{RECORDS}.rejected").read_bytes().splitlines()) == 4


def test_an_empty_database_is_opened(tmp_path):
    for name in (RECORDS, WORKLOADS):
        (tmp_path / name).touch()
    assert len(open_database(tmp_path)) == 0
    assert not list(tmp_path.glob("*.rejected"))
