"""What LLVM made of a kernel for x86."""

import re


def assert_stays_in_registers(assembly: str, register: str, number: int) -> None:
    """An innermost loop multiplies and adds into so many vectors, "ymm" or "zmm", and writes none
    to memory.
    """
    loops = re.findall(
        r"^(\.LBB\w+):((?:(?!^\.LBB).)*?)\bj\w+\s+\1$", assembly, re.MULTILINE | re.DOTALL
    )
    (product,) = (body for _, body in loops if "vfmadd" in body)
    results = re.findall(rf"\bvfmadd\w+ps\b.*(%{register}\d+)$", product, re.MULTILINE)
    assert len(set(results)) == number
    assert not re.search(rf"\bvmov\w+\s+%{register}\d+, .*\(", product)
