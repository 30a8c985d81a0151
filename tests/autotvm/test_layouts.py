"""The choice of records whose layouts agree, from the graph of a network to the file of its best
records.
"""

import itertools
import time
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from instant_measuring import InstantBuilder, InstantRunner
from small_networks import TARGET
from tvm import autotvm, relay
from tvm.autotvm.task.space import SplitEntity

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import best_file
from autotvm_opevo.autotvm.best_file import Candidate, candidates, choose
from autotvm_opevo.autotvm.extraction import Connection, extract
from autotvm_opevo.tuning.run_log import MachineMeasured, RunLog


def conv2d(x, channels, name, **attributes):
    shape = {"channels": channels, "kernel_size": (3, 3), "padding": (1, 1), **attributes}
    return relay.nn.conv2d(x, relay.var(f"{name}_weight"), **shape)


def network(x):
    return relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(x), x))
    )


def image():
    return relay.var("data", shape=(1, 16, 8, 8))


def connections(x):
    """Connections, with operators by their number of output channels, of which each has another
    one.
    """
    found = extract(network(x), TARGET)
    channels = [found.tasks[one.tasks[0]].args[1][1][0] for one in found.operators]
    return sorted(
        (channels[one.producer], channels[one.consumer], one.joined, one.size)
        for one in found.connections
    )


class TestConnections:
    def test_two_convolutions_are_connected_through_what_keeps_layouts(self):
        x = relay.nn.max_pool2d(
            relay.nn.relu(conv2d(image(), 32, "a")), pool_size=(2, 2), strides=(2, 2)
        )
        assert connections(conv2d(x, 64, "b")) == [(32, 64, False, 4 * 32 * 4 * 4)]

    def test_a_residual_connects_outputs(self):
        a = relay.nn.relu(conv2d(image(), 32, "a"))
        b = conv2d(relay.nn.relu(conv2d(a, 48, "b")), 32, "c", kernel_size=(5, 5), padding=(2, 2))
        found = extract(network(relay.nn.relu(relay.add(a, b))), TARGET)
        size = 4 * 32 * 8 * 8
        assert sorted((one.joined, one.size) for one in found.connections) == [
            (False, size),
            (False, 4 * 48 * 8 * 8),
            (True, size),
        ]

    def test_concatenated_outputs_are_connected(self):
        a, b = conv2d(image(), 32, "a"), conv2d(image(), 48, "b")
        x = relay.concatenate([relay.nn.relu(a), relay.nn.relu(b)], axis=1)
        for _ in range(2):  # what follows does not join them again
            x = relay.nn.max_pool2d(x, pool_size=(1, 1))
        joined, read = sorted(connections(conv2d(x, 64, "c")), key=lambda one: not one[2])
        assert read in [(32, 64, False, 4 * 80 * 8 * 8), (48, 64, False, 4 * 80 * 8 * 8)]
        assert joined in [(32, 48, True, 4 * 48 * 8 * 8), (48, 32, True, 4 * 32 * 8 * 8)]

    def test_a_residual_around_one_convolution_connects_its_output(self):
        x = relay.nn.relu(conv2d(image(), 32, "a"))
        x = relay.add(conv2d(x, 32, "b", kernel_size=(1, 1), padding=(0, 0)), x)
        found = extract(network(x), TARGET).connections
        assert sorted((one.joined, one.size) for one in found) == [
            (False, 4 * 32 * 8 * 8),
            (True, 4 * 32 * 8 * 8),
        ]

    def test_the_smaller_operand_is_what_is_transformed(self):
        x = relay.nn.relu(conv2d(image(), 32, "a"))
        scale = relay.sigmoid(
            conv2d(relay.nn.global_avg_pool2d(x), 32, "b", kernel_size=(1, 1), padding=(0, 0))
        )
        found = connections(conv2d(relay.nn.relu(relay.multiply(x, scale)), 64, "c"))
        assert sorted(size for *_, size in found) == [4 * 32, 4 * 32, 4 * 32 * 8 * 8]

    @pytest.mark.parametrize("transposed", [False, True])
    def test_a_convolution_without_blocks_disconnects(self, transposed):
        x, weight = conv2d(image(), 32, "a"), relay.var("between")
        if transposed:
            x = relay.nn.conv2d_transpose(
                x, weight, channels=32, kernel_size=(3, 3), padding=(1, 1)
            )
        else:
            x = relay.nn.conv3d(
                relay.expand_dims(x, 2),
                weight,
                channels=32,
                kernel_size=(1, 3, 3),
                padding=(0, 1, 1),
            )
            x = relay.squeeze(x, [2])
        assert not [
            one
            for one in extract(network(conv2d(x, 64, "b")), TARGET).connections
            if one.size == 4 * 32 * 8 * 8
        ]

    def test_a_reshape_disconnects(self):
        x = relay.reshape(conv2d(image(), 32, "a"), (1, 8, 16, 16))
        assert connections(conv2d(x, 64, "b")) == []

    def test_repeated_layers_add_up(self):
        x = conv2d(image(), 16, "first")
        for i in range(3):
            x = conv2d(relay.nn.relu(x), 16, f"w{i}")
        assert sum(size for *_, size in connections(x)) == 3 * 4 * 16 * 8 * 8


