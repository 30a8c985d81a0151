"""The builder on forked workers, with real builds."""

import errno
import gc
import os
import subprocess
import tempfile
import time
from concurrent.futures import Future

import numpy as np
import pytest
from instant_measuring import TIMEOUT
from small_templates import matmul_task
from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput
from tvm.autotvm.measure.measure_methods import BuildResult
from tvm.autotvm.task.space import InstantiationError

from autotvm_opevo._utils import atomic_files, cpu_cores
from autotvm_opevo.autotvm import LocalBuilder
from autotvm_opevo.autotvm.builder import Build
from autotvm_opevo.autotvm.log import key_of
from autotvm_opevo.tuning.workers import ForkServerError, WorkerPool


@pytest.fixture
def builder():
    builder = LocalBuilder(TIMEOUT, n_parallel=2)
    yield builder
    builder.close()


def inputs(task):
    return [MeasureInput(task.target, task, task.config_space.get(i)) for i in range(3)]


def build(builder, build_func=None, count=3):
    """Build configurations by a function, by default the builder's own."""
    task = matmul_task()
    builder.set_task(task, {})
    builder.build_func = build_func or builder.build_func
    return builder.build(inputs(task)[:count])


def test_there_are_as_many_builds_as_cpus_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(cpu_cores, "_CPUS", {5})
    assert LocalBuilder().n_parallel == 1


def test_builds_what_autotvms_builder_builds(builder):
    task = matmul_task()
    builder.set_task(task, {})
    results = builder.build(inputs(task))
    assert all(result.error is None and os.path.exists(result.filename) for result in results)
    theirs = autotvm.LocalBuilder(TIMEOUT, n_parallel=1)  # each process imports TVM
    theirs.set_task(task, {})
    assert [result.arg_info for result in results] == [
        result.arg_info for result in theirs.build(inputs(task))
    ]


def test_a_configuration_that_the_template_rejects_is_an_instantiation_error(builder):
    def reject(*_):
        return BuildResult(None, None, ("trace", InstantiationError("not this one")), 0.5)

    result = build(builder, reject)[0]
    assert result.error_no == MeasureErrorNo.INSTANTIATION_ERROR
    assert str(result.costs[1]) == "not this one"


def test_a_build_that_crashes_or_takes_too_long_fails_alone():
    def build_one(measured, folder):
        if measured.config.index == 1:
            os.abort()
        if measured.config.index == 2:
            time.sleep(600)
        return BuildResult("file", (), None, 0.1)

    builder = LocalBuilder(timeout=10, n_parallel=3)
    good, crashed, hung = build(builder, build_one)
    builder.close()
    assert good.error is None
    assert crashed.error_no == MeasureErrorNo.COMPILE_HOST
    assert "the worker process died" in crashed.costs[0]
    assert hung.error_no == MeasureErrorNo.BUILD_TIMEOUT
    assert "longer than 10 s" in hung.costs[0]


def test_the_timeout_follows_from_the_builds_seen_of_the_task():
    builder, (measured, *_) = (
        LocalBuilder(timeout=100, adaptive_timeout=True),
        inputs(matmul_task()),
    )
    assert builder._timeout(measured) == 100
    seen = builder._seconds[key_of(measured.target, measured.task)]
    seen += [0.5, 0.5, 0.5]
    assert builder._timeout(measured) == 100  # too few
    seen += [0.5]
    assert builder._timeout(measured) == 3  # the least
    seen[:] = [4.0] * 8
    assert builder._timeout(measured) == pytest.approx(20)
    seen[:] = [60.0] * 8
    assert builder._timeout(measured) == 100  # the user's
    builder.adaptive_timeout = False
    seen[:] = [1.0] * 8
    assert builder._timeout(measured) == 100


def test_until_then_it_follows_from_all_builds_and_doubles_with_each_that_was_late():
    builder, other = LocalBuilder(timeout=100, adaptive_timeout=True), inputs(matmul_task(32))[0]
    (measured, *_) = inputs(matmul_task())
    builder._seconds[key_of(measured.target, measured.task)] += [3.0] * 4
    assert builder._timeout(other) == pytest.approx(15)
    late = Future()
    late.set_exception(TimeoutError())
    for limit in (30, 60, 100):
        assert builder.finish(Build(other, late, 15.0)).error_no == MeasureErrorNo.BUILD_TIMEOUT
        assert builder._timeout(other) == pytest.approx(limit)


