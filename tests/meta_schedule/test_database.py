"""A database that was torn is mended; TVM's own tools read what is left, and nothing is lost."""

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


def test_tvm_alone_refuses_a_torn_database(folder):
    """Why there is `open_database`. If this fails, TVM has learned it."""
    tear(folder, RECORDS, keep=100)
    with pytest.raises(Exception):  # noqa: B017, PT011  whichever it is
        JSONDatabase(work_dir=str(folder))


@pytest.mark.parametrize("keep", [1, 100, -3])
def test_a_torn_record_is_kept_aside_and_the_others_are_read(folder, keep):
    lines = tear(folder, RECORDS, keep)
    assert len(open_database(folder)) == 3
    assert (folder / RECORDS).read_bytes() == b"".join(lines[:-1])
    assert (folder / f"{RECORDS}.rejected").read_bytes().rstrip(b"\n") == lines[-1][:keep].rstrip(b"\n")
    assert len(JSONDatabase(work_dir=str(folder))) == 3  # TVM's own reader, on what is left


def test_a_line_that_lacks_nothing_but_its_end_is_whole(folder):
    lines = tear(folder, RECORDS, keep=-1)
    assert len(open_database(folder)) == 4
    assert (folder / RECORDS).read_bytes() == b"".join(lines)
    assert not (folder / f"{RECORDS}.rejected").exists()


def test_a_torn_workload_takes_its_records_with_it(folder):
    tear(folder, WORKLOADS, keep=50)
    assert len(open_database(folder)) == 0
    assert len((folder / f"{RECORDS}.rejected").read_bytes().splitlines()) == 4
    assert len((folder / f"{WORKLOADS}.rejected").read_bytes().splitlines()) == 1


def test_a_broken_workload_takes_those_after_it_with_it(folder):
    """Records know their workload by its line's number."""
    whole = (folder / WORKLOADS).read_bytes()
    (folder / WORKLOADS).write_bytes(whole + b"[torn\n" + whole)
    with open(folder / RECORDS, "a") as file:
        file.write("[2, [1, 2, 3, 4]]\n")
    assert len(open_database(folder)) == 4
    assert (folder / WORKLOADS).read_bytes() == whole
    assert (folder / f"{WORKLOADS}.rejected").read_bytes() == b"[torn\n" + whole
    assert (folder / f"{RECORDS}.rejected").read_text() == "[2, [1, 2, 3, 4]]\n"


def test_nothing_is_mended_while_a_network_is_being_tuned(folder):
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
def test_lines_that_are_no_records_move_aside(folder, line):
    with open(folder / RECORDS, "a") as file:
        file.write(line + "\n")
    assert len(open_database(folder)) == 4
    assert (folder / f"{RECORDS}.rejected").read_text() == line + "\n"


def test_a_whole_database_stays_as_it_is_and_can_be_tuned_on(folder):
    before = (folder / RECORDS).read_bytes()
    assert len(open_database(folder)) == 4
    assert (folder / RECORDS).read_bytes() == before
    assert len(set(traces(tune(folder, 6)))) == 6
    assert (folder / RECORDS).read_bytes().startswith(before)


def test_what_tvm_cannot_read_though_it_is_whole_is_said(folder):
    name = folder / WORKLOADS
    ((digest, _),) = map(json.loads, name.read_text().splitlines())
    name.write_text(json.dumps([digest, "bm90aGluZw=="]) + "\n")
    with pytest.raises(ValueError, match=r"work_dir must have a database that TVM 0\.27.* can read"):
        open_database(folder)


def test_a_new_one_is_made_with_its_folder(tmp_path):
    assert len(open_database(tmp_path / "a" / "b")) == 0
