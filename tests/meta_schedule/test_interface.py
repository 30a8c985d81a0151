"""The interfaces of TVM that this package implements: a newer TVM that changes one fails here, by name."""

import inspect

import pytest
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.builder import PyBuilder
from tvm.s_tir.meta_schedule.measure_callback import PyMeasureCallback
from tvm.s_tir.meta_schedule.runner import PyRunner
from tvm.s_tir.meta_schedule.search_strategy import PySearchStrategy
from tvm.s_tir.meta_schedule.task_scheduler import PyTaskScheduler

from autotvm_opevo.meta_schedule import LocalBuilder, LocalRunner, OpEvoStrategy
from autotvm_opevo.meta_schedule.callbacks import ProgressCallback
from autotvm_opevo.meta_schedule.task_scheduler import CallbackScheduler

IMPLEMENTED = [
    (PySearchStrategy, OpEvoStrategy),
    (PyBuilder, LocalBuilder),
    (PyRunner, LocalRunner),
    (PyMeasureCallback, ProgressCallback),
]


def parameters(function):
    return len(inspect.signature(function).parameters)


@pytest.mark.parametrize(("interface", "derived"), IMPLEMENTED, ids=lambda one: one.__name__)
def test_every_method_that_tvm_calls_is_implemented_with_its_parameters(interface, derived):
    ours = vars(derived._cls)  # without TVM's wrapper, and without what is inherited
    for name in interface._tvm_metadata["methods"]:
        assert name in ours
        assert parameters(ours[name]) == parameters(getattr(interface, name)), name


def test_tvm_calls_the_task_scheduler_s_methods():
    ours = vars(CallbackScheduler._cls)
    called = [name for name in PyTaskScheduler._tvm_metadata["methods"] if name in ours]
    assert "next_task_id" in called
    for name in called:
        assert parameters(ours[name]) == parameters(getattr(PyTaskScheduler, name)), name


def test_no_kind_of_sampling_is_unknown():
    kinds = {name for name in dir(Schedule) if name.startswith("sample_")}
    left_alone = {"sample_partitioned_tile"}  # stays as in the sketch
    assert kinds - left_alone == {"sample_categorical", "sample_perfect_tile", "sample_compute_location"}
