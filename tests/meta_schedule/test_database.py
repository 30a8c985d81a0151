"""open_database repairs a torn database, which TVM can then read, and loses nothing; other files it
rejects.
"""

import base64
import json
import shutil

import pytest
from quick_network_tuning import tune_operator
from quick_tuning import timed, traces, tune
from synthetic_logs import autotvm_log
from tvm.s_tir.meta_schedule.database import (
    JSONDatabase,
    TuningRecord,
)
from unoptimized import cpu

from autotvm_opevo._utils.atomic_files import Lock
from autotvm_opevo.meta_schedule import compile_network, open_database
from autotvm_opevo.meta_schedule.database import best_of, database_with, open_existing
from autotvm_opevo.meta_schedule.history import read_history
from autotvm_opevo.networks import relax as workloads

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
def test_a_torn_record_is_set_aside_and_the_others_are_read(folder, caplog, keep):
    lines = tear(folder, RECORDS, keep)
    assert len(open_database(folder)) == 3
    assert f"1 line of the database {folder} malformed" in caplog.text
    assert (folder / RECORDS).read_bytes() == b"".join(lines[:-1])
    assert (folder / f"{RECORDS}.rejected").read_bytes().rstrip(b"\n") == lines[-1][:keep].rstrip(
        b"\n"
    )
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
    "line",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        "[7, [1, 2, 3, 4]]",
        "[0, 3]",
        "[0, [1, 2]]",
        '["a", [1, 2, 3, 4]]',
    ],
)
def test_lines_that_are_no_records_are_set_aside(folder, line):
    with open(folder / RECORDS, "a") as file:
        file.write(line + "\n")
    assert len(open_database(folder)) == 4
    assert (folder / f"{RECORDS}.rejected").read_text() == line + "\n"


def test_an_intact_database_stays_unchanged_and_can_be_resumed(folder, caplog):
    before = (folder / RECORDS).read_bytes()
    assert len(open_database(folder)) == 4
    assert not caplog.text
    assert (folder / RECORDS).read_bytes() == before
    assert len(set(traces(tune(folder, 6)))) == 6
    after = (folder / RECORDS).read_bytes()
    assert after.startswith(before)
    assert len(tune(folder, 6)) == 6
    assert (folder / RECORDS).read_bytes() == after


def test_well_formed_lines_that_tvm_cannot_read_raise(folder):
    name = folder / WORKLOADS
    ((digest, _),) = map(json.loads, name.read_text().splitlines())
    name.write_text(json.dumps([digest, "bm90aGluZw=="]) + "\n")
    with pytest.raises(
        ValueError, match=r"work_dir must have a database that TVM 0\.27.* can read"
    ):
        open_database(folder)


def test_what_tvm_cannot_read_is_not_quoted_at_length(folder):
    """Its error has the whole workload."""
    ((digest, _),) = map(json.loads, (folder / WORKLOADS).read_text().splitlines())
    with open(folder / WORKLOADS, "a") as file:
        file.write(json.dumps([digest, "bm90aGluZw==" * 1000]) + "\n")
    with pytest.raises(ValueError, match="can read") as caught:
        open_database(folder)
    assert len(str(caught.value)) < 500 + len(str(folder))


def test_a_byte_order_mark_is_removed(folder, caplog):
    before = {name: (folder / name).read_bytes() for name in (RECORDS, WORKLOADS)}
    for name, content in before.items():
        (folder / name).write_bytes(b"\xef\xbb\xbf" + content)
    assert sum(len(source.results) for source in read_history([folder])) == 4
    assert len(open_database(folder)) == 4
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert not caplog.text


def test_a_new_database_is_created_with_its_folder(tmp_path):
    assert len(open_database(tmp_path / "a" / "b")) == 0


@pytest.mark.parametrize(
    "text",
    [
        "# Notes\n\n- first\n- second\n",
        '{\n  "records": [\n    [0, 1]\n  ]\n}',
        "[1, 2, 3]",
        "[0, 3]\n",
        "[torn\n",
        "# a comment\n# and nothing else\n",
        "notes without an end",
        "\xff\xfe",
    ],
)
@pytest.mark.parametrize("name", [RECORDS, WORKLOADS])
def test_a_file_without_a_line_of_a_database_is_rejected_untouched(folder, name, text):
    (folder / name).write_bytes(text.encode("latin-1"))
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(
        ValueError, match=rf"no line of {folder / name} is of a database: name another"
    ):
        open_database(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    "text",
    [b"[", b'["95931779", "okYA', b"\0" * 64, b"\n\n"],
    ids=["bracket", "torn", "zeros", "blank"],
)
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


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def old_workload(version):
    """A line of a workload file as TVM wrote it before 0.20."""
    graph = {
        "root": 1,
        "nodes": [{"type_key": ""}, {"type_key": "IRModule"}],
        "attrs": {"tvm_version": version},
    }
    return json.dumps(
        ["12345678901234567890", base64.b64encode(json.dumps(graph).encode()).decode()]
    )


