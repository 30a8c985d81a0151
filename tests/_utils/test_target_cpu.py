"""CPU names that LLVM does not know."""

import pytest

from autotvm_opevo._utils.target_cpu import check_cpu

KNOWN = ["generic", "core-avx2", "znver1", "znver2"]


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
