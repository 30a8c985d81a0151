"""tune_network with a real TVM: small networks for every behaviour, AlexNet from end to end, and SIGKILL at any moment."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import tvm
from instant_measuring import InstantBuilder, InstantRunner, for_real
from small_networks import TARGET, one_layer, two_layers
from tvm import autotvm, relay
from tvm.contrib import graph_executor

from autotvm_opevo import OpEvoTuner, tune_network
from autotvm_opevo._utils.atomic_files import LogInUse
from autotvm_opevo.autotvm import network, workloads
from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.network import _by_task
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.reporting.logs import open_logs

ALEXNET_TARGET = tvm.target.Target("llvm -mcpu=core-avx2" if "avx2" in Path("/proc/cpuinfo").read_text() else "llvm")


class Seconds:
    """Made-up latencies by task and configuration, of which a test can ask how many were measured."""

    def __init__(self, fails=lambda task: False):
        self.measured, self.fails = [], fails

    def option(self, batch=2):
        runner = InstantRunner(lambda config: None)
        runner.run = self.run
        return autotvm.measure_option(builder=InstantBuilder(timeout=1, n_parallel=batch), runner=runner)

    def run(self, inputs, builds):
        results = []
        for _, task, config in inputs:
            self.measured.append((task.name, config.index))
            if self.fails(task):
                error = ("Traceback ...", RuntimeError("out of registers"))
                results.append(autotvm.MeasureResult(error, autotvm.MeasureErrorNo.RUNTIME_DEVICE, 0.1, time.time()))
            else:
                results.append(autotvm.MeasureResult((1e-3 * (1 + config.index % 97 / 97),), 0, 0.1, time.time()))
        return results


def tune(log, trials=40, seconds=None, mod=None, **options):
    options = {"evaluate": False, "seed": 0, "measure_option": (seconds or Seconds()).option(), **options}
    return tune_network(mod or two_layers(), {}, TARGET, log, trials=trials, **options)


def configurations(log):
    """What a log has measured, as a list."""
    return [(str(i.target), i.task.workload, str(i.config)) for i, _ in autotvm.record.load_from_file(str(log))]


class TestExtraction:
    def test_each_workload_once_and_weighted_by_how_often_it_runs(self):
        tasks, operators = extract(two_layers(), {}, TARGET)
        assert [task.name for task in tasks] == ["conv2d_NCHWc.x86", "dense_nopack.x86", "dense_pack.x86"]
        assert sorted((operator.count, operator.tasks) for operator in operators) == [(1, (1, 2)), (2, (0,))]

    @pytest.mark.parametrize("name", ["alexnet", pytest.param("resnet-18", marks=pytest.mark.soak)])
    def test_finds_what_autotvm_finds(self, name):
        mod, params = workloads.network(name)
        tasks, operators = extract(mod, params, TARGET)
        with autotvm.apply_history_best([]):
            theirs = autotvm.task.extract_from_program(mod["main"], params, TARGET)
        assert {task.workload for task in tasks} == {task.workload for task in theirs}
        if name == "resnet-18":  # 17 convolutions, 4 more beside the shortcuts, and a dense layer
            assert sum(o.count for o in operators) == 22

    def test_a_network_without_anything_to_tune_is_refused(self, tmp_path):
        x = relay.var("x", shape=(8,))
        with pytest.raises(ValueError, match="nothing to tune"):
            tune(tmp_path / "log.json", mod=tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))))
        assert os.listdir(tmp_path) == ["log.json"]


class TestBudget:
    @pytest.mark.parametrize("allocation", ["gradient", "equal", "round-robin"])
    @pytest.mark.parametrize("trials", [1, 2, 7, 60])
    def test_spends_exactly_the_trials_on_different_configurations(self, tmp_path, allocation, trials):
        seconds = Seconds()
        report = tune(tmp_path / "log.json", trials, seconds, task_scheduler=allocation)
        assert report.trials == report.measured == len(seconds.measured) == len(set(seconds.measured)) == trials
        assert len(set(configurations(tmp_path / "log.json"))) == trials
        assert report.stopped == "trials"
        if trials >= 7:
            assert all(row.trials >= 1 for row in report.rows)

    @pytest.mark.parametrize("name", ["XGBTuner", "GATuner", "RandomTuner", "GridSearchTuner"])
    def test_drives_autotvms_tuners_too_and_never_measures_twice(self, tmp_path, name):
        seconds = Seconds()
        for trials in (30, 60):
            assert tune(tmp_path / "log.json", trials, seconds, tuner=getattr(autotvm.tuner, name)).trials == trials
        assert len(seconds.measured) == len(set(seconds.measured)) == 60

    @pytest.mark.parametrize("name", ["XGBTuner", "OpEvoTuner"])
    def test_autotvm_is_in_tuning_mode_whenever_something_is_measured(self, tmp_path, name):
        """Some templates build another program in it, so that leaving it early measures something else."""
        seconds, modes = Seconds(), []
        option = seconds.option()
        run = option["runner"].run

        def noting(*arguments):
            modes.append(autotvm.GLOBAL_SCOPE.in_tuning)
            return run(*arguments)

        option["runner"].run = noting
        tuner = OpEvoTuner if name == "OpEvoTuner" else getattr(autotvm.tuner, name)
        for trials in (12, 24):
            tune(tmp_path / "log.json", trials, measure_option=option, tuner=tuner)
        assert modes == [True] * len(modes)
        assert len(modes) >= 12

    @pytest.mark.parametrize("name", ["GridSearchTuner", "RandomTuner"])
    def test_a_tuner_that_forgets_its_history_still_goes_on(self, tmp_path, name):
        for trials in (400, 440):
            report = tune(
                tmp_path / "log.json", trials, tuner=getattr(autotvm.tuner, name), task_scheduler="equal", mod=one_layer()
            )
            assert report.trials == trials
            assert report.stopped == "trials"

    def test_an_allocation_that_insists_on_a_finished_task_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match="task_scheduler must return an active task, 1 returned"):
            tune(tmp_path / "log.json", 10_000, task_scheduler=lambda tasks, operators, left, rng: 1)

    def test_ends_when_every_space_is_exhausted(self, tmp_path):
        tasks, _ = extract(two_layers(), {}, TARGET)
        points = sum(len(task.config_space) for task in tasks)
        report = tune(tmp_path / "log.json", 10 * points)
        assert report.stopped == "exhausted"
        assert report.trials == points

    def test_a_task_that_stops_early_leaves_its_trials_to_the_others(self, tmp_path):
        report = tune(tmp_path / "log.json", 150, early_stopping=12, task_scheduler="equal")
        assert report.stopped == "exhausted"
        assert all(12 < row.trials < 150 for row in report.rows)

    def test_ends_with_the_time(self, tmp_path):
        start = time.monotonic()
        report = tune(tmp_path / "log.json", 10**6, time_limit=8.0, measure_option=for_real())
        assert report.stopped == "time limit"
        assert time.monotonic() - start < 30

    def test_a_task_where_everything_fails_is_shown_with_its_error_and_gets_its_share_at_most(self, tmp_path, capsys):
        seconds = Seconds(fails=lambda task: task.name == "dense_pack.x86")
        report = tune(tmp_path / "log.json", 120, seconds)
        row = next(row for row in report.rows if "dense_pack" in row.name)
        assert row.latency == float("inf")
        assert row.trials <= 40
        assert row.failures == f"runtime device {row.trials}"
        assert "all of them failed, mostly: out of registers" in str(report)
        assert "trials failed, mostly: out of registers" in capsys.readouterr().err
        (recording,) = open_logs([tmp_path / "log.json"])
        messages = {task.name.split()[0]: task.messages for task in recording.tasks.values()}
        assert messages["dense_pack.x86"] == {"runtime device": {"out of registers": row.trials}}
        assert messages["dense_nopack.x86"] == {}

    def test_starts_with_what_the_compiler_would_take_untuned(self, tmp_path):
        tune(tmp_path / "log.json", 3)
        task = extract(two_layers(), {}, TARGET)[0][0]
        fallback = autotvm.task.space.FallbackConfigEntity()
        with TARGET:
            task.instantiate(fallback)
        first = {i.task.name: i.config for i, _ in autotvm.record.load_from_file(str(tmp_path / "log.json"))}
        knobs = KnobSpace(task.config_space)  # the compiler writes out what a record has as -1
        assert knobs.configuration(first[task.name]) == knobs.configuration(fallback)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"trials": 0}, "trials must be"),
            ({"time_limit": 0}, "time_limit must be a positive number of seconds, 0 given"),
            (
                {"task_scheduler": "fair"},
                "task_scheduler must be one of gradient, equal, round-robin, or a function; 'fair' given",
            ),
            ({"early_stopping": 0}, "early_stopping must be"),
            ({"seed": -1}, "seed must be"),
            ({"tuner": "xgb"}, "tuner must be a class of AutoTVM's tuners, .*'xgb' given"),
        ],
    )
    def test_wrong_arguments_are_refused_before_anything_starts(self, tmp_path, options, message):
        with pytest.raises(ValueError, match=message):
            tune(tmp_path / "log.json", **options)
        assert os.listdir(tmp_path) == []

    def test_the_same_seed_gives_the_same_run(self, tmp_path):
        for name in ("a", "b"):
            tune(tmp_path / f"{name}.json", 50, seed=3)
        assert configurations(tmp_path / "a.json") == configurations(tmp_path / "b.json")


class TestLogs:
    def test_goes_on_with_what_is_left(self, tmp_path):
        seconds = Seconds()
        for trials in (10, 25, 40, 40):
            report = tune(tmp_path / "log.json", trials, seconds)
            assert report.trials == trials
        assert report.measured == 0
        assert len(seconds.measured) == len(set(seconds.measured)) == 40

    def test_takes_what_is_good_in_a_log_and_leaves_the_rest(self, tmp_path):
        """Another network's, another target's and another tuner's records, duplicates, and a torn last line."""
        log = tmp_path / "log.json"
        tune(log, 10, mod=two_layers(batch=2), tuner=autotvm.tuner.RandomTuner)
        tune_network(two_layers(), {}, "llvm -mcpu=core-avx2", log, trials=10, measure_option=Seconds().option(), evaluate=False)
        tune(log, 10, tuner=autotvm.tuner.RandomTuner)
        rows = log.read_text().splitlines()
        assert len(rows) == 30
        log.write_text("\n".join([*rows, rows[-1], rows[-1][:100]]))

        seconds = Seconds()
        report = tune(log, 40, seconds)
        assert (report.trials, report.measured, report.unrelated, report.rejected) == (40, 30, 20, 1)
        assert log.read_text().splitlines()[:31] == [*rows, rows[-1]]
        assert Path(f"{log}.rejected").read_text() == rows[-1][:100] + "\n"
        assert len(list(autotvm.record.load_from_file(str(log)))) == 61
        assert "20 records" in str(report)
        assert "1 line of" in str(report)

    def test_best_json_is_what_anybody_can_apply(self, tmp_path):
        report = tune(tmp_path / "log.json", 40)
        assert report.best_file == tmp_path / "log.best.json"
        records = list(autotvm.record.load_from_file(str(report.best_file)))
        assert len(records) == 3
        of_all = _by_task(autotvm.record.load_from_file(str(tmp_path / "log.json")))
        for measured, result in records:
            mine = of_all[str(measured.target), measured.task.workload]
            assert np.mean(result.costs) == min(np.mean(r.costs) for _, r in mine)
        with TARGET, autotvm.apply_history_best(str(report.best_file)) as context:
            assert all(context.query(TARGET, measured.task.workload).index == measured.config.index for measured, _ in records)

    def test_a_log_in_use_is_refused_before_anything_is_measured(self, tmp_path):
        from autotvm_opevo.autotvm.log import Log

        seconds = Seconds()
        with Log(tmp_path / "log.json"), pytest.raises(LogInUse, match=f"pid {os.getpid()}"):
            tune(tmp_path / "log.json", seconds=seconds)
        assert seconds.measured == []

    def test_a_full_disk_ends_the_run_and_the_log_stays_readable(self, tmp_path, monkeypatch):
        write, written = os.write, []

        def full(file, data):
            if bytes(data).startswith(b'{"input"'):
                if len(written) == 5:
                    write(file, data[: len(data) // 2])
                    raise OSError(28, "No space left on device")
                written.append(data)
            return write(file, data)

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match=r"cannot write the log: No space left on device. .* make room"):
            tune(tmp_path / "log.json")
        monkeypatch.undo()
        assert len(configurations(tmp_path / "log.json")) == 5
        assert tune(tmp_path / "log.json").trials == 40

    def test_a_tuner_that_dies_leaves_everything_in_order(self, tmp_path):
        class Mortal(OpEvoTuner):
            def update(self, inputs, results):
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            tune(tmp_path / "log.json", tuner=Mortal)
        assert len(configurations(tmp_path / "log.json")) > 0
        assert (tmp_path / "log.best.json").exists()
        assert not autotvm.GLOBAL_SCOPE.in_tuning

    def test_logs_of_one_stem_have_best_files_of_their_own(self, tmp_path):
        names = [tune(tmp_path / name, 3).best_file.name for name in ("a.json", "a.log", "a.v1", "a.v2")]
        assert names == ["a.best.json", "a.log.best.json", "a.v1.best.json", "a.v2.best.json"]


class TestEvaluation:
    def test_a_network_before_and_after_in_one_report(self, tmp_path):
        report = tune(tmp_path / "log.json", 12, measure_option=for_real(), evaluate=True)
        assert report.comparison.outputs_match
        assert len(report.comparison.before) == len(report.comparison.after) >= 5
        (recording,) = open_logs([tmp_path / "log.json"])
        assert recording.runs.tuners == ["OpEvoTuner, seed 0"]
        assert recording.runs.latency[1] == np.median(report.comparison.after)
        convolution, dense = recording.runs.operators
        assert list(recording.runs.operators.values()) == [2, 1]
        assert all(task.in_journal in (*convolution, *dense) for task in recording.tasks.values())
        text = str(report)
        assert "outputs match" in text
        assert "untuned" in text
        assert not autotvm.GLOBAL_SCOPE.in_tuning
        assert not [p for p in psutil.Process().children(recursive=True) if "popen_worker" in " ".join(p.cmdline())]

    def test_a_comparison_that_fails_does_not_cost_the_report(self, tmp_path, monkeypatch):
        def broken(*arguments):
            raise RuntimeError("no compiler for this device")

        monkeypatch.setattr(network, "compare", broken)
        report = tune(tmp_path / "log.json", 6, evaluate=True)
        assert report.comparison is None
        assert "could not be compared: RuntimeError: no compiler for this device" in str(report)
        runs = open_logs([tmp_path / "log.json"])[0].runs
        assert (len(runs.operators), runs.latency) == (2, None)

    def test_alexnet_from_end_to_end(self, tmp_path):
        mod, params = workloads.alexnet()
        log = tmp_path / "alexnet.json"
        report = tune_network(mod, params, ALEXNET_TARGET, log, trials=13, measure_option=for_real(), seed=0, early_stopping=100)
        assert report.trials == 13
        assert len(report.rows) == 11
        assert report.comparison.outputs_match
        with autotvm.apply_history_best(str(report.best_file)), tvm.transform.PassContext(opt_level=3):
            library = relay.build(mod, target=ALEXNET_TARGET, params=params)
        module = graph_executor.GraphModule(library["default"](tvm.cpu()))
        module.run(data=np.zeros((1, 3, 224, 224), "float32"))
        assert module.get_output(0).numpy().sum() == pytest.approx(1.0)


SCRIPT = """
import sys
from instant_measuring import for_real
from small_networks import TARGET, two_layers
from autotvm_opevo import tune_network
print(tune_network(two_layers(), {}, TARGET, sys.argv[1], int(sys.argv[2]), for_real(), seed=0))
"""


def start(log, trials):
    """A process that tunes, in a group of its own, as a terminal would start it."""
    command = [sys.executable, "-c", SCRIPT, str(log), str(trials)]
    return subprocess.Popen(
        command,
        cwd=Path(__file__).parents[1] / "helpers",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TUNES_INTO": str(log)},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell in the background has ignored
    )


def workers(log):
    """AutoTVM's processes of the tuning into a log; others' tunings have theirs at the same time."""
    return [
        p
        for p in psutil.process_iter(["cmdline", "environ"])
        if "tvm.exec.popen_worker" in " ".join(p.info["cmdline"] or ())
        and (p.info["environ"] or {}).get("TUNES_INTO") == str(log)
    ]


class TestKilling:
    @pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.soak)])
    def test_sigkill_at_any_moment_loses_nothing_and_measures_nothing_twice(self, tmp_path, kills):
        log, trials, rng = tmp_path / "log.json", 12 + 8 * kills, random.Random(kills)
        log.touch()
        before = []
        for _ in range(kills):
            process = start(log, trials)
            time.sleep(rng.uniform(2, 14))  # while it imports, extracts, starts its workers, measures or writes
            process.kill()
            _, errors = process.communicate(timeout=60)
            assert "Error" not in errors
            lines = log.read_bytes().split(b"\n")
            assert lines[: len(before)] == before  # but for a torn last line, what was written stays
            before = lines[:-1]
        process = start(log, trials)
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert f"{trials} trials, {trials - len(before)} of them now" in output
        measured = configurations(log)
        assert len(measured) == len(set(measured)) == trials
        deadline = time.monotonic() + 60
        while (orphans := workers(log)) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert not orphans

    def test_ctrl_c_prints_the_summary_and_leaves_no_children(self, tmp_path):
        """As a terminal does it: the signal goes to all processes of the group."""
        log = tmp_path / "log.json"
        process = start(log, 100)
        for line in process.stderr:
            if "trials, network" in line:
                break
        time.sleep(1.0)
        assert workers(log)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == -signal.SIGINT
        assert "ended by: interrupted" in errors
        assert errors.count("Traceback") == errors.count("KeyboardInterrupt") == 1  # Python's own word, after the summary
        assert not workers(log)
        assert {"log.json", "log.best.json"} <= {*os.listdir(tmp_path)} <= {"log.json", "log.best.json", "log.json.journal"}
        assert all(json.loads(line) for line in log.read_text().splitlines())

    def test_an_interrupt_restores_autotvms_global_scope(self, tmp_path):
        class Interrupted(OpEvoTuner):
            def update(self, inputs, results):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            tune(tmp_path / "log.json", tuner=Interrupted)
        assert not autotvm.GLOBAL_SCOPE.in_tuning
        assert (tmp_path / "log.best.json").exists()
