"""
Tune for an ARM board
=====================

The search and all builds run here; a board only runs the programs, over TVM's RPC. This script
tunes a network for a board, and builds it for the board's CPU. Without a board it only builds, and
shows that the object files are for ARM::

    python tutorials/tune_for_a_board.py  # builds for aarch64
    # tunes, and runs there
    python tutorials/tune_for_a_board.py --tracker 127.0.0.1:9190 --key board

- **On this machine**: the tracker, ``python -m tvm.exec.rpc_tracker --host 0.0.0.0 --port 9190``,
  and this script.
- **On the board**, with TVM and ``g++``: ``python -m tvm.exec.rpc_server --tracker
  THIS-MACHINE:9190 --key board``. It links object files, runs them, and returns the time.

The board links the object files itself, so no cross compiler is needed here. Both need the same
version of TVM; for 64-bit ARM, on the board::

    pip install 'apache-tvm[rpc]>=0.27,<0.28' 'apache-tvm-ffi>=0.1.14.post0,<0.1.15'

*Not tried on a board yet*, but on an emulated 64-bit ARM CPU (``tools/emulated_board.sh``), where
tuned and untuned outputs match.
With AutoTVM, use ``tune --rpc-tracker --rpc-key``. The TVM of ``make setup`` is for x86-64: build
the same version on the board, with ``USE_RPC=ON``. An Android phone cannot link: TVM's RPC app
takes libraries that the NDK has linked, by ``LocalBuilder(build_func="ndk")``. This was not tried.

It needs MetaSchedule. After ``make setup-tvm``, ``python`` is ``.venv/tvm/bin/python``.
"""

import argparse
import tarfile
from pathlib import Path

import numpy as np
import tvm
from tvm import relax, rpc

from autotvm_opevo.meta_schedule import as_target, compile_network, make_runner, tune_network
from autotvm_opevo.networks.relax import mlp

parser = argparse.ArgumentParser(description="Tune a network for an ARM board.")
parser.add_argument(
    "--target", help="TVM target of the board (default: a 64-bit ARM CPU with 4 cores)"
)
parser.add_argument(
    "--tracker", metavar="HOST:PORT", help="RPC tracker; without one, nothing is tuned"
)
parser.add_argument(
    "--key", default="board", help="key with which the board registered (default: board)"
)
parser.add_argument(
    "--trials", type=int, default=64, help="number of trials, including earlier ones (default: 64)"
)
parser.add_argument(
    "--out", type=Path, default=Path("tuned/board"), help="output directory (default: tuned/board)"
)
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)

# %%
# The target
# ----------
# ``-mtriple`` is the board's system, which ``gcc -dumpmachine`` prints there; ``-num-cores`` is its
# number of cores, not this machine's. ``-mcpu=cortex-a72``, for example, makes use of all
# instructions of a Raspberry Pi 4.

target = as_target(options.target or "llvm -mtriple=aarch64-linux-gnu -mattr=+neon -num-cores=4")
mod, params = mlp()

# %%
# Tune on the board
# -----------------
# Only the runner differs from tuning on one machine. In the end the network is timed on the board,
# untuned and tuned.

work_dir = options.out / "database"
if options.tracker:
    host, port = options.tracker.split(":")
    runner = make_runner(timeout=30, key=options.key, host=host, port=int(port))
    print(tune_network(mod, params, target, work_dir, options.trials, runner=runner, seed=0))

# %%
# Build for the board
# -------------------
# With the extension ``.tar`` the library has object files. To link it here instead, name it
# ``.so``, and name the cross compiler: ``export_library("model.so",
# fcompile=cc.cross_compiler("aarch64-linux-gnu-g++"))``, with ``from tvm.support import cc``.

library = options.out / "model.tar"
best = work_dir / "best" if options.tracker else None
compile_network(mod, params, target, best).export_library(str(library))

# %%
# The object files
# ----------------
# Bytes 18 and 19 of an object file name the machine that it is for: 183 is AArch64, 62 is x86-64.

MACHINES = {62: "x86-64", 183: "AArch64"}
with tarfile.open(library) as archive:
    for member in archive.getmembers():
        header = archive.extractfile(member).read(20)
        assert header[:4] == b"\x7fELF"
        number = int.from_bytes(header[18:20], "little")
        print(f"{member.name}: {MACHINES.get(number, number)}")

# %%
# Run it on the board
# -------------------

if options.tracker:
    board = rpc.connect_tracker(host, int(port)).request(options.key)
    board.upload(str(library))
    network = relax.VirtualMachine(board.load_module(library.name), board.cpu())
    image = np.random.default_rng(0).standard_normal((1, 784), dtype="float32")
    probabilities = network["main"](tvm.runtime.tensor(image, board.cpu())).numpy()
    print(
        f"on the board: class {probabilities.argmax()}, with probability {probabilities.max():.4f}"
    )
else:
    print("nothing was run: there is no --tracker")

# %%
# What it prints
# --------------
# Without a board::
#
#     devc.o: AArch64
#     lib0.o: AArch64
#     nothing was run: there is no --tracker
