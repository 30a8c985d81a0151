"""OpEvoTuner with the real AutoTVM: tuning loop, builders, runners, logs and callbacks."""

import json
import logging
from functools import partial
from pathlib import Path

import pytest
import tvm
from instant_measuring import Recorder, for_real, instant, measured, result
from small_templates import matmul_task, scaling_task
from tvm import autotvm
from tvm.autotvm.task.space import ConfigSpace

from autotvm_opevo import OpEvoTuner
from autotvm_opevo.autotvm import tuner as module
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.topology import Permutation


@pytest.fixture(autouse=True)
def _nothing_warned_of(monkeypatch):
    monkeypatch.setattr(module, "_warned", set())


@pytest.fixture
def warnings(caplog):
    """What users see: warnings of the ``autotvm`` logger and of the root logger, which AutoTVM's
    loop uses for failures.
    """
    return lambda: [
        record.message for record in caplog.records if record.levelno >= logging.WARNING
    ]


def small_task():
    def define(cfg, schedule, tensor):
        cfg.define_split("tile", cfg.axis(60), num_outputs=3)
        cfg.define_knob("unroll", [0, 16])

    return scaling_task(define)


def wide_task():
    """A space of more than 2**63 points."""

    def define(cfg, schedule, tensor):
        for i in range(10):
            cfg.define_split(f"tile{i}", cfg.axis(4096), num_outputs=4)

    return scaling_task(define)


def slow_where_tiles_are_small(config):
    return sum(1.0 / config[f"tile{i}"].size[-1] for i in range(10))


def drive(tuner, task, batches):
    """Call next_batch and update as AutoTVM's loop does; returns the indices of the
    configurations.
    """
    indices = []
    for size in batches:
        if not tuner.has_next():
            break
        configs = tuner.next_batch(size)
        assert 0 < len(configs) <= size
        tuner.update([measured(task, config) for config in configs], [result(1e-3)] * len(configs))
        indices += [config.index for config in configs]
    return indices


with_and_without_surrogate = pytest.mark.parametrize(
    "opevo", [OpEvoTuner, partial(OpEvoTuner, surrogate=None)], ids=["gp", "published"]
)


class TestForReal:
    def test_tunes_knobs_of_every_kind_and_resumes_from_its_log(self, tmp_path):
        task, log = matmul_task(), tmp_path / "log.json"
        first = Recorder()
        tuner = OpEvoTuner(task, seed=0)
        tuner.tune(12, for_real(), callbacks=[first, autotvm.callback.log_to_file(str(log))])
        assert len(set(first.indices)) == 12
        assert all(r.error_no == 0 for _, r in first.pairs)
        assert tuner.best_flops == max(task.flop / r.costs[0] for _, r in first.pairs)

        fresh, second = OpEvoTuner(task, seed=0), Recorder()
        fresh.load_history(autotvm.record.load_from_file(str(log)))
        fresh.tune(4, for_real(), callbacks=[second, autotvm.callback.log_to_file(str(log))])
        assert len(set(first.indices + second.indices)) == 16

        with autotvm.apply_history_best(str(log)) as best, task.target:
            config = best.query(task.target, task.workload)
            task.instantiate(config)
        assert config.index in first.indices + second.indices


def test_is_a_drop_in_replacement_for_autotvms_tuners(tmp_path):
    """In a script with all that it may give them."""
    log, monitor, recorder = tmp_path / "log.json", autotvm.callback.Monitor(), Recorder()
    to_log = autotvm.callback.log_to_file(str(log))
    tuner = OpEvoTuner(small_task())
    tuner.tune(
        n_trial=6,
        early_stopping=100,
        measure_option=instant(),
        callbacks=[autotvm.callback.progress_bar(6), to_log, monitor, recorder],
    )
    trials = recorder.pairs, monitor.trial_scores(), log.read_text().splitlines()
    assert [*map(len, trials)] == [6] * 3
    assert tuner.best_flops == max(monitor.trial_scores()) > 0


