"""The comparison of logs, as data and as text."""

import re
from time import sleep
from types import SimpleNamespace

import numpy as np
import pytest

from autotvm_opevo._utils import timeouts
from autotvm_opevo.tuning import comparison as module
from autotvm_opevo.tuning.comparison import Comparison, OperatorComparison, shown_when_aborted

MINUTE = 60.0


class Network:
    """A network, built with some log, whose latencies are as given, and always the same."""

    def __init__(self, seconds, output=1.0):
        self.latency, self.output = seconds, output

    def __call__(self):
        return self

    def outputs(self):
        return [np.array([1.0, self.output])]

    def seconds(self):
        if isinstance(self.latency, BaseException):
            raise self.latency
        return self.latency


def operator(name, *latencies, count=1, same=False):
    return OperatorComparison(
        name, count, [f"{name} of {i}" for i in range(len(latencies))], list(latencies), same
    )


def compare(*networks, logs=("a.json", "b.json"), operators=()):
    comparison = Comparison(list(logs), list(operators))
    comparison.time_networks(networks, MINUTE)
    return comparison


@pytest.fixture
def clock(monkeypatch):
    """The time, which passes only while a network runs."""
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


class SlowNetwork(Network):
    def __init__(self, clock, seconds):
        super().__init__(RuntimeError("it must not run again"))
        self.clock, self.duration = clock, seconds

    def outputs(self):
        self.clock.seconds += self.duration
        return super().outputs()


class TestSlowNetworks:
    def test_what_the_first_run_compiles_does_not_count(self, clock):
        network = SlowNetwork(clock, 9.0)
        outputs = network.outputs

        def compiled():
            network.duration, before = 3.0, outputs()
            return before

        network.outputs = compiled
        comparison = compare(SlowNetwork(clock, 80.0), network, logs=("a.json",))
        assert comparison.race.latencies == [[80.0, 3.0]]

    def test_they_are_timed_by_one_run(self, clock):
        comparison = compare(*(SlowNetwork(clock, seconds) for seconds in (80.0, 4.0, 2.0)))
        assert comparison.race.latencies == [[80.0, 4.0, 2.0]]
        assert comparison.stop_reason == "time limit"
        assert not comparison.untuned_is_better
        assert comparison.winner is None
        text = str(comparison)
        assert "80000.000" in text
        assert "1 round, interleaved; ended by: time limit" in text

    def test_they_say_what_has_run(self, clock, monkeypatch, capsys):
        monkeypatch.setattr(timeouts, "SILENT", 0.01)

        def wait():
            text = ""
            while "80.0 s\n" not in text:
                text += capsys.readouterr().err
            assert re.search(r"timing the networks: \d+ s so far, untuned ran in 80.0 s\n", text)

        second = SlowNetwork(clock, 2.0)
        second.outputs = lambda: wait() or SlowNetwork(clock, 2.0).outputs()
        compare(SlowNetwork(clock, 80.0), second, logs=("a.json",))

    def test_what_has_run_is_known_when_it_takes_too_long(self, monkeypatch):
        monkeypatch.setattr(module, "_FIRST_RUN_TIMEOUT", 0.2)
        network = Network(1.0)
        network.outputs = lambda: sleep(5)
        with pytest.raises(TimeoutError, match=r"to run the networks, untuned ran in 0.0 s$"):
            compare(Network(1.0), network, logs=("a.json",))


class TestNetworks:
    def test_the_fastest_log_is_named_with_its_ratio_and_all_are_compared_with_untuned(self):
        comparison = compare(Network(0.030), Network(0.010), Network(0.0125))
        assert comparison.winner == "a.json"
        assert comparison.stop_reason == "decided"
        text = str(comparison)
        assert "a.json is 1.25 times as fast as b.json (1.25 to 1.25)" in text
        assert "3.00 times as fast as untuned" in text
        assert "2.40 times as fast as untuned" in text
        assert "5 rounds, interleaved; ended by: decided" in text
        assert "outputs match, relative error 0.0e+00 (a.json), 0.0e+00 (b.json)" in text

    def test_equal_logs_cannot_be_told_apart(self):
        comparison = compare(Network(0.030), Network(0.010), Network(0.010))
        assert comparison.winner is None
        assert "a.json and b.json cannot be told apart (within 0.0%)" in str(comparison)

    def test_a_third_digit_shows_a_small_difference(self):
        text = str(compare(Network(0.030), Network(0.010), Network(0.01003)))
        assert "a.json is 1.003 times as fast as b.json (1.003 to 1.003)" in text

    @pytest.mark.parametrize(("seconds", "winner"), [(0.010, "a.json"), (0.040, "untuned")])
    def test_one_log_is_compared_with_the_untuned_network(self, seconds, winner):
        comparison = compare(Network(0.030), Network(seconds), logs=["a.json"])
        assert comparison.winner == winner
        assert f"{winner} is" in str(comparison)

    def test_each_of_several_logs_is_compared_with_the_fastest(self):
        comparison = compare(
            Network(0.030), Network(0.020), Network(0.010), Network(0.015), logs=["a", "b", "c"]
        )
        lines = str(comparison).splitlines()
        assert [line for line in lines if line.startswith("b is")] == [
            "b is 1.50 times as fast as c (1.50 to 1.50)",
            "b is 2.00 times as fast as a (2.00 to 2.00)",
        ]

    def test_a_network_that_computes_something_else_is_not_timed(self):
        comparison = compare(Network(0.030), Network(0.010), Network(0.001, output=2.0))
        assert not comparison.outputs_match
        assert comparison.race.latencies == []
        assert comparison.winner is None
        assert "outputs DIFFER, relative error 0.0e+00 (a.json), 1.0e+00 (b.json)" in str(
            comparison
        )
        comparison.time_operators(lambda record: pytest.fail("nor are operators"), MINUTE)

    def test_quantized_networks_match_as_quantized_values_do(self):
        comparison = Comparison(["a.json"], dtypes={"float32", "int8"})
        comparison.time_networks([Network(0.030), Network(0.010, output=1.01)], MINUTE)
        assert comparison.outputs_match
        assert "outputs match as quantized values do, relative error 1.0e-02 (a.json)" in str(
            comparison
        )


