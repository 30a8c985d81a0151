"""What the contract suite needs of an adapter: small networks to tune, and a look at what is in the
files.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import NamedTuple

import psutil

# Seconds until something is said to hang, also on a busy machine.
PATIENCE = 240


class Record(NamedTuple):
    """One trial, or the best of a task: its latency is infinite if it failed."""

    task: str
    configuration: str
    latency: float


def made_up(number):
    """Seconds of a trial, by its number: one in seven is the fastest."""
    return 1e-3 * (1 + number % 7)


class Adapter(ABC):
    """One of the two TVMs, and a folder for what is tuned.

    Networks are ``"small"``, with two tasks; ``"other"``, an operator that the command line can
    tune as well; and ``"tiny"``, which has a few configurations.

    Parameters
    ----------
    folder : Path

    Attributes
    ----------
    log, records, best, run log : Path
        What `tune_network` gets, and the files of trials, of the best and of events.
    measurer : type
        The adapter's `Measurer`.
    """

    log: Path
    records: Path
    best: Path
    run_log: Path
    measurer: type
    # Arguments of the command for the other network.
    operator: tuple[str, ...]

    def __init__(self, folder):
        self.folder = folder

    @abstractmethod
    def tune(self, trials, network="small", seconds=made_up, **options):
        """Tune for a target of this machine; `seconds` has the latency of a trial by its number,
        None for a failure, and is called where it would run. Without it, trials run.

        Only trials that run learn from other tasks and from the bundled records by default: the
        model that does takes longer than the rest of a trial whose latency is made up.
        """

    @abstractmethod
    def read(self, file):
        """The records in a file that has one a line."""

    @abstractmethod
    def applied(self):
        """Number of tasks of the small network for which TVM takes the configuration in the file of
        the best.
        """

    @staticmethod
    @abstractmethod
    def global_state():
        """What TVM or a run changes for all of this process, as it is now."""

    def copy(self, folder):
        """The same files in another folder."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return type(self)(folder)

    def trials(self):
        """All of them, in order."""
        return self.read(self.records)

    def configurations(self):
        """Each with its task, in order."""
        return [(trial.task, trial.configuration) for trial in self.trials()]

    def fastest(self):
        """The shortest latency of each task."""
        found = {}
        for task, _, latency in self.trials():
            found[task] = min(latency, found.get(task, inf))
        return found

    def bests(self):
        """The latency of each task in the file of the best."""
        records = self.read(self.best)
        assert len({record.task for record in records}) == len(records)
        return {record.task: record.latency for record in records}

    def files(self):
        """Names of all files."""
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())

    def wait_for(self, trials):
        """Wait until so many have been written."""
        deadline = time.monotonic() + PATIENCE
        while not (self.records.exists() and self.records.read_bytes().count(b"\n") >= trials):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def start(self, trials):
        """A process that tunes the other network, in a process group of its own, as a terminal
        starts it.
        """
        command = [sys.executable, "-m", "autotvm_opevo", "tune", *self.operator]
        command += ["--target", "llvm", "--log", str(self.log), "--trials", str(trials)]
        return subprocess.Popen(
            [*command, "--seed", "0", "--timeout", str(PATIENCE)],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # a shell lets what it starts in the background ignore Ctrl-C
            start_new_session=True,
            preexec_fn=_heed_interrupts,
        )


def _heed_interrupts():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def workers():
    """Processes that this one has started, but for those that fork others, which stay."""
    found = set()
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it has ended
            is_server = "fork_server" in " ".join(child.cmdline())
            found.update(child.children() if is_server else [child])
    return {process for process in found if _runs(process)}


def _runs(process):
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False
