"""Build the source distribution and the wheel, check both, and try the wheel in a fresh environment
without TVM.

    .venv/release/bin/python tools/check_release.py

Needs the packages `build` and `twine`. The distributions are left in dist/, ready to be uploaded.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
# Tracked, but only needed in the repository.
NOT_DISTRIBUTED = {".ci/run", ".gitignore"}
# Written by setuptools.
GENERATED = ("PKG-INFO", "autotvm_opevo.egg-info/")

SEARCH = """
from autotvm_opevo import OpEvo, Space
from autotvm_opevo.topology import Factorization, Permutation

search = OpEvo(Space({"tile": Factorization(512, parts=4), "order": Permutation(3)}), seed=0)
for _ in range(4):
    configurations = search.ask(8)
    search.tell(configurations, [1 / (1 + abs(c["tile"][-1] - 16)) for c in configurations])
assert search.best[1] == 1.0, search.best
"""
# Records of AutoTVM, with tiles of 1 to 64; larger ones are faster.
RECORDS = [
    {
        "input": ["llvm", "dense", [["TENSOR", [1, 64], "float32"]], {}],
        "config": {"index": i, "code_hash": None, "entity": [["tile_x", "sp", [-1, 2**i]]]},
        "result": [[1e-3 / 2**i], 0, 0.5, 1.8e9 + i],
        "version": 0.2,
        "tvm_version": "0.17.0",
    }
    for i in range(7)
]


class CheckError(Exception):
    """A failed check; the text is for the maintainer."""


def run(*command, cwd=ROOT):
    """Run a command and return its output; on failure raise with all of it."""
    # Neither the repository nor its environments may stand in for what the wheel lacks.
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise CheckError(
            f"{' '.join(words)}\n{done.stdout}failed with exit status {done.returncode}"
        )
    return done.stdout


def build():
    """Build the source distribution, and the wheel from it; return their paths."""
    for old in DIST.glob("autotvm_opevo-*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", DIST)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    return sdist, wheel


def check_sdist(sdist, folder):
    """Unpack the source distribution, compare it with what git tracks, and return its root."""
    with tarfile.open(sdist) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    (root,) = folder.iterdir()
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    files = {name for name in files if not name.startswith(GENERATED)}
    if (ROOT / ".git").exists():
        tracked = set(run("git", "ls-files").splitlines()) - NOT_DISTRIBUTED
        if files != tracked:
            missing, extra = sorted(tracked - files), sorted(files - tracked)
            raise CheckError(
                f"{sdist.name} lacks {missing or 'nothing'} and has {extra or 'nothing'} "
                "beside what git tracks"
            )
    return root


def check_wheel(wheel, source):
    """The wheel has every file of the package, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {
        path.relative_to(source).as_posix()
        for path in (source / "autotvm_opevo").rglob("*")
        if path.is_file()
    }
    if files != package:
        missing, extra = sorted(package - files), sorted(files - package)
        raise CheckError(
            f"{wheel.name} lacks {missing or 'nothing'} and has {extra or 'nothing'} beside "
            "the package"
        )


def try_wheel(wheel, folder):
    """Install the wheel in a fresh environment, with nothing else, and use it from an empty
    directory.
    """
    env, work = folder / "env", folder / "work"
    work.mkdir()
    run(sys.executable, "-m", "venv", env)
    python, program = env / "bin" / "python", env / "bin" / "autotvm-opevo"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*install, wheel)
    where = run(python, "-c", "import autotvm_opevo; print(autotvm_opevo.__file__)", cwd=work)
    if str(env) not in where:
        raise CheckError(f"imported {where.strip()}, which is not in {env}")
    versions = {
        run(*command, "--version", cwd=work)
        for command in ([python, "-m", "autotvm_opevo"], [program])
    }
    if versions != {f"autotvm_opevo {wheel.name.split('-')[1]}\n"}:
        raise CheckError(f"the versions differ: {versions} in {wheel.name}")
    run(program, "doctor", cwd=work)
    run(python, "-c", SEARCH, cwd=work)
    run(*install, f"{wheel}[report]")
    (work / "log.json").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    run(program, "report", "log.json", "-o", "report.html", cwd=work)
    if "<svg" not in (work / "report.html").read_text():
        raise CheckError("the report has no charts")
    left = sorted(path.name for path in work.iterdir())
    if left != ["log.json", "report.html"]:
        raise CheckError(f"the commands left other files in the working directory: {left}")


def main():
    folder = Path(tempfile.mkdtemp(prefix="check_release-"))
    try:
        print("release: building", flush=True)
        sdist, wheel = build()
        print("release: checking the contents", flush=True)
        source = check_sdist(sdist, folder / "sdist")
        check_wheel(wheel, source)
        print("release: trying the wheel in a fresh environment", flush=True)
        try_wheel(wheel, folder)
    except CheckError as error:
        sys.exit(f"release: {error}")
    finally:
        shutil.rmtree(folder)
    print(f"release: {sdist.relative_to(ROOT)} and {wheel.relative_to(ROOT)} are ready")


if __name__ == "__main__":
    main()
