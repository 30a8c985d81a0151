"""Atomic file replacement and lock files: logs survive power cuts and have one writer at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

# Bytes that must be free for a log to be begun; one of some thousand trials has as many.
_ROOM = 1 << 20


class LogInUse(RuntimeError):
    """Another process is writing the log."""


def check_writable(folder: Path, *files: Path) -> None:
    """Raise `OSError` if there is no room in a folder, or one of its files exists and cannot be
    appended to: it is better to know before the first measurement than after it.
    """
    where = folder
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_ROOM))
            probe.flush()  # which has to find room, long before it is on the disk
        for where in files:
            if where.exists():
                os.close(os.open(where, os.O_WRONLY | os.O_APPEND))
    except OSError as error:
        raise OSError(error.errno, f"cannot write here: {error.strerror}", str(where)) from error


def check_room(folder: str, error: object) -> None:
    """Raise `OSError` if something failed since there is no room in a folder; `error` is what was
    said of it, which may be nothing of the disk.
    """
    for number in (errno.ENOSPC, errno.EDQUOT):
        full = os.strerror(number)
        if full in str(error):  # there may be room again, where many such have failed
            raise OSError(number, full, folder)
    check_writable(Path(folder))


def write_whole(path: Path, lines: Iterable[bytes]) -> None:
    """Replace a file atomically: readers see the old content or the new, never a part."""
    path = path.resolve()  # a symbolic link stays one
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            with suppress(OSError):  # of file systems without modes
                shutil.copymode(path, partial)
        os.replace(partial, path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def set_aside(path: Path, good: Iterable[bytes], bad: Sequence[bytes]) -> None:
    """Keep the good lines in a file and move the bad ones to ``PATH.rejected``. These reach the
    disk first, so that no line is lost if the process is killed in between.
    """
    if bad:
        with open(f"{path}.rejected", "ab") as file:
            file.writelines(terminated(bad))
            file.flush()
            os.fsync(file.fileno())
    write_whole(path, terminated(good))


def sync(folder: Path) -> None:
    """Flush a folder's entries to disk; until then a power cut can lose new files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # which some shared folders say, of folders only
            raise
    finally:
        os.close(descriptor)


def terminated(lines: Iterable[bytes]) -> Iterable[bytes]:
    """Yield the lines, adding the newline that a torn last line lacks."""
    return (line if line.endswith(b"\n") else line + b"\n" for line in lines)


# Locks of this process. A forked child would share them and keep them after we exit; a child that
# calls exec does not.
_locks: WeakSet[Lock] = WeakSet()


class Lock:
    """A lock file, created when it is acquired, held by one process at a time, and removed when it
    is released. The kernel releases it when that process ends, whatever its children do.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def acquire(self, what: Path) -> None:
        """Take the lock without waiting; `what` is the file that it protects. Raises `LogInUse`,
        with the pid, if another process holds it, and `ValueError` if there is a file of that name
        that is no lock, which is left untouched.
        """
        is_held = False
        while not is_held:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                is_held = self._hold(file, what)
            finally:
                if not is_held:
                    os.close(file)
        self._file = file
        _locks.add(self)

    def _hold(self, file: int, what: Path) -> bool:
        """Lock an open file; False if its holder has removed it since it was opened."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file), os.stat(self._path)):
                return False
        except BlockingIOError:
            holder = os.pread(file, 32, 0).decode(errors="replace").strip() or "unknown"
            raise LogInUse(
                f"{what} is being written by the process with pid {holder}: wait for it, stop it, "
                "or use another log"
            ) from None
        except FileNotFoundError:
            return False
        except OSError as error:  # such as of a network's file system without locks
            why = f"cannot lock it ({error.strerror}): use a folder whose file system has locks"
            raise OSError(error.errno, why, str(self._path)) from None
        # a lock left behind by a killed process holds its pid
        if os.pread(file, 64, 0).strip(b"0123456789\n"):
            must = f"must not exist or be a lock of {what}"
            raise ValueError(f"{self._path} {must}, it is another file: choose another name")
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        return True

    def release(self) -> None:
        """Remove the lock file, if this process holds the lock."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


def _forget_locks() -> None:
    for lock in list(_locks):
        if lock._file is not None:
            os.close(lock._file)
            lock._file = None


os.register_at_fork(after_in_child=_forget_locks)
