"""The shortcut for the import of TVM's tensor intrinsics."""

import inspect
import runpy
import subprocess
import sys

import pytest
import sketches  # noqa: F401  imports the intrinsics by the shortcut
import tvm_ffi
from tvm.s_tir import TensorIntrin

from autotvm_opevo.meta_schedule.intrinsics import _stacks_without_source

# Prints what is registered by an import of the intrinsics, in the text of TVMScript.
SCRIPT = """
import sys
import tvm_ffi
from tvm.s_tir import TensorIntrin
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
names, register = [], TensorIntrin.register
TensorIntrin.register = staticmethod(lambda name, *rest, **options: names.append(name) or register(name, *rest, **options))
if sys.argv[1] == "shortcut":
    import_tensor_intrinsics()
import tvm.s_tir.tensor_intrin
for name in names:
    found = TensorIntrin.get(name)
    print(name, tvm_ffi.structural_hash(found.desc), tvm_ffi.structural_hash(found.impl))
"""


def test_stacks_have_their_frames_but_no_source_for_the_time_being():
    expected = inspect.stack(0)
    with _stacks_without_source():
        found = inspect.stack()
    assert [(one.frame, one.filename, one.function) for one in found] == [
        (one.frame, one.frame.f_code.co_filename, one.function) for one in expected
    ]
    assert not any(one.code_context for one in found)
    assert inspect.stack()[0].code_context


@pytest.mark.filterwarnings("ignore:.* found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("module", ["x86", "dot_product_common"])
def test_intrinsics_are_those_of_a_plain_import(module, monkeypatch):
    plain = {}
    monkeypatch.setattr(TensorIntrin, "register", lambda name, desc, impl: plain.update({name: (desc, impl)}))
    runpy.run_module(f"tvm.s_tir.tensor_intrin.{module}")
    assert len(plain) >= 2
    for name, (desc, impl) in plain.items():
        shortcut = TensorIntrin.get(name)
        assert tvm_ffi.structural_equal(shortcut.desc, desc)
        assert tvm_ffi.structural_equal(shortcut.impl, impl)


@pytest.mark.soak
def test_all_intrinsics_are_those_of_a_plain_import():
    def registered(way):
        done = subprocess.run([sys.executable, "-c", SCRIPT, way], capture_output=True, text=True, timeout=600, check=True)
        return done.stdout.splitlines()

    plain = registered("plain")
    assert len(plain) > 100
    assert registered("shortcut") == plain
