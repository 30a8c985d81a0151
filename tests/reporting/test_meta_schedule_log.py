"""Parsing of MetaSchedule databases."""

import numpy as np
import pytest
from synthetic_logs import meta_schedule_folder, meta_schedule_line

from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.tuning.journal import Journal, RunEnded, RunStarted, TrialEnded


def test_a_database_is_read_with_sketches_and_options(tmp_path):
    (log,) = open_logs([meta_schedule_folder(tmp_path / "folder")])
    (task,) = log.tasks.values()
    assert (task.name, len(task), task.best, dict(task.failures)) == (
        "matmul 8x64 64x64",
        8,
        1e-3,
        {"failed": 1},
    )
    assert np.isnan(task.times).all()
    assert task.knobs["matmul, loop 2, 64 iterations"].stats[32, 2].best == 2e-3
    assert task.knobs["unroll explicit"].options == ("0", "16", "64")
    assert task.target == "llvm"
    assert list(task.knobs["sketch"].stats) == ["1"]


def test_a_sketch_has_the_same_number_in_all_logs_however_many_loops_are_parallel(tmp_path):
    def lines(parallel, other):
        both = [
            meta_schedule_line((64, 1), 0, 1e-3),
            meta_schedule_line((64, 1), 0, 5e-3).replace('"matmul", "main"', '"other", "main"'),
        ]
        return [
            line.replace(
                '["EnterPostproc"',
                f'["Annotate", ["b0", {parallel}], ["meta_schedule.parallel"], []], '
                '["EnterPostproc"',
            )
            for line in both
        ][::other]

    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, parallel, order in zip(folders, (8, 32), (1, -1)):
        folder.mkdir()
        (folder / "database_tuning_record.json").write_text("\n".join(lines(parallel, order)))
        (folder / "database_workload.json").write_text('["1234", "..."]\n')
    for log in open_logs(folders):
        (task,) = log.tasks.values()
        assert {value: stats.best for value, stats in task.knobs["sketch"].stats.items()} == {
            "1": 1e-3,
            "2": 5e-3,
        }


def test_schedules_with_differently_packed_weights_are_trials_of_one_task(tmp_path):
    folder = meta_schedule_folder(tmp_path / "folder")
    records = folder / "database_tuning_record.json"
    before, *rest = records.read_text().splitlines()
    assert "[64, 64]" in before
    records.write_text("\n".join([before.replace("[64, 64]", "[8, 64, 8]"), *rest]))
    Journal(folder / "journal").write(
        RunStarted([(1, ["1234"])], "OpEvo", names={"1234": "matmul 8x64 64x64"})
    )
    (task,) = open_logs([folder])[0].tasks.values()
    assert (task.name, len(task)) == ("matmul 8x64 64x64", 8)


@pytest.mark.parametrize("ended", [False, True])
def test_what_a_killed_run_had_no_time_to_tell_is_no_reason_to_lose_all_times(
    tmp_path, monkeypatch, ended
):
    """Two records of eight are in the database, but not in the journal; the first run was killed,
    or ended orderly.
    """
    folder = meta_schedule_folder(tmp_path / "folder")
    journal, key = Journal(folder / "journal"), "1234"

    def at(moment, write, *arguments, **fields):
        monkeypatch.setattr("time.time", lambda: moment)
        write(*arguments, **fields)

    at(1000.0, journal.write, RunStarted([(1, [key])], "OpEvo"))
    for moment in (1010.0, 1011.0, 1012.0):
        at(moment, journal.write, TrialEnded(task=key))
    if ended:
        at(1013.0, journal.write, RunEnded({"running": 3.0}))
    at(2000.0, journal.write, RunStarted([(1, [key])], "OpEvo"))
    for moment, failure in ((2010.0, "run timeout"), (2011.0, ""), (2012.0, "")):
        at(moment, journal.write, TrialEnded(task=key, failure=failure))
    at(2013.0, journal.write, RunEnded({"running": 3.0}))
    (log,) = open_logs([folder])
    (task,) = log.tasks.values()
    if ended:
        assert np.isnan(task.times).all()
        assert task.failures == {"failed": 1}
    else:
        assert task.times.tolist() == [
            1010.0,
            1011.0,
            1012.0,
            1012.0,
            1012.0,
            2010.0,
            2011.0,
            2012.0,
        ]
        assert task.failures == {"run timeout": 1}
        assert log.elapsed[-1] == 24.0


@pytest.mark.parametrize(
    "name", ["database_tuning_record.json", "database_workload.json", "resnet.json"]
)
def test_a_database_is_found_by_a_file_of_it_also_of_another_name(tmp_path, name):
    folder = meta_schedule_folder(tmp_path / "folder")
    if name == "resnet.json":
        (folder / "database_tuning_record.json").rename(folder / name)
    (log,) = open_logs([folder / name])
    (task,) = log.tasks.values()
    assert (task.name, len(task)) == ("matmul 8x64 64x64", 8)