class TestOperators:
    def operators(self):
        shared = [
            operator("equal", 1e-3, 1e-3),
            operator("same", 1e-3, 2e-3, same=True),
            operator("none", np.inf, np.inf),
        ]
        return [
            *shared,
            operator("small", 1.0e-3, 1.5e-3),
            operator("large", 1.0e-3, 1.2e-3, count=10),
        ]

    def test_those_that_differ_most_in_the_network_come_first(self):
        comparison = Comparison(["a", "b"], self.operators())
        assert [one.name for one in comparison.differing] == ["large", "small"]
        text = str(comparison)
        assert "as measured while tuning, not interleaved" in text
        assert text.index("large") < text.index("small")
        assert "equal" not in text

    @pytest.mark.parametrize(
        ("best", "shown"), [(None, "untuned"), ("chosen without a trial", "not measured")]
    )
    def test_one_that_a_log_has_not_measured_differs_most(self, best, shown):
        new = operator("new", 1e-6, np.inf)
        new.best[1] = best
        comparison = Comparison(["a", "b"], [operator("small", 1.0e-3, 1.5e-3), new])
        assert [one.name for one in comparison.differing] == ["new", "small"]
        (line,) = [line for line in str(comparison).splitlines() if line.startswith("new")]
        assert line.split() == ["new", "1", "0.001", *shown.split()]

    def test_they_are_timed_in_turn(self):
        comparison = Comparison(["a", "b"], self.operators())
        seconds = {"large of 0": 1e-3, "large of 1": 1e-3, "small of 0": 2e-3, "small of 1": 1e-3}
        comparison.time_operators(lambda record: Network(seconds[record]), MINUTE)
        text = str(comparison)
        timed = text[text.index("interleaved, each alone") :].splitlines()
        assert [line.split()[0] for line in timed[2:]] == ["large", "small"]
        assert timed[2].endswith("cannot be told apart (within 0.0%)")
        assert timed[3].endswith("b 2.00 times as fast (2.00 to 2.00)")

    def test_no_more_than_five_are(self):
        comparison = Comparison(
            ["a", "b"], [operator(str(i), 1e-3, 2e-3 + 1e-4 * i) for i in range(9)]
        )
        built = []
        comparison.time_operators(lambda record: built.append(record) or Network(1e-3), MINUTE)
        assert built == [f"{i} of {log}" for i in (8, 7, 6, 5, 4) for log in (0, 1)]

    def test_those_that_a_log_lacks_do_not_take_the_place_of_those_that_can_be_timed(self):
        lacking = [operator(f"new {i}", 1e-6, np.inf) for i in range(6)]
        comparison = Comparison(["a", "b"], [*lacking, operator("small", 1.0e-3, 1.5e-3)])
        comparison.time_operators(lambda record: Network(1e-3), MINUTE)
        text = str(comparison)
        assert "small" in text[text.index("interleaved, each alone") :]

    def test_one_that_cannot_be_built_costs_nothing_else(self, caplog):
        comparison = Comparison(["a", "b"], self.operators())

        def load(record):
            if record == "large of 1":
                raise RuntimeError("no such intrinsic")
            return Network(1e-3)

        comparison.time_operators(load, MINUTE)
        assert [bool(one.race.latencies) for one in comparison.differing] == [False, True]
        assert re.search("large was not timed alone: .*no such intrinsic", caplog.text)


class TestAbort:
    def test_after_ctrl_c_what_is_known_is_printed(self, capsys):
        comparison = Comparison(["a", "b"], [operator("dense", 1e-3, 2e-3)])
        for _ in range(6):
            comparison.race.add([3.0, 2.0, 1.0])
        with pytest.raises(KeyboardInterrupt), shown_when_aborted(comparison):
            raise KeyboardInterrupt
        error = capsys.readouterr().err
        assert "b is 2.00 times as fast as a" in error
        assert "ended by: interrupted" in error
        assert "dense" in error

    def test_a_finished_comparison_of_the_networks_stays_finished(self, capsys):
        comparison = compare(Network(0.030), Network(0.010), Network(0.0125))
        with pytest.raises(KeyboardInterrupt), shown_when_aborted(comparison):
            raise KeyboardInterrupt
        assert "ended by: decided" in capsys.readouterr().err
