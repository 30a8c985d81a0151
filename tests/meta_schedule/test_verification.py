"""A lowered network is compared with the network as imported before the first trial; what is wrong
is left out, by name.
"""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from compared_networks import time_two_rounds
from quick_network_tuning import tune_operator
from quick_tuning import builder, outputs, runner
from tvm import relax, te, topi
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.runner import PyRunner
from unoptimized import cpu

from autotvm_opevo.lowering import network
from autotvm_opevo.lowering.network import PASSES, build, lower, lower_as_imported
from autotvm_opevo.meta_schedule import compare_logs, compile_network, tune_network, verification
from autotvm_opevo.meta_schedule.evaluation import random_inputs
from autotvm_opevo.meta_schedule.store import wrong_passes
from autotvm_opevo.meta_schedule.verification import find_wrong_passes


def convolution():
    """And a rectifier."""
    x = relax.Var("x", relax.TensorType((1, 8, 8, 8), "float32"))
    weight = relax.const(np.random.default_rng(0).standard_normal((16, 8, 3, 3)).astype("float32"))
    blocks = relax.BlockBuilder()
    with blocks.function("main", [x]):
        with blocks.dataflow():
            y = blocks.emit(relax.op.nn.conv2d(x, weight, padding=1))
            y = blocks.emit_output(blocks.emit(relax.op.nn.relu(y)))
        blocks.emit_func_output(y)
    return blocks.finalize()


@pytest.fixture(scope="module", name="mod")
def _mod():
    return convolution()


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


@pytest.fixture
def broken(monkeypatch):
    """Makes passes wrong."""
    return lambda *names: [monkeypatch.setattr(network, *BREAKS[name]) for name in names]


def find(mod):
    return find_wrong_passes(mod, lower(mod, cpu()), cpu())


def test_a_network_that_is_right_is_verified_in_silence(mod, caplog, capsys):
    with caplog.at_level(logging.INFO):
        assert find(mod) == []
    assert not caplog.text
    assert not capsys.readouterr().err


@pytest.mark.parametrize("name", PASSES)
def test_a_wrong_pass_is_named(mod, broken, caplog, name):
    broken(name)
    assert find(mod) == [name]
    (message,) = caplog.messages
    assert message.startswith(
        f"{PASSES[name]} changes the outputs of this network (relative error "
    )
    assert message.endswith("), and is left out: please report it")


def test_a_pass_whose_operators_cannot_be_run_is_named(mod, monkeypatch, caplog):
    monkeypatch.setattr(network, "FAST_MATH", {"relax.nn.relu": unknown_function})
    assert find(mod) == ["fast_math"]
    assert "no_such_function" in caplog.text


def test_several_wrong_passes_are_left_out_with_all_others(mod, broken, caplog):
    broken("winograd", "fast_math")
    assert find(mod) == list(PASSES)
    assert "which is tuned as TVM lowers it: please report it" in caplog.text


@pytest.mark.parametrize("name", PASSES)
def test_a_network_is_lowered_without_a_pass(mod, broken, name):
    """No other needs it."""
    broken(name)
    actual, expected = outputs(
        [
            build(lower(mod, cpu(), [name]), cpu()),
            build(lower_as_imported(mod, cpu()), cpu()),
        ],
        random_inputs(mod),
    )
    np.testing.assert_allclose(actual[0], expected[0], rtol=1e-3, atol=1e-4)


def test_it_ends_in_time(mod, broken, monkeypatch, caplog):
    broken("fast_math")
    monkeypatch.setattr(verification, "_SECONDS", -1.0)
    with caplog.at_level(logging.INFO):
        assert find(mod) is None
    assert "was not verified before tuning: it takes too long" in caplog.text


def test_where_the_culprit_is_not_found_in_time_the_network_is_lowered_as_tvm_does_it(
    mod, broken, monkeypatch, caplog
):
    broken("fast_math")
    monkeypatch.setattr(verification, "_SEARCH_SECONDS", -1.0)
    assert find(mod) == list(PASSES)
    assert "tuned as TVM lowers it" in caplog.text


