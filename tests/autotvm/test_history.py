"""Records of other tasks, from memory and from files, and the prior of tuners on a CPU."""

import json
import signal
from functools import partial
from typing import NamedTuple

import pytest
import tvm
from instant_measuring import measured, result
from small_templates import matmul_task
from tvm import autotvm, te
from tvm.autotvm.task import Task
from tvm.target import Target

from autotvm_opevo import OpEvoTuner
from autotvm_opevo.autotvm import tuner as tuner_module
from autotvm_opevo.autotvm.history import History, prior, read_history
from autotvm_opevo.autotvm.task_state import TaskState

CPU = Target("llvm")
CONVOLUTION = (
    te.placeholder((1, 32, 26, 26)),
    te.placeholder((48, 32, 3, 3)),
    (1, 1),
    (1, 1, 1, 1),
    (1, 1),
)
BLOCKED = (*CONVOLUTION, "NCHW", "NCHW", "float32")
DENSE = (te.placeholder((1, 384)), te.placeholder((96, 384)), None, "float32")


def records(task, count=6, seconds=lambda i: 1e-3 * (1 + i)):
    return [(measured(task, task.config_space.get(i)), result(seconds(i))) for i in range(count)]


def history_of(pairs):
    history = History()
    history.add(pairs)
    return history


def sources_of(pairs):
    return history_of(pairs).sources("tests/matmul", CPU)


def in_words(history):
    return history.describe({"tests/matmul"}, CPU)


def write(path, pairs):
    path.write_text("".join(autotvm.record.encode(*pair) + "\n" for pair in pairs))
    return path


def read(path):
    return read_history([path], path.with_name("own.json"))


class TestSources:
    def test_each_task_of_the_template_is_a_source_in_a_space_of_its_own(self):
        tasks = [matmul_task(16), matmul_task(32)]
        sources = sources_of([record for task in tasks for record in records(task)])
        assert [source.space.knobs["tile_y"].product for source in sources] == [16, 32]
        assert [sorted(source.results.values()) for source in sources] == [
            [1000 / (i + 1) for i in range(5, -1, -1)]
        ] * 2

    def test_how_much_is_of_other_templates_and_devices_is_said(self):
        pairs = [(m._replace(target=Target("cuda")), r) for m, r in records(matmul_task(16), 2)]
        history = history_of(records(matmul_task(16), 3) + pairs)
        others = "are of other templates or kinds of device"
        assert in_words(history) == f"3 records of 1 task; 2 {others}"
        assert history.describe({"tests/scale"}, CPU) == f"0 records of 0 tasks; 5 {others}"

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
        assert len(history_of(pairs).sources("tests/matmul", Target(tuned))) == used

    def test_other_templates_are_not(self):
        assert history_of(records(matmul_task())).sources("tests/scale", CPU) == []

    def test_of_a_configuration_that_was_measured_twice_the_best_counts(self):
        task = matmul_task()
        (source,) = sources_of([*records(task, 2), *records(task, 1, lambda i: 9.0)])
        assert sorted(source.results.values()) == [500, 1000]

    def test_failures_are_kept_and_a_task_without_a_success_is_not_a_source(self):
        (failed,) = sources_of(records(matmul_task(), 3, lambda i: None if i else 1.0))
        assert sorted(failed.results.values()) == [0, 0, 1]
        assert sources_of(records(matmul_task(), 3, lambda i: None)) == []

    @pytest.mark.parametrize("name", ["tests/unknown", "tests/matmul"])
    def test_tasks_that_cannot_be_created_here_are_left_out(self, name):
        pairs = [
            (m._replace(task=Task(name, ("what", "float32"))), r) for m, r in records(matmul_task())
        ]
        assert history_of(pairs).sources(name, CPU) == []

    def test_records_of_another_version_of_the_template_are_left_out(self):
        task, other = matmul_task(16), matmul_task(48)
        foreign = [(m._replace(task=task), r) for m, r in records(other, 40)[30:]]
        (source,) = sources_of(records(task, 3) + foreign)
        assert len(source.results) < 3 + len(foreign)

    def test_of_very_many_records_the_best_and_some_others_are_used(self):
        task = matmul_task(64)
        count = len(task.config_space)
        (source,) = sources_of(records(task, count))
        used = sorted(1 / fitness for fitness in source.results.values())
        assert len(used) == 512 < count
        assert used[:256] == pytest.approx([1e-3 * (1 + i) for i in range(256)])
        assert used[-1] == pytest.approx(1e-3 * count)

    def test_however_often_they_are_repeated_the_best_are_used(self):
        task = matmul_task(64)
        (source,) = sources_of([*records(task, 400), *records(task, 400)])
        used = sorted(1 / fitness for fitness in source.results.values())
        assert used[:256] == pytest.approx([1e-3 * (1 + i) for i in range(256)])

    def test_added_records_count(self):
        history = history_of(records(matmul_task(), 2))
        assert len(history.sources("tests/matmul", CPU)[0].results) == 2
        history.add(records(matmul_task(), 5))
        assert len(history.sources("tests/matmul", CPU)[0].results) == 5


