"""The target of this machine, by what a TVM finds on it and by what has run."""

import json
from types import SimpleNamespace

import pytest
from machines import pretend

from autotvm_opevo._utils.target_cpu import GENERIC_CPUS
from autotvm_opevo.tuning import this_machine
from autotvm_opevo.tuning.this_machine import ThisMachine

FEATURES = {**GENERIC_CPUS, "znver4": {*GENERIC_CPUS["skylake-avx512"], "avx512vnni"}, "": set()}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class FakeTarget(dict):
    from_device = staticmethod(lambda device: f"the target of {device.kind}")
    attrs = property(lambda self: self)


def fake_tvm(*gpus, cpu="znver4"):
    codegen = SimpleNamespace(llvm_get_system_cpu=lambda: cpu, llvm_version_major=lambda: 22)
    codegen.llvm_get_cpu_features = lambda target: FEATURES[target["mcpu"]]
    target = SimpleNamespace(codegen=codegen, Target=FakeTarget)
    device = lambda kind, number: SimpleNamespace(exist=kind in gpus, kind=kind)  # noqa: E731
    return SimpleNamespace(device=device, target=target, __version__="0.27")


class FirstKernel:
    """What runs on a machine: operations per second by target; those without die."""

    def __init__(self, **flops):
        self.flops = {
            "llvm" if cpu == "baseline" else f"llvm -mcpu={cpu.replace('_', '-')}": one
            for cpu, one in flops.items()
        }
        self.tried = []

    def __call__(self, target):
        self.tried.append(target)
        if target not in self.flops:
            raise ChildProcessError("the worker process died")
        return self.flops[target]


def target_of(tvm, measure_flops):
    return ThisMachine(tvm, measure_flops).target()


@pytest.mark.parametrize("gpu", ["cuda", "rocm", "metal"])
def test_a_gpu_comes_before_the_cpu(gpu):
    assert target_of(fake_tvm(gpu), FirstKernel()) == f"the target of {gpu}"


@pytest.mark.parametrize("gpu", ["opencl", "vulkan"])
def test_what_may_be_a_slow_substitute_for_a_gpu_is_passed_over(monkeypatch, tmp_path, gpu):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    assert target_of(fake_tvm(gpu), FirstKernel(znver4=2e11, core_avx2=1e11)) == "llvm -mcpu=znver4"


@pytest.mark.parametrize(
    ("wide", "chosen"),
    [(2e11, "znver4"), (1.15e11, "znver4"), (1.05e11, "core-avx2"), (0.8e11, "core-avx2")],
)
def test_wide_vectors_are_taken_if_they_are_faster(monkeypatch, tmp_path, wide, chosen):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    assert target_of(fake_tvm(), FirstKernel(znver4=wide, core_avx2=1e11)) == f"llvm -mcpu={chosen}"


def test_where_a_first_kernel_dies_a_target_with_fewer_instructions_is_taken_and_that_is_said(
    monkeypatch, tmp_path, caplog
):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    assert target_of(fake_tvm(), FirstKernel(core_avx2=1e11)) == "llvm -mcpu=core-avx2"
    assert [record.args[0] for record in caplog.records] == [
        "llvm -mcpu=znver4",
        "llvm -mcpu=skylake-avx512",
    ]
    assert "cannot run code for" in caplog.text


def test_where_nothing_runs_that_is_an_error(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "x86_64_v2_vm")
    with pytest.raises(RuntimeError, match="cannot run what TVM compiles"):
        target_of(fake_tvm(), FirstKernel())


def test_what_cannot_be_measured_is_taken_as_reported(monkeypatch, tmp_path, caplog):
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")

    def busy(target):
        raise TimeoutError("took longer than 60 seconds")

    assert target_of(fake_tvm(), busy) == "llvm -mcpu=core-avx2"
    assert "took longer than 60 seconds" in caplog.text


def test_what_was_found_is_remembered_for_this_processor_and_this_tvm(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    first = FirstKernel(znver4=1e11, core_avx2=1e11)
    assert target_of(fake_tvm(), first) == "llvm -mcpu=core-avx2"
    again = FirstKernel(znver4=9e11, core_avx2=1e11)
    assert target_of(fake_tvm(), again) == "llvm -mcpu=core-avx2"
    assert (bool(first.tried), again.tried) == (True, [])
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")
    assert target_of(fake_tvm(), again) == "llvm -mcpu=core-avx2"
    assert again.tried == ["llvm -mcpu=core-avx2"]


@pytest.mark.parametrize("content", [b"\xff\x00 {torn", b'{"machine": 3}\n[]\n"text"\n'])
def test_a_damaged_memory_is_no_obstacle(monkeypatch, tmp_path, content):
    pretend(monkeypatch, tmp_path, "ryzen_5_3600_zen2")
    (tmp_path / "cache" / "autotvm_opevo").mkdir(parents=True)
    (tmp_path / "cache" / "autotvm_opevo" / "targets.jsonl").write_bytes(content)
    for _ in range(2):
        assert (
            target_of(fake_tvm(cpu="generic"), FirstKernel(core_avx2=1e11))
            == "llvm -mcpu=core-avx2"
        )
    last = (
        (tmp_path / "cache" / "autotvm_opevo" / "targets.jsonl")
        .read_text(errors="replace")
        .splitlines()[-1]
    )
    assert json.loads(last)["target"] == "llvm -mcpu=core-avx2"


def test_a_cache_folder_that_cannot_be_written_is_no_obstacle(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "ryzen_5_3600_zen2")
    (tmp_path / "cache").write_text("a file")
    assert target_of(fake_tvm(cpu="generic"), FirstKernel(core_avx2=1e11)) == "llvm -mcpu=core-avx2"


def test_a_target_with_instructions_that_the_processor_lacks_is_refused_with_one_that_works(
    monkeypatch, tmp_path
):
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")
    machine = ThisMachine(fake_tvm(), FirstKernel(core_avx2=1e11))
    with pytest.raises(
        ValueError, match=r"lacks .*avx512f, avx512vl, avx512vnni; llvm -mcpu=core-avx2 works"
    ):
        machine.check(FakeTarget(mcpu="znver4"))
    machine.check(FakeTarget(mcpu="core-avx2"))


def test_what_dies_though_the_processor_reports_it_is_named_too(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    this = ThisMachine(fake_tvm(), FirstKernel(core_avx2=1e11))
    error = this.cannot_run(FakeTarget(mcpu="znver4"))
    assert (
        "lacks adx, avx512bw, avx512cd, avx512dq, avx512f, avx512vl, avx512vnni; llvm "
        "-mcpu=core-avx2 works" in str(error)
    )
    error = this.cannot_run(FakeTarget(mcpu="core-avx2"))
    assert "a first kernel failed, which reads 256 MB" in str(error)


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
    this, target = ThisMachine(fake_tvm(), FirstKernel()), FakeTarget(mcpu="", mtriple=triple)
    if runs:
        this.check(target)
    else:
        with pytest.raises(
            ValueError, match=f"this machine, {machine}, cannot run code for {triple}"
        ):
            this.check(target)