def record(latency, blocks=(16, 16)):
    config = {name: SplitEntity([-1, size]) for name, size in zip(("tile_ic", "tile_oc"), blocks)}
    return SimpleNamespace(config=config), autotvm.MeasureResult((latency,), 0, 0.1, 0.0)


CONV2D = SimpleNamespace(name="conv2d_NCHWc.x86")


class TestCandidates:
    def test_each_pair_of_layouts_has_its_fastest_record_and_the_best_its_confirmed_latency(self):
        trial, best = record(1.0), record(1.2)
        records = [
            trial,
            record(3.0, (8, 16)),
            record(2.0, (8, 16)),
            record(1.5),
            record(inf, (4, 4)),
        ]
        found = {(one.input, one.output): one for one in candidates(CONV2D, records, best)}
        assert found[16, 16].record is best
        assert found[16, 16].latency == 1.2
        assert found[8, 16].record is records[2]
        assert len(found) == 2  # what failed is none

    def test_no_other_is_taken_for_faster_than_the_confirmed_one(self):
        (other,) = (
            one for one in candidates(CONV2D, [record(0.5, (8, 8))], record(1.2)) if one.input == 8
        )
        assert other.latency > 1.2

    def test_templates_without_blocks_have_none(self):
        for name in ("dense_pack.x86", "conv2d_NCHWc_int8.cuda"):
            assert candidates(SimpleNamespace(name=name), [record(1.0)], record(1.0)) == []


def cost(chosen, counts, connected, bandwidth):
    own = sum(counts[i] * one.latency for i, one in chosen.items())
    transformed = [
        one.size
        for one in connected
        if {one.producer, one.consumer} <= chosen.keys()
        and chosen[one.producer].output
        != (chosen[one.consumer].output if one.joined else chosen[one.consumer].input)
    ]
    return own + sum(transformed) * best_file._TRANSFERS / bandwidth


found = st.lists(
    st.builds(
        Candidate, st.none(), st.floats(0.1, 1), st.sampled_from([8, 16]), st.sampled_from([8, 16])
    ),
    min_size=1,
    max_size=3,
)


def transforming(size, seconds):
    """The bandwidth at which a transform of so many bytes takes that long."""
    return best_file._TRANSFERS * size / seconds


