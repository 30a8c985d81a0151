"""tune_network with AutoTVM: what `tests/contract` does not say of all adapters."""

import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tvm
from instant_measuring import InstantBuilder, InstantRunner, result
from small_networks import TARGET, one_layer, two_layers
from tvm import autotvm, relay

from autotvm_opevo import OpEvoTuner, tune_network
from autotvm_opevo.autotvm import compare_logs
from autotvm_opevo.autotvm.baselines import GBFSTuner, NoSETuner
from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.networks import relay as workloads
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.tuning.run_log import MachineMeasured, RunLog


class SyntheticRunner:
    """Synthetic latencies, which records the configurations it is asked for."""

    def __init__(self, fails=lambda task: False):
        self.measured, self.fails = [], fails

    def option(self, batch=2):
        runner = InstantRunner(lambda config: None)
        runner.run = self.run
        return autotvm.measure_option(
            builder=InstantBuilder(timeout=1, n_parallel=batch), runner=runner
        )

    def run(self, inputs, builds):
        self.measured += [(task.name, config.index) for _, task, config in inputs]
        seconds = [
            None if self.fails(task) else 1e-3 * (1 + config.index % 97 / 97)
            for _, task, config in inputs
        ]
        return [result(one)._replace(all_cost=0.1) for one in seconds]


def tune(log, trials=40, runner=None, mod=None, **options):
    options = {
        "evaluate": False,
        "seed": 0,
        "measure_option": (runner or SyntheticRunner()).option(),
        **options,
    }
    return tune_network(mod or two_layers(), {}, TARGET, log, trials=trials, **options)


def configurations(log):
    """Configurations in a log."""
    return [
        (str(i.target), i.task.workload, str(i.config))
        for i, _ in autotvm.record.load_from_file(str(log))
    ]


def test_bounds_of_an_earlier_call_are_this_machine_s(tmp_path):
    log = tmp_path / "log.json"
    first = tune(log, 6)
    run_log = RunLog(f"{log}.journal")
    run_log.write(MachineMeasured(dict.fromkeys(run_log.runs.names, 1e-6)))
    assert [row.bound for row in tune(log, 6).rows] == [1e-6] * len(first.rows)
    # these trials may run on another device
    assert [row.bound for row in tune(log, 8).rows] == [0.0] * len(first.rows)


class TestExtraction:
    def test_each_workload_is_a_task_weighted_by_its_occurrences(self):
        tasks, operators, *_ = extract(two_layers(), TARGET)
        assert [task.name for task in tasks] == [
            "conv2d_NCHWc.x86",
            "dense_nopack.x86",
            "dense_pack.x86",
        ]
        assert sorted((operator.count, operator.tasks) for operator in operators) == [
            (1, (2, 1)),
            (2, (0,)),
        ]

    @pytest.mark.parametrize(
        "name",
        [
            "two layers",
            "mlp",
            *(pytest.param(name, marks=pytest.mark.soak) for name in ("alexnet", "resnet-18")),
        ],
    )
    def test_tasks_are_those_autotvm_extracts(self, name):
        mod, params = (two_layers(), {}) if name == "two layers" else workloads.network(name)
        tasks, operators, *_ = extract(fold(mod, params), TARGET)
        with autotvm.apply_history_best([]):
            theirs = autotvm.task.extract_from_program(mod["main"], params, TARGET)
        assert {task.workload for task in tasks} == {task.workload for task in theirs}
        if name == "resnet-18":  # 17 convolutions, 4 in shortcuts, and a dense layer
            assert sum(o.count for o in operators) == 22

    def test_a_network_with_nothing_to_tune_is_rejected(self, tmp_path):
        x = relay.var("x", shape=(8,))
        with pytest.raises(ValueError, match="nothing to tune"):
            tune(
                tmp_path / "log.json",
                mod=tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))),
            )
        assert os.listdir(tmp_path) == []

    def test_what_has_no_template_is_said_before_anything_is_measured(self, tmp_path, capfd):
        x = relay.var("x", shape=(1, 8, 8, 16))
        weight = relay.const(np.ones((3, 3, 16, 8), "float32"))
        y = relay.nn.conv2d(
            x, weight, channels=8, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO"
        )
        body = relay.nn.dense(relay.nn.batch_flatten(y), relay.const(np.ones((10, 288), "float32")))
        tune(tmp_path / "log.json", 4, mod=tvm.IRModule.from_expr(relay.Function([x], body)))
        said = capfd.readouterr().err
        assert "kept at default, without a template for this target: 1 nn.conv2d in NHWC" in said
        assert "relay.transform.ConvertLayout({'nn.conv2d': ['NCHW', 'default']})" in said
        tune(tmp_path / "other.json", 4, mod=one_layer())
        assert "kept at default" not in capfd.readouterr().err


