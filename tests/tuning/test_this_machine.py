"""The target of this machine, by what a TVM finds on it and its processor reports."""

import threading
from types import SimpleNamespace

import pytest
from machines import pretend

from autotvm_opevo.tuning import this_machine
from autotvm_opevo.tuning.this_machine import (
    GENERIC_CPUS,
    ThisMachine,
    best_cpu,
    check_cpu,
    check_llvm_cpu,
    missing,
)

FEATURES = {**GENERIC_CPUS, "znver4": {*GENERIC_CPUS["skylake-avx512"], "avx512vnni"}, "": set()}

KNOWN = ["generic", "core-avx2", "znver1", "znver2"]
ZEN4 = {
    *GENERIC_CPUS["skylake-avx512"],
    "sse4a",
    "avx512vnni",
    "avx512bf16",
    "gfni",
    "fast-lzcnt",
    "vzeroupper",
}


class FakeTarget(dict):
    kind = SimpleNamespace(name="llvm")
    keys = ("cpu",)
    from_device = staticmethod(lambda device: f"the target of {device.kind}")
    attrs = property(lambda self: self)


def fake_tvm(*gpus, cpu="znver4"):
    codegen = SimpleNamespace(llvm_get_system_cpu=lambda: cpu, llvm_version_major=lambda: 22)
    codegen.llvm_get_cpu_features = lambda target: FEATURES[target["mcpu"]]
    target = SimpleNamespace(codegen=codegen, Target=FakeTarget)
    device = lambda kind, number: SimpleNamespace(exist=kind in gpus, kind=kind)  # noqa: E731
    return SimpleNamespace(
        device=device,
        target=target,
        get_global_func=lambda name, allow_missing: codegen.llvm_version_major,
        __version__="0.27",
    )


def target_of(tvm):
    return ThisMachine(tvm, None).target()


@pytest.mark.parametrize("gpu", ["cuda", "rocm", "metal"])
def test_a_gpu_comes_before_the_cpu(gpu):
    assert target_of(fake_tvm(gpu)) == f"the target of {gpu}"


@pytest.mark.parametrize("gpu", ["opencl", "vulkan"])
def test_what_may_be_a_slow_substitute_for_a_gpu_is_passed_over(monkeypatch, tmp_path, gpu):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    assert target_of(fake_tvm(gpu)) == "llvm -mcpu=znver4"