class TestFiles:
    def test_the_same_log_twice_and_the_runs_own_count_once_and_not_at_all(self, tmp_path):
        own, other = (
            write(tmp_path / name, records(matmul_task(n)))
            for name, n in (("own.json", 16), ("other.json", 32))
        )
        (tmp_path / "link.json").symlink_to(own)
        best = write(tmp_path / "own.best.json", records(matmul_task(16), 1))
        history = read_history([other, str(other), tmp_path / "link.json", best], own)
        ((source),) = history.sources("tests/matmul", CPU)
        assert source.space.knobs["tile_y"].product == 32
        assert len(source.results) == 6
        assert not read_history([own, best], tmp_path / "link.json")

    def test_tasks_are_told_apart_however_the_lines_are_written(self, tmp_path):
        """With sorted keys, the configuration comes before the input."""
        file = write(tmp_path / "log.json", records(matmul_task(16)) + records(matmul_task(32)))
        lines = [
            json.dumps(json.loads(line), sort_keys=True) for line in file.read_text().splitlines()
        ]
        file.write_text("\n".join(lines))
        assert in_words(read(file)) == "12 records of 2 tasks"

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
        assert in_words(read(tmp_path / "joined.json")) == "12 records of 2 tasks"

    @pytest.mark.parametrize(
        ("target", "why"),
        [
            ("llvm -vector-length=512", "does not know -vector-length in their target"),
            ("npu", "has no target npu"),
        ],
    )
    def test_records_of_targets_that_this_tvm_does_not_know_are_left_out_by_name(
        self, tmp_path, caplog, target, why
    ):
        file = write(tmp_path / "log.json", records(matmul_task(16), 2))
        unknown = file.read_text().replace('"llvm', f'"{target}')
        file.write_text(file.read_text() + unknown)
        assert in_words(read(file)) == "2 records of 1 task"
        assert "2 records of" in caplog.text
        assert why in caplog.text
        file.write_text(unknown)
        with pytest.raises(
            ValueError, match=f"no record that can be used, since TVM .* {why}: leave it out"
        ):
            read(file)

    def test_a_file_of_another_format_is_refused_by_name(self, tmp_path):
        (tmp_path / "ansor.json").write_text(
            '{"i": [["[]", "llvm"], [[], []]], "r": [[0.1], 0, 1, 1], "v": "v0.6"}\n'
        )
        with pytest.raises(
            ValueError, match=r"ansor.json has no record, it is a log of Ansor .*, or leave it out"
        ):
            read(tmp_path / "ansor.json")
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "database_tuning_record.json").touch()
        with pytest.raises(ValueError, match=r"work is a folder, it is a MetaSchedule database"):
            read(tmp_path / "work")

    def test_records_whose_configuration_cannot_be_read_are_left_out(self, tmp_path):
        file = write(tmp_path / "log.json", records(matmul_task()))
        lines = file.read_text().splitlines()
        lines[2] = lines[2].replace('"entity"', '"entities"')
        file.write_text("\n".join(lines))
        (source,) = read(file).sources("tests/matmul", CPU)
        assert len(source.results) == 5

    @pytest.mark.parametrize("content", ["", "# Notes\n", '{"input"'])
    def test_a_file_without_a_record_is_refused_and_untouched(self, tmp_path, content):
        file = tmp_path / "log.json"
        file.write_text(content)
        with pytest.raises(
            ValueError, match=r"history must be logs of AutoTVM, .*log.json has no record"
        ):
            read(file)
        assert file.read_text() == content


