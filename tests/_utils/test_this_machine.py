"""The target of this machine, by what a TVM finds on it."""

from types import SimpleNamespace

import pytest

from autotvm_opevo._utils import this_machine
from autotvm_opevo._utils.this_machine import check_triple, local_target


def fake_tvm(*gpus, cpu="znver3"):
    device = lambda kind, number: SimpleNamespace(exist=kind in gpus, kind=kind)  # noqa: E731
    target = SimpleNamespace(codegen=SimpleNamespace(llvm_get_system_cpu=lambda: cpu), Target=SimpleNamespace())
    target.Target.from_device = lambda device: f"the target of {device.kind}"
    return SimpleNamespace(device=device, target=target)


def test_a_gpu_comes_before_the_cpu():
    assert local_target(fake_tvm("cuda")) == "the target of cuda"


def test_without_a_gpu_it_names_the_cpu():
    assert local_target(fake_tvm()) == "llvm -mcpu=znver3"


@pytest.mark.parametrize("gpu", ["opencl", "vulkan"])
def test_what_may_be_a_slow_substitute_for_a_gpu_is_passed_over(gpu):
    assert local_target(fake_tvm(gpu)) == "llvm -mcpu=znver3"


@pytest.mark.parametrize(
    ("machine", "triple", "runs"),
    [
        ("x86_64", "", True),
        ("x86_64", "x86_64-unknown-linux-gnu", True),
        ("AMD64", "i686-pc-windows", True),
        ("x86_64", "aarch64-linux-gnu", False),
        ("arm64", "aarch64-linux-gnu", True),
        ("aarch64", "armv7l-linux-gnueabihf", True),
        ("aarch64", "x86_64-linux-gnu", False),
        ("x86_64", "riscv64-linux-gnu", False),
        ("ppc64le", "powerpc64le-linux-gnu", True),
    ],
)
def test_code_of_another_architecture_does_not_run_here(monkeypatch, machine, triple, runs):
    monkeypatch.setattr(this_machine.platform, "machine", lambda: machine)
    if runs:
        check_triple(triple)
    else:
        with pytest.raises(ValueError, match=f"this machine, {machine}, cannot run code for {triple}"):
            check_triple(triple)
