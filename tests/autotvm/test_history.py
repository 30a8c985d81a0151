"""Records of other tasks, from memory and from files."""

import json

import pytest
from instant_measuring import measured, result
from small_templates import matmul_task
from tvm import autotvm
from tvm.autotvm.task import Task
from tvm.target import Target

from autotvm_opevo.autotvm.history import History, read_history


def records(task, count=6, seconds=lambda i: 1e-3 * (1 + i)):
    return [(measured(task, task.config_space.get(i)), result(seconds(i))) for i in range(count)]


def write(path, pairs, before=""):
    path.write_text(before + "".join(autotvm.record.encode(*pair) + "\n" for pair in pairs))
    return path


class TestSources:
    def test_each_task_of_the_template_is_a_source_in_a_space_of_its_own(self):
        tasks = [matmul_task(16), matmul_task(32)]
        sources = History([record for task in tasks for record in records(task)]).sources(
            "tests/matmul"
        )
        assert [source.space.knobs["tile_y"].product for source in sources] == [16, 32]
        assert [sorted(source.results.values()) for source in sources] == [
            [1000 / (i + 1) for i in range(5, -1, -1)]
        ] * 2

    def test_what_there_is_in_words(self):
        assert (
            str(History(records(matmul_task(16), 3) + records(matmul_task(32), 1)))
            == "4 records of 2 tasks"
        )

    def test_how_much_is_of_other_templates_is_said(self):
        history = History(records(matmul_task(16), 3))
        assert history.describe({"tests/matmul"}) == "3 records of 1 task"
        expected = (
            "0 records of 0 tasks; 3 are of templates that this network does not have, "
            "such as tests/matmul"
        )
        assert history.describe({"tests/scale"}) == expected

    def test_how_much_is_of_other_devices_is_said(self):
        pairs = [(m._replace(target=Target("cuda")), r) for m, r in records(matmul_task(16), 2)]
        expected = "3 records of 1 task; 2 are of GPUs and the like"
        assert (
            History(records(matmul_task(16), 3) + pairs).describe({"tests/matmul"}, Target("llvm"))
            == expected
        )

    @pytest.mark.parametrize(
        ("recorded", "tuned", "used"),
        [
            ("llvm -mcpu=core-avx2", "llvm", 1),
            ("cuda", "llvm", 0),
            ("llvm", "cuda", 0),
            ("opencl", "cuda", 1),
        ],
    )
    def test_cpus_learn_from_cpus_and_other_devices_from_others(self, recorded, tuned, used):
        """Where one template has both, as yours may, its knobs mean something else on a GPU."""
        pairs = [(m._replace(target=Target(recorded)), r) for m, r in records(matmul_task(16))]
        assert len(History(pairs).sources("tests/matmul", Target(tuned))) == used

    def test_other_templates_are_not(self):
        assert History(records(matmul_task())).sources("tests/scale") == []

    def test_of_a_configuration_that_was_measured_twice_the_best_counts(self):
        task = matmul_task()
        ((source),) = History([*records(task, 2), *records(task, 1, lambda i: 9.0)]).sources(
            "tests/matmul"
        )
        assert sorted(source.results.values()) == [500, 1000]

    def test_failures_are_kept_and_a_task_without_a_success_is_not_a_source(self):
        failed = History(records(matmul_task(), 3, lambda i: None if i else 1.0)).sources(
            "tests/matmul"
        )
        assert sorted(failed[0].results.values()) == [0, 0, 1]
        assert History(records(matmul_task(), 3, lambda i: None)).sources("tests/matmul") == []

    @pytest.mark.parametrize("name", ["tests/unknown", "tests/matmul"])
    def test_tasks_that_cannot_be_created_here_are_left_out(self, name):
        pairs = [
            (m._replace(task=Task(name, ("what", "float32"))), r) for m, r in records(matmul_task())
        ]
        assert History(pairs).sources(name) == []

    def test_records_of_another_version_of_the_template_are_left_out(self):
        task, other = matmul_task(16), matmul_task(48)
        foreign = [(m._replace(task=task), r) for m, r in records(other, 40)[30:]]
        ((source),) = History(records(task, 3) + foreign).sources("tests/matmul")
        assert len(source.results) < 3 + len(foreign)

    def test_of_very_many_records_the_best_and_some_others_are_used(self):
        task = matmul_task(64)
        count = len(task.config_space)
        ((source),) = History(records(task, count)).sources("tests/matmul")
        used = sorted(1 / fitness for fitness in source.results.values())
        assert len(used) == 512 < count
        assert used[:256] == pytest.approx([1e-3 * (1 + i) for i in range(256)])
        assert used[-1] == pytest.approx(1e-3 * count)

    def test_however_often_they_are_repeated_the_best_are_used(self):
        task = matmul_task(64)
        ((source),) = History([*records(task, 400), *records(task, 400)]).sources("tests/matmul")
        used = sorted(1 / fitness for fitness in source.results.values())
        assert used[:256] == pytest.approx([1e-3 * (1 + i) for i in range(256)])

    def test_added_records_count(self):
        history = History(records(matmul_task(), 2))
        assert len(history.sources("tests/matmul")[0].results) == 2
        history.add(records(matmul_task(), 5))
        assert len(history.sources("tests/matmul")[0].results) == 5