class TestBudget:
    @pytest.mark.parametrize("name", ["XGBTuner", "GATuner", "RandomTuner", "GridSearchTuner"])
    def test_autotvms_tuners_never_measure_a_configuration_twice(self, tmp_path, name):
        runner, tuner = SyntheticRunner(), getattr(autotvm.tuner, name)
        for trials in (30, 60):
            result = tune(tmp_path / "log.json", trials, runner, one_layer(), tuner=tuner)
            assert result.trials == trials
        assert len(runner.measured) == len(set(runner.measured)) == 60

    @pytest.mark.parametrize("name", ["XGBTuner", "OpEvoTuner"])
    def test_autotvm_is_in_tuning_mode_during_measurements(self, tmp_path, name):
        """Some templates build another program outside it."""
        runner, modes = SyntheticRunner(), []
        option = runner.option()
        run = option["runner"].run

        def recording_mode(*arguments):
            modes.append(autotvm.GLOBAL_SCOPE.in_tuning)
            return run(*arguments)

        option["runner"].run = recording_mode
        tuner = OpEvoTuner if name == "OpEvoTuner" else getattr(autotvm.tuner, name)
        for trials in (12, 24):
            tune(tmp_path / "log.json", trials, mod=one_layer(), measure_option=option, tuner=tuner)
        assert modes == [True] * len(modes)
        assert len(modes) >= 12

    def test_a_task_that_stops_early_leaves_its_trials_to_the_others(self, tmp_path):
        options = {"early_stopping": 12, "task_scheduler": "equal", "transfer": False}
        result = tune(tmp_path / "log.json", 150, mod=one_layer(), **options)
        assert result.stop_reason == "exhausted"
        assert all(12 < row.trials < 150 for row in result.rows)

    def test_a_task_whose_trials_all_fail_shows_its_error_and_gets_at_most_an_equal_share(
        self, tmp_path, capsys
    ):
        runner = SyntheticRunner(fails=lambda task: task.name == "dense_pack.x86")
        result = tune(tmp_path / "log.json", 120, runner, transfer=False)
        row = next(row for row in result.rows if "dense_pack" in row.name)
        assert row.latency == float("inf")
        assert row.trials <= 40
        assert row.failures == f"runtime device {row.trials}"
        assert "all of them failed, mostly: this one fails" in str(result)
        assert "trials failed, mostly: this one fails" in capsys.readouterr().err
        (recording,) = open_logs([tmp_path / "log.json"])
        messages = {task.name.split()[0]: task.messages for task in recording.tasks.values()}
        assert messages["dense_pack.x86"] == {"runtime device": {"this one fails": row.trials}}
        assert messages["dense_nopack.x86"] == {}
        extents = recording.runs.extents
        assert all(extents[task.run_log_key] for task in recording.tasks.values())

    @pytest.mark.parametrize("tuner", [OpEvoTuner, lambda task: OpEvoTuner(task, seed=0)])
    def test_the_first_rounds_are_small_however_many_builders_there_are(self, tmp_path, tuner):
        """Or a task that fails would have as many trials as the other."""
        runner = SyntheticRunner(fails=lambda task: task.name == "dense_pack.x86")
        option = runner.option(batch=64)
        options = {"measure_option": option, "tuner": tuner}
        result = tune(tmp_path / "log.json", 120, mod=one_layer(), **options)
        assert [row.trials <= 48 for row in result.rows if not row.works] == [True]

    @pytest.mark.parametrize("tuner", [NoSETuner, partial(OpEvoTuner, surrogate=None)])
    def test_rounds_fill_the_builders_where_one_batch_follows_the_other(self, tmp_path, tuner):
        """With tuners that propose as many as they are asked for."""
        runner = SyntheticRunner()
        option = runner.option(batch=64)
        run, sizes = option["runner"].run, []
        option["runner"].run = lambda inputs, builds: (
            sizes.append(len(inputs)) or run(inputs, builds)
        )
        options = {"measure_option": option, "tuner": tuner}
        tune(tmp_path / "log.json", 128, mod=one_layer(), **options)
        assert sizes[0] >= 60

    def test_the_first_trial_is_the_untuned_configuration(self, tmp_path):
        tune(tmp_path / "log.json", 3)
        task = extract(two_layers(), TARGET)[0][0]
        fallback = autotvm.task.space.FallbackConfigEntity()
        with TARGET:
            task.instantiate(fallback)
        first = {
            i.task.name: i.config
            for i, _ in autotvm.record.load_from_file(str(tmp_path / "log.json"))
        }
        knobs = KnobSpace(task.config_space)  # the compiler spells out a -1 of the record
        assert knobs.configuration(first[task.name]) == knobs.configuration(fallback)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"early_stopping": 0}, "early_stopping must be"),
            ({"tuner": "xgb"}, "tuner must be one of AutoTVM's tuner classes, .*'xgb' given"),
        ],
    )
    def test_invalid_arguments_are_rejected_before_anything_starts(
        self, tmp_path, options, message
    ):
        with pytest.raises(ValueError, match=message):
            tune(tmp_path / "log.json", **options)
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("tuner", [GBFSTuner, lambda task: GBFSTuner(task)])
    def test_a_tuner_that_refuses_a_task_s_knobs_is_rejected_before_the_other_tasks_are_tuned(
        self, tmp_path, tuner
    ):
        runner = SyntheticRunner()
        with pytest.raises(ValueError, match="every knob of its space must be a Factorization"):
            tune(tmp_path / "log.json", runner=runner, tuner=tuner, task_scheduler="equal")
        assert runner.measured == []

    def test_the_same_seed_gives_the_same_run(self, tmp_path):
        """Also by the gradient, if trials always take as long."""
        for name in ("a", "b"):
            tune(tmp_path / f"{name}.json", 32, seed=3, mod=one_layer(), transfer=False)
        assert configurations(tmp_path / "a.json") == configurations(tmp_path / "b.json")


