"""``doctor`` reports every component, hints at what to do, and fails only if something installed is
broken.
"""

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

from autotvm_opevo._utils import cpu_cores
from autotvm_opevo.cli import doctor
from autotvm_opevo.cli.main import main


def by_name(findings):
    return {finding.name: finding for finding in findings}


@pytest.fixture
def quick_cpu(monkeypatch):
    monkeypatch.setattr(doctor, "_CPU_QUERY", "print('llvm')")
    monkeypatch.setattr(doctor, "_GPU_QUERY", "")


def run_without_tvm(folder, **files):
    """``doctor`` in a process that finds no TVM but that of `files` in `folder`."""
    for name, text in files.items():
        (folder / "tvm").mkdir(exist_ok=True)
        (folder / "tvm" / f"{name}.py").write_text(text)
    hide = f"sys.path.insert(0, {str(folder)!r})" if files else "sys.modules['tvm'] = None"
    script = (
        f"import sys; {hide}\nfrom autotvm_opevo.cli.main import main\nsys.exit(main(['doctor']))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=240, cwd=folder
    )


def test_one_adapter_works_with_a_tvm(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_PATIENCE", 250)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:3]] == ["autotvm_opevo", "Python", "libraries"]
    assert sum(line.startswith("ok ") and " works" in line for line in lines) == 1
    assert any(line.startswith("ok CPU ") for line in lines)


def test_without_tvm_nothing_is_broken(tmp_path):
    done = run_without_tvm(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "   AutoTVM         no TVM" in done.stdout
    assert "   MetaSchedule    no TVM" in done.stdout
    assert not re.search("^--", done.stdout, re.MULTILINE)
    assert "OpEvoTuner needs a TVM with AutoTVM, 0.8 to 0.19" in done.stdout
    assert "pip install '.[tvm]'" in done.stdout


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"__init__": "raise OSError('libtvm.so: cannot open')"},
            "a TVM that cannot be imported: OSError: libtvm.so",
        ),
        ({"__init__": "__version__ = '0.22.0'"}, "TVM 0.22.0 in "),
    ],
)
def test_a_broken_or_unsupported_tvm_fails(tmp_path, files, found):
    done = run_without_tvm(tmp_path, **files)
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search(f"^-- AutoTVM .*{found}", done.stdout, re.MULTILINE)


def test_a_missing_compiler_fails(monkeypatch, capsys, quick_cpu):
    monkeypatch.setattr(doctor, "_QUERY", "print(0); print('llvm')")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    finding = by_name(doctor._compilers())["C compiler"]
    assert finding.ok is False
    assert "install g++ or clang" in str(finding)
    assert main(["doctor"]) == 1
    assert "-- C compiler " in capsys.readouterr().out


def test_the_compiler_is_the_one_that_tvm_takes(monkeypatch, tmp_path):
    compiler = tmp_path / "x86_64-conda-linux-gnu-c++"
    compiler.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", compiler.name)
    assert by_name(doctor._compilers())["C compiler"].value == str(compiler)
    (tmp_path / "g++").touch(mode=0o755)
    monkeypatch.setenv("CXX", "missing-c++")
    finding = by_name(doctor._compilers())["C compiler"]
    assert finding.ok is False
    assert "'missing-c++'" in finding.value


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("import time; time.sleep(60)", "no answer within"),
        ("raise OSError('libcuda.so.1: no such file')", "OSError: libcuda.so.1: no such file"),
        ("print('llvm cuda')", "cuda"),
    ],
)
def test_a_hanging_or_crashing_device_query_is_reported(monkeypatch, script, found, quick_cpu):
    monkeypatch.setattr(doctor, "_QUERY", script)
    if "sleep" in script:
        monkeypatch.setattr(doctor, "_PATIENCE", 1)
    assert any(found in finding.value for finding in doctor._devices(autotvm=True))


@pytest.mark.parametrize(("kinds", "ok"), [("", False), ("cuda", None)])
def test_a_tvm_without_llvm_needs_a_gpu(monkeypatch, kinds, ok, quick_cpu):
    monkeypatch.setattr(doctor, "_QUERY", f"print({kinds!r})")
    finding = by_name(doctor._devices(autotvm=True))["CPU"]
    assert (finding.value, finding.ok) == ("this TVM was built without LLVM", ok)


@pytest.mark.parametrize(("threads", "said"), [(2, True), (4, False), (0, False)])
def test_cores_that_tvm_leaves_idle_are_named(monkeypatch, threads, said, quick_cpu):
    monkeypatch.setattr(cpu_cores, "physical_cores", lambda: 4)
    monkeypatch.setattr(doctor, "_QUERY", f"print({threads}); print('llvm')")
    findings = by_name(doctor._devices(autotvm=True))
    assert ("threads" in findings) is said
    if said:
        assert (
            "TVM runs kernels in 2 threads on 4 cores: TVM_NUM_THREADS=4 uses each"
            in findings["threads"].value
        )