def test_large_batches_grow_with_what_is_known():
    task = wide_task()
    tuner, sizes = OpEvoTuner(task, seed=0), []
    while sum(sizes) < 100:
        configs = tuner.next_batch(64)
        sizes.append(len(configs))
        tuner.update([measured(task, config) for config in configs], [result(1e-3)] * len(configs))
    assert sizes == [8, 8, 8, 8, 8, 10, 12, 15, 19, 24]
    assert len(OpEvoTuner(task, seed=0).next_batch(4)) == 4


def test_large_batches_of_the_published_algorithm_are_whole():
    assert len(OpEvoTuner(wide_task(), seed=0, surrogate=None).next_batch(64)) == 64


@with_and_without_surrogate
class TestLoop:
    def test_has_next_has_no_side_effects(self, opevo):
        task = small_task()
        asked, unasked = opevo(task, seed=3), opevo(task, seed=3)
        for _ in range(4):
            assert all(asked.has_next() for _ in range(3))
            batches = [
                [config.index for config in tuner.next_batch(8)] for tuner in (asked, unasked)
            ]
            assert batches[0] == batches[1]

    def test_ends_when_everything_fails(self, opevo):
        task, recorder = small_task(), Recorder()
        tuner = opevo(task, seed=0)
        tuner.tune(10_000, instant(lambda config: None), callbacks=[recorder])
        assert len(set(recorder.indices)) == len(recorder.indices) == len(task.config_space)
        assert tuner.best_config is None

    def test_early_stopping(self, opevo):
        recorder = Recorder()
        opevo(small_task(), seed=0).tune(10_000, instant(), early_stopping=12, callbacks=[recorder])
        assert len(recorder.pairs) == 12

    def test_after_ctrl_c_networks_are_compiled_whole(self, opevo):
        """Not as while tuning, when some templates leave parts out."""

        def press(tuner, inputs, results):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            opevo(small_task(), seed=0).tune(8, instant(), callbacks=[press])
        assert not autotvm.GLOBAL_SCOPE.in_tuning

    def test_respects_multi_filter(self, opevo):
        def define(cfg, schedule, tensor):
            cfg.define_split("tile", cfg.axis(240), num_outputs=3)
            cfg.define_knob("unroll", list(range(20)))
            cfg.multi_filter(lambda entities: entities["tile"].size[-1] == entities["unroll"].val)

        task, recorder = scaling_task(define), Recorder()
        valid = {
            i for i in range(task.config_space.range_length) if task.config_space.is_index_valid(i)
        }
        opevo(task, seed=0).tune(10_000, instant(), callbacks=[recorder])
        assert set(recorder.indices) == valid
        assert len(recorder.indices) == len(valid)

    def test_tunes_a_space_beyond_64_bits(self, opevo):
        task, recorder = wide_task(), Recorder()
        option = instant(slow_where_tiles_are_small, batch=8)
        opevo(task, seed=0).tune(200, option, callbacks=[recorder])
        assert len(set(recorder.indices)) == 200
        assert max(recorder.indices) > 2**63
        costs = [r.costs[0] for _, r in recorder.pairs]
        assert sum(costs[-8:]) < sum(costs[:8]) / 2

    def test_builds_and_logs_configurations_of_a_space_beyond_64_bits(self, opevo, tmp_path):
        recorder, log = Recorder(), tmp_path / "log.json"
        opevo(wide_task(), seed=0).tune(
            2, for_real(), callbacks=[recorder, autotvm.callback.log_to_file(str(log))]
        )
        assert [r.error_no for _, r in recorder.pairs] == [0] * 2
        assert [
            json.loads(line)["config"]["index"] for line in log.read_text().splitlines()
        ] == recorder.indices


class TestSearch:
    def test_fitness_is_one_over_the_mean_cost(self):
        task = small_task()
        tuner = OpEvoTuner(task, seed=0)
        config = tuner.next_batch(1)[0]
        several = result(1.0)._replace(costs=(0.1, 0.2, 0.3))
        tuner.update([measured(task, config)], [several])
        assert tuner._search.best[1] == pytest.approx(5.0)

    @pytest.mark.parametrize("costs", [(0.0,), (float("nan"),), (float("inf"),), (-1.0,)])
    def test_impossible_costs_count_as_failures(self, costs):
        task = small_task()
        tuner = OpEvoTuner(task, seed=0)
        config = tuner.next_batch(1)[0]
        tuner.update([measured(task, config)], [result(1.0)._replace(costs=costs)])
        assert tuner._search.best is None

    def test_a_drawn_seed_is_an_attribute_that_reproduces_the_search(self):
        task = matmul_task()
        tuner = OpEvoTuner(task)
        assert drive(tuner, task, [8] * 4) == drive(
            OpEvoTuner(task, seed=tuner.seed), task, [8] * 4
        )


