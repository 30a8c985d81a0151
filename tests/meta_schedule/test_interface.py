"""What this package relies on in TVM: a newer one that changes it fails here, by name."""

import inspect

import pytest
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.builder import PyBuilder
from tvm.s_tir.meta_schedule.runner import PyRunner
from tvm.s_tir.meta_schedule.search_strategy import PySearchStrategy
from tvm.s_tir.meta_schedule.task_scheduler import PyTaskScheduler

from autotvm_opevo.meta_schedule import LocalBuilder, LocalRunner, OpEvoStrategy
from autotvm_opevo.meta_schedule.task_scheduler import CallbackScheduler

IMPLEMENTED = [
    (PySearchStrategy, OpEvoStrategy),
    (PyBuilder, LocalBuilder),
    (PyRunner, LocalRunner),
    (PyTaskScheduler, CallbackScheduler),
]


def parameters(function):
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize(("interface", "derived"), IMPLEMENTED, ids=lambda one: one.__name__)
def test_tvm_calls_a_class_as_it_is_implemented(interface, derived):
    ours = derived._cls  # without TVM's wrapper
    methods = inspect.getmembers(interface, inspect.isfunction)
    called = {name: method for name, method in methods if hasattr(ours, name) and name != "__init__"}
    assert called
    for name, method in called.items():
        assert parameters(getattr(ours, name)) == parameters(method), name


def test_no_kind_of_sampling_is_unknown():
    kinds = {name for name in dir(Schedule) if name.startswith("sample_")}
    left_alone = {"sample_partitioned_tile"}  # stays as in the sketch
    assert kinds - left_alone == {"sample_categorical", "sample_perfect_tile", "sample_compute_location"}
