"""A lowered network is compared with the network as imported before the first trial; operators that
are lowered wrongly stay as imported, and are named.
"""

import json
import logging
import os
import platform
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from quick_network_tuning import tune_module, tune_operator
from quick_tuning import outputs, runner
from relax_modules import network_of
from tvm import relax, te, topi
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.database import MemoryDatabase, UnionDatabase
from tvm.s_tir.meta_schedule.runner import PyRunner
from tvm_ffi import structural_equal
from unoptimized import cpu

from autotvm_opevo._utils import timeouts
from autotvm_opevo.lowering import channels_last, network
from autotvm_opevo.lowering.network import EVERYTHING, build, lower, lower_as_imported, operators_of
from autotvm_opevo.meta_schedule import compare_logs, compile_network, open_database, verification
from autotvm_opevo.meta_schedule.evaluation import evaluate_network, random_inputs
from autotvm_opevo.meta_schedule.store import wrong_operators
from autotvm_opevo.meta_schedule.tasks import key_of, lower_and_extract
from autotvm_opevo.meta_schedule.verification import find_culprits, verifying

CONV, RELU = "nn.conv2d(x[1, 8, 8, 8], [16, 8, 3, 3])", "nn.relu(lv[1, 16, 8, 8])"
# On other CPUs the result is 0.
DIVISION_ENDS_A_PROCESS = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="integers may be divided by zero on this CPU"
)


def convolve(x, channels):
    weight = np.random.default_rng(0).standard_normal((16, channels, 3, 3)).astype("float32")
    return relax.op.nn.conv2d(x, relax.const(weight), padding=1)


@pytest.fixture(scope="module", name="mod")
def _mod():
    return convolution()


def convolution():
    """And a rectifier."""
    return network_of(lambda x: convolve(x, 8), relax.op.nn.relu)


def negative(blocks, call):
    """A wrong legalization of a rectifier."""
    return blocks.call_te(topi.negative, call.args[0])


def negative_convolution(blocks, call):
    return blocks.call_te(topi.negative, blocks.emit(call.op.get_attr("FLegalize")(blocks, call)))


def unknown_function(blocks, call):
    """A legalization that cannot be run."""

    def function(x):
        return te.extern(
            x.shape,
            [x],
            lambda i, o: tvm.tirx.call_packed("no_such_function", i[0], o[0]),
            dtype="float32",
        )

    return blocks.call_te(function, call.args[0])


WRONG = relax.transform.LegalizeOps({"relax.nn.relu": negative})
BREAKS = {
    "batch_norm": ("fold_batch_norms", WRONG),
    "raising": ("raise_to_operators", WRONG),
    "channels_last": ("with_channels_last", WRONG),
    "winograd": ("legalize_conv2d", negative_convolution),
    "fast_math": ("FAST_MATH", {"relax.nn.relu": negative}),
}
# An operator that is made of what the importer has lowered has its name only then.
OF_OPERATORS = [name for name in BREAKS if name != "raising"]


@pytest.fixture
def broken(monkeypatch):
    """Makes passes wrong."""
    return lambda *names: [monkeypatch.setattr(network, *BREAKS[name]) for name in names]


class Here:
    """In the place of worker processes: this one, whose passes a test can make wrong. Nothing runs
    before its result is asked for.
    """

    def __init__(self, module, size):
        pass

    def submit(self, function, *arguments, timeout):
        def result():
            if timeout <= 0:
                raise TimeoutError("it takes too long")
            return function(*arguments)

        return SimpleNamespace(result=result)

    def close(self):
        pass


@pytest.fixture
def here(monkeypatch):
    """Networks run in this process."""
    monkeypatch.setattr(verification, "WorkerPool", Here)


def find(mod):
    with verifying(mod, cpu()) as find_wrong_operators:
        return find_wrong_operators()


