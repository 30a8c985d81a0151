"""compare_logs: small networks, built and run for real, with logs of made-up latencies."""

import gzip
import json
from math import inf

import numpy as np
import pytest
import tvm
from compared_networks import time_two_rounds
from instant_measuring import instant
from rpc_farm import KEY
from small_networks import TARGET, one_layer, two_layers
from tvm import autotvm, relay

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import compare_logs, evaluation
from autotvm_opevo.autotvm import comparison as module
from autotvm_opevo.autotvm.log import seconds
from autotvm_opevo.autotvm.rpc import DevicePoolError
from autotvm_opevo.tuning import programs
from autotvm_opevo.tuning.programs import Timed

# A busy machine takes several times as long.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Two logs of `two_layers`."""
    folder = tmp_path_factory.mktemp("logs")
    return [tune(folder / f"{name}.json", seed=seed) for seed, name in enumerate("ab")]


def tune(
    log,
    seed=0,
    mod=None,
    target=TARGET,
    trials=12,
    seconds=lambda config: 1e-3 * (1 + config.index % 97),
):
    """Tune without building anything, and from nothing: two seeds find two results."""
    tune_network(
        mod or two_layers(),
        {},
        target,
        log,
        trials,
        instant(seconds),
        seed=seed,
        evaluate=False,
        transfer=False,
    )
    return log


@pytest.fixture(autouse=True)
def two_rounds(monkeypatch):
    time_two_rounds(monkeypatch)


@pytest.fixture(scope="module")
def compared(logs):
    """The comparison of `logs`, for the target that they have, and their bytes before it."""
    before = [log.read_bytes() for log in logs]
    with pytest.MonkeyPatch.context() as patch:
        time_two_rounds(patch)
        return compare_logs(two_layers(), {}, None, logs), before


def test_networks_and_operators_are_timed_in_turn_and_the_logs_stay_as_they_are(logs, compared):
    comparison, before = compared
    assert comparison.logs == ["a.json", "b.json"]
    assert np.shape(comparison.race.latencies) == (2, 3)
    assert comparison.outputs_match
    # a dense layer, two equal convolutions
    assert sorted(operator.count for operator in comparison.operators) == [1, 2]
    differing = comparison.differing
    assert differing
    assert all(np.shape(operator.race.latencies) == (2, 2) for operator in differing)
    assert "2 rounds, interleaved; ended by: rounds" in str(comparison)
    assert [log.read_bytes() for log in logs] == before


def test_an_operator_has_the_best_latency_of_each_log(logs, compared):
    comparison, _ = compared
    for i, log in enumerate(logs):
        costs = {"conv2d": [], "dense": []}
        for measured, result in autotvm.record.load_from_file(str(log)):
            costs[measured.task.name.split("_")[0]] += result.costs
        for operator in comparison.operators:
            assert operator.latencies[i] == min(costs[operator.name.split("_")[0]])


def test_of_a_target_that_is_spelled_twice_the_fastest_record_is_taken(logs, tmp_path):
    # the default of this TVM
    slow, spelling = tmp_path / "slow.json", "llvm -mtriple=x86_64-unknown-linux-gnu"
    for latency in (1.0, 1e-9):
        lines = [json.loads(line) for line in logs[0].read_text().splitlines()]
        for line in lines:
            line["input"][0], line["result"][0] = spelling, [latency]
        slow.write_text(logs[0].read_text() + "".join(json.dumps(line) + "\n" for line in lines))
        found = {record[1].costs[0] for record in module._best_records(slow).values()}
        assert all(cost < 1.0 for cost in found)
        assert (1e-9 in found) == (latency == 1e-9)


def test_no_time_limit_reserves_a_remote_device_for_as_long_as_it_can(monkeypatch):
    asked = []

    def request(key, host, port, timeout):
        asked.append(timeout)
        raise ConnectionError("no tracker")

    monkeypatch.setattr(evaluation, "request_remote", request)
    with (
        pytest.raises(ConnectionError),
        evaluation.open_device(TARGET, autotvm.RPCRunner("board", "127.0.0.1", 9), inf),
    ):
        pass
    assert asked == [2**31 - 1]


def test_the_target_is_that_of_the_logs(logs, compared, tmp_path):
    comparison, _ = compared
    assert comparison.outputs_match
    other = tune(tmp_path / "other.json", target="llvm -mcpu=core-avx2")
    with pytest.raises(ValueError, match=r"no target in common: llvm .*core-avx2, llvm .*"):
        compare_logs(two_layers(), {}, None, [logs[0], other])


def test_each_network_is_built_with_the_best_records_of_its_log_for_its_target(
    logs, tmp_path, monkeypatch
):
    """Records for another target would apply, too, and these are faster."""
    mixed = tmp_path / "mixed.json"
    other = tune(
        tmp_path / "other.json", target="llvm -mcpu=core-avx2", seconds=lambda config: 1e-9
    )
    mixed.write_text(logs[0].read_text() + other.read_text() + '{"input": ["llvm", "torn')
    built = []
    build = evaluation.build
    monkeypatch.setattr(
        evaluation, "build", lambda *arguments: built.append(arguments[2]) or build(*arguments)
    )
    comparison = compare_logs(two_layers(), {}, TARGET, mixed)
    assert np.shape(comparison.race.latencies) == (2, 2)  # the untuned network's, too
    assert comparison.differing == []
    assert [len(records) for records in built] == [0, 3]
    assert {str(measured.target) for measured, _ in built[1]} == {str(TARGET)}
    assert min(result.costs[0] for _, result in built[1]) >= 1e-3


