"""The target of this machine, by what a TVM finds on it and by what has run."""

import json
import threading
from types import SimpleNamespace

import pytest
from machines import pretend

from autotvm_opevo.tuning import this_machine
from autotvm_opevo.tuning.this_machine import (
    GENERIC_CPUS,
    ThisMachine,
    candidate_cpus,
    check_cpu,
    check_llvm_cpu,
    missing,
    reported_features,
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


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


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
    return ThisMachine(tvm, measure_flops, None).target()


@pytest.mark.parametrize("gpu", ["cuda", "rocm", "metal"])
def test_a_gpu_comes_before_the_cpu(gpu):
    assert target_of(fake_tvm(gpu), FirstKernel()) == f"the target of {gpu}"


@pytest.mark.parametrize("gpu", ["opencl", "vulkan"])
def test_what_may_be_a_slow_substitute_for_a_gpu_is_passed_over(monkeypatch, tmp_path, gpu):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    assert target_of(fake_tvm(gpu), FirstKernel(znver4=2e11, core_avx2=1e11)) == "llvm -mcpu=znver4"


@pytest.mark.parametrize(
    ("wide", "chosen"),
    [(2e11, "znver4"), (1.05e11, "znver4"), (0.95e11, "znver4"), (0.8e11, "core-avx2")],
)
def test_wide_vectors_are_taken_unless_they_are_slower(monkeypatch, tmp_path, wide, chosen):
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


def test_a_tvm_without_llvm_is_said_to_have_none():
    tvm = fake_tvm()
    tvm.get_global_func = lambda name, allow_missing: None
    with pytest.raises(RuntimeError, match="built without LLVM: build it with USE_LLVM=ON"):
        target_of(tvm, FirstKernel())
    with pytest.raises(RuntimeError, match="built without LLVM"):
        check_llvm_cpu(tvm, FakeTarget(mcpu="znver4"))


def test_what_cannot_be_measured_is_taken_as_reported(monkeypatch, tmp_path, caplog):
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")

    def busy(target):
        raise TimeoutError("took longer than 60 seconds")

    assert target_of(fake_tvm(), busy) == "llvm -mcpu=core-avx2"
    assert "took longer than 60 seconds" in caplog.text


@pytest.mark.parametrize(("calls", "chosen"), [(1, "znver4"), (2, "core-avx2"), (5, "core-avx2")])
def test_where_the_machine_is_too_busy_to_go_on_what_has_run_is_taken_and_not_remembered(
    monkeypatch, tmp_path, caplog, calls, chosen
):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    quiet = FirstKernel(znver4=0.8e11, core_avx2=1e11)

    def busy(target):
        if len(quiet.tried) == calls:
            raise TimeoutError("took longer than 60 seconds")
        return quiet(target)

    assert target_of(fake_tvm(), busy) == f"llvm -mcpu={chosen}"
    assert "took longer than 60 seconds" in caplog.text
    assert not (tmp_path / "cache").exists()


def test_what_was_found_is_remembered_for_this_processor_and_this_tvm(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    first = FirstKernel(znver4=0.5e11, core_avx2=1e11)
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
    memory = tmp_path / "cache" / "autotvm_opevo" / "targets.jsonl"
    memory.parent.mkdir(parents=True)
    memory.write_bytes(content)
    for _ in range(2):
        assert (
            target_of(fake_tvm(cpu="generic"), FirstKernel(core_avx2=1e11))
            == "llvm -mcpu=core-avx2"
        )
    last = memory.read_text(errors="replace").splitlines()[-1]
    assert json.loads(last)["target"] == "llvm -mcpu=core-avx2"


def test_a_cache_folder_that_cannot_be_written_is_no_obstacle(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "ryzen_5_3600_zen2")
    (tmp_path / "cache").write_text("a file")
    assert target_of(fake_tvm(cpu="generic"), FirstKernel(core_avx2=1e11)) == "llvm -mcpu=core-avx2"


def test_a_target_with_instructions_that_the_processor_lacks_is_refused_with_one_that_works(
    monkeypatch, tmp_path
):
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")
    machine = ThisMachine(fake_tvm(), FirstKernel(core_avx2=1e11), None)
    with pytest.raises(
        ValueError, match=r"lacks .*avx512f, avx512vl, avx512vnni; llvm -mcpu=core-avx2 works"
    ):
        machine.check(FakeTarget(mcpu="znver4"))
    machine.check(FakeTarget(mcpu="core-avx2"))


def test_what_dies_though_the_processor_reports_it_is_named_too(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    this = ThisMachine(fake_tvm(), FirstKernel(core_avx2=1e11), None)
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
    this = ThisMachine(fake_tvm(), FirstKernel(), None)
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
    ThisMachine(fake_tvm(kind), FirstKernel(), None).check(FakeGpu(kind))
    with pytest.raises(ValueError, match=f"this machine has no {kind} device"):
        ThisMachine(fake_tvm(), FirstKernel(), None).check(FakeGpu(kind))


def test_a_gpu_without_a_compiler_is_refused_with_what_is_missing():
    def compile_kernel(target):
        raise FileNotFoundError("No such file or directory: 'nvcc'")

    this = ThisMachine(fake_tvm("cuda", "rocm"), FirstKernel(), compile_kernel)
    with pytest.raises(RuntimeError, match=r"for cuda: .*'nvcc'; TVM 0.17 needs"):
        this.check_compiler(FakeGpu("cuda"))
    with pytest.raises(RuntimeError, match=r"for rocm: .*'nvcc'; or tune for llvm"):
        this.check_compiler(FakeGpu("rocm"))


def test_a_first_kernel_compiles_in_a_thread_that_ctrl_c_does_not_interrupt():
    threads = []
    this = ThisMachine(
        fake_tvm("cuda"), FirstKernel(), lambda target: threads.append(threading.current_thread())
    )
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
    assert candidate_cpus("znver4", lambda cpu: ZEN4)[0] == "znver4"
    pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")
    assert candidate_cpus("znver4", lambda cpu: ZEN4) == ["core-avx2", "sandybridge", "nehalem", ""]


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
    assert candidate_cpus("znver9", lambda cpu: [])[0] == "skylake-avx512"


@pytest.mark.parametrize("hidden", sorted(GENERIC_CPUS["skylake-avx512"]))
def test_no_candidate_has_an_instruction_that_is_hidden(monkeypatch, tmp_path, hidden):
    every = {this_machine._plain(this_machine._ALIASES.get(name, name)) for name in ZEN4}
    alias = this_machine._plain(this_machine._ALIASES.get(hidden, hidden))
    reported = frozenset(every - {alias, this_machine._plain(hidden)})
    monkeypatch.setattr(this_machine, "reported_features", lambda: reported)
    for cpu in candidate_cpus("znver4", lambda cpu: ZEN4):
        assert hidden not in GENERIC_CPUS.get(cpu, ZEN4 if cpu else ())


def test_on_arm_there_is_llvms_name_or_the_baseline(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "cortex_a76")
    assert candidate_cpus("cortex-a76", lambda cpu: ["neon", "dotprod", "fullfp16", "lse"]) == [
        "cortex-a76",
        "",
    ]
    assert candidate_cpus("neoverse-v1", lambda cpu: ["neon", "sve"]) == [""]


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("command", ["true", "there-is-no-such-command"])
def test_where_nothing_is_reported_it_is_the_baseline(monkeypatch, tmp_path, system, command):
    monkeypatch.setattr(this_machine, "_CPUINFO", tmp_path / "missing")
    monkeypatch.setattr(this_machine, "_SYSCTL", (command,))
    monkeypatch.setattr(this_machine.sys, "platform", system)
    assert candidate_cpus("znver4", lambda cpu: ZEN4) == [""]
    assert missing(ZEN4) == []


def test_macos_reports_features_by_sysctl(monkeypatch, tmp_path):
    intel = (
        "machdep.cpu.features: SSE SSE2 SSE3 SSSE3 FMA CX16 SSE4.1 SSE4.2 MOVBE POPCNT AES "
        "XSAVE AVX1.0 RDRAND F16C"
    )
    more = (
        "machdep.cpu.leaf7_features: SMEP ERMS BMI1 AVX2 BMI2 "
        "INVPCID\nmachdep.cpu.extfeatures: SYSCALL XD LAHF LZCNT RDTSCP"
    )
    (tmp_path / "out").write_text(
        f"{intel}\n{more}\nhw.optional.neon: 1\nhw.optional.arm.FEAT_DotProd: "
        "1\nhw.optional.sve: 0\n"
    )
    monkeypatch.setattr(this_machine, "_CPUINFO", tmp_path / "missing")
    monkeypatch.setattr(this_machine, "_SYSCTL", ("cat", str(tmp_path / "out")))
    monkeypatch.setattr(this_machine.sys, "platform", "darwin")
    assert {"neon", "dotprod"} <= reported_features()
    assert "sve" not in reported_features()
    assert candidate_cpus("haswell", lambda cpu: GENERIC_CPUS["core-avx2"]) == [
        "haswell",
        "core-avx2",
        "sandybridge",
        "nehalem",
        "",
    ]


def test_llvms_name_of_an_apple_processor_is_taken_on_macos(monkeypatch, tmp_path):
    reported = ["neon", "arm.FEAT_LSE", "arm.FEAT_DotProd", "arm.FEAT_FP16"]
    (tmp_path / "out").write_text("".join(f"hw.optional.{name}: 1\n" for name in reported))
    monkeypatch.setattr(this_machine, "_CPUINFO", tmp_path / "missing")
    monkeypatch.setattr(this_machine, "_SYSCTL", ("cat", str(tmp_path / "out")))
    monkeypatch.setattr(this_machine.sys, "platform", "darwin")
    m1 = ["neon", "lse", "dotprod", "fullfp16", "fp16fml"]
    assert candidate_cpus("apple-m1", lambda cpu: m1) == ["apple-m1", ""]