def test_the_target_has_the_features_that_the_processor_reports(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")
    assert target_of(fake_tvm()) == "llvm -mcpu=core-avx2"
    pretend(monkeypatch, tmp_path, "cortex_a76")
    assert target_of(fake_tvm()) == "llvm"


def test_a_tvm_without_llvm_is_said_to_have_none():
    tvm = fake_tvm()
    tvm.get_global_func = lambda name, allow_missing: None
    with pytest.raises(RuntimeError, match="built without LLVM: build it with USE_LLVM=ON"):
        target_of(tvm)
    with pytest.raises(RuntimeError, match="built without LLVM"):
        check_llvm_cpu(tvm, FakeTarget(mcpu="znver4"))


def test_a_target_with_instructions_that_the_processor_lacks_is_refused_with_one_that_works(
    monkeypatch, tmp_path
):
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")
    machine = ThisMachine(fake_tvm(), None)
    with pytest.raises(
        ValueError, match=r"lacks .*avx512f, avx512vl, avx512vnni; llvm -mcpu=core-avx2 works"
    ):
        machine.check(FakeTarget(mcpu="znver4"))
    machine.check(FakeTarget(mcpu="core-avx2"))


def test_what_dies_though_the_processor_reports_it_is_said(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    error = ThisMachine(fake_tvm(), None).cannot_run(FakeTarget(mcpu="znver4"))
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
    this = ThisMachine(fake_tvm(), None)
    target = FakeTarget(mcpu="", mtriple=triple)
    if runs:
        this.check(target)
    else:
        with pytest.raises(
            ValueError, match=f"this machine, {machine}, cannot run code for {triple}"
        ):
            this.check(target)


class FakeGpu(FakeTarget):
    keys = ("cuda", "gpu")

    def __init__(self, kind):
        self.kind = SimpleNamespace(name=kind)

    def __str__(self):
        return self.kind.name


@pytest.mark.parametrize("kind", ["cuda", "metal", "opencl", "rocm", "vulkan"])
def test_a_device_that_this_machine_lacks_is_refused(kind):
    ThisMachine(fake_tvm(kind), None).check(FakeGpu(kind))
    with pytest.raises(ValueError, match=f"this machine has no {kind} device"):
        ThisMachine(fake_tvm(), None).check(FakeGpu(kind))


def test_a_gpu_without_a_compiler_is_refused_with_what_is_missing():
    def compile_kernel(target):
        raise FileNotFoundError("No such file or directory: 'nvcc'")

    this = ThisMachine(fake_tvm("cuda", "rocm"), compile_kernel)
    with pytest.raises(RuntimeError, match=r"for cuda: .*'nvcc'; TVM 0.17 needs"):
        this.check_compiler(FakeGpu("cuda"))
    with pytest.raises(RuntimeError, match=r"for rocm: .*'nvcc'; or tune for llvm"):
        this.check_compiler(FakeGpu("rocm"))


def test_a_first_kernel_compiles_in_a_thread_that_ctrl_c_does_not_interrupt():
    threads = []
    this = ThisMachine(fake_tvm("cuda"), lambda target: threads.append(threading.current_thread()))
    this.check_compiler(FakeGpu("cuda"))
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize(("cpu", "known"), [("znver2", KNOWN), ("", KNOWN), ("anything", [])])
def test_known_cpus_and_unknown_lists_are_accepted(cpu, known):
    check_cpu(cpu, known, 10)


def test_error_names_the_cpu_the_version_and_similar_cpus():
    with pytest.raises(ValueError, match=r"LLVM 10 .*'znver9'.*znver2"):
        check_cpu("znver9", KNOWN, 10)


def test_without_similar_cpus_common_ones_are_suggested():
    with pytest.raises(ValueError, match=r"'m1'.*core-avx2 or generic"):
        check_cpu("m1", KNOWN, 10)
    with pytest.raises(ValueError, match="'m1'"):
        check_cpu("m1", ["a64fx"], 10)


def test_a_name_is_taken_only_if_the_processor_reports_all_of_its_instructions(
    monkeypatch, tmp_path
):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    assert best_cpu("znver4", lambda cpu: ZEN4) == "znver4"
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")
    assert best_cpu("znver4", lambda cpu: ZEN4) == "core-avx2"


def test_hidden_instructions_are_named_and_those_for_tuning_are_not(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")
    hidden = [
        "avx512bf16",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512f",
        "avx512vl",
        "avx512vnni",
        "gfni",
    ]
    assert missing(ZEN4) == hidden


@pytest.mark.parametrize(
    ("reported", "implied"),
    [("avx_vnni", ["avxifma", "avxneconvert", "avxvnniint8"]), ("amx_tile", ["amx-fp16"])],
)
def test_what_linux_never_reports_is_not_missing_if_the_processors_name_implies_it(
    monkeypatch, tmp_path, reported, implied
):
    """Of Arrow Lake and Sierra Forest, and of Granite Rapids."""
    monkeypatch.setattr(this_machine, "_CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: avx2 {reported}\n")
    assert missing(implied, implied) == []
    assert missing(implied) == implied  # as of a target that names another processor
    (tmp_path / "cpuinfo").write_text("flags\t\t: avx2\n")
    assert missing(implied, implied) == implied


def test_a_name_that_this_llvm_cannot_tell_the_features_of_is_not_trusted(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    assert best_cpu("znver9", lambda cpu: []) == "skylake-avx512"


@pytest.mark.parametrize("hidden", sorted(GENERIC_CPUS["skylake-avx512"]))
def test_the_best_cpu_has_no_instruction_that_is_hidden(monkeypatch, tmp_path, hidden):
    every = {this_machine._plain(this_machine._ALIASES.get(name, name)) for name in ZEN4}
    alias = this_machine._plain(this_machine._ALIASES.get(hidden, hidden))
    reported = frozenset(every - {alias, this_machine._plain(hidden)})
    monkeypatch.setattr(this_machine, "reported_features", lambda: reported)
    cpu = best_cpu("znver4", lambda cpu: ZEN4)
    assert hidden not in GENERIC_CPUS.get(cpu, ZEN4 if cpu else ())


def test_on_arm_there_is_llvms_name_or_the_baseline(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "cortex_a76")
    features = ["neon", "dotprod", "fullfp16", "lse"]
    assert best_cpu("cortex-a76", lambda cpu: features) == "cortex-a76"
    assert best_cpu("neoverse-v1", lambda cpu: ["neon", "sve"]) == ""


@pytest.mark.parametrize(("system", "cpu"), [("linux", ""), ("darwin", "znver4"), ("win32", "")])
def test_where_nothing_is_reported_it_is_the_baseline_but_on_macos(
    monkeypatch, tmp_path, system, cpu
):
    monkeypatch.setattr(this_machine, "_CPUINFO", tmp_path / "missing")
    monkeypatch.setattr(this_machine.sys, "platform", system)
    assert best_cpu("znver4", lambda cpu: ZEN4) == cpu
    assert missing(ZEN4) == []
