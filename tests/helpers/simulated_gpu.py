"""A machine with a GPU that computes nothing, for the real TVM: CUDA's libraries and its compiler
are replaced, so that what this package does with a GPU runs where there is none.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

COMPILER = shutil.which("gcc") or shutil.which("cc")
SOURCE = Path(__file__).with_suffix(".c")
# Compiles nothing, as fast as a builder can be told.
NVCC = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = -o ] && echo compiled > "$2"; shift; done
"""


def environment(folder):
    """That of processes which find the GPU, whose libraries are in a folder."""
    libraries, programs = folder / "lib", folder / "bin"
    libraries.mkdir()
    programs.mkdir()
    driver = libraries / "libcuda.so.1"
    shared = [COMPILER, "-shared", "-fPIC", "-o"]
    subprocess.run([*shared, driver, "-DDRIVER", "-Wl,-soname,libcuda.so.1", SOURCE], check=True)
    for name in ("libcudart.so.12", "libcudart.so.13"):  # of TVM 0.17 and 0.27
        names = libraries / f"{name}.map"
        names.write_text(f"{name} {{ global: *; }};\n")
        options = [f"-Wl,-soname,{name}", f"-Wl,--version-script,{names}"]
        subprocess.run([*shared, libraries / name, *options, SOURCE, driver], check=True)
    nvcc = programs / "nvcc"
    nvcc.write_text(NVCC)
    nvcc.chmod(0o755)
    return {
        **{name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"},
        "LD_LIBRARY_PATH": str(libraries),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "TVM_CUDA_COMPILE_MODE": "nvcc",
    }


def run(environment, *arguments, **variables):
    """What Python prints, and its exit status."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    return done.stdout, done.returncode
