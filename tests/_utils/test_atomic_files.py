"""Atomic writes and locks."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys

import pytest

from autotvm_opevo._utils.atomic_files import (
    Lock,
    LogInUse,
    check_room,
    check_writable,
    set_aside,
    write_whole,
)


def failing():
    yield b"half\n"
    raise RuntimeError("power cut")


@pytest.fixture
def small_files():
    """As on a full disk, no file may be larger than some bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


class TestCheckWritable:
    def test_a_folder_with_room_is_left_as_it_was(self, tmp_path):
        (tmp_path / "log").write_text("a line\n")
        check_writable(tmp_path, tmp_path / "log", tmp_path / "missing")
        assert [path.read_text() for path in tmp_path.iterdir()] == ["a line\n"]

    def test_a_lack_of_room_is_an_error_that_names_the_folder(self, tmp_path, small_files):
        with pytest.raises(OSError, match="cannot write here: File too large") as error:
            check_writable(tmp_path)
        assert error.value.filename == str(tmp_path)
        assert not list(tmp_path.iterdir())

    def test_a_file_that_cannot_be_written_is_an_error_that_names_it(self, tmp_path):
        (tmp_path / "log").mkdir()  # root may write to any file
        with pytest.raises(OSError, match="cannot write here") as error:
            check_writable(tmp_path, tmp_path / "log")
        assert error.value.filename == str(tmp_path / "log")


class TestCheckRoom:
    def test_an_error_where_there_is_room_has_another_cause(self, tmp_path):
        check_room(str(tmp_path), "the worker process died")

    def test_nothing_is_written_to_the_disk_for_it(self, tmp_path, monkeypatch):
        """Every build of a search may fail."""
        monkeypatch.delattr(os, "fsync")
        check_room(str(tmp_path), "the compiler failed")

    def test_what_dies_where_there_is_none_dies_of_that(self, tmp_path, small_files):
        with pytest.raises(OSError, match="cannot write here: File too large"):
            check_room(str(tmp_path), "the worker process died")

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
    def test_what_names_a_full_disk_failed_of_it_though_there_is_room_again(self, tmp_path, number):
        error = RuntimeError(f"ld: final link failed: {os.strerror(number)}")
        with pytest.raises(OSError, match=os.strerror(number)) as raised:
            check_room(str(tmp_path), error)
        assert (raised.value.errno, raised.value.filename) == (number, str(tmp_path))


class TestWriteWhole:
    def test_replaces_the_content_and_keeps_the_mode(self, tmp_path):
        path = tmp_path / "log"
        path.write_bytes(b"old\n")
        path.chmod(0o640)
        write_whole(path, [b"new\n", b"lines\n"])
        assert path.read_bytes() == b"new\nlines\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def test_a_file_is_replaced_where_modes_cannot_be_changed(self, tmp_path, monkeypatch):
        """As in folders that a virtual machine shares."""

        def chmod(*_, **__):
            raise PermissionError(errno.EPERM, "Operation not permitted")

        path = tmp_path / "log"
        path.write_bytes(b"old\n")
        monkeypatch.setattr("os.chmod", chmod)
        write_whole(path, [b"new\n"])
        assert path.read_bytes() == b"new\n"

    def test_a_symbolic_link_stays_one(self, tmp_path):
        (tmp_path / "disk").mkdir()
        path, link = tmp_path / "disk" / "page", tmp_path / "link"
        link.symlink_to(path)
        for content in (b"new\n", b"newer\n"):
            write_whole(link, [content])
            assert path.read_bytes() == content
        assert link.is_symlink()

    def test_a_file_system_that_cannot_sync_folders_is_written(self, tmp_path, monkeypatch):
        """As VirtualBox's shared folders."""

        def fsync(file):
            if stat.S_ISDIR(os.fstat(file).st_mode):
                raise OSError(errno.EINVAL, "Invalid argument")

        monkeypatch.setattr("os.fsync", fsync)
        write_whole(tmp_path / "log", [b"new\n"])
        assert (tmp_path / "log").read_bytes() == b"new\n"

    def test_leaves_the_old_content_after_an_error(self, tmp_path):
        path = tmp_path / "log"
        path.write_bytes(b"old\n")
        with pytest.raises(RuntimeError, match="power cut"):
            write_whole(path, failing())
        assert path.read_bytes() == b"old\n"
        assert os.listdir(tmp_path) == ["log"]


class TestSetAside:
    def test_moves_bad_lines_to_a_file_of_their_own(self, tmp_path):
        path = tmp_path / "log"
        for bad in ([b"first"], [], [b"second\n"]):
            set_aside(path, [b"good\n", b"last"], bad)
        assert path.read_bytes() == b"good\nlast\n"
        assert (tmp_path / "log.rejected").read_bytes() == b"first\nsecond\n"


