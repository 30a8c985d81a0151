"""The doctor says what is there, and what to do where something is missing."""

import subprocess
import sys

import pytest

from autotvm_opevo.cli import doctor
from autotvm_opevo.cli.main import main


def named(findings):
    return {finding.name: finding for finding in findings}


def test_with_a_tvm_at_least_one_adapter_works(capsys):
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("ok ") and " works" in line for line in lines) == 1
    assert any(line.startswith("ok CPU ") for line in lines)


def test_without_a_tvm_it_says_what_to_do():
    """In a process of its own, in which nothing called tvm can be found."""
    script = "import sys; sys.modules['tvm'] = None\nfrom autotvm_opevo.cli.main import main\nsys.exit(main(['doctor']))\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, "")
    assert "-- AutoTVM" in done.stdout
    assert "-- MetaSchedule" in done.stdout
    assert "OpEvoTuner needs a TVM with AutoTVM, 0.8 to 0.19" in done.stdout
    assert "pip install '.[tvm]'" in done.stdout


def test_a_missing_compiler_is_said(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    finding = named(doctor._compilers())["C compiler"]
    assert not finding.fine
    assert "install g++ or clang" in str(finding)


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("import time; time.sleep(60)", "no answer within"),
        ("raise OSError('libcuda.so.1: no such file')", "OSError: libcuda.so.1: no such file"),
        ("print('llvm cuda'); print('znver4')", "cuda"),
        ("print(''); print('')", "this TVM was built without LLVM"),
    ],
)
def test_devices_are_asked_by_a_process_that_may_hang_or_crash(monkeypatch, script, found):
    monkeypatch.setattr(doctor, "_ASK", script)
    monkeypatch.setattr(doctor, "_PATIENCE", 3)
    assert any(found in finding.found for finding in doctor._devices())


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("flags : fpu fma avx2\n", 'llvm -mcpu=core-avx2"'),
        ("flags : avx2 fma avx512f avx512bw avx512cd avx512dq avx512vl\n", 'llvm -mcpu=skylake-avx512"'),
        ("flags : fpu sse2", "--target llvm, and -mcpu"),
    ],
)
def test_a_cpu_that_llvm_does_not_know_gets_a_target_with_its_vectors(monkeypatch, tmp_path, flags, found):
    monkeypatch.setattr(doctor, "_ASK", "print('llvm'); print('generic')")
    monkeypatch.setattr(doctor, "_CPU", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(flags)
    assert found in named(doctor._devices())["CPU"].found


def test_what_not_everybody_needs_is_no_fault(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: "")
    for finding in doctor._optional(autotvm=True):
        assert str(finding).startswith("   ")
        assert "not installed" in finding.found


@pytest.mark.parametrize(
    ("version", "words"),
    [("1.7.6", "1.7.6"), ("3.2.0", 'its "rank" fails since xgboost 2'), ("", "not installed")],
)
def test_the_traps_of_xgboost_are_said(monkeypatch, version, words):
    monkeypatch.setattr(doctor, "_version", lambda name: version if name == "xgboost" else "")
    assert words in named(doctor._optional(autotvm=True))["xgboost"].found


@pytest.mark.parametrize("command", [[], ["tune"], ["report"], ["doctor"]])
def test_help_begins_with_examples(capsys, command):
    with pytest.raises(SystemExit) as done:
        main([*command, "--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    usage, examples = text.index("usage:"), text.index("examples:")
    assert usage < examples < text.index("options:")
    assert not command or "exit status:" in text