def assert_compiled_right(database):
    mod = convolution()
    executables = [
        compile_network(mod, None, cpu(), database),
        build(lower_as_imported(mod, cpu()), cpu()),
    ]
    actual, expected = outputs(executables, random_inputs(mod))
    np.testing.assert_allclose(actual[0], expected[0], rtol=1e-3, atol=1e-4)


def tune(mod, folder, trials, **options):
    return tune_network(
        mod,
        None,
        cpu(),
        folder,
        trials,
        **{"builder": builder(), "runner": runner(), "seed": 0, **options},
    )


def test_tuning_and_all_that_uses_its_result_leave_a_wrong_pass_out(
    mod, broken, tmp_path, monkeypatch, caplog
):
    broken("fast_math")
    time_two_rounds(monkeypatch)
    result = tune(mod, tmp_path, 4)
    assert result.comparison.outputs_match
    assert [message for message in caplog.messages if "left out" in message]
    assert ["fast_math"] in wrong_passes(result.best_file).values()
    caplog.clear()
    assert tune(mod, tmp_path, 6, evaluate=False).measured == 2
    for database in (tmp_path, result.best_file):
        assert_compiled_right(database)
    comparison = compare_logs(mod, None, cpu(), [tmp_path, result.best_file])
    assert comparison.outputs_match
    assert len(comparison.operators) == len(result.rows)
    said = caplog.text
    # neither verified again nor without a record
    assert not any(word in said for word in ("left out", "verified", "no record"))
    script = (
        "import test_verification as test\n"
        "setattr(test.network, *test.BREAKS['fast_math'])\n"
        f"test.assert_compiled_right({str(result.best_file)!r})"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, check=True
    )


@pytest.fixture
def verified(monkeypatch):
    """Number of verifications."""
    calls = []
    monkeypatch.setattr(
        "autotvm_opevo.meta_schedule.network.find_wrong_passes",
        lambda *given: calls.append(1) or find_wrong_passes(*given),
    )
    return calls


def test_a_network_is_verified_once(verified, tmp_path):
    for trials in (2, 2, 4):
        tune_operator(tmp_path, trials)
    assert len(verified) == 1


def test_a_network_without_trials_to_make_is_not_verified(verified, tmp_path):
    tune_operator(tmp_path, 2)
    (tmp_path / "best" / "wrong_passes.json").unlink()  # as of an earlier version
    tune_operator(tmp_path, 2)
    assert len(verified) == 1


def test_what_takes_too_long_to_verify_is_tuned(verified, monkeypatch, tmp_path):
    monkeypatch.setattr(verification, "_SECONDS", -1.0)
    assert tune_operator(tmp_path, 2).trials == 2
    assert not wrong_passes(tmp_path / "best")


def test_a_network_for_another_machine_is_not_verified(mod, verified, tmp_path):
    @derived_object
    class Elsewhere(PyRunner):
        def run(self, runner_inputs):
            return runner().run(runner_inputs)

    assert tune(mod, tmp_path, 1, runner=Elsewhere()).trials == 1
    assert not verified


def test_a_network_with_integers_is_not_run(caplog):
    """Of which random ones can be zero, and a division by it ends the process."""
    x, y = (relax.Var(name, relax.TensorType((64,), "int32")) for name in "xy")
    blocks = relax.BlockBuilder()
    with blocks.function("main", [x, y]):
        with blocks.dataflow():
            quotient = blocks.emit_output(relax.op.floor_divide(x, y))
        blocks.emit_func_output(quotient)
    mod = blocks.finalize()
    with caplog.at_level(logging.INFO):
        assert find_wrong_passes(mod, lower(mod, cpu()), cpu()) is None
    assert "it has values in int32" in caplog.text