class TestLock:
    def test_error_names_the_pid_of_the_holder(self, tmp_path):
        first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
        first.acquire(tmp_path / "log")
        with pytest.raises(
            LogInUse, match=f"log is being written by the process with pid {os.getpid()}"
        ):
            second.acquire(tmp_path / "log")
        first.release()
        second.acquire(tmp_path / "log")
        second.release()
        assert not (tmp_path / "lock").exists()

    def test_one_that_cannot_be_written_is_not_held(self, tmp_path, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("os.pwrite", full)
            with pytest.raises(OSError, match="No space left"):
                Lock(tmp_path / "lock").acquire(tmp_path / "log")
        lock = Lock(tmp_path / "lock")
        lock.acquire(tmp_path / "log")
        lock.release()

    def test_forked_child_does_not_hold_it(self, tmp_path):
        first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
        first.acquire(tmp_path / "log")
        ready, done = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            os.write(ready[1], b".")
            os.read(done[0], 1)
            os._exit(0)
        try:
            os.read(ready[0], 1)
            first.release()
            second.acquire(tmp_path / "log")
            second.release()
        finally:
            os.write(done[1], b".")
            os.waitpid(child, 0)
            for end in (*ready, *done):
                os.close(end)

    @pytest.mark.parametrize(
        "child",
        [
            "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)",
            "import os; os.fork() or print(os.getpid(), flush=True)",
        ],
    )
    def test_is_released_when_its_holder_dies_even_if_children_live_on(self, tmp_path, child):
        code = (
            "import sys, time; from pathlib import Path; from "
            "autotvm_opevo._utils.atomic_files import Lock\n"
            f"lock = Lock(Path(sys.argv[1])); lock.acquire(Path('log')); {child}; time.sleep(600)"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code, tmp_path / "lock"], stdout=subprocess.PIPE, text=True
        )
        pid = int(process.stdout.readline())
        try:
            with pytest.raises(LogInUse, match=f"pid {process.pid}:"):
                Lock(tmp_path / "lock").acquire(tmp_path / "log")
            process.kill()
            process.wait()
            lock = Lock(tmp_path / "lock")
            lock.acquire(tmp_path / "log")
            lock.release()
            os.kill(pid, 0)  # is alive
        finally:
            os.kill(pid, signal.SIGKILL)

    def test_many_processes_get_it_one_at_a_time(self, tmp_path):
        """Each increments a counter, which would miss increments if two did so at once."""
        code = (
            "import sys, time\n"
            "from pathlib import Path\n"
            "from autotvm_opevo._utils.atomic_files import Lock, LogInUse\n"
            "lock, count = Lock(Path(sys.argv[1])), Path(sys.argv[2])\n"
            "for _ in range(20):\n"
            "    while True:\n"
            "        try:\n"
            "            lock.acquire(Path('log'))\n"
            "            break\n"
            "        except LogInUse: time.sleep(0.001)\n"
            "    n = int(count.read_text() or 0) if count.exists() else 0\n"
            "    time.sleep(0.002); count.write_text(str(n + 1))\n"
            "    lock.release()\n"
        )
        command = [sys.executable, "-c", code, tmp_path / "lock", tmp_path / "count"]
        processes = [subprocess.Popen(command) for _ in range(3)]
        assert [process.wait() for process in processes] == [0, 0, 0]
        assert (tmp_path / "count").read_text() == "60"


def test_a_file_that_is_no_lock_is_refused_untouched(tmp_path):
    """As with a log called poetry, beside poetry.lock."""
    path = tmp_path / "poetry.lock"
    path.write_text("[[package]]\n")
    with pytest.raises(ValueError, match="it is another file"):
        Lock(path).acquire(tmp_path / "poetry")
    assert path.read_text() == "[[package]]\n"


def test_a_file_system_without_locks_is_not_called_in_use(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(OSError, match=r"\(No locks available\): use a folder") as raised:
        Lock(tmp_path / "lock").acquire(tmp_path)
    assert not isinstance(raised.value, LogInUse)
    assert raised.value.filename == str(tmp_path / "lock")


def test_a_lock_left_by_a_killed_process_is_taken(tmp_path):
    path = tmp_path / "log.lock"
    path.write_text("12345\n")
    lock = Lock(path)
    lock.acquire(tmp_path / "log")
    assert path.read_text() == f"{os.getpid()}\n"
    lock.release()
    assert not path.exists()