class TestTransfer:
    def test_a_log_of_another_network_changes_what_is_tried_first(self, tmp_path, capsys):
        tune(tmp_path / "other.json", 12, mod=two_layers(width=96))
        first = {}
        for name, options in {
            "without": {},
            "with": {"history": [tmp_path / "other.json"]},
        }.items():
            runner = SyntheticRunner()
            tune(tmp_path / f"{name}.json", runner=runner, trials=12, **options)
            assert ("learning from 12 records of 3 tasks" in capsys.readouterr().err) == bool(
                options
            )
            first[name] = runner.measured
        assert first["with"] != first["without"]
        assert len(set(first["with"])) == 12

    def test_networks_that_share_a_log_learn_from_each_other(self, tmp_path, capsys):
        tune(tmp_path / "log.json", 12, mod=two_layers(width=96))
        assert "learning from" not in capsys.readouterr().err
        tune(tmp_path / "log.json", 16)
        # the convolution is this network's, too
        assert " of 2 tasks\n" in capsys.readouterr().err.partition("learning from ")[2]

    def test_a_tuner_that_cannot_learn_is_not_said_to(self, tmp_path, capsys):
        for width in (96, 48):
            tune(
                tmp_path / "log.json",
                trials=40,
                mod=two_layers(width=width),
                tuner=autotvm.tuner.RandomTuner,
            )
        assert "learning from" not in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("options", "given"),
        [
            ({"transfer": False}, "transfer=False"),
            ({"tuner": autotvm.tuner.GATuner}, "GATuner"),
            ({"tuner": partial(OpEvoTuner, surrogate=None)}, "OpEvoTuner surrogate=None"),
            ({"tuner": lambda task: autotvm.tuner.GATuner(task)}, "<lambda>"),
        ],
    )
    def test_a_history_that_cannot_be_used_is_refused(self, tmp_path, options, given):
        tune(tmp_path / "other.json", trials=4)
        with pytest.raises(
            ValueError,
            match=f"history needs transfer=True and a tuner that learns from it, .*; {given} given",
        ):
            tune(tmp_path / "log.json", history=tmp_path / "other.json", **options)
        assert not (tmp_path / "log.json").exists()