def test_a_network_that_is_right_is_verified_in_silence(mod, monkeypatch, caplog, capsys):
    monkeypatch.setattr(timeouts, "SILENT", 60.0)  # TVM is imported in the worker process
    with caplog.at_level(logging.INFO):
        assert find(mod) == []
    assert not caplog.text
    assert not capsys.readouterr().err


def test_operators_are_named_by_their_arguments(mod):
    assert operators_of(mod) == [CONV, RELU]


def test_operators_on_tuples_and_shapes_have_names():
    mod = network_of(
        lambda x: relax.op.concat([x, x], 1),
        lambda x: relax.op.strided_slice(x, [1], [0], [4]),
        lambda x: relax.op.reshape(x, (4, 64)),
        lambda x: relax.op.nn.softmax(x),
    )
    assert operators_of(mod) == [
        "concat((x[1, 8, 8, 8], x[1, 8, 8, 8]))",
        "strided_slice(lv[1, 16, 8, 8], (), (), ())",
        "reshape(lv1[1, 4, 8, 8])",
        "nn.softmax(lv2[4, 64])",
    ]
    assert_same(build(lower(mod, cpu(), operators_of(mod)), cpu()), mod)


@pytest.mark.usefixtures("here")
class TestCulprits:
    @pytest.mark.parametrize("name", OF_OPERATORS)
    def test_a_wrong_operator_is_named(self, mod, broken, caplog, name):
        broken(name)
        culprit = CONV if name == "winograd" else RELU
        assert find(mod) == [culprit]
        (message,) = caplog.messages
        assert message.startswith(
            f"lowering {culprit} changes the outputs of this network (relative error "
        )
        assert message.endswith("), which stays as imported: please report it")

    def test_where_operators_are_made_wrongly_all_stay_as_imported(self, mod, broken):
        broken("raising")
        assert find(mod) == [EVERYTHING]

    def test_an_operator_that_cannot_be_run_is_named(self, mod, monkeypatch, caplog):
        monkeypatch.setattr(network, "FAST_MATH", {"relax.nn.relu": unknown_function})
        assert find(mod) == [RELU]
        assert "no_such_function" in caplog.text

    def test_several_wrong_operators_are_found(self, mod, broken, caplog):
        broken("winograd", "fast_math")
        assert find(mod) == [CONV, RELU]
        assert f"lowering {CONV} and 1 more changes" in caplog.text

    def test_only_the_culprit_of_a_region_stays_as_imported(self, monkeypatch):
        rules = {**channels_last._RULES, "nn.max_pool2d": lambda x, call: relax.op.negative(x)}
        monkeypatch.setattr(channels_last, "_RULES", rules)
        mod = network_of(
            lambda x: convolve(x, 8),
            relax.op.nn.relu,
            lambda x: relax.op.nn.max_pool2d(x, 3, padding=1),
            lambda x: convolve(x, 16),
        )
        wrong = find(mod)
        assert wrong == ["nn.max_pool2d(lv1[1, 16, 8, 8])"]
        lowered = str(lower(mod, cpu(), wrong))
        for channels in (8, 16):  # both convolutions are still converted
            assert f"(T.int64(3), T.int64(3), T.int64({channels}), T.int64(16))" in lowered

    def test_a_wrong_operator_between_integers_is_named(self, monkeypatch):
        rules = {
            **channels_last._RULES,
            "dequantize": lambda x, call: relax.op.astype(x, "float32"),
        }
        monkeypatch.setattr(channels_last, "_RULES", rules)
        scale, zero = relax.const(0.1, "float32"), relax.const(0, "int8")
        mod = network_of(
            lambda x: convolve(x, 8),
            lambda x: relax.op.quantize(x, scale, zero),
            lambda x: relax.op.dequantize(x, scale, zero),
            lambda x: convolve(x, 16),
        )
        (wrong,) = find(mod)
        assert wrong.startswith("dequantize(lv1[1, 16, 8, 8]")

    def test_integers_must_match_exactly(self, monkeypatch):
        def off_by_one(blocks, call):
            return blocks.call_te(lambda x, y: topi.add(topi.add(x, y), 1), *call.args)

        weight = relax.const(np.full((64, 8), 100, "int8"))
        mod = network_of(
            lambda x: relax.op.matmul(x, weight, out_dtype="int32"),
            lambda x: relax.op.add(x, relax.const(1 << 20, "int32")),
            shape=(4, 64),
            dtype="int8",
        )
        assert find(mod) == []
        monkeypatch.setattr(network, "FAST_MATH", {"relax.add": off_by_one})
        assert find(mod) == ["add(lv[4, 8], [])"]

    def test_it_ends_in_time(self, mod, broken, monkeypatch, caplog):
        broken("fast_math")
        monkeypatch.setattr(verification, "_SECONDS", -1.0)
        with caplog.at_level(logging.INFO):
            assert find(mod) is None
        assert "was not verified before tuning: it takes too long" in caplog.text

    def test_where_no_culprit_is_found_in_time_the_network_is_lowered_as_tvm_does_it(
        self, mod, broken, monkeypatch, caplog
    ):
        broken("fast_math")
        monkeypatch.setattr(verification, "_SEARCH_SECONDS", -1.0)
        assert find(mod) == [EVERYTHING]
        assert "which is tuned as TVM lowers it" in caplog.text


