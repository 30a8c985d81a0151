"""The command that started this process."""

import pytest

from autotvm_opevo._utils.command_line import command_line


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (
            ["/x/bin/autotvm-opevo", "tune", "--target", "llvm -mcpu=native"],
            "autotvm-opevo tune --target 'llvm -mcpu=native'",
        ),
        (["/x/site-packages/autotvm_opevo/__main__.py", "tune"], "python -m autotvm_opevo tune"),
        (["tune my net.py", "--seed", "1"], "python 'tune my net.py' --seed 1"),
        (["-c"], ""),
        ([""], ""),
        ([], ""),
    ],
)
def test_it_reads_as_one_would_type_it(monkeypatch, arguments, command):
    monkeypatch.setattr("sys.argv", arguments)
    assert command_line() == command
