"""The shortcut for the import of TVM's tensor intrinsics."""

import importlib
import inspect

from tvm.s_tir import TensorIntrin

from autotvm_opevo.meta_schedule.intrinsics import _import_system_in_inspect_cache, import_tensor_intrinsics


def test_inspect_knows_the_import_systems_modules_for_the_time_being():
    code = importlib._bootstrap._find_and_load.__code__
    before = dict(inspect.modulesbyfile)
    with _import_system_in_inspect_cache():
        assert inspect.getmodule(code) is importlib._bootstrap
    assert inspect.modulesbyfile == before
    assert inspect.getmodule(code) is None  # once it knows these itself, the shortcut can go


def test_the_intrinsics_are_registered():
    import_tensor_intrinsics()
    assert TensorIntrin.get("dot_4x4_i8i8s32_neon") is not None