def test_where_one_build_after_the_other_is_late_they_get_more_time():
    builder, (measured, *_) = (
        LocalBuilder(timeout=100, adaptive_timeout=True),
        inputs(matmul_task()),
    )
    builder._seconds[key_of(measured.target, measured.task)] += [2.0] * 4
    late, built = Future(), Future()
    late.set_exception(TimeoutError())
    built.set_result(BuildResult("file", (), None, 2.0))
    limits = []
    for _ in range(8):
        builder.finish(Build(measured, late, 10.0))
        limits.append(builder._timeout(measured))
    assert limits == pytest.approx([10, 10, 10, 20, 20, 20, 20, 40])
    builder.finish(Build(measured, built, 40.0))
    assert builder._timeout(measured) == pytest.approx(10)


def test_thousands_of_builds_that_are_late_get_the_user_s_timeout():
    builder, other = LocalBuilder(timeout=100, adaptive_timeout=True), inputs(matmul_task(32))[0]
    (measured, *_) = inputs(matmul_task())
    builder._seconds[key_of(measured.target, measured.task)] += [3.0] * 4
    builder._late[key_of(other.target, other.task)] = 5000
    assert builder._timeout(other) == 100


def test_a_build_costs_the_time_of_the_processor(builder):
    def build_one(measured, folder, **_):
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        time.sleep(1.0)
        return BuildResult("file", (), None, 1.2)

    (built,) = build(builder, build_one, count=1)
    assert 0.15 < built.time_cost < 0.9


def test_that_no_worker_can_be_started_is_no_failure_of_a_configuration(builder):
    builder.executor = WorkerPool("there_is_no_such_module", 2)
    with pytest.raises(ForkServerError):
        build(builder)


@pytest.mark.parametrize("dies", [False, True])
def test_that_the_temporary_folder_is_full_is_no_failure_of_a_configuration(
    builder, monkeypatch, dies
):
    full = OSError(errno.ENOSPC, "No space left on device")

    def build_one(*_):
        if dies:  # as LLVM does
            os.abort()
        return BuildResult(None, None, ("trace", full), 0.5)

    def no_room(folder):
        raise full

    if dies:
        monkeypatch.setattr(atomic_files, "check_writable", no_room)
    with pytest.raises(OSError, match="No space left on device"):
        build(builder, build_one)


def test_files_of_the_last_batch_are_removed(builder):
    first, *_ = build(builder)
    second, *_ = build(builder)
    assert not os.path.exists(first.filename)
    builder.close()
    assert not os.path.exists(second.filename)
    assert np.isfinite(second.time_cost)


def test_what_a_build_writes_in_between_is_where_it_is_removed(builder):
    """A build that is killed removes nothing itself."""

    def build_one(*_, **__):
        return BuildResult(tempfile.mkdtemp(), (), None, 0.1)

    (built, *_) = build(builder, build_one)
    assert os.path.dirname(built.filename) == builder.tmp_dir


def test_what_the_linker_of_a_killed_build_leaves_behind_is_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)

    def hang_while_linking(*_, **__):
        subprocess.run(["sh", "-c", 'touch "${TMPDIR:-/tmp}/ccLINK.res" && sleep 600'])

    builder = LocalBuilder(1.0, n_parallel=1)
    (result, *_) = build(builder, hang_while_linking, count=1)
    assert result.error_no == MeasureErrorNo.BUILD_TIMEOUT
    assert os.listdir(builder.tmp_dir) == ["ccLINK.res"]
    builder.close()
    assert not list(tmp_path.iterdir())


def test_what_was_built_is_removed_though_nobody_closes_the_builder():
    builder = LocalBuilder(TIMEOUT, n_parallel=1)
    (result, *_) = build(builder)
    assert os.path.exists(result.filename)
    folder = builder.tmp_dir
    builder.executor.close()
    del builder
    gc.collect()
    assert not os.path.exists(folder)
