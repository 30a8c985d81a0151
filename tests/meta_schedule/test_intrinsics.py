"""The shortcut for the import of TVM's tensor intrinsics."""

import inspect
import json
import runpy
import subprocess
import sys

import pytest
import sketches  # noqa: F401  imports the intrinsics by the shortcut
import tvm
import tvm_ffi
from tvm import te
from tvm.s_tir import Schedule, TensorIntrin
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import TuningRecord

from autotvm_opevo.meta_schedule import as_target, open_database
from autotvm_opevo.meta_schedule.intrinsics import _stack

# Prints what is registered by an import of the intrinsics, in the text of TVMScript.
SCRIPT = """
import sys
import tvm_ffi
from tvm.s_tir import TensorIntrin
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
names, register = [], TensorIntrin.register
def record(name, *rest, **options):
    names.append(name)
    return register(name, *rest, **options)
TensorIntrin.register = staticmethod(record)
if sys.argv[1] == "shortcut":
    import_tensor_intrinsics()
import tvm.s_tir.tensor_intrin
for name in names:
    found = TensorIntrin.get(name)
    print(name, tvm_ffi.structural_hash(found.desc), tvm_ffi.structural_hash(found.impl))
"""

# Imports this package, and opens databases in a new process: one with TVM, and all with this
# package.
OPEN = """
import inspect, sys
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import JSONDatabase
def replaceable():
    module = vars(ms.builder.local_builder)
    return inspect.getmodule, module["default_build"], module["LocalBuilder"]
def intrinsics():
    return "tvm.s_tir.tensor_intrin" in sys.modules
before = replaceable()
from autotvm_opevo.meta_schedule import open_database
print(replaceable() == before, intrinsics())
try:
    JSONDatabase(work_dir=sys.argv[1])
except Exception as error:
    print("is not registered" in str(error))
for folder in reversed(sys.argv[1:]):
    print(len(open_database(folder)), intrinsics())
"""


# Sketches of a product of integers for a CPU, with its intrinsics only, and then with all, whose
# import is interrupted while the second of them is registered.
SKETCHES = """
import json, os, signal, sys
from tvm import te, topi
from tvm.s_tir import TensorIntrin, meta_schedule as ms
from autotvm_opevo.meta_schedule import as_target
from autotvm_opevo.meta_schedule.intrinsics import few_intrinsics, import_tensor_intrinsics
target = as_target({"kind": "llvm", "num-cores": 2, **json.loads(sys.argv[1])})
a, b = te.placeholder((16, 64), "uint8", "a"), te.placeholder((32, 64), "int8", "b")
product = te.create_prim_func([a, b, topi.nn.dense(a, b, None, "int32")])
def sketches():
    context = ms.TuneContext(
        product, target=target, space_generator="post-order-apply", rand_state=1
    ).clone()
    return [str(sketch.trace) for sketch in context.generate_design_space()]
with few_intrinsics(target):
    few = sketches()
def of_cuda():
    return TensorIntrin.get("wmma_sync_16x16x16_f16f16f32", allow_missing=True) is not None
print("tvm.s_tir.tensor_intrin" in sys.modules, of_cuda())
count, register = 0, TensorIntrin.register
def interrupt(*given, **options):
    global count
    count += 1
    if count == 2:
        os.kill(os.getpid(), signal.SIGINT)
    return register(*given, **options)
TensorIntrin.register = staticmethod(interrupt)
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job ignores
try:
    import_tensor_intrinsics()
    print("imported", count)
except KeyboardInterrupt:
    import_tensor_intrinsics()
    print("interrupted", count > 2)
print(of_cuda(), few == sketches(), any("dot_" in sketch for sketch in few))
"""


def output_of(code, *arguments):
    """The lines that a new process prints."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return done.stdout.splitlines()


def test_stacks_have_their_frames_but_no_source():
    expected, found = inspect.stack(0), _stack()
    assert [(one.frame, one.filename, one.function) for one in found] == [
        (one.frame, one.frame.f_code.co_filename, one.function) for one in expected
    ]
    assert not any(one.code_context for one in found)


@pytest.mark.filterwarnings("ignore:.* found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("module", ["x86", "dot_product_common"])
def test_intrinsics_are_those_of_a_plain_import(module, monkeypatch):
    plain = {}
    monkeypatch.setattr(
        TensorIntrin, "register", lambda name, desc, impl: plain.update({name: (desc, impl)})
    )
    runpy.run_module(f"tvm.s_tir.tensor_intrin.{module}")
    assert len(plain) >= 2
    for name, (desc, impl) in plain.items():
        shortcut = TensorIntrin.get(name)
        assert tvm_ffi.structural_equal(shortcut.desc, desc)
        assert tvm_ffi.structural_equal(shortcut.impl, impl)


@pytest.mark.soak
def test_all_intrinsics_are_those_of_a_plain_import():
    plain = output_of(SCRIPT, "plain")
    assert len(plain) > 100
    assert output_of(SCRIPT, "shortcut") == plain


@pytest.mark.parametrize(
    ("triple", "cpu", "imports_all", "tensorized"),
    [
        ("x86_64-linux-gnu", "cascadelake", False, True),
        pytest.param("x86_64-linux-gnu", "core-avx2", False, False, marks=pytest.mark.soak),
        pytest.param("aarch64-linux-gnu", "cortex-a72", True, False, marks=pytest.mark.soak),
    ],
)
def test_a_cpu_has_the_same_sketches_with_its_own_intrinsics(triple, cpu, imports_all, tensorized):
    """Ctrl-C while the others are imported leaves no half of them, which TVM would refuse when they
    are imported again.
    """
    found = output_of(SKETCHES, json.dumps({"mtriple": triple, "mcpu": cpu}))
    assert found == [
        f"{imports_all} {imports_all}",
        "imported 0" if imports_all else "interrupted True",
        f"True True {tensorized}",
    ]


def with_record(folder, tensorized):
    """A database with one record, of a dot product in VNNI's instruction or in loops."""
    a, b = te.placeholder((4,), "uint8", "a"), te.placeholder((16, 4), "int8", "b")
    k = te.reduce_axis((0, 4), "k")
    c = te.compute(
        (16,), lambda i: te.sum(a[k].astype("int32") * b[i, k].astype("int32"), axis=k), name="c"
    )
    mod = tvm.IRModule({"main": te.create_prim_func([a, b, c])})
    schedule = Schedule(mod)
    block = schedule.get_sblock("c")
    i, _ = schedule.get_loops(block)
    if tensorized:
        schedule.decompose_reduction(block, i)
        schedule.tensorize(i, "dot_16x4_vnni")
    database = open_database(folder)
    workload = database.commit_workload(mod)
    arguments = ArgInfo.from_prim_func(mod["main"])
    database.commit_tuning_record(
        TuningRecord(schedule.trace, workload, [1e-4], as_target("llvm"), arguments)
    )


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """What a new process prints that opens a database with a tensorized record, and one without."""
    folders = [tmp_path_factory.mktemp("database") for _ in range(2)]
    for folder, tensorized in zip(folders, (True, False)):
        with_record(folder, tensorized)
    return output_of(OPEN, *folders)


def test_importing_patches_nothing_and_imports_no_intrinsics(opened):
    assert opened[0] == "True False"


def test_a_database_is_opened_in_a_new_process_which_imports_intrinsics_where_a_record_needs_them(
    opened,
):
    assert opened[1:] == ["True", "1 False", "1 True"]