def test_a_network_with_other_outputs_is_not_timed(logs, monkeypatch):
    build = evaluation.build

    def wrong(mod, target, records, disabled):
        main = mod["main"]
        body = main.body * relay.const(1.5) if records else main.body
        return build(tvm.IRModule.from_expr(relay.Function(main.params, body)), target)

    monkeypatch.setattr(evaluation, "build", wrong)
    comparison = compare_logs(two_layers(), {}, TARGET, logs[:1])
    assert not comparison.outputs_match
    assert comparison.relative_errors == [pytest.approx(0.5, rel=1e-4)]
    assert comparison.race.latencies == []


def test_what_a_network_computes_has_dtypes_of_its_own():
    """Other than those of its inputs and outputs; parts of tuples count."""
    x = relay.var("x", shape=(4, 4), dtype="uint8")
    quantized = relay.qnn.op.quantize(
        relay.cast(x, "float32"), relay.const(0.5), relay.const(0), out_dtype="int8"
    )
    part = relay.split(quantized, 2)[1]
    y = relay.qnn.op.dequantize(part, relay.const(0.5), relay.const(0))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([y, relay.cast(x, "float16")])))
    assert evaluation.computed_dtypes(mod) == {"float16", "float32", "int8"}


class TestRefusals:
    def test_a_log_of_another_network_says_what_it_has(self, logs, tmp_path):
        other = tune(tmp_path / "other.json", mod=one_layer())
        message = (
            "other.json has no successful record of this network: it has 2 tasks, such as "
            "dense_.*pack.x86 4x256 96x256 for llvm"
        )
        with pytest.raises(ValueError, match=message):
            compare_logs(two_layers(), {}, TARGET, [logs[0], other])

    def test_a_log_for_another_target_says_which(self, logs):
        with pytest.raises(
            ValueError,
            match=r"a.json has records of this network for .*, none for .*core-avx2: choose",
        ):
            compare_logs(two_layers(), {}, "llvm -mcpu=core-avx2", logs)

    def test_a_log_in_which_all_failed_has_nothing_to_compare(self, logs, tmp_path):
        failed = tune(tmp_path / "failed.json", seconds=lambda config: None)
        with pytest.raises(ValueError, match=r"failed.json has no successful record"):
            compare_logs(two_layers(), {}, TARGET, [logs[0], failed])

    def test_a_log_for_targets_that_this_tvm_does_not_know_says_why(self, logs, tmp_path):
        (tmp_path / "log.json").write_text(
            logs[0].read_text().replace('"llvm', '"llvm -vector-length=512')
        )
        with pytest.raises(
            ValueError,
            match=r"log.json has no successful record .* that can be used, since .* -vector-length",
        ):
            compare_logs(two_layers(), {}, TARGET, [tmp_path / "log.json"])

    def test_what_is_no_log(self, logs, tmp_path):
        (tmp_path / "notes.txt").write_text("of nobody's\nbusiness\n")
        with pytest.raises(ValueError, match=r"notes.txt has no successful record of AutoTVM"):
            compare_logs(two_layers(), {}, TARGET, [logs[0], tmp_path / "notes.txt"])
        (tmp_path / "log.json.gz").write_bytes(gzip.compress(logs[0].read_bytes()))
        with pytest.raises(
            ValueError,
            match=r"log.json.gz has no successful record of AutoTVM, it is compressed with gzip",
        ):
            compare_logs(two_layers(), {}, TARGET, [tmp_path / "log.json.gz"])
        with pytest.raises(ValueError, match="is a folder, not a log of AutoTVM"):
            compare_logs(two_layers(), {}, TARGET, [logs[0], tmp_path])

    def test_a_time_limit_is_positive(self, logs):
        with pytest.raises(ValueError, match="time_limit must be a positive number of seconds"):
            compare_logs(two_layers(), {}, TARGET, logs, time_limit=0)

    def test_no_tracker(self, logs, monkeypatch):
        monkeypatch.setattr(programs, "_TRACKER_TIMEOUT", 2.0)
        with pytest.raises(DevicePoolError, match=r"no tracker answers at 127.0.0.1:1 "):
            compare_logs(
                two_layers(), {}, TARGET, logs, runner=autotvm.RPCRunner(KEY, "127.0.0.1", 1)
            )


def test_the_best_of_a_log_of_an_earlier_tvm_are_those_of_its_records(logs, tmp_path):
    """Whose targets have options that this one has no longer, and whose lines were joined."""
    old = (
        logs[0]
        .read_text()
        .replace('"llvm', '"llvm -link-params=0 --runtime=c')
        .replace("}\n{", "}{", 3)
    )
    (tmp_path / "old.json").write_text(old)
    expected, found = map(module._best_records, (logs[0], tmp_path / "old.json"))
    assert found.keys() == expected.keys()
    assert [seconds(found[key][1]) for key in expected] == [
        seconds(expected[key][1]) for key in expected
    ]


def test_a_kernel_is_built_as_it_was_measured(logs):
    """Outside of tuning the template would take tensors in the network's layout."""
    records = list(autotvm.record.load_from_file(str(logs[0])))
    record = next(record for record in records if record[0].task.name == "conv2d_NCHWc.x86")
    library, arrays = module._build_kernel(record, record[0].target)
    assert [array.ndim for array in arrays] == [5, 6, 5]
    kernel = Timed(library, library.entry_name, tvm.cpu(), [*map(tvm.nd.array, arrays)])
    assert kernel.seconds() > 0
    assert not autotvm.GLOBAL_SCOPE.in_tuning