class TestHistory:
    def records(self, task, count):
        configs = OpEvoTuner(task, seed=9, surrogate=None).next_batch(count)
        return [
            (measured(task, config), result(1e-3 * (1 + config.index % 7))) for config in configs
        ]

    @with_and_without_surrogate
    def test_only_the_rest_of_the_space_is_measured(self, opevo):
        task = small_task()
        records = self.records(task, 40)
        tuner = opevo(task, seed=1)
        tuner.load_history(iter(records), min_seed_records=500)
        indices = drive(tuner, task, [8] * 100)
        known = {measured.config.index for measured, _ in records}
        assert sorted(indices) == sorted(set(range(len(task.config_space))) - known)

    def test_records_that_cannot_be_used_are_skipped_and_counted(self, caplog):
        def other_define(cfg, schedule, tensor):
            cfg.define_split(
                "tile", cfg.axis(7**4), num_outputs=3, filter=lambda tile: tile.size[-1] > 1
            )
            cfg.define_knob("unroll", [0, 16])

        task = matmul_task()
        others = {
            "template": self.records(small_task(), 3),
            "space": [
                (m._replace(task=task), r) for m, r in self.records(scaling_task(other_define), 4)
            ],
            "device": [
                (m._replace(target=tvm.target.Target("cuda")), r) for m, r in self.records(task, 1)
            ],
        }
        tuner = OpEvoTuner(task, seed=0)
        with caplog.at_level(logging.WARNING, logger="autotvm"):
            known = self.records(task, 5) + self.records(matmul_task(32), 3)
            tuner.load_history(
                known + [record for records in others.values() for record in records]
            )
        assert [record.message for record in caplog.records] == [
            "OpEvoTuner loaded 5 records and skipped 8 of other tasks, spaces or devices."
        ]

    def test_without_a_surrogate_other_tasks_are_skipped_too(self, warnings):
        records = self.records(matmul_task(32), 3)
        OpEvoTuner(matmul_task(), surrogate=None).load_history(records)
        assert warnings() == [
            "OpEvoTuner loaded 0 records and skipped 3 of other tasks, spaces or devices."
        ]

    @pytest.mark.parametrize("what", ["shape", "dtype", "target"])
    def test_other_tasks_of_the_template_are_learned_from(self, what, caplog):
        """The first proposals are what was best there."""
        task = matmul_task(16)
        other = {"shape": matmul_task(32), "dtype": matmul_task(16, "float64"), "target": task}[
            what
        ]
        records = self.records(other, 40)
        if what == "target":
            records = [
                (m._replace(target=tvm.target.Target("llvm -mcpu=core-avx2")), r)
                for m, r in records
            ]
        best = sorted(records, key=lambda record: record[1].costs)[:8]
        tuner = OpEvoTuner(task, seed=0)
        with caplog.at_level(logging.INFO, logger="autotvm"):
            tuner.load_history(records)
        assert [record.message for record in caplog.records] == [
            "OpEvoTuner for tests/matmul learns from other tasks of this template: 1, with 40 "
            "records."
        ]
        orders = [config["order"].perm for config in tuner.next_batch(8)]
        assert orders == [measured.config["order"].perm for measured, _ in best]
        assert tuner.best_loaded is None

    def test_histories_of_several_calls_add_up(self):
        tuner = OpEvoTuner(matmul_task(16), seed=0)
        tuner.load_history(self.records(matmul_task(32), 4))
        tuner.load_history(self.records(matmul_task(64), 4))
        assert len(tuner._history.sources("tests/matmul", tuner.task.target)) == 2

    def test_what_was_loaded_counts_beside_other_tasks_that_are_given_later(self):
        """The best of both come first, in turn, the nearest task's before."""
        loaded, given = self.records(matmul_task(32), 4), self.records(matmul_task(64), 4)
        teacher, tuner = OpEvoTuner(matmul_task(64), seed=1), OpEvoTuner(matmul_task(16), seed=0)
        teacher.load_history(given)
        tuner.load_history(loaded)
        tuner.learn_from([teacher.as_source()])
        orders = [config["order"].perm for config in tuner.next_batch(2)]
        bests = [
            min(records, key=lambda record: record[1].costs)[0].config["order"].perm
            for records in (loaded, given)
        ]
        assert orders == bests

    def test_the_warning_of_skipped_records_comes_once_per_process(self, warnings, caplog):
        """One log has the records of all tasks of a network: each tuner skips those of the
        others.
        """
        records = self.records(matmul_task(), 5) + self.records(small_task(), 5)
        with caplog.at_level(logging.INFO, logger="autotvm"):
            for task in (matmul_task(), small_task()):
                OpEvoTuner(task).load_history(records)
        assert [message.split(" of ")[0] for message in warnings()] == [
            "OpEvoTuner loaded 5 records and skipped 5"
        ]
        assert len(caplog.records) == 2

    def test_the_best_record_is_the_tuners_best_until_a_better_one_is_found(self):
        task = small_task()
        records = self.records(task, 20)
        tuner = OpEvoTuner(task, seed=1)
        tuner.load_history(records)
        best, known = (
            min(records, key=lambda record: record[1].costs),
            max(task.flop / r.costs[0] for _, r in records),
        )
        assert tuner.best_measure_pair == best
        assert tuner.best_config is best[0].config
        tuner.tune(4, instant(lambda config: 1.0))
        assert tuner.best_flops == pytest.approx(known)
        tuner.tune(4, instant(lambda config: 1e-6))
        assert tuner.best_flops == pytest.approx(task.flop / 1e-6)

    @pytest.mark.parametrize("name", ["log.json", Path("log.json")])
    def test_a_file_name_is_refused(self, name):
        with pytest.raises(
            TypeError,
            match=r"a file name given: pass autotvm.record.load_from_file\(.*log.json.*\)",
        ):
            OpEvoTuner(small_task(), seed=0).load_history(name)

    def test_measurements_of_another_space_are_refused(self):
        tuner, other = OpEvoTuner(small_task(), seed=0), matmul_task()
        with pytest.raises(ValueError, match="config must have the knobs"):
            tuner.update([measured(other, other.config_space.get(0))], [result(1.0)])


