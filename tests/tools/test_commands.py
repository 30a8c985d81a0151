"""The shell commands of the README and of docs: what runs in seconds is run, with fewer trials; of
all others, the options are checked.
"""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys

import pytest
from compared_networks import compared, time_two_rounds
from documented_commands import ROOT, commands, module, parse
from instant_measuring import instant
from onnx_files import save_onnx
from tvm import autotvm

from autotvm_opevo import autotvm as adapter
from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import local_target, network
from autotvm_opevo.networks import relay as workloads

# A busy machine takes several times as long.
pytestmark = [
    pytest.mark.timeout(1800),
    # a module runs that others have imported
    pytest.mark.filterwarnings("ignore:.* found in sys.modules:RuntimeWarning"),
]

# What no test runs as it stands, by a part of the command, and why.
NOT_RUN = {
    r"autotvm_opevo doctor": "takes ten seconds; its own tests run it",
    r"pip install": "needs a registry; `make release-check` installs the package",
    r"make setup": "makes an environment of a gigabyte; all tests run in them",
    r"make test": "it runs this test",
    r"-m tvm\.exec\.": "serves until it is ended; the farm's tests start both",
    r"--rpc-tracker": "needs those servers; the farm's tests tune over RPC",
    r"python tutorials/": "is run by the tutorials' tests",
    r"tensor_intrin": "measures TVM 0.27 itself",
    r"make bench|-m benchmarks\.(?!.*--show)": "takes minutes to a night; its tests run it on less",
}
# Benchmarks of TVM 0.27, whose options `tests/meta_schedule` checks.
META_SCHEDULE = "relax|meta_schedule|runtimes"
ALL = commands()
RUN = [command for command in ALL if not any(re.search(part, command) for part in NOT_RUN)]
BENCHMARKS = [command for command in ALL if "-m benchmarks." in command and command not in RUN]


def smaller(command):
    """The module and the arguments of a command, for a network that takes a second."""
    name, arguments = module(command)
    arguments = without("--publish", arguments)  # it would write to docs
    # not every CPU has AVX-512, and a network would end the process
    arguments = [argument.replace("skylake-avx512", "core-avx2") for argument in arguments]
    if arguments[:1] == ["tune"]:
        arguments = [*without("--trials", arguments), "--trials", "4"]
    if "--network" in arguments:
        arguments = [*without("--network", arguments), "--network", "mlp"]
    return name, tuple(arguments)


def without(option, arguments):
    if option not in arguments:
        return arguments
    at = arguments.index(option)
    return arguments[:at] + arguments[at + 2 :]


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A folder with a log, its best file and a model."""
    folder = tmp_path_factory.mktemp("given")
    mlp = workloads.network("mlp", 1)
    tune_network(*mlp, local_target(), folder / "log.json", 4, instant(), evaluate=False, seed=0)
    save_onnx(folder / "model.onnx")
    return folder


def exit_status(name):
    try:
        runpy.run_module(name, run_name="__main__")
    except SystemExit as done:
        return done.code
    return 0


@pytest.mark.parametrize(("name", "arguments"), sorted({*map(smaller, RUN)}), ids=str)
def test_commands_run(name, arguments, given, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOPHUB_LOCATION", "NONE")  # nothing is downloaded
    measure_option = instant()
    monkeypatch.setattr(adapter, "default_measure_option", lambda *_: measure_option)
    monkeypatch.setattr(autotvm, "measure_option", lambda **_: measure_option)
    if "--model" not in arguments:  # built and compared once is enough
        monkeypatch.setattr(network, "evaluate_network", lambda *_: compared(0.010, 0.005))
    time_two_rounds(monkeypatch)
    written = {"--log", "--output", "-o", "--picture"}
    for option, argument in zip(("", *arguments), arguments):
        kind = next((kind for kind in ("best.json", "json", "onnx") if argument.endswith(kind)), "")
        if (ROOT / argument).exists():
            (tmp_path / argument).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / argument, argument)
        elif kind and option not in written:
            source = {"best.json": "log.best.json", "json": "log.json", "onnx": "model.onnx"}[kind]
            shutil.copy(given / source, argument)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    status = exit_status(name)
    printed = capsys.readouterr()
    assert not status, printed.err
    assert printed.out


def test_every_kind_of_command_is_run():
    names = {(name, arguments[0]) for name, arguments in map(smaller, RUN)}
    commands = {command for name, command in names if name == "autotvm_opevo"}
    assert commands == {"tune", "compare", "report"}
    assert all(any(re.search(part, command) for command in ALL) for part in NOT_RUN)


@pytest.mark.parametrize(
    "command", [command for command in BENCHMARKS if not re.search(META_SCHEDULE, command)]
)
def test_benchmarks_have_the_options(command, monkeypatch):
    parse(*module(command), monkeypatch)


@pytest.mark.parametrize("command", [command for command in ALL if "make " in command])
def test_make_has_the_target(command, monkeypatch):
    words = shlex.split(command)
    make = words[words.index("make") :]
    # those of the `make` that runs these tests
    others = {
        name: value for name, value in os.environ.items() if name != "ARGS" and "MAKE" not in name
    }
    done = subprocess.run(
        [make[0], "-n", *make[1:]],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env=others,
    )
    assert done.returncode == 0, done.stderr
    for line in re.findall(r"-m benchmarks\..*", done.stdout):
        with monkeypatch.context() as patch:
            parse(*module(f"python {line}"), patch)


@pytest.mark.parametrize("command", [command for command in ALL if "--rpc-tracker" in command])
def test_commands_for_a_farm_have_the_options(command, monkeypatch):
    parse(*module(command), monkeypatch)
