"""The command line, called in this process."""

from autotvm_opevo.cli.main import main


def errors_of(arguments, capfd):
    """The exit status of a command, and what it wrote to the error stream, which is no
    traceback.
    """
    try:
        status = main(arguments)
    except SystemExit as error:
        status = error.code
    errors = capfd.readouterr().err
    assert "Traceback" not in errors
    return status, errors