class TestEnd:
    """What a run says when the space is exhausted, or the best configuration is not among its
    trials.
    """

    def records(self, task, seconds=lambda config: 1e-3 * (2 + config.index)):
        configs = [task.config_space.get(i) for i in range(len(task.config_space))]
        return [(measured(task, config), result(seconds(config))) for config in configs]

    def loaded(self, task, records):
        tuner = OpEvoTuner(task, seed=0)
        tuner.load_history(records)
        return tuner

    def test_a_space_that_history_has_exhausted(self, warnings):
        task, recorder = small_task(), Recorder()
        self.loaded(task, self.records(task)).tune(10, instant(), callbacks=[recorder])
        assert not recorder.pairs
        (message,) = warnings()
        assert message.startswith(
            "OpEvoTuner: search space exhausted for tests/scale. Best configuration: 2.000 ms, "
        )
        assert f"GFLOPS, {task.config_space.get(0)}" in message
        assert message.endswith("; loaded, and not logged again.")

    def test_a_space_that_trials_have_exhausted(self, warnings):
        OpEvoTuner(small_task(), seed=0).tune(
            10_000, instant(lambda config: 1e-3 * (1 + config.index), batch=16)
        )
        (message,) = warnings()
        assert message.startswith(
            "OpEvoTuner: search space exhausted for tests/scale. Best configuration: 1.000 ms, "
        )
        assert "loaded" not in message

    def test_a_space_without_a_valid_configuration(self, warnings):
        task = small_task()
        self.loaded(task, self.records(task, seconds=lambda config: None)).tune(10, instant())
        assert warnings() == [
            "OpEvoTuner: search space exhausted for tests/scale. No known configuration is valid."
        ]

    def test_a_task_without_a_flop_count(self, warnings):
        task = small_task()
        task.flop = 0
        self.loaded(task, self.records(task)).tune(10, instant())
        assert f"Best configuration: 2.000 ms, {task.config_space.get(0)}" in warnings()[0]

    def test_trials_that_do_not_beat_the_loaded_records(self, warnings):
        task = small_task()
        tuner = self.loaded(task, self.records(task)[:20])
        tuner.tune(4, instant(lambda config: 1.0))
        (message,) = warnings()
        assert message.startswith(
            "OpEvoTuner: no trial beat the loaded records for tests/scale. Best "
            "configuration: 2.000 ms, "
        )
        assert tuner.best_loaded[0].config.index == 0

    def test_nothing_is_said_when_a_trial_is_the_best_and_the_space_is_not_exhausted(
        self, warnings
    ):
        task = small_task()
        self.loaded(task, self.records(task)[:20]).tune(4, instant(lambda config: 1e-6))
        OpEvoTuner(task, seed=0).tune(16, instant())
        OpEvoTuner(task, seed=0).tune(100, instant(), early_stopping=8)
        assert not warnings()

    @pytest.mark.parametrize("known", [0, 20, 180])
    def test_no_trials_are_no_failure(self, warnings, known):
        task, recorder = small_task(), Recorder()
        self.loaded(task, self.records(task)[:known]).tune(0, instant(), callbacks=[recorder])
        assert not recorder.pairs
        assert not warnings()

    def test_real_failures_are_reported_by_autotvm(self, warnings):
        OpEvoTuner(small_task(), seed=0).tune(4, instant(lambda config: None))
        (message,) = warnings()
        assert message.startswith("Could not find any valid schedule")


