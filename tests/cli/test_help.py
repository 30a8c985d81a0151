"""Help says what a command does, and names the program as it was called."""

import re
import sys

import pytest

from autotvm_opevo import __version__
from autotvm_opevo.cli.main import main


def printed(capsys, *arguments):
    with pytest.raises(SystemExit) as done:
        main(list(arguments))
    assert done.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["tune"], ["compare"], ["report"], ["doctor"]])
def test_help_says_what_it_does_before_options_and_examples(capsys, command):
    text = printed(capsys, *command, "--help")
    usage, description, *rest = text.split("\n\n")
    assert usage.startswith("usage:")
    assert re.match("[A-Z][a-z]+ .*[.]", description)  # a sentence, such as "Tune a network."
    after = "\n\n".join(rest)
    assert after.index("-h, --help") < after.index("examples:")
    assert not command or after.index("examples:") < after.index("exit status:")


@pytest.mark.parametrize("command", [[], ["tune"], ["compare"], ["report"], ["doctor"]])
@pytest.mark.parametrize(
    ("called", "program"),
    [
        ("/usr/bin/autotvm-opevo", "autotvm-opevo"),
        ("/lib/autotvm_opevo/__main__.py", "python -m autotvm_opevo"),
    ],
)
def test_help_names_the_program_as_it_was_called(capsys, monkeypatch, called, program, command):
    monkeypatch.setattr(sys, "argv", [called])
    text = printed(capsys, *command, "--help")
    assert text.startswith(" ".join(["usage:", program, *command]))
    assert f"\n  {' '.join([program, *command])}" in text
    assert text.count("autotvm-opevo") + text.count("autotvm_opevo") == text.count(program)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["tune", "--network", "mlp"], "the following arguments are required: --log"),
        (
            ["tune", "--network", "mlp", "--log", "x", "--trials", "0"],
            "argument --trials: must be an integer of at least 1",
        ),
        (["report"], "the following arguments are required: LOG"),
        (
            ["tune", "--network", "mlp", "--log", "x", "--trails", "8"],
            "autotvm_opevo tune: error: unrecognized arguments: --trails 8",
        ),
    ],
)
def test_an_error_in_the_arguments_is_one_line_after_the_first_of_the_usage(
    capsys, arguments, message
):
    with pytest.raises(SystemExit) as done:
        main(arguments)
    assert done.value.code == 2
    usage, error = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage: ")
    assert message in error


def test_a_mistyped_network_is_refused_before_tvm_is_imported(capsys, monkeypatch, tmp_path):
    for module in ("tvm", "tvm.autotvm", "tvm.s_tir"):
        monkeypatch.setitem(sys.modules, module, None)  # importing it would be an ImportError
    for name in ("autotvm", "meta-schedule"):
        assert (
            main(["tune", "--network", "alexnt", "--tvm", name, "--log", str(tmp_path / "log")])
            == 2
        )
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith("'alexnt' given: did you mean alexnet?")


def test_version(capsys):
    assert printed(capsys, "--version") == f"autotvm_opevo {__version__}\n"
