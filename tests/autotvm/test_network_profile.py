"""What a network's profile says about operators, and which of them are left untuned."""

import weakref

import pytest
import tvm
from compared_networks import time_two_rounds
from instant_measuring import InstantBuilder, InstantRunner
from small_networks import TARGET, one_layer, two_layers
from tvm import autotvm

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import network_profile
from autotvm_opevo.autotvm.evaluation import build, random_inputs
from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.autotvm.network_profile import Call, ProfiledInstance, find_slower

# A convolution, another one, and a dense layer; the convolutions are connected.
CALLS = [Call(0, 64), Call(1, 32), Call(2, 10)]
PARTS = [0, 0, 1]


class Profiled:
    """A network that is profiled with these results."""

    def __init__(self, calls):
        self.calls = lambda: calls


def instance(*seconds, transform=0.0):
    """A network whose calls always take so long, with a transform after the first convolution."""
    names = [
        "fused_layout_transform",
        "fused_conv2d",
        "fused_layout_transform",
        "fused_conv2d_1",
        "fused_dense_add",
    ]
    durations = [1.0, seconds[0], transform, *seconds[1:]]
    calls = list(zip(names, [3, 64, 64, 32, 10], durations))
    return lambda: Profiled(calls)


class TestFindSlower:
    def test_only_the_parts_that_take_longer_are_slower(self):
        assert find_slower(instance(1, 1, 1), instance(1, 1, 2), CALLS, PARTS) == [2]
        assert find_slower(instance(1, 1, 1), instance(0.5, 0.5, 0.5), CALLS, PARTS) == []

    def test_connected_operators_are_judged_together(self):
        assert find_slower(instance(1, 1, 1), instance(2, 0.5, 1), CALLS, PARTS) == [0, 1]
        assert find_slower(instance(1, 1, 1), instance(0.1, 1.2, 1), CALLS, PARTS) == []

    def test_a_transform_counts_to_the_operator_before_it(self):
        assert find_slower(
            instance(1, 1, 1), instance(0.9, 0.9, 1, transform=0.5), CALLS, PARTS
        ) == [0, 1]

    def test_what_comes_first_in_a_round_takes_turns_and_is_freed_after_it(self):
        begun = []
        alive = set()

        def network(name, calls):
            def begin():
                begun.append(name)
                found = calls()
                alive.add(name)
                weakref.finalize(found, alive.discard, name)
                assert len(alive) <= 2
                return found

            return begin

        assert find_slower(
            network("untuned", instance(1, 1, 1)), network("tuned", instance(1, 1, 2)), CALLS, PARTS
        ) == [2]
        assert begun == [
            "tuned",
            "untuned",
            "untuned",
            "tuned",
            "tuned",
            "untuned",
            "untuned",
            "tuned",
            "tuned",
            "untuned",
        ]
        assert not alive

    def test_a_slow_network_is_not_profiled_again_and_again(self, monkeypatch):
        monkeypatch.setattr(network_profile, "_SECONDS", 0.0)
        begun = []
        assert find_slower(
            instance(1, 1, 1), lambda: begun.append(1) or instance(1, 1, 2)(), CALLS, PARTS
        ) == [2]
        assert begun == [1]

    @pytest.mark.parametrize("calls", [[], CALLS[:2], [CALLS[1], CALLS[0], CALLS[2]]])
    def test_networks_with_other_calls_tell_nothing(self, calls):
        with pytest.raises(RuntimeError, match="other calls than the network that was extracted"):
            find_slower(instance(1, 1, 1), instance(2, 2, 2), calls, PARTS)

    def test_what_has_no_template_tells_nothing(self):
        calls = [Call(None, 64), Call(0, 32), Call(None, 10)]
        assert find_slower(instance(1, 1, 1), instance(9, 0.5, 9), calls, [0]) == []
        assert find_slower(instance(1, 1, 1), instance(0.1, 1.5, 0.1), calls, [0]) == [0]


def test_the_calls_of_a_network_are_those_of_its_profile():
    mod = fold(two_layers(), {})
    network = extract(mod, TARGET)
    assert network.calls == [Call(0, 1024), Call(0, 1024), Call(1, 48)]
    assert network.parts == [0, 1]
    calls = ProfiledInstance(build(mod, TARGET), tvm.cpu(), random_inputs(mod)).calls()
    found = [elements for name, elements, _ in calls if "conv2d" in name or "dense" in name]
    assert found == [call.elements for call in network.calls]
    assert all(seconds > 0 for name, _, seconds in calls if "conv2d" in name)


