"""The paper's operators have the paper's spaces and compute correct results."""

import math

import numpy as np
import pytest
import tvm
from tvm.autotvm.task.space import AnnotateSpace, OtherOptionSpace, ReorderSpace, SplitSpace

from benchmarks import library, operators

CPU = "llvm -mcpu=core-avx2"
SIZES = {
    "MM1": 4_152_720,
    "MM2": 6_606_600,
    "MM3": 5_725_720,
    "BMM1": 10_160_640,
    "BMM2": 10_160_640,
    "BMM3": 11_289_600,
    "C1": 1_032_192,
    "C2": 22_579_200,
}
# On a CPU, with templates of this package, and of each template some, also of odd extents.
OWN = sorted(operators._CPU.keys() - operators.TOPI.keys() - operators.TOPI_HELD_OUT.keys())
OF_EACH_TEMPLATE = [
    *("BMM1", "BMM2", "BMM3", "matmul-27x24x35"),
    *("C1", "conv-5x15x10x5x1x2"),
    *("splits-64", "registers-64", "matmul-512"),
]
FLOP = {
    "MM1": 2 * 512 * 1024 * 1024,
    "BMM1": 2 * 960 * 128 * 128 * 64,
    "BMM3": 2 * 960 * 128 * 64 * 128,
}


def size(task):
    return math.prod(map(len, task.config_space.space_map.values()))


@pytest.mark.parametrize("name", SIZES)
def test_a_space_on_cuda_has_the_paper_s_size(name):
    task = operators.task(name, "cuda -arch=sm_90")
    assert size(task) == SIZES[name]
    assert task.flop == FLOP.get(name, task.flop)


def test_operators_on_a_cpu_cover_every_kind_of_knob():
    assert set(operators.names("cuda")) == set(SIZES) <= set(operators.names(CPU))
    spaces = [operators.task(name, CPU).config_space.space_map for name in SIZES]
    kinds = [set(map(type, space.values())) for space in spaces]
    assert all({SplitSpace, ReorderSpace, OtherOptionSpace} <= of for of in kinds)
    assert any(AnnotateSpace in of for of in kinds)


@pytest.mark.parametrize("name", [*operators.TOPI, *operators.TOPI_HELD_OUT])
def test_a_space_of_topi_is_small_enough_to_record(name):
    task = operators.task(name, CPU)
    assert task.name.endswith(".x86")
    assert 100 <= size(task) <= 1000


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 2) for name in OF_EACH_TEMPLATE),
        *(pytest.param(name, 16, marks=pytest.mark.soak) for name in OWN),
    ],
)
def test_random_configurations_on_a_cpu_are_correct(name, count):
    """As the default schedule; a kernel that writes nothing leaves NaN."""
    task = operators.task(name, CPU)
    rng = np.random.default_rng(0)
    with task.target:
        _, tensors = task.instantiate(task.config_space.get(0))
    arrays = [
        tvm.nd.array(rng.standard_normal([int(e) for e in tensor.shape], dtype="float32"))
        for tensor in tensors
    ]
    tvm.build(tvm.te.create_schedule(tensors[-1].op), tensors, "llvm")(*arrays)
    expected = arrays[-1].numpy()
    for index in rng.integers(size(task), size=count):
        config = task.config_space.get(int(index))
        arrays[-1].copyfrom(np.full_like(expected, np.nan))
        with task.target:
            schedule, tensors = task.instantiate(config)
            if not config.valid():
                assert name.startswith("registers")
                continue
            tvm.build(schedule, tensors)(*arrays)
        np.testing.assert_allclose(arrays[-1].numpy(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("name", "transposed"), [("BMM1", "NN"), ("BMM2", "TN"), ("BMM3", "NT")])
def test_batch_matmul_multiplies_as_numpy_does(name, transposed):
    task = operators.task(name, CPU)
    with task.target:
        schedule, tensors = task.instantiate(task.config_space.get(1))
        function = tvm.build(schedule, tensors)
    x, y, z = [
        tvm.nd.array(
            np.random.default_rng(0).random([int(e) for e in tensor.shape], dtype="float32")
        )
        for tensor in tensors
    ]
    function(x, y, z)
    left, right = (
        a.numpy().swapaxes(1, 2) if t == "T" else a.numpy() for a, t in zip((x, y), transposed)
    )
    np.testing.assert_allclose(z.numpy(), left @ right, rtol=1e-5)


@pytest.mark.parametrize(("name", "available"), [("MM1", True), ("BMM3", True), ("C1", False)])
def test_the_library_on_a_cpu_is_numpy(name, available):
    tflops = library.tflops(operators.task(name, CPU))
    assert (tflops is not None and tflops > 0) == available


def test_tiles_too_large_for_the_registers_are_rejected():
    task = operators.task("registers-64", CPU)
    configs = [task.config_space.get(index) for index in range(0, size(task), 997)]
    for config in configs:
        with task.target:
            task.instantiate(config)
    assert {config.valid() for config in configs} == {True, False}


@pytest.mark.soak
@pytest.mark.parametrize("name", SIZES)
def test_gpu_configurations_can_be_lowered_without_a_gpu(name):
    task, errors = operators.task(name, "cuda -arch=sm_90"), []
    for index in np.random.default_rng(0).integers(size(task), size=40):
        with task.target:
            schedule, tensors = task.instantiate(task.config_space.get(int(index)))
            try:
                tvm.lower(schedule, tensors)
            except tvm.TVMError as error:
                errors.append(str(error))
    assert len(errors) < 20
    # TOPI's dense double-buffers its loads even if no loop is left
    assert all("Double buffer scope must be inside a loop" in error for error in errors)


def test_an_unknown_operator_is_an_error():
    with pytest.raises(ValueError, match=r"operator must be one of MM1, .*'MM9' given"):
        operators.task("MM9", "cuda")