def test_networks_run_while_they_are_lowered(monkeypatch, tmp_path):
    begun = []

    class Recorded(Here):
        def submit(self, *arguments, timeout):
            begun.append("runs")
            return super().submit(*arguments, timeout=timeout)

    monkeypatch.setattr(verification, "WorkerPool", Recorded)
    module = "autotvm_opevo.meta_schedule.network"
    monkeypatch.setattr(f"{module}.verifying", verifying)
    monkeypatch.setattr(
        f"{module}.lower_and_extract", lambda *given: begun.append("") or lower_and_extract(*given)
    )
    tune_module(convolution(), None, tmp_path, 1, evaluate=False)
    assert begun[:3] == ["runs", "runs", ""]


@pytest.mark.parametrize(("large", "workers"), [(1e9, 2), (100.0, 1)])
def test_large_networks_run_one_after_the_other(monkeypatch, mod, large, workers):
    sizes = []

    class Recorded(Here):
        def __init__(self, module, size):
            sizes.append(size)

    monkeypatch.setattr(verification, "WorkerPool", Recorded)
    monkeypatch.setattr(verification, "_LARGE", large)
    assert find(mod) == []
    assert sizes == [workers]


NAMES = [f"{kind}({i})" for i, kind in enumerate("abcdefghijklm")]


@given(st.sets(st.sampled_from(NAMES), min_size=1))
def test_a_bisection_finds_all_culprits(culprits):
    asked = []

    def is_wrong(without):
        asked.append(without)
        return not culprits <= {*without}

    found = list(find_culprits(NAMES, is_wrong))
    assert {*found[-1]} == culprits
    assert all(culprits <= {*names} for names in found)
    assert len(asked) <= 5 * len(culprits)


def test_where_two_operators_of_a_kind_are_wrong_all_are_taken_to_be():
    names = [f"{kind}({i})" for i in range(20) for kind in ("conv", "relu")]
    wrong = {name for name in names if name.startswith("conv")}
    asked = []

    def is_wrong(without):
        asked.append(without)
        return not wrong <= {*without}

    *_, found = find_culprits(names, is_wrong)
    assert {*found} == wrong
    assert len(asked) < 20


def test_a_network_is_lowered_without_any_operator(mod, broken):
    broken(*BREAKS)
    assert_same(build(lower(mod, cpu(), [EVERYTHING]), cpu()), mod)


