"""The CPUs that LLVM knows, and those that a processor can be."""

import pytest
from machines import pretend

from autotvm_opevo._utils import target_cpu
from autotvm_opevo._utils.target_cpu import (
    GENERIC_CPUS,
    candidate_cpus,
    check_cpu,
    missing,
    reported_features,
)

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


def test_a_name_that_this_llvm_cannot_tell_the_features_of_is_not_trusted(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "epyc_zen4")
    assert candidate_cpus("znver9", lambda cpu: [])[0] == "skylake-avx512"


@pytest.mark.parametrize("missing_one", sorted(GENERIC_CPUS["skylake-avx512"]))
def test_no_candidate_has_an_instruction_that_is_hidden(monkeypatch, tmp_path, missing_one):
    every = {target_cpu._plain(target_cpu._ALIASES.get(one, one)) for one in ZEN4}
    alias = target_cpu._plain(target_cpu._ALIASES.get(missing_one, missing_one))
    reported = frozenset(every - {alias, target_cpu._plain(missing_one)})
    monkeypatch.setattr(target_cpu, "reported_features", lambda: reported)
    for cpu in candidate_cpus("znver4", lambda cpu: ZEN4):
        assert missing_one not in GENERIC_CPUS.get(cpu, ZEN4 if cpu else ())


def test_on_arm_there_is_llvms_name_or_the_baseline(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, "cortex_a76")
    assert candidate_cpus("cortex-a76", lambda cpu: ["neon", "dotprod", "fullfp16", "lse"]) == [
        "cortex-a76",
        "",
    ]
    assert candidate_cpus("neoverse-v1", lambda cpu: ["neon", "sve"]) == [""]


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_where_nothing_is_reported_it_is_the_baseline(monkeypatch, tmp_path, system):
    monkeypatch.setattr(target_cpu, "_CPUINFO", tmp_path / "missing")
    monkeypatch.setattr(target_cpu, "_SYSCTL", ("true",))
    monkeypatch.setattr(target_cpu.sys, "platform", system)
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
    monkeypatch.setattr(target_cpu, "_CPUINFO", tmp_path / "missing")
    monkeypatch.setattr(target_cpu, "_SYSCTL", ("cat", str(tmp_path / "out")))
    monkeypatch.setattr(target_cpu.sys, "platform", "darwin")
    assert {"neon", "dotprod"} <= reported_features()
    assert "sve" not in reported_features()
    assert candidate_cpus("haswell", lambda cpu: GENERIC_CPUS["core-avx2"]) == [
        "haswell",
        "core-avx2",
        "sandybridge",
        "nehalem",
        "",
    ]
