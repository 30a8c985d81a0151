"""What the documentation shows of MetaSchedule runs as it stands: what tunes in this process, the
rest in one that has imported nothing else; and examples in docstrings, in one that has also
imported TVM's tensor intrinsics, which tuning imports, too.
"""

import re
import subprocess
import sys

import pytest
from documented_blocks import run_block
from documented_commands import PAGES, ROOT, commands, module, parse

# Modules with examples for users.
MODULES = ["compilation", "comparison", "database", "network", "strategy", "targets"]

RUN = """
import sys, traceback
from known_machine import measured_once
import autotvm_opevo.meta_schedule

if sys.argv[1] == "tuning":
    autotvm_opevo.meta_schedule.intrinsics.import_tensor_intrinsics()
assert ("tvm.s_tir.tensor_intrin" in sys.modules) == (sys.argv[1] == "tuning")
network = autotvm_opevo.meta_schedule.network
network.measure_roofline = measured_once(network.measure_roofline, ".")

def succeeds(example, *arguments):
    try:
        example(*arguments)
    except (Exception, SystemExit):
        traceback.print_exc()
        return False
    return True
"""
BLOCKS = """
from documented_blocks import run_block

failed = [block for block in %r if not succeeds(run_block, block)]
sys.exit("\\n\\n".join(["failed:", *failed]) if failed else 0)
"""
DOCSTRINGS = """
import doctest, importlib

def test(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried and not failed

failed = [name for name in %r if not succeeds(test, name)]
sys.exit(f"failed: {failed}" if failed else 0)
"""


def blocks():
    """Python of the pages that is for MetaSchedule, with a few trials."""
    found = [
        block
        for page in PAGES
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    ]
    whole = [block for block in found if "from autotvm_opevo.meta_schedule import" in block]
    return [re.sub(r"\b(max_trials_global|trials)=\d+", r"\1=4", block) for block in whole]


def run(script, folder, way):
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'tests/helpers')]}{RUN}{script}",
        way,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("two_rounds")
def test_examples_on_pages_run_in_their_order(tmp_path, monkeypatch):
    tuning = [block for block in blocks() if "tune_" in block]
    others = [block for block in blocks() if "tune_" not in block]  # with what was tuned
    assert len(tuning) >= 2
    assert others
    monkeypatch.chdir(tmp_path)
    for block in tuning:
        run_block(block)
    run(BLOCKS % (others,), tmp_path, "compiling")


@pytest.mark.soak  # pytest runs the same examples
@pytest.mark.timeout(1800)
def test_examples_in_docstrings_run(tmp_path):
    run(
        DOCSTRINGS % ([f"autotvm_opevo.meta_schedule.{name}" for name in MODULES],),
        tmp_path,
        "tuning",
    )


@pytest.mark.parametrize(
    "command",
    [
        command
        for command in commands()
        if re.search(r"-m benchmarks\.(relax|meta_schedule|runtimes)", command)
    ],
)
def test_benchmarks_have_the_options(command, monkeypatch):
    parse(*module(command), monkeypatch)