OPENING = {
    "open_database": open_database,
    "open_existing": open_existing,
    "compile_network": lambda folder: compile_network(
        *workloads.operator("matmul", [(32, 32)] * 2), cpu(), folder
    ),
    "history": lambda folder: read_history([folder]),
    "work_dir": lambda folder: tune_operator(folder, 2),
}


class TestDatabasesAsPeopleKeepThem:
    """Each is refused with what it is and what to do, or used, and none is changed."""

    @pytest.mark.parametrize("end", ["\n", "", "\n[0, [[[torn"])
    @pytest.mark.parametrize("way", OPENING)
    def test_of_another_version(self, folder, way, end):
        (folder / WORKLOADS).write_text(old_workload("0.11.dev0") + end[:1])
        (folder / RECORDS).write_text((folder / RECORDS).read_text().rstrip("\n") + end)
        before = contents(folder)
        with pytest.raises(
            ValueError,
            match=rf"TVM 0\.27.* can read, {folder} has not: it is of TVM 0\.11\.dev0, use it with",
        ):
            OPENING[way](folder)
        assert contents(folder) == before

    @pytest.mark.parametrize("way", OPENING)
    @pytest.mark.parametrize("name", [RECORDS, WORKLOADS])
    def test_by_the_path_of_a_file(self, folder, way, name):
        before = contents(folder)
        with pytest.raises(
            ValueError,
            match=f"{folder / name} is one of the two files of .*: name their folder, {folder}$",
        ):
            OPENING[way](folder / name)
        assert contents(folder) == before

    @pytest.mark.parametrize("way", OPENING)
    def test_a_log_of_autotvm(self, tmp_path, way):
        log = autotvm_log(tmp_path / "log.json")
        before = contents(tmp_path)
        with pytest.raises(
            ValueError, match=f"{log} is a log of AutoTVM, not a database of MetaSchedule"
        ):
            OPENING[way](log)
        assert contents(tmp_path) == before

    @pytest.mark.parametrize("way", OPENING)
    def test_without_the_workloads(self, folder, way):
        (folder / WORKLOADS).unlink()
        before = contents(folder)
        with pytest.raises(
            ValueError, match=f"{folder} has no {WORKLOADS}, .*: copy it there, too"
        ):
            OPENING[way](folder)
        assert contents(folder) == before

    @pytest.mark.parametrize("way", ["open_existing", "compile_network", "history"])
    def test_without_the_records(self, folder, way):
        (folder / RECORDS).unlink()
        before = contents(folder)
        with pytest.raises(ValueError, match=rf"{folder} has no {RECORDS}|{folder} has no record"):
            OPENING[way](folder)
        assert contents(folder) == before

    def test_without_the_records_one_can_tune_and_open(self, folder):
        (folder / RECORDS).unlink()
        assert len(open_database(folder)) == 0
        (folder / RECORDS).unlink()
        assert len(tune(folder, 4)) == 4

    def test_with_files_of_other_names(self, folder):
        (folder / RECORDS).rename(folder / "resnet.json")
        (folder / WORKLOADS).rename(folder / "resnet_workloads.json")
        before = contents(folder)
        with pytest.raises(
            ValueError,
            match=f"{folder} has no database of MetaSchedule: resnet.json may be one, which must "
            "be "
            f".*{RECORDS}",
        ):
            open_existing(folder)
        with pytest.raises(
            ValueError,
            match=f"resnet.json is one of the two files .*: call it {RECORDS}, put it into a "
            "folder "
            "with",
        ):
            open_existing(folder / "resnet.json")
        assert contents(folder) == before


def test_the_best_is_the_fastest_success_of_the_target(tuned):
    records = open_database(tuned).get_all_tuning_records()
    slow, fast = sorted(records, key=lambda record: -float(record.run_secs[0]))[-2:]
    foreign = TuningRecord(fast.trace, fast.workload, [1e-9], None, fast.args_info)
    database = database_with([timed(fast, 1e10), foreign, slow, fast])
    assert best_of(database, fast.workload.mod, fast.target).run_secs == fast.run_secs
    assert best_of(database_with([]), fast.workload.mod, fast.target) is None
