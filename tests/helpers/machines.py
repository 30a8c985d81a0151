"""Processors that are not this one: what they report, and LLVM's names for them."""

from pathlib import Path

import pytest

from autotvm_opevo.tuning import this_machine

CPUS = Path(__file__).parent / "cpus"

# What a processor reports, the name by its family and model of LLVM 22 and of LLVM 10, and the best
# CPU for either.
MACHINES = [
    pytest.param(
        "epyc_zen4_avx512_hidden",
        "znver4",
        "generic",
        "core-avx2",
        "core-avx2",
        id="Zen 4, AVX-512 hidden",
    ),
    pytest.param("epyc_zen4", "znver4", "generic", "znver4", "skylake-avx512", id="Zen 4"),
    pytest.param(
        "xeon_gold_6148",
        "skylake-avx512",
        "skylake-avx512",
        "skylake-avx512",
        "skylake-avx512",
        id="Skylake server",
    ),
    pytest.param("core_i7_4770_haswell", "haswell", "haswell", "haswell", "haswell", id="Haswell"),
    pytest.param("ryzen_5_3600_zen2", "znver2", "znver2", "znver2", "znver2", id="Zen 2"),
    pytest.param("x86_64_v2_vm", "k8-sse3", "k8-sse3", "nehalem", "nehalem", id="x86-64-v2"),
]


def pretend(monkeypatch, tmp_path, machine):
    """Let this machine's processor report what another one does."""
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor\t: 0\n{(CPUS / f'{machine}.txt').read_text() if machine else ''}")
    monkeypatch.setattr(this_machine, "_CPUINFO", file)