def assert_same(executable, mod):
    """Of a network, and as imported."""
    executables = [executable, build(lower_as_imported(mod, cpu()), cpu())]
    actual, expected = outputs(executables, random_inputs(mod))
    np.testing.assert_allclose(actual[0], expected[0], rtol=1e-3, atol=1e-4)


def assert_compiled_right(database, target=None):
    mod = convolution()
    assert_same(compile_network(mod, None, target or cpu(), database), mod)


@pytest.mark.usefixtures("here", "two_rounds")
def test_tuning_and_all_that_uses_its_result_leave_a_wrong_operator_as_imported(
    mod, broken, tmp_path, caplog
):
    broken("fast_math")
    result = tune_module(mod, None, tmp_path, 4)
    assert result.comparison.outputs_match
    assert [message for message in caplog.messages if "stays as imported" in message]
    assert [RELU] in wrong_operators(result.best_file).values()
    caplog.clear()
    assert tune_module(mod, None, tmp_path, 6, evaluate=False).measured == 2
    opened = open_database(result.best_file)
    union = UnionDatabase(MemoryDatabase(), UnionDatabase(opened))
    for database in (tmp_path, result.best_file, opened, union):
        assert_compiled_right(database)
    assert_compiled_right(result.best_file, cpu(64))  # as on another machine
    comparison = compare_logs(mod, None, cpu(), [tmp_path, result.best_file])
    assert comparison.outputs_match
    assert len(comparison.operators) == len(result.rows)
    said = caplog.text
    # neither verified again nor without a record
    assert not any(word in said for word in ("stays as imported", "verified", "no record"))
    script = (
        "import test_verification as test\n"
        "setattr(test.network, *test.BREAKS['fast_math'])\n"
        f"test.assert_compiled_right({str(result.best_file)!r})"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, check=True
    )


def test_what_is_wrong_is_known_after_a_kill(mod, tmp_path, monkeypatch):
    def kill(*_):
        raise ChildProcessError("killed")

    tuning = "autotvm_opevo.meta_schedule.network"
    monkeypatch.setattr(f"{tuning}.verifying", lambda *_: nullcontext(lambda: [RELU]))
    monkeypatch.setattr(f"{tuning}.NetworkRun", kill)
    with pytest.raises(ChildProcessError):
        tune_module(mod, None, tmp_path, 4)
    assert [RELU] in wrong_operators(tmp_path).values()


@pytest.mark.usefixtures("two_rounds")
def test_each_log_is_compared_as_it_was_lowered(mod, tmp_path, monkeypatch, caplog):
    """Of one, verification may have taken too long."""
    for name, found in (("few", None), ("all", [RELU])):
        monkeypatch.setattr(
            "autotvm_opevo.meta_schedule.network.verifying",
            lambda *_, found=found: nullcontext(lambda: found),
        )
        tune_module(mod, None, tmp_path / name, 4, evaluate=False)
    comparison = compare_logs(mod, None, cpu(), [tmp_path / "few", tmp_path / "all"])
    assert comparison.outputs_match
    assert comparison.operators == []  # they have no counterparts
    assert "no record" not in caplog.text


@pytest.fixture
def verified(monkeypatch):
    """Number of verifications."""
    calls = []
    monkeypatch.setattr(
        "autotvm_opevo.meta_schedule.network.verifying",
        lambda *given: calls.append(1) or verifying(*given),
    )
    return calls


def test_a_network_is_verified_once(verified, tmp_path):
    for trials in (2, 2, 4):
        tune_operator(tmp_path, trials)
    assert len(verified) == 1


def test_where_variables_have_other_names_a_network_with_a_wrong_operator_stays_as_imported(mod):
    _, tasks, _ = lower_and_extract(mod, cpu(), {})
    for named, expected in ((RELU, [RELU]), ("nn.relu(other[1, 16, 8, 8])", [EVERYTHING])):
        lowered, _, _ = lower_and_extract(mod, cpu(), {key_of(cpu(), tasks): [named]})
        assert structural_equal(lowered, lower(mod, cpu(), expected))


