"""The interfaces of TVM that this package implements: a newer TVM that changes one fails here, by
name.
"""

import inspect

import pytest
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.builder import PyBuilder
from tvm.s_tir.meta_schedule.runner import PyRunner
from tvm.s_tir.meta_schedule.search_strategy import PySearchStrategy

from autotvm_opevo.meta_schedule import LocalBuilder, LocalRunner, OpEvoStrategy

IMPLEMENTED = [
    (PySearchStrategy, OpEvoStrategy),
    (PyBuilder, LocalBuilder),
    (PyRunner, LocalRunner),
]


def parameters(function):
    return len(inspect.signature(function).parameters)


@pytest.mark.parametrize(("interface", "derived"), IMPLEMENTED, ids=lambda one: one.__name__)
def test_every_method_that_tvm_calls_is_implemented_with_its_parameters(interface, derived):
    ours = vars(derived._cls)  # without TVM's wrapper, and without what is inherited
    for name in interface._tvm_metadata["methods"]:
        assert name in ours
        assert parameters(ours[name]) == parameters(getattr(interface, name)), name


def test_no_kind_of_sampling_is_unknown():
    kinds = {name for name in dir(Schedule) if name.startswith("sample_")}
    left_alone = {"sample_partitioned_tile"}  # stays as in the sketch
    assert kinds - left_alone == {
        "sample_categorical",
        "sample_perfect_tile",
        "sample_compute_location",
    }
