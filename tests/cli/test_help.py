"""Help begins with examples and names the program as it was called."""

import sys

import pytest

from autotvm_opevo import __version__
from autotvm_opevo.cli.main import main


def printed(capsys, *arguments):
    with pytest.raises(SystemExit) as done:
        main(list(arguments))
    assert done.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["tune"], ["report"], ["doctor"]])
def test_help_begins_with_examples(capsys, command):
    text = printed(capsys, *command, "--help")
    usage, examples = text.index("usage:"), text.index("examples:")
    assert usage < examples < text.index("options:")
    assert not command or "exit status:" in text


@pytest.mark.parametrize("command", [[], ["tune"], ["report"], ["doctor"]])
@pytest.mark.parametrize(
    ("called", "program"),
    [("/usr/bin/autotvm-opevo", "autotvm-opevo"), ("/lib/autotvm_opevo/__main__.py", "python -m autotvm_opevo")],
)
def test_help_names_the_program_as_it_was_called(capsys, monkeypatch, called, program, command):
    monkeypatch.setattr(sys, "argv", [called])
    text = printed(capsys, *command, "--help")
    assert text.startswith(" ".join(["usage:", program, *command]))
    assert f"\n  {' '.join([program, *command])}" in text
    assert text.count("autotvm-opevo") + text.count("autotvm_opevo") == text.count(program)


def test_version(capsys):
    assert printed(capsys, "--version") == f"autotvm_opevo {__version__}\n"
