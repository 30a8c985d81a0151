"""AutoTVM's child processes: start, stop, and the watchdog."""

import subprocess
import sys
import time

import psutil
import pytest
from tvm.contrib.popen_pool import PopenPoolExecutor

from autotvm_opevo.autotvm import watchdog
from autotvm_opevo.autotvm.processes import start, stop


class TestStop:
    @pytest.mark.soak
    def test_ends_busy_workers_although_their_threads_do_so_too(self):
        """As after Ctrl-C in a trial. Whoever is second finds no process: one time in four, that was an error."""
        for _ in range(8):
            executor = PopenPoolExecutor(max_workers=2, timeout=600)
            start(executor, 1)
            processes = [worker._proc for worker in executor._worker_map.values()]
            asleep = [executor.submit(time.sleep, 600) for _ in processes]
            time.sleep(0.2)
            stop(executor)
            assert all(process.wait(60) for process in processes)
            assert all(future.exception(60) for future in asleep)


class TestWatchdog:
    @pytest.fixture
    def orphan(self, monkeypatch):
        """A process that looks like one of AutoTVM's workers, with the mark of a run."""
        monkeypatch.setenv(watchdog.VARIABLE, "mark")
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "tvm.exec.popen_worker"])
        yield process
        process.kill()
        process.wait()

    def run(self, mark, text):
        """The script, alone: it must start without TVM and this package."""
        command = [sys.executable, "-I", "-X", "importtime", watchdog.SCRIPT, mark]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert not {"tvm", "autotvm_opevo", "numpy"} & {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    def test_kills_marked_processes_when_its_input_is_closed(self, orphan):
        self.run("mark", "")
        assert orphan.wait() < 0

    @pytest.mark.parametrize(("mark", "text"), [("mark", "done\n"), ("another mark", "")])
    def test_spares_them_when_dismissed_and_those_of_other_runs(self, orphan, mark, text):
        self.run(mark, text)
        assert psutil.Process(orphan.pid).status() != psutil.STATUS_ZOMBIE
        assert orphan.poll() is None
