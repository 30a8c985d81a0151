"""Modules and weights as Relax's frontends return them: tuned, compared and compiled, or refused
before anything is created.
"""

import numpy as np
import pytest
import tvm
from quick_network_tuning import tune_module
from relax_modules import SHAPES, expected, export, exported_with_values, weights, with_subfunctions
from tvm import relax
from unoptimized import cpu

from autotvm_opevo.meta_schedule import compare_logs, compile_network, lower_for_tuning

X = np.random.default_rng(1).standard_normal((4, 64)).astype("float32")
pytestmark = pytest.mark.usefixtures("two_rounds")


def run(executable, name, *arrays):
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return machine[name](*map(tvm.runtime.tensor, arrays)).numpy()


def test_what_nn_modules_export_is_tuned_compared_and_compiled(tmp_path):
    mod, params = export()[0], exported_with_values()[1]
    result = tune_module(mod, params, tmp_path / "log", 6)
    assert all(row.works for row in result.rows)
    assert result.comparison.outputs_match
    executable = compile_network(mod, params, cpu(), result.best_file)
    np.testing.assert_allclose(run(executable, "forward", X), expected(X), rtol=1e-3, atol=1e-3)
    assert compare_logs(mod, params, cpu(), [result.best_file], time_limit=5).outputs_match


def test_weights_without_values_are_inputs(tmp_path):
    mod, _ = export()
    result = tune_module(mod, None, tmp_path / "log", 6)
    assert result.comparison.outputs_match
    executable = compile_network(mod, None, cpu(), result.best_file)
    np.testing.assert_allclose(
        run(executable, "forward", X, *weights().values()), expected(X), rtol=1e-3, atol=1e-3
    )


def test_private_functions_are_part_of_the_network(tmp_path):
    mod, params = with_subfunctions()
    result = tune_module(mod, params, tmp_path / "log", 6)
    assert all(row.works for row in result.rows)
    assert result.comparison.outputs_match
    x = np.random.default_rng(1).standard_normal((64, 64)).astype("float32")
    first, second = params.values()
    output = run(compile_network(mod, params, cpu(), result.best_file), "main", x)
    np.testing.assert_allclose(
        output, np.maximum(np.maximum(x @ first, 0) @ second, 0), rtol=1e-3, atol=1e-2
    )


REFUSED = {
    "two functions": (
        lambda: export("forward", "half")[0],
        None,
        "mod must have a function main, .* forward, half",
    ),
    "a wrong shape": (
        lambda: export()[0],
        lambda: dict.fromkeys(SHAPES, X),
        r"'first.weight' is .*shape \(4, 64\) given",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_others_are_refused_before_anything_is_created(tmp_path, kind):
    mod, params, message = REFUSED[kind]
    given = mod(), params and params()
    (tmp_path / "log").mkdir()
    for call in (
        lambda: tune_module(*given, tmp_path / "new", 6),
        lambda: compile_network(*given, cpu(), tmp_path / "new"),
        lambda: lower_for_tuning(*given, cpu()),
        lambda: compare_logs(*given, cpu(), [tmp_path / "log"]),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert [(path.name, *path.iterdir()) for path in tmp_path.iterdir()] == [("log",)]