def test_a_gpu_without_a_compiler_fails(monkeypatch, quick_cpu):
    monkeypatch.setattr(doctor, "_QUERY", "print('llvm cuda')")
    failing = "raise RuntimeError('TVM cannot compile for cuda: no nvcc')"
    monkeypatch.setattr(doctor, "_GPU_QUERY", failing)
    finding = by_name(doctor._devices(autotvm=True))["GPU"]
    assert (finding.value, finding.ok) == ("cuda", False)
    assert "TVM cannot compile for cuda: no nvcc" in finding.what_to_do


@pytest.mark.parametrize(
    ("query", "patience", "problem"),
    [
        ("import os; os.abort()", 60, "compiling a kernel ended with -6"),
        ("import time; time.sleep(60)", 1, "no kernel was compiled within 1 s"),
    ],
)
def test_a_gpu_whose_driver_crashes_or_hangs_fails(
    monkeypatch, quick_cpu, query, patience, problem
):
    monkeypatch.setattr(doctor, "_GPU_QUERY", query)
    monkeypatch.setattr(doctor, "_PATIENCE", patience)
    found = doctor.subprocess.CompletedProcess([], 0, stdout="llvm cuda")
    ask = doctor._ask
    monkeypatch.setattr(doctor, "_ask", lambda text: ask(text) if text == query else found)
    finding = by_name(doctor._devices(autotvm=True))["GPU"]
    assert (finding.ok, finding.what_to_do) == (False, problem)


def test_without_a_gpu_it_explains_how_to_avoid_waiting_forever(monkeypatch, quick_cpu):
    monkeypatch.setattr(doctor, "_QUERY", "print('llvm')")
    finding = by_name(doctor._devices(autotvm=True))["GPU"]
    assert finding.ok is None
    assert "wait forever without a GPU: use a CPU target, or an RPCRunner with a tracker" in str(
        finding
    )


@pytest.mark.parametrize(
    ("script", "found", "ok"),
    [
        ("print('llvm -mcpu=core-avx2')", '--target "llvm -mcpu=core-avx2"', True),
        ("raise RuntimeError('no LLVM')", "no kernel runs here: RuntimeError: no LLVM", False),
        ("import os; os.abort()", "no kernel runs here: ended with -6", False),
        ("import time; time.sleep(60)", "no kernel has run within 2 s", False),
    ],
)
def test_the_cpus_target_is_one_whose_code_has_run(monkeypatch, script, found, ok):
    monkeypatch.setattr(doctor, "_CPU_QUERY", script)
    monkeypatch.setattr(doctor, "_PATIENCE", 2 if "sleep" in script else 60)
    finding = doctor._cpu("autotvm")
    assert found in finding.value
    assert finding.ok is ok


def test_a_missing_library_is_a_fault_and_named(monkeypatch):
    assert doctor._libraries().ok
    found = {name: name != "msgspec" for name in doctor._LIBRARIES}
    monkeypatch.setattr(doctor, "find_spec", found.get)
    finding = doctor._libraries()
    assert (finding.ok, finding.what_to_do) == (False, "not installed: pip install msgspec")
    assert "numpy" in finding.value
    assert "msgspec" not in finding.value


def test_the_libraries_are_those_that_pip_installs():
    config = configparser.ConfigParser()
    config.read(Path(__file__).parents[2] / "setup.cfg")
    needs = config["options"]["install_requires"].split()
    assert list(doctor._LIBRARIES) == [need.partition(">=")[0] for need in needs]


def test_a_gpu_that_tvm_does_not_find_is_named(monkeypatch, quick_cpu, tmp_path):
    monkeypatch.setattr(doctor, "_QUERY", "print('llvm')")
    assert "NVIDIA" not in by_name(doctor._devices(False))["GPU"].what_to_do
    monkeypatch.setattr(doctor, "_NVIDIA", tmp_path)
    assert "there is an NVIDIA GPU" in by_name(doctor._devices(False))["GPU"].what_to_do


def test_missing_optional_packages_are_no_fault(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: "")
    for finding in doctor._optional(autotvm=True):
        assert str(finding).startswith("   ")
        assert "not installed" in finding.value


@pytest.mark.parametrize(
    ("version", "words"), [("1.7.6", "1.7.6"), ("3.2.0", '"rank" fails since xgboost 2')]
)
def test_warns_of_xgboost_versions_that_break_tvms_default(monkeypatch, version, words):
    monkeypatch.setattr(doctor, "_version", lambda name: version if name == "xgboost" else "")
    assert words in by_name(doctor._optional(autotvm=True))["xgboost"].value