class TestArguments:
    def test_options_of_xgbtuner_are_ignored_with_a_warning(self, caplog):
        with caplog.at_level(logging.INFO, logger="autotvm"):
            OpEvoTuner(
                small_task(),
                plan_size=64,
                feature_type="knob",
                loss_type="rank",
                num_threads=2,
                optimizer="sa",
                diversity_filter_ratio=None,
                log_interval=50,
            )
        assert len(caplog.records) == 1
        assert (
            "ignores the options of XGBTuner ['diversity_filter_ratio', 'feature_type'"
            in caplog.text
        )

    def test_plan_size_may_be_positional_as_in_xgbtuner(self, warnings):
        tuners = [OpEvoTuner(small_task(), seed=0), OpEvoTuner(small_task(), 64, seed=0)]
        assert warnings() == ["OpEvoTuner ignores the options of XGBTuner ['plan_size']."]
        first, second = ([config.index for config in tuner.next_batch(8)] for tuner in tuners)
        assert first == second

    def test_other_unknown_options_are_refused(self):
        with pytest.raises(
            TypeError,
            match=r"unknown options \['popsize'\]: its options are parents_size, .*, seed;",
        ):
            OpEvoTuner(small_task(), popsize=8)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"parents_size": 0}, "parents_size must be"),
            ({"offspring_size": "many"}, "offspring_size must be"),
            ({"mutation_rate": 1.0}, "mutation_rate must be"),
            ({"surrogate": "linear"}, "surrogate must be"),
            ({"seed": 0.5}, "seed must be"),
        ],
    )
    def test_invalid_ones_are_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            OpEvoTuner(small_task(), **options)

    @pytest.mark.parametrize(
        "task", [None, "dense", autotvm.task.Task("tests/matmul", (16, "float32"))]
    )
    def test_a_task_without_a_configuration_space_is_refused(self, task):
        with pytest.raises(ValueError, match=r"task must be made by .* or extract_from_program"):
            OpEvoTuner(task)


def test_a_candidate_list_of_twelve_axes_is_not_expanded():
    """12! permutations would not fit into memory; AutoTVM's candidate policy lists a few of
    them.
    """
    cfg = ConfigSpace()
    axes = [cfg.axis(2) for _ in range(12)]
    order = Permutation(12)
    candidates = [[axes[i] for i in order[n]] for n in (0, 1, 2, 10**8, 4 * 10**8)]
    cfg.define_reorder("order", axes, policy="candidate", candidate=candidates)
    assert KnobSpace(cfg).space.size == 5
