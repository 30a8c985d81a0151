"""What the runner's worker does for a trial."""

import numpy as np
import pytest

from autotvm_opevo.autotvm import worker as module


class Module:
    """A library whose entry function takes `seconds`, by a clock that only it moves."""

    entry_name = "f"

    def __init__(self, seconds):
        self.seconds, self.asked = seconds, []

    def time_evaluator(self, name, device, number, repeat, min_repeat_ms, f_preproc):
        self.asked.append((repeat, min_repeat_ms))

        class Results:
            results = tuple(self.seconds * (1 + i / 100) for i in range(repeat))

        return lambda *_: Results


@pytest.mark.parametrize(
    ("seconds", "thresholds", "asked", "costs"),
    [
        (1.0, (), [(1, 50), (2, 50)], 1),  # the first trial of a task
        (0.8, (1.5, 1.1, 0.9), [(2, 1), (1, 50), (2, 50), (3, 50)], 4),
        (1.0, (1.5, 1.1, 0.9), [(2, 1), (1, 50), (2, 50)], 1),
        (1.4, (1.5, 1.1, 0.9), [(2, 1), (1, 50)], 1),
        (1.6, (1.5, 1.1, 0.9), [(2, 1)], 2),
    ],
)
def test_the_slower_a_trial_the_fewer_times_it_is_measured(
    monkeypatch, seconds, thresholds, asked, costs
):
    library = Module(seconds)
    monkeypatch.setattr(module.tvm.runtime, "load_module", lambda file: library)
    measured = module.measure("llvm", "file", [], (1, 3, 50, ""), module.Thresholds(*thresholds))
    assert library.asked == asked
    assert len(measured) == costs
    assert measured[0] == pytest.approx(seconds, rel=0.02)


def test_types_that_numpy_lacks_are_filled_too():
    assert module._random((8,), "bfloat16", True, module.tvm.cpu()).dtype == "bfloat16"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int64"])
def test_random_tensors_have_elements_between_1_and_10(dtype):
    values = module._random((300, 500), dtype, True, module.tvm.cpu()).numpy()
    assert values.shape == (300, 500)
    assert values.dtype == dtype
    assert values.min() >= 1
    assert values.max() <= 10
    assert len(np.unique(values)) >= 9


def test_tensors_of_the_last_trial_are_kept():
    tensors = [((4, 4), "float32", True), ((2,), "int32", True)]
    first = module._arguments(tensors, module.tvm.cpu())
    assert module._arguments(tensors, module.tvm.cpu()) is first
    other = module._arguments([((4, 5), "float32", True)], module.tvm.cpu())
    assert other[0].shape == (4, 5)
    assert module._arguments(tensors, module.tvm.cpu()) is not first


def test_given_inputs_are_used():
    given = np.arange(6, dtype="float32").reshape(2, 3)
    (used,) = module._arguments([given], module.tvm.cpu())
    np.testing.assert_array_equal(used.numpy(), given)