def test_the_first_task_of_an_operator_is_what_the_compiler_uses_untuned():
    mod = fold(two_layers(), {})
    network = extract(mod, TARGET)
    first, second = (network.tasks[i].name for i in network.operators[1].tasks)
    assert (first, second) == ("dense_pack.x86", "dense_nopack.x86")
    calls = ProfiledInstance(build(mod, TARGET), tvm.cpu(), random_inputs(mod)).calls()
    assert any("contrib_dense_pack" in name for name, _, _ in calls)


class TestTuning:
    """Trials that take scalar code for the fastest."""

    @pytest.fixture(autouse=True)
    def two_rounds(self, monkeypatch):
        time_two_rounds(monkeypatch)

    def option(self):
        def seconds(config):
            return 1e-6 * sum(knob.size[-1] for knob in config.values() if hasattr(knob, "size"))

        runner = InstantRunner(lambda config: None)
        runner.run = lambda inputs, builds: [
            autotvm.MeasureResult(
                (seconds({name: config[name] for name in task.config_space.space_map}),),
                0,
                0.1,
                0.0,
            )
            for _, task, config in inputs
        ]
        return autotvm.measure_option(
            builder=InstantBuilder(timeout=1, n_parallel=8), runner=runner
        )

    def tune(self, log, **options):
        return tune_network(
            two_layers(), {}, TARGET, log, 60, self.option(), seed=0, transfer=False, **options
        )

    def records(self, result):
        return list(autotvm.record.load_from_file(str(result.best_file)))

    def convolution(self, result):
        """The block of output channels in the file of the best."""
        (size,) = (
            measured.config["tile_oc"].size[-1]
            for measured, _ in self.records(result)
            if "conv2d" in measured.task.name
        )
        return size

    def test_what_is_slower_within_the_network_is_left_untuned(self, tmp_path):
        log = tmp_path / "log.json"
        alone = self.tune(log, evaluate=False)
        assert self.convolution(alone) == 1
        result = self.tune(log)
        assert self.convolution(result) > 1
        assert result.kept_untuned >= 1
        assert "left untuned" in str(result)
        assert result.comparison.outputs_match
        # only what was profiled is known
        assert self.convolution(self.tune(log, evaluate=False)) == 1

    def test_it_stays_so_when_another_network_is_tuned_into_the_log(self, tmp_path, monkeypatch):
        monkeypatch.setattr("autotvm_opevo.autotvm.evaluation.find_slower", lambda *arguments: [1])
        log = tmp_path / "log.json"
        (dense,) = (
            one[0].task.name for one in self.records(self.tune(log)) if "dense" in one[0].task.name
        )
        assert dense == "dense_pack.x86"  # the compiler's, without a record of the other
        other = tune_network(
            one_layer(), {}, TARGET, log, 4, self.option(), seed=0, transfer=False, evaluate=False
        )
        mine = [
            one[0].task.name
            for one in self.records(other)
            if "dense" in one[0].task.name and one[0].task.args[0][1][0] == 1
        ]
        assert mine == ["dense_pack.x86"]

    def test_a_runtime_without_the_profiler_keeps_what_is_faster_alone(self, tmp_path, monkeypatch):
        def without(self, library, device, inputs):
            raise AttributeError("Module has no function 'debug_create'")

        monkeypatch.setattr(network_profile.ProfiledInstance, "__init__", without)
        result = self.tune(tmp_path / "log.json")
        assert (self.convolution(result), result.kept_untuned) == (1, 0)
        assert result.comparison.outputs_match

    def test_an_operator_without_an_untuned_record_is_left_to_the_compiler(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("autotvm_opevo.autotvm.task_state.TaskState.untuned", None)
        monkeypatch.setattr(
            "autotvm_opevo.autotvm.evaluation.find_slower", lambda *arguments: [0, 1]
        )
        result = self.tune(tmp_path / "log.json")
        assert result.kept_untuned == 2
        assert not result.best_file.read_text()
        assert result.comparison.relative_errors == [0.0]  # the same kernels