class TestChoice:
    def test_a_slower_record_is_chosen_where_a_transform_costs_more(self):
        fast, slow = Candidate(None, 1.0, 16, 16), Candidate(None, 1.1, 16, 8)
        next_one = Candidate(None, 1.0, 8, 8)
        options = {0: [fast, slow], 1: [next_one]}
        connected = [Connection(0, 1, False, 1000)]
        assert choose(options, [1, 1], connected, transforming(1000, 0.2))[0] is slow
        assert choose(options, [1, 1], connected, transforming(1000, 0.05))[0] is fast
        assert choose(options, [3, 1], connected, transforming(1000, 0.2))[0] is fast

    def test_several_change_together_where_none_would_alone(self):
        options = {i: [Candidate(None, 1.0, 16, 16), Candidate(None, 1.01, 8, 8)] for i in range(3)}
        options[3] = [Candidate(None, 1.0, 8, 8)]
        connected = [Connection(i, i + 1, False, 1000) for i in range(3)]
        chosen = choose(options, [1] * 4, connected, transforming(1000, 0.05))
        assert [chosen[i].output for i in range(4)] == [8] * 4

    def test_operators_without_candidates_are_left_out(self):
        only = Candidate(None, 1.0, 16, 16)
        assert choose({0: [only], 1: []}, [1, 1], [Connection(0, 1, False, 9)], 1e9) == {0: only}

    @given(st.lists(found, min_size=1, max_size=4), st.data())
    def test_the_choice_never_costs_more_than_the_fastest_of_each(self, options, data):
        options = dict(enumerate(options))
        position = st.integers(0, len(options) - 1)
        connected = data.draw(
            st.lists(
                st.builds(Connection, position, position, st.booleans(), st.integers(1, 9)),
                max_size=5,
            )
        )
        counts = [1] * len(options)
        chosen = choose(options, counts, connected, 50.0)
        everything = [dict(enumerate(one)) for one in itertools.product(*options.values())]
        best = min(cost(one, counts, connected, 50.0) for one in everything)
        fastest = {
            i: min(one, key=lambda candidate: candidate.latency) for i, one in options.items()
        }
        assert (
            best - 1e-9
            <= cost(chosen, counts, connected, 50.0)
            <= cost(fastest, counts, connected, 50.0) + 1e-9
        )


# The best blocks of both layouts, by the number of output channels.
BLOCKS = {32: 32, 48: 16, 64: 8}


class TestBestFile:
    """Three convolutions whose latencies favour other blocks of channels for each, by little."""

    def tune(self, log, trials):
        def run(inputs, builds):
            results = []
            for _, task, config in inputs:
                best = BLOCKS[task.args[1][1][0]]
                sizes = [config[name].size[-1] for name in ("tile_ic", "tile_oc")]
                latency = 1e-3 * (1.0 + 0.001 * sum(abs(np.log2(size / best)) for size in sizes))
                results.append(autotvm.MeasureResult((latency,), 0, 0.1, time.time()))
            return results

        runner = InstantRunner(lambda config: None)
        runner.run = run
        x = image()
        for channels in BLOCKS:
            x = relay.nn.relu(conv2d(x, channels, f"c{channels}"))
        option = autotvm.measure_option(
            builder=InstantBuilder(timeout=1, n_parallel=8), runner=runner
        )
        return tune_network(
            network(x),
            {},
            TARGET,
            log,
            trials,
            option,
            seed=0,
            evaluate=False,
            transfer=False,
            task_scheduler="equal",
        )

    def blocks(self, result):
        records = list(autotvm.record.load_from_file(str(result.best_file)))
        records.sort(key=lambda one: one[0].task.args[1][1][0])
        return [
            tuple(one[0].config[name].size[-1] for name in ("tile_ic", "tile_oc"))
            for one in records
        ]

    def test_layouts_agree_where_a_transform_costs_more_and_again_after_a_resumption(
        self, tmp_path
    ):
        log = tmp_path / "log.json"
        separate = self.tune(log, 300)
        assert separate.aligned == 0  # the bandwidth is unknown
        first, second, third = self.blocks(separate)
        assert first[1] != second[0] or second[1] != third[0]

        run_log, slow = RunLog(f"{log}.journal"), 1e6
        run_log.write(MachineMeasured({"a task on another device": 1.0}, bandwidth=slow))
        assert self.tune(log, 300).aligned == 0
        start = RunLog(run_log.path).runs.flop
        run_log.write(MachineMeasured(dict.fromkeys(start, 1e-6), bandwidth=slow))
        together = self.tune(log, 300)
        first, second, third = self.blocks(together)
        assert first[1] == second[0]
        assert second[1] == third[0]
        assert together.aligned >= 1
        assert "with another record than the fastest" in str(together)
        assert together.latency == separate.latency  # the table is about the tasks
