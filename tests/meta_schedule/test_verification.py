"""A lowered network is compared with the network as imported before the first trial; if they
differ, it is lowered as TVM does it.
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
from quick_network_tuning import tune_module, tune_operator
from quick_tuning import outputs, runner
from relax_modules import network_of
from tvm import relax, te, topi
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.runner import PyRunner
from unoptimized import cpu

from autotvm_opevo._utils import timeouts
from autotvm_opevo.lowering import network
from autotvm_opevo.lowering.network import build, lower, lower_as_imported
from autotvm_opevo.meta_schedule import compare_logs, compile_network, open_database, verification
from autotvm_opevo.meta_schedule.database import database_with
from autotvm_opevo.meta_schedule.evaluation import evaluate_network, random_inputs
from autotvm_opevo.meta_schedule.store import verified_networks
from autotvm_opevo.meta_schedule.tasks import key_of, lower_and_extract
from autotvm_opevo.meta_schedule.verification import verifying

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
    with verifying(mod, cpu()) as keeps_outputs:
        return keeps_outputs()


def test_a_network_that_is_right_is_verified_in_silence(mod, monkeypatch, caplog, capsys):
    monkeypatch.setattr(timeouts, "SILENT", 60.0)  # TVM is imported in the worker process
    with caplog.at_level(logging.INFO):
        assert find(mod) is True
    assert not caplog.text
    assert not capsys.readouterr().err


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", BREAKS)
def test_a_wrong_lowering_is_found(mod, broken, caplog, name):
    broken(name)
    assert find(mod) is False
    (message,) = caplog.messages
    assert message.startswith("lowering changes the outputs of this network (relative error ")
    assert message.endswith("), which is tuned as TVM lowers it: please report it")


@pytest.mark.usefixtures("here")
def test_a_lowering_that_cannot_be_run_is_wrong(mod, monkeypatch, caplog):
    monkeypatch.setattr(network, "FAST_MATH", {"relax.nn.relu": unknown_function})
    assert find(mod) is False
    assert "no_such_function" in caplog.text


@pytest.mark.usefixtures("here")
def test_integers_must_match_exactly(monkeypatch):
    def off_by_one(blocks, call):
        return blocks.call_te(lambda x, y: topi.add(topi.add(x, y), 1), *call.args)

    weight = relax.const(np.full((64, 8), 100, "int8"))
    mod = network_of(
        lambda x: relax.op.matmul(x, weight, out_dtype="int32"),
        lambda x: relax.op.add(x, relax.const(1 << 20, "int32")),
        shape=(4, 64),
        dtype="int8",
    )
    assert find(mod) is True
    monkeypatch.setattr(network, "FAST_MATH", {"relax.add": off_by_one})
    assert find(mod) is False


@pytest.mark.usefixtures("here")
def test_it_ends_in_time(mod, broken, monkeypatch, caplog):
    broken("fast_math")
    monkeypatch.setattr(verification, "_SECONDS", -1.0)
    with caplog.at_level(logging.INFO):
        assert find(mod) is None
    assert "was not verified before tuning: it takes too long" in caplog.text


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
    assert find(mod) is True
    assert sizes == [workers]


def test_a_network_is_lowered_as_tvm_does_it(mod, broken):
    broken(*BREAKS)
    assert_same(build(lower(mod, cpu(), as_imported=True), cpu()), mod)


def assert_same(executable, mod):
    """Of a network, and as imported."""
    executables = [executable, build(lower_as_imported(mod, cpu()), cpu())]
    actual, expected = outputs(executables, random_inputs(mod))
    np.testing.assert_allclose(actual[0], expected[0], rtol=1e-3, atol=1e-4)


def assert_compiled_right(database, target=None):
    mod = convolution()
    assert_same(compile_network(mod, None, target or cpu(), database), mod)


@pytest.mark.usefixtures("here", "two_rounds")
def test_tuning_and_all_that_uses_its_result_lower_a_network_as_tvm_does_it_if_ours_is_wrong(
    mod, broken, tmp_path, caplog
):
    broken("fast_math")
    result = tune_module(mod, None, tmp_path, 4)
    assert result.comparison.outputs_match
    assert [message for message in caplog.messages if "as TVM lowers it" in message]
    assert False in verified_networks(result.best_file).values()
    caplog.clear()
    assert tune_module(mod, None, tmp_path, 6, evaluate=False).measured == 2
    opened = open_database(result.best_file)
    for database in (tmp_path, result.best_file, opened):
        assert_compiled_right(database)
    assert_compiled_right(result.best_file, cpu(64))  # as on another machine
    comparison = compare_logs(mod, None, cpu(), [tmp_path, result.best_file])
    assert comparison.outputs_match
    assert len(comparison.operators) == len(result.rows)
    said = caplog.text
    # neither verified again nor without a record
    assert not any(word in said for word in ("as TVM lowers it", "verified", "no record"))
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
    monkeypatch.setattr(f"{tuning}.verifying", lambda *_: nullcontext(lambda: False))
    monkeypatch.setattr(f"{tuning}.NetworkRun", kill)
    with pytest.raises(ChildProcessError):
        tune_module(mod, None, tmp_path, 4)
    assert False in verified_networks(tmp_path).values()


@pytest.mark.usefixtures("two_rounds")
def test_each_log_is_compared_as_it_was_lowered(mod, tmp_path, monkeypatch, caplog):
    """Of one, verification may have taken too long."""
    for name, found in (("few", None), ("all", False)):
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


def test_a_network_of_large_weights_is_not_verified(mod, monkeypatch, caplog):
    monkeypatch.setattr(verification, "_MAX_BYTES", 100)
    with caplog.at_level(logging.INFO):
        assert find(mod) is None
    assert "its weights of 0.0 GB would be in memory several times" in caplog.text


@pytest.mark.usefixtures("here")
def test_a_network_without_a_finite_output_is_not_verified(caplog):
    """Anything would equal it."""
    mod = network_of(relax.op.abs, relax.op.negative, relax.op.sqrt)
    with caplog.at_level(logging.INFO):
        assert find(mod) is None
    assert "on random inputs, no output has a finite number" in caplog.text


def test_a_network_without_trials_to_make_is_not_verified(verified, tmp_path):
    tune_operator(tmp_path, 2)
    (tmp_path / "best" / "verified.json").unlink()  # as of an earlier version
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
    assert evaluate_network(mod, lowered, cpu(), database_with([]), None).outputs_match


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
    (Path(best) / "verified.json").write_text(json.dumps([key, False]))
    assert missing() == before


def test_a_lowering_that_ends_the_process_is_wrong(mod, monkeypatch, caplog):
    def run(folder, target, lowering):
        if lowering is lower:
            os.kill(os.getpid(), signal.SIGFPE)
        return [np.ones(3)]

    monkeypatch.setattr(verification, "_run", run)
    assert find(mod) is False
    assert "(the worker process died), which is tuned as TVM lowers it" in caplog.text
