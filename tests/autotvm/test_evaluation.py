"""Networks as they are built to be compared: in layouts that are right."""

import platform

import numpy as np
import pytest
import tvm
from instant_measuring import instant
from small_networks import TARGET, two_layers
from tvm import autotvm, relay

from autotvm_opevo.autotvm import compare_logs, evaluation, tune_network
from autotvm_opevo.autotvm.folding import fold


def after_convolution(operator):
    """An operator, of an image with 16 channels that a convolution has computed."""
    x = relay.var("x", shape=(1, 3, 8, 8))
    weight = np.random.default_rng(0).standard_normal((16, 3, 3, 3)).astype("float32")
    y = relay.nn.conv2d(x, relay.const(weight), channels=16, kernel_size=(3, 3), padding=(1, 1))
    return tvm.IRModule.from_expr(relay.Function([x], operator(y)))


def normalize(x):
    """Each pixel, over its channels."""
    variance = relay.variance(x, (1,), keepdims=True)
    return (x - relay.mean(x, (1,), keepdims=True)) / relay.sqrt(variance + relay.const(1e-5))


WRONG = {
    "changes the outputs, relative error": normalize,
    "building the untuned network: ": lambda x: relay.topk(x, k=3, axis=1, ret_type="values"),
}


@pytest.fixture
def networks(monkeypatch):
    """The outputs of the networks that are compared."""
    outputs = []

    def compare(before, after, dtypes):
        outputs.extend(load().outputs() for load in (before, after))

    monkeypatch.setattr(evaluation, "compare_with_untuned", compare)
    return outputs


@pytest.mark.parametrize("reason", WRONG)
def test_where_layouts_are_converted_wrong_networks_are_compared_as_imported(
    networks, tmp_path, caplog, reason
):
    mod = fold(after_convolution(WRONG[reason]), None)
    (tmp_path / "best.json").touch()
    evaluation.evaluate_network(mod, TARGET, tmp_path / "best.json", autotvm.LocalRunner())
    inputs = evaluation.random_inputs(mod)
    with autotvm.apply_history_best([]), tvm.transform.PassContext(opt_level=0):
        exact = relay.build(mod, TARGET)
    (expected,) = evaluation.Instance(exact, tvm.cpu(), inputs).outputs()
    for (actual,) in networks:
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3)
    assert reason in caplog.text
    assert "disabled_pass=['AlterOpLayout']" in caplog.text


def test_inputs_may_be_called_as_parameters_of_tvms_functions():
    x, y = (relay.var(name, shape=(4,)) for name in ("key", "value"))
    unused = relay.var("unused", shape=(4,))
    mod = fold(tvm.IRModule.from_expr(relay.Function([x, y, unused], x + y)), None)
    inputs = evaluation.random_inputs(mod)
    (actual,) = evaluation.Instance(evaluation.build(mod, TARGET), tvm.cpu(), inputs).outputs()
    np.testing.assert_array_equal(actual, inputs["key"] + inputs["value"])


def test_usual_networks_are_built_twice(networks, tmp_path, monkeypatch, caplog):
    built = []
    build = evaluation.build
    monkeypatch.setattr(
        evaluation, "build", lambda *arguments: built.append(arguments) or build(*arguments)
    )
    (tmp_path / "best.json").touch()
    mod = fold(two_layers(), None)
    evaluation.evaluate_network(mod, TARGET, tmp_path / "best.json", autotvm.LocalRunner())
    assert len(built) == len(networks) == 2
    assert not caplog.text


@pytest.mark.skipif(platform.machine() != "x86_64", reason="division by zero ends no process")
def test_a_network_that_divides_by_zero_is_tuned_but_not_compared(tmp_path):
    x, n = relay.var("x", shape=(1, 64)), relay.var("n", shape=(64,), dtype="int32")
    quotients = relay.cast(relay.floor_divide(relay.const(7), n), "float32")
    y = relay.nn.dense(x, relay.const(np.ones((64, 64), "float32"))) + quotients
    mod = tvm.IRModule.from_expr(relay.Function([x, n], y))
    log = tmp_path / "log.json"
    result = tune_network(mod, {}, TARGET, log, trials=2, measure_option=instant())
    assert "network ends the process that runs it on random integers" in result.comparison_error
    assert result.best_file.read_text()
    with pytest.raises(RuntimeError, match="the untuned network ends the process that runs it"):
        compare_logs(mod, {}, TARGET, [log])


def test_a_network_of_integers_runs_alone_before_it_is_compared(tmp_path, monkeypatch):
    alone = []
    monkeypatch.setattr(evaluation, "run_alone", lambda kind, *_: alone.append(kind))
    x = relay.var("x", shape=(1, 64))
    scores = relay.nn.dense(x, relay.const(np.eye(64, dtype="float32")))
    mod = fold(tvm.IRModule.from_expr(relay.Function([x], relay.argmax(scores, axis=1))), None)
    (tmp_path / "best.json").touch()
    comparison = evaluation.evaluate_network(
        mod, TARGET, tmp_path / "best.json", autotvm.LocalRunner()
    )
    assert alone == ["untuned", "tuned"]
    assert comparison.outputs_match
