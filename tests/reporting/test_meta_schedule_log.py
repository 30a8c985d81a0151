"""Parsing of MetaSchedule databases."""

import pytest
from synthetic_logs import meta_schedule_folder, meta_schedule_line, record

from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.tuning.run_log import RunStarted


def test_a_database_is_read_with_sketches_and_options(tmp_path):
    (log,) = open_logs([meta_schedule_folder(tmp_path / "folder")])
    (task,) = log.tasks.values()
    assert (task.name, len(task), task.best, dict(task.failures)) == (
        "matmul 8x64 64x64",
        8,
        1e-3,
        {"failed": 1},
    )
    assert not len(task.elapsed)
    (second,) = (trial.knobs for trial in task.trials if trial.latency == 2e-3)
    assert second["matmul, loop 2, 64 iterations"].value == (32, 2)
    assert second["unroll explicit"].value == "16"
    assert second["sketch"].value == "1"
    assert task.target == "llvm"


@pytest.mark.parametrize("value", ["[0, 0, 1]", "1", '{"stage": 1}'])
def test_annotations_with_any_value_are_read(tmp_path, value):
    """As those of software pipelines for tensor cores, which are lists."""
    folder = meta_schedule_folder(tmp_path / "folder")
    records = folder / "database_tuning_record.json"
    annotation = f'["Annotate", ["l1", {value}], ["software_pipeline_stage"], []]'
    text = records.read_text()
    records.write_text(text.replace('["EnterPostproc"', f'{annotation}, ["EnterPostproc"'))
    assert records.read_text() != text
    (log,) = open_logs([folder])
    assert (len(log), log.unrelated) == (8, 0)


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
        sketches = {trial.latency: trial.knobs["sketch"].value for trial in task.trials}
        assert sketches == {1e-3: "1", 5e-3: "2"}


def test_schedules_with_differently_packed_weights_are_trials_of_one_task(tmp_path):
    folder = meta_schedule_folder(tmp_path / "folder")
    records = folder / "database_tuning_record.json"
    before, *rest = records.read_text().splitlines()
    assert "[64, 64]" in before
    records.write_text("\n".join([before.replace("[64, 64]", "[8, 64, 8]"), *rest]))
    record(folder, RunStarted([(1, ["1234"])], "OpEvo", names={"1234": "matmul 8x64 64x64"}))
    (task,) = open_logs([folder])[0].tasks.values()
    assert (task.name, len(task)) == ("matmul 8x64 64x64", 8)


@pytest.mark.parametrize(
    "name", ["database_tuning_record.json", "database_workload.json", "journal", "resnet.json"]
)
def test_a_database_is_found_by_a_file_of_it_also_of_another_name(tmp_path, name):
    folder = meta_schedule_folder(tmp_path / "folder")
    if name == "resnet.json":
        (folder / "database_tuning_record.json").rename(folder / name)
    record(folder, RunStarted([], "OpEvo"))
    (log,) = open_logs([folder / name])
    (task,) = log.tasks.values()
    assert (task.name, len(task)) == ("matmul 8x64 64x64", 8)
    assert log.runs.tuners == ([] if name == "resnet.json" else ["OpEvo"])
