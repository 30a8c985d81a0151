"""Files that a power cut must not tear and that two processes must not write: replaced whole, locked."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path


class LogInUse(RuntimeError):
    """Another process has the log."""


def write_whole(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file so that whoever opens it finds the old one or the new one, and never a part."""
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, partial)
        os.replace(partial, path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def set_aside(path: Path, good: Iterable[bytes], bad: Sequence[bytes]) -> None:
    """Leave the good lines in a file and move the bad ones to ``PATH.rejected``.

    First the rejected are safe, then the file is exchanged in one step: killed in between, nothing is lost.
    """
    if bad:
        with open(f"{path}.rejected", "ab") as file:
            file.writelines(terminated(bad))
            file.flush()
            os.fsync(file.fileno())
    write_whole(path, terminated(good))


def sync(folder: Path) -> None:
    """Until the disk knows of a folder's new files, a power cut can take them whole."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def terminated(lines: Iterable[bytes]) -> Iterable[bytes]:
    """The lines, each with its end: what a power cut has taken of the last one is the end at least."""
    return (line if line.endswith(b"\n") else line + b"\n" for line in lines)


class Lock:
    """A file that one process at a time has; the system gives it free when that process is gone, whatever its children do."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def acquire(self, what: Path) -> None:
        while True:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.pread(file, 32, 0).decode(errors="replace").strip() or "unknown"
                os.close(file)
                raise LogInUse(
                    f"{what} is being written by the process with pid {holder}: wait for it, stop it, or use another log"
                ) from None
            try:
                current = os.path.samestat(os.fstat(file), os.stat(self._path))
            except FileNotFoundError:
                current = False
            if current:
                break
            os.close(file)  # its holder removed it between our opening and our locking: the next one is the lock
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file
        # A child made by fork would share the lock and keep it when we are gone; one that runs another program does not.
        os.register_at_fork(after_in_child=self._forget)

    def release(self) -> None:
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            self._forget()

    def _forget(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
