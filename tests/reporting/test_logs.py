"""Opening of logs: paths, labels, and names of tasks."""

import pytest
from synthetic_logs import autotvm_line, autotvm_log, meta_schedule_folder

from autotvm_opevo.reporting.logs import fingerprint, input_files, open_logs
from autotvm_opevo.tuning.journal import Journal, TrialEnded


def _write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: [], "logs must be at least one"),
        (lambda folder: [folder], "must be an AutoTVM log, the folder of a MetaSchedule database, or a folder of some"),
        (lambda folder: [autotvm_log(folder / "a")] * 2, "is given twice"),
        (lambda folder: [_write(folder / "notes.md", "# Notes\nnot a log\nof anything")], "none of its lines is a trial"),
    ],
)
def test_invalid_paths_are_refused(tmp_path, make, message):
    with pytest.raises(ValueError, match=message):
        open_logs(make(tmp_path))


@pytest.mark.parametrize(("text", "valid"), [("", True), ('{"input": ["ll', True), ("no log", True), ("no log\n", False)])
def test_a_first_line_may_be_incomplete(tmp_path, text, valid):
    path = _write(tmp_path / "log.json", text)
    if valid:
        assert len(open_logs([path], must_exist=False)[0]) == 0
    else:
        with pytest.raises(ValueError, match="none of its lines is a trial"):
            open_logs([path], must_exist=False)


def test_a_log_without_a_trial_is_an_error_unless_allowed(tmp_path):
    full, empty = autotvm_log(tmp_path / "full.json"), _write(tmp_path / "empty.json", "")
    with pytest.raises(ValueError, match=r"logs must have trials, there is none in .*empty\.json yet: --watch waits"):
        open_logs([full, empty])


def test_a_folder_stands_for_the_autotvm_logs_in_it(tmp_path):
    logs = [autotvm_log(tmp_path / f"{name}.json") for name in ("b", "a")]
    Journal(f"{logs[0]}.journal").write(TrialEnded("dense"))
    autotvm_log(tmp_path / "a.best.json", trials=1)
    _write(tmp_path / "results.json", "[1, 2]")
    _write(tmp_path / "begun.json", "")
    assert [log.label for log in open_logs([tmp_path])] == ["a.json", "b.json"]
    assert input_files([tmp_path]) >= {log.resolve() for log in logs}
    before = fingerprint([tmp_path])
    autotvm_log(tmp_path / "begun.json")
    assert fingerprint([tmp_path]) != before
    assert [log.label for log in open_logs([tmp_path])] == ["a.json", "b.json", "begun.json"]


def test_a_folder_stands_for_the_databases_in_it_and_for_logs_as_tvm_s_tutorials_name_them(tmp_path):
    autotvm_log(tmp_path / "resnet-18.log")
    meta_schedule_folder(tmp_path / "yesterday")
    _write(tmp_path / "notes.log", "started\n")
    assert [log.label for log in open_logs([tmp_path])] == ["resnet-18.log", "yesterday"]


def test_a_missing_log_is_an_error_unless_allowed(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_logs([tmp_path / "missing.json"])
    (log,) = open_logs([tmp_path / "missing.json"], must_exist=False)
    assert len(log) == 0


def test_the_fingerprint_changes_when_a_log_or_journal_grows(tmp_path):
    path = tmp_path / "log.json"
    fingerprints = [fingerprint([path])]
    for trials in (4, 8):
        autotvm_log(path, trials)
        fingerprints.append(fingerprint([path]))
    Journal(f"{path}.journal").write(TrialEnded("dense"))
    fingerprints.append(fingerprint([path]))
    assert len(set(fingerprints)) == 4


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ('"llvm"', '"llvm -mcpu=core-avx2"', ("dense 1x64 for llvm", "dense 1x64 for llvm -mcpu=core-avx2")),
        ('"float32"', '"float16"', ("dense 1x64", "dense 1x64 (2)")),
    ],
)
def test_tasks_with_equal_names_are_distinguished(tmp_path, old, new, names):
    path = tmp_path / "log.json"
    path.write_text("\n".join([autotvm_line(0), autotvm_line(0).replace(old, new)]))
    assert tuple(task.name for task in open_logs([path])[0].tasks.values()) == names


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('{"i": [["[]", "llvm"], [[], []]], "r": [[0.1], 0, 1, 1], "v": "v0.6"}', "a log of Ansor"),
        ('{"i": ["llvm"], "r": [[0.1], 0, 1, 1], "v": 0.1}\n', "a log in AutoTVM's format 0.1"),
        ('{"cells": [], "nbformat": 4}', "a Jupyter notebook"),
        ("\x1f\x8b\x08\x00", "compressed with gzip: unpack it with gunzip"),
    ],
)
@pytest.mark.parametrize("must_exist", [True, False])
def test_a_file_of_another_format_is_refused_by_name(tmp_path, content, what, must_exist):
    """Also if it is one line without an end, which a log may have."""
    (tmp_path / "log.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=f"none of its lines is a trial, it is {what}"):
        open_logs([tmp_path / "log.json"], must_exist)