class TestFiles:
    def test_the_same_log_twice_and_the_runs_own_count_once_and_not_at_all(self, tmp_path):
        own, other = (
            write(tmp_path / name, records(matmul_task(n)))
            for name, n in (("own.json", 16), ("other.json", 32))
        )
        (tmp_path / "link.json").symlink_to(own)
        best = write(tmp_path / "own.best.json", records(matmul_task(16), 1))
        history = read_history([other, str(other), tmp_path / "link.json", best], own)
        ((source),) = history.sources("tests/matmul")
        assert source.origin == str(other)
        assert source.space.knobs["tile_y"].product == 32
        assert len(source.results) == 6

    def test_torn_lines_and_comments_are_skipped(self, tmp_path):
        file = write(
            tmp_path / "log.json",
            records(matmul_task()),
            before='# a comment\n{"input": ["llvm", "tes\n',
        )
        assert (
            len(read_history([file], tmp_path / "own.json").sources("tests/matmul")[0].results) == 6
        )

    def test_tasks_are_told_apart_however_the_lines_are_written(self, tmp_path):
        """With sorted keys, the configuration comes before the input."""
        file = write(tmp_path / "log.json", records(matmul_task(16)) + records(matmul_task(32)))
        lines = [
            json.dumps(json.loads(line), sort_keys=True) for line in file.read_text().splitlines()
        ]
        file.write_text("\n".join(lines))
        assert str(read_history([file], tmp_path / "own.json")) == "12 records of 2 tasks"

    def test_joined_logs_are_read_record_by_record_and_what_is_repeated_once(self, tmp_path):
        log, other = (
            write(tmp_path / name, records(matmul_task(n)))
            for name, n in (("a.json", 16), ("b.json", 32))
        )
        parts = [
            log.read_text().rstrip("\n"),
            other.read_text().replace("\n", "\r\n"),
            log.read_text(),
            "Killed\n",
        ]
        (tmp_path / "joined.json").write_bytes("".join(parts).encode())
        assert (
            str(read_history([tmp_path / "joined.json"], tmp_path / "own.json"))
            == "12 records of 2 tasks"
        )

    def test_options_that_targets_have_no_longer_do_not_matter(self, tmp_path):
        file = write(tmp_path / "log.json", records(matmul_task(16)))
        file.write_text(
            file.read_text() + file.read_text().replace('"llvm', '"llvm -link-params=0 --runtime=c')
        )
        assert str(read_history([file], tmp_path / "own.json")) == "12 records of 1 task"

    def test_records_of_targets_that_this_tvm_does_not_know_are_left_out_by_name(
        self, tmp_path, caplog
    ):
        file = write(tmp_path / "log.json", records(matmul_task(16), 2))
        unknown = file.read_text().replace('"llvm', '"llvm -vector-length=512')
        file.write_text(file.read_text() + unknown)
        assert str(read_history([file], tmp_path / "own.json")) == "2 records of 1 task"
        assert "2 records of" in caplog.text
        assert "does not know -vector-length in their target" in caplog.text
        file.write_text(unknown)
        with pytest.raises(
            ValueError,
            match=r"no record that can be used, since TVM .* -vector-length .*: leave it out",
        ):
            read_history([file], tmp_path / "own.json")

    def test_a_file_of_another_format_is_refused_by_name(self, tmp_path):
        (tmp_path / "ansor.json").write_text(
            '{"i": [["[]", "llvm"], [[], []]], "r": [[0.1], 0, 1, 1], "v": "v0.6"}\n'
        )
        with pytest.raises(
            ValueError, match=r"ansor.json has no record, it is a log of Ansor .*: leave it out"
        ):
            read_history([tmp_path / "ansor.json"], tmp_path / "own.json")
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "database_tuning_record.json").touch()
        with pytest.raises(ValueError, match=r"work is a folder, it is a MetaSchedule database"):
            read_history([tmp_path / "work"], tmp_path / "own.json")

    def test_records_whose_configuration_cannot_be_read_are_left_out(self, tmp_path):
        file = write(tmp_path / "log.json", records(matmul_task()))
        lines = file.read_text().splitlines()
        lines[2] = lines[2].replace('"entity"', '"entities"')
        file.write_text("\n".join(lines))
        assert (
            len(read_history([file], tmp_path / "own.json").sources("tests/matmul")[0].results) == 5
        )

    @pytest.mark.parametrize("content", ["", "# Notes\n", '{"input"'])
    def test_a_file_without_a_record_is_refused_and_untouched(self, tmp_path, content):
        file = tmp_path / "log.json"
        file.write_text(content)
        with pytest.raises(
            ValueError, match=r"history must be logs of AutoTVM, .*log.json has no record"
        ):
            read_history([file], tmp_path / "own.json")
        assert file.read_text() == content

    def test_a_task_in_two_logs_has_both_as_its_origin(self, tmp_path):
        files = [write(tmp_path / name, records(matmul_task(32))) for name in ("a.json", "b.json")]
        ((source),) = read_history(files, tmp_path / "own.json").sources("tests/matmul")
        assert source.origin == ", ".join(map(str, files))

    def test_a_folder_is_refused(self, tmp_path):
        with pytest.raises(
            ValueError,
            match=f"history must be logs of AutoTVM, {tmp_path} is a folder: name the logs in it",
        ):
            read_history([tmp_path], tmp_path / "own.json")

    def test_a_missing_file_is_refused(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            read_history([tmp_path / "nowhere.json"], tmp_path / "own.json")