def test_a_network_of_large_weights_is_not_verified(mod, monkeypatch, caplog):
    monkeypatch.setattr(verification, "_MAX_BYTES", 100)
    with caplog.at_level(logging.INFO):
        assert find(mod) is None
    assert "its weights of 0.0 GB would be in memory several times" in caplog.text


def test_a_network_without_trials_to_make_is_not_verified(verified, tmp_path):
    tune_operator(tmp_path, 2)
    (tmp_path / "best" / "wrong_operators.json").unlink()  # as of an earlier version
    tune_operator(tmp_path, 2)
    assert len(verified) == 1


def test_a_network_for_another_machine_is_not_verified(mod, verified, tmp_path):
    @derived_object
    class Elsewhere(PyRunner):
        def run(self, runner_inputs):
            return runner().run(runner_inputs)

    assert tune_module(mod, None, tmp_path, 1, runner=Elsewhere()).trials == 1
    assert not verified


@DIVISION_ENDS_A_PROCESS
def test_a_network_that_divides_by_zero_ends_only_the_process_that_runs_it(caplog):
    """Of random integers, some are zero."""
    mod = network_of(
        lambda x: relax.op.floor_divide(relax.const(7, "int32"), x), shape=(64,), dtype="int32"
    )
    with caplog.at_level(logging.INFO):
        assert find(mod) is None
    assert "was not verified before tuning: the worker process died" in caplog.text


@DIVISION_ENDS_A_PROCESS
def test_a_network_that_divides_by_zero_is_tuned_but_not_compared(tmp_path):
    mod = network_of(
        lambda x: relax.op.floor_divide(relax.const(7, "int32"), x), shape=(64,), dtype="int32"
    )
    result = tune_module(mod, None, tmp_path, 2)
    assert "network ends the process that runs it on random integers" in result.comparison_error
    assert len(open_database(result.best_file)) == 1
    with pytest.raises(RuntimeError, match="the untuned network ends the process that runs it"):
        compare_logs(mod, None, cpu(), [result.best_file])


def test_what_calls_a_function_of_this_process_is_compared_here():
    """Another process has no such function."""
    tvm.register_global_func(
        "test.doubled", lambda x: tvm.runtime.tensor(2 * x.numpy()), override=True
    )
    kind = relax.TensorType((8,), "int32")
    mod = network_of(
        lambda x: relax.op.add(x, x),
        lambda x: relax.op.call_pure_packed("test.doubled", x, ty_args=kind),
        shape=(8,),
        dtype="int32",
    )
    lowered = lower_as_imported(mod, cpu())
    assert evaluate_network(mod, lowered, cpu(), MemoryDatabase(), None).outputs_match


@pytest.mark.usefixtures("here")
def test_what_is_wrong_for_another_target_says_nothing_of_one_with_records(
    mod, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(
        "autotvm_opevo.meta_schedule.network.verifying", lambda *_: nullcontext(lambda: None)
    )
    best = tune_module(mod, None, tmp_path, 4, evaluate=False).best_file

    def missing():
        caplog.clear()
        compile_network(mod, None, cpu(), best)
        return [message for message in caplog.messages if "no record" in message]

    before = missing()
    key = key_of(tvm.target.Target({"kind": "llvm"}), lower_and_extract(mod, cpu(), {})[1])
    (Path(best) / "wrong_operators.json").write_text(json.dumps([key, [EVERYTHING]]))
    assert missing() == before


def test_an_operator_whose_lowering_ends_the_process_is_named(mod, monkeypatch, caplog):
    relu = RELU

    def run(folder, target, as_imported):
        if as_imported is not None and relu not in as_imported:
            os.kill(os.getpid(), signal.SIGFPE)
        return [np.ones(3)]

    monkeypatch.setattr(verification, "_run", run)
    assert find(mod) == [RELU]
    assert "(the worker process died), which stays as imported" in caplog.text