def create(template, args):
    return autotvm.task.create(template, args=args, target="llvm")


class Asked(NamedTuple):
    """What is asked of a task."""

    name: str
    kind: str

    @property
    def target(self):
        return tvm.target.Target(self.kind)


TASKS = {
    "convolution": create("conv2d_NCHWc.x86", BLOCKED),
    "dense": create("dense_nopack.x86", DENSE),
    "packed dense": create("dense_pack.x86", DENSE),
}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
class TestTheTuner:
    def test_knows_tasks_like_these(self, task):
        sources = OpEvoTuner(task).learn_from([])
        assert len(sources) >= 4
        for source in sources:
            assert len(source.results) >= 16
            assert max(source.results.values()) == 1.0
            assert all(0 <= fitness <= 1 for fitness in source.results.values())

    def test_begins_with_what_was_best_elsewhere_unless_told_not_to(self, monkeypatch, task):
        def first_batch(**options):
            return [str(config) for config in OpEvoTuner(task, seed=0, **options).next_batch(8)]

        with_prior, without = first_batch(), first_batch(transfer=False)
        assert with_prior != without
        tuner = OpEvoTuner(task, seed=0)
        assert tuner.has_next()  # as AutoTVM's loop asks before the first batch
        assert [str(config) for config in tuner.next_batch(8)] == with_prior
        monkeypatch.setattr(tuner_module, "prior", lambda task: ())
        assert first_batch() == without


@pytest.mark.parametrize(
    ("template", "target"),
    [
        ("conv2d_NCHWc.x86", "cuda"),
        ("conv2d_NCHWc.cuda", "llvm"),
        ("conv2d_NCHWc.x86", "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"),
    ],
)
def test_nothing_is_known_of_other_templates_and_devices(template, target):
    assert prior(Asked(TASKS["convolution"].name, "llvm"))
    assert not prior(Asked(template, target))


@pytest.mark.parametrize("make", [OpEvoTuner, partial(OpEvoTuner), lambda task: OpEvoTuner(task)])
@pytest.mark.parametrize("transfer", [True, False])
def test_a_network_that_must_not_transfer_does_not_know_it(make, transfer):
    assert TaskState(TASKS["dense"], make, transfer=transfer).tuner.can_transfer == transfer


def test_a_tuner_that_must_not_transfer_does_not_in_a_network_either():
    state = TaskState(TASKS["dense"], partial(OpEvoTuner, transfer=False))
    assert not state.tuner.can_transfer
    assert state.tuner.learn_from(prior(TASKS["dense"])) == []


def test_a_search_that_cannot_transfer_learns_nothing():
    assert OpEvoTuner(TASKS["dense"], surrogate=None).learn_from([]) == []


def test_ctrl_c_while_tvm_looks_at_the_cpu_stays_ctrl_c():
    """TVM's C++ calls this Python, and would make another error of it."""
    name = "tvm.topi.x86.utils.get_simd_32bit_lanes"
    lanes = tvm.get_global_func(name)
    tvm.register_func(name, lambda: signal.raise_signal(signal.SIGINT), override=True)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            prior(TASKS["dense"])
    finally:
        signal.signal(signal.SIGINT, before)
        tvm.register_func(name, lanes, override=True)