class TestLogs:
    def test_valid_records_of_a_log_are_loaded_and_others_left_alone(self, tmp_path):
        """Records of another network, target and tuner, duplicates, and a torn last line."""
        log = tmp_path / "log.json"
        tune(log, 10, mod=two_layers(batch=2), tuner=autotvm.tuner.RandomTuner)
        tune_network(
            two_layers(),
            {},
            "llvm -mcpu=core-avx2",
            log,
            trials=10,
            measure_option=SyntheticRunner().option(),
            evaluate=False,
        )
        tune(log, 10, tuner=autotvm.tuner.RandomTuner)
        rows = log.read_text().splitlines()
        assert len(rows) == 30
        log.write_text("\n".join([*rows, rows[-1], rows[-1][:100]]))

        runner = SyntheticRunner()
        result = tune(log, 24, runner)
        assert (result.trials, result.measured, result.unrelated, result.rejected) == (
            24,
            14,
            20,
            1,
        )
        assert log.read_text().splitlines()[:31] == [*rows, rows[-1]]
        assert Path(f"{log}.rejected").read_text() == rows[-1][:100] + "\n"
        assert len(list(autotvm.record.load_from_file(str(log)))) == 45
        assert "20 records" in str(result)
        assert "1 malformed line of" in str(result)

    def test_a_log_of_an_earlier_tvm_counts_and_its_lines_stay(self, tmp_path, capsys):
        """Whose targets have options that this one has no longer."""
        tune(tmp_path / "new.json", 12)
        triple = f" -mtriple={TARGET.attrs['mtriple']}"  # which earlier ones do not write
        options, log = " -link-params=0 --runtime=c --system-lib", tmp_path / "log.json"
        old = (tmp_path / "new.json").read_text().replace(triple, options)
        assert old.count(options) == 12
        log.write_text(old)
        result = tune(log, 16)
        assert (result.trials, result.measured, result.unrelated, result.rejected) == (16, 4, 0, 0)
        assert log.read_text().startswith(old)
        assert "link-params" not in result.best_file.read_text()
        assert len(list(autotvm.record.load_from_file(str(result.best_file)))) == 3
        assert [len(found) for found in open_logs([log])] == [16]
        assert len(open_logs([log])[0].tasks) == 3
        capsys.readouterr()
        tune(tmp_path / "other.json", 4, mod=two_layers(width=96), history=[log])
        assert "learning from 16 records of 3 tasks" in capsys.readouterr().err

    def test_the_best_file_of_a_log_that_was_moved_away_is_kept_under_another_name(
        self, tmp_path, caplog
    ):
        log, best = tmp_path / "log.json", tmp_path / "log.best.json"
        tune(log, 12)
        before = best.read_text()
        log.rename(tmp_path / "moved.json")
        tune(log, 6)
        assert (tmp_path / "log.best.json.old").read_text() == before
        assert "log.best.json was there before its log" in caplog.text
        tune(log, 12)
        assert (tmp_path / "log.best.json.old").read_text() == before

    def test_nothing_is_downloaded_and_the_environment_is_restored(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TOPHUB_LOCATION", "https://example.org")
        seen = []

        def task_scheduler(tasks, *_):
            seen.append(os.environ["TOPHUB_LOCATION"])
            return 0

        tune(tmp_path / "log.json", 4, mod=one_layer(), task_scheduler=task_scheduler)
        assert set(seen) == {"NONE"}
        assert os.environ["TOPHUB_LOCATION"] == "https://example.org"

    def test_a_seed_is_told_only_of_tuners_that_take_one(self, tmp_path):
        for tuner, name in (
            (OpEvoTuner, "OpEvoTuner, seed 0"),
            (autotvm.tuner.RandomTuner, "RandomTuner"),
        ):
            tune(tmp_path / f"{name}.json", 4, mod=one_layer(), tuner=tuner)
            (log,) = open_logs([tmp_path / f"{name}.json"])
            assert log.runs.tuners == [name]

    def test_a_run_log_with_nonsense_is_ignored(self, tmp_path):
        log = tmp_path / "log.json"
        before = tune(log, 8, mod=one_layer()).latency
        with open(f"{log}.journal", "a") as run_log:
            for record in ("{", "{}", "[]", "null", "# comment"):
                event = {
                    "type": "BestConfirmed",
                    "time": 1.0,
                    "task": "t",
                    "record": record,
                    "latencies": [1e-9],
                }
                run_log.write(json.dumps(event) + "\n")
        assert tune(log, 8, mod=one_layer()).latency == before


class TestEvaluation:
    def test_a_network_that_only_the_vm_can_run_is_not_compared(self, tmp_path, capfd):
        x, which = relay.var("x", shape=(4, 64)), relay.var("which", shape=(), dtype="bool")
        weight = relay.const(np.ones((32, 64), "float32"))
        body = relay.If(which, relay.nn.dense(x, weight), relay.nn.dense(relay.nn.relu(x), weight))
        mod = tvm.IRModule.from_expr(relay.Function([x, which], body))
        result = tune(tmp_path / "log.json", 4, mod=mod, evaluate=True)
        assert (result.trials, result.comparison, result.comparison_error) == (4, None, "")
        assert (
            "not compared with the untuned network: it has branches, which only TVM's VM can run"
            in capfd.readouterr().err
        )
        with pytest.raises(ValueError, match="this one has branches"):
            compare_logs(mod, {}, TARGET, [result.best_file])
