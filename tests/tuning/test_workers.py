"""Worker processes: started by forking, killed when late, replaced when dead, and gone with their
owner.
"""

import math
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack

import psutil
import pytest

from autotvm_opevo._utils.cpu_cores import affinity
from autotvm_opevo.tuning import workers
from autotvm_opevo.tuning.workers import (
    FORK_TIMEOUT,
    ForkServer,
    ForkServerError,
    Worker,
    WorkerPool,
)

MODULE = "json"  # starts in no time


@pytest.fixture
def worker():
    worker = Worker(MODULE)
    yield worker
    worker.kill()


@pytest.fixture
def pool():
    pool = WorkerPool(MODULE, 2)
    yield pool
    pool.close()


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def eventually(condition):
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


class TestWorker:
    def test_calls_functions_in_one_other_process(self, worker):
        assert worker.call(pow, 2, 10, timeout=60) == 1024
        pids = {worker.call(os.getpid, timeout=60) for _ in range(3)}
        assert len(pids) == 1
        assert os.getpid() not in pids

    def test_raises_what_the_function_raises_and_goes_on(self, worker):
        before = worker.call(os.getpid, timeout=60)
        with pytest.raises(ZeroDivisionError):
            worker.call(divmod, 1, 0, timeout=60)
        assert worker.call(os.getpid, timeout=60) == before

    def test_a_result_that_cannot_be_sent_is_an_error(self, worker):
        with pytest.raises(RuntimeError, match="cannot send"):
            worker.call(lambda: (i for i in ()), timeout=60)

    def test_a_late_call_is_a_timeout_and_its_answer_is_not_the_next_call_s(self, worker):
        before = worker.call(os.getpid, timeout=60)
        with pytest.raises(TimeoutError, match=r"longer than 0\.2 seconds"):
            worker.call(time.sleep, 60, timeout=0.2)
        assert worker.call(pow, 2, 3, timeout=60) == 8
        assert eventually(lambda: gone(before))

    def test_a_worker_that_dies_is_replaced(self, worker):
        with pytest.raises(ChildProcessError, match="died"):
            worker.call(os.kill, 0, signal.SIGKILL, timeout=60)  # 0 is its process group
        assert worker.call(pow, 2, 3, timeout=60) == 8

    def test_one_that_died_while_it_was_idle_costs_no_call(self, worker):
        pid = worker.call(os.getpid, timeout=60)
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: gone(pid))
        assert worker.call(pow, 2, 3, timeout=60) == 8

    def test_what_it_started_dies_with_it(self, worker):
        child = worker.call(lambda: subprocess.Popen(["sleep", "600"]).pid, timeout=60)
        worker.kill()
        assert eventually(lambda: gone(child))

    def test_has_the_environment_and_the_folder_of_its_start(self, worker, tmp_path, monkeypatch):
        monkeypatch.setenv("FOR_THE_WORKER", "yes")
        monkeypatch.chdir(tmp_path)
        assert worker.call(os.environ.get, "FOR_THE_WORKER", timeout=60) == "yes"
        assert worker.call(os.getcwd, timeout=60) == str(tmp_path)

    @pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
    def test_uses_all_cpus_though_the_thread_that_starts_it_is_bound_to_one(self):
        """As by TVM, once it has run a kernel."""
        cpus = os.sched_getaffinity(0)
        worker = Worker("csv")  # whose server has not started
        os.sched_setaffinity(0, {min(cpus)})
        try:
            assert worker.call(os.sched_getaffinity, 0, timeout=60) == affinity()
        finally:
            os.sched_setaffinity(0, cpus)
            worker.kill()

    def test_a_server_that_was_killed_is_replaced(self, worker):
        worker.call(os.getpid, timeout=60)
        server = ForkServer.start(MODULE)
        server._process.kill()
        server._process.wait(60)
        worker.kill()
        assert worker.call(pow, 2, 3, timeout=60) == 8

    def test_a_module_that_cannot_be_imported_is_an_error(self):
        with pytest.raises(
            ForkServerError, match="the process that imports there_is_no_such_module ended"
        ):
            Worker("there_is_no_such_module").call(pow, 2, 3, timeout=60)

    def test_a_folder_that_is_gone_is_no_fault_of_the_call(self, worker, tmp_path, monkeypatch):
        folder = tmp_path / "folder"
        folder.mkdir()
        monkeypatch.chdir(folder)
        folder.rmdir()
        with pytest.raises(
            ForkServerError, match="no worker process could be started: No such file or directory"
        ):
            worker.call(pow, 2, 3, timeout=60)

    def test_it_starts_where_more_than_1024_files_are_open(self):
        """Which is more than ``select`` can wait for."""
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 <= before[1] < 2048:  # less than 0 is no limit
            pytest.skip("as many files cannot be opened here")
        with ExitStack() as stack:
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
            resource.setrlimit(resource.RLIMIT_NOFILE, (2048, before[1]))
            for _ in range(1024):
                stack.enter_context(open(os.devnull))
            worker = Worker("string")  # whose server starts now
            stack.callback(worker.kill)
            assert worker.call(pow, 2, 3, timeout=60) == 8

    def test_one_that_is_still_starting_is_not_waited_for(self, worker, monkeypatch):
        """Ctrl-C comes while its module is imported."""
        start = ForkServer.start(MODULE)
        os.killpg(start._process.pid, signal.SIGSTOP)
        try:
            monkeypatch.setattr(workers, "FORK_TIMEOUT", 0.1)
            monkeypatch.setattr(workers, "_KILL_TIMEOUT", math.inf)
            with pytest.raises(ForkServerError, match="took longer"):
                worker.call(pow, 2, 3, timeout=60)
        finally:
            os.killpg(start._process.pid, signal.SIGCONT)

    def test_a_pause_does_not_count_for_the_timeout(self, worker):
        """By a clock that only the waiting moves; the answer comes after 50 s, 30 of which are a
        pause.
        """
        now = 0.0

        class Connection:
            def poll(self, seconds=0.0):
                nonlocal now
                now += seconds
                if now == 10.0:  # another thread pauses it
                    worker._paused_at = now
                    now = 40.0
                    worker.resume()
                return now >= 50.0

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(workers.time, "monotonic", lambda: now)
            assert worker._answers(Connection(), timeout=25.0)
            now, worker._paused_seconds = 0.0, 0.0
            assert not worker._answers(Connection(), timeout=15.0)

    def test_time_in_which_all_processes_were_stopped_does_not_count_for_the_timeout(self, worker):
        """As a container's that is paused, by a clock that only the waiting moves."""
        times = iter([3600.0, 1.0])
        now = 0.0

        class Connection:
            def poll(self, seconds=0.0):
                nonlocal now
                now += next(times)
                return now > 3600.0

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(workers.time, "monotonic", lambda: now)
            assert worker._answers(Connection(), timeout=5.0)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_a_signal_for_all_processes_of_a_job_is_for_the_one_that_started_them(
        self, worker, number
    ):
        """Or builds would end by it, and count as failures."""
        pid, server = worker.call(os.getpid, timeout=60), worker.call(os.getppid, timeout=60)
        for process in (pid, server):
            os.kill(process, number)
        time.sleep(0.2)
        assert worker.call(os.getpid, timeout=60) == pid
        worker.kill()
        assert worker.call(os.getppid, timeout=60) == server

    def test_a_paused_process_goes_on_when_it_is_resumed(self, worker):
        pid = worker.call(os.getpid, timeout=60)
        worker.pause()
        assert eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        worker.resume()
        assert worker.call(os.getpid, timeout=60) == pid

    def test_a_process_that_starts_during_a_pause_is_paused(self, worker):
        """Or a build would disturb the trial for which builds are paused."""
        worker.pause()
        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(worker.call, pow, 2, 3, timeout=60)
            try:
                assert eventually(
                    lambda: worker._pid
                    and psutil.Process(worker._pid).status() == psutil.STATUS_STOPPED
                )
                assert not answer.done()
            finally:
                worker.resume()
            assert answer.result(60) == 8

    @pytest.mark.parametrize("timeout", [math.inf, 1e9])
    def test_a_call_may_take_as_long_as_it_likes(self, worker, timeout):
        assert worker.call(pow, 2, 3, timeout=timeout) == 8

    def test_a_paused_process_can_be_killed(self, worker):
        pid = worker.call(os.getpid, timeout=60)
        worker.pause()
        worker.kill()
        assert eventually(lambda: gone(pid))
        worker.resume()
        assert worker.call(os.getpid, timeout=60) != pid


class TestWorkerPool:
    def test_no_call_begins_while_it_is_paused(self, pool):
        assert pool.submit(int, timeout=60).result(60) == 0
        pool.pause()
        waiting = [pool.submit(pow, 2, i, timeout=60) for i in range(3)]
        time.sleep(0.3)
        assert not any(future.done() for future in waiting)
        pool.resume()
        assert [future.result(60) for future in waiting] == [1, 2, 4]

    def test_a_paused_pool_can_be_closed(self, pool):
        running = pool.submit(time.sleep, 600, timeout=600)
        assert eventually(lambda: any(worker._pid for worker in pool._workers))
        pool.pause()
        waiting = pool.submit(int, timeout=60)
        pool.close()
        assert isinstance(running.exception(60), ChildProcessError)
        assert waiting.cancelled() or waiting.exception(60) is not None or waiting.result(60) == 0

    def test_calls_run_at_the_same_time_in_as_many_workers(self, pool, tmp_path):
        def meet(mine, other):
            open(mine, "w").close()
            while not os.path.exists(other):
                time.sleep(0.01)
            return os.getpid()

        files = str(tmp_path / "a"), str(tmp_path / "b")
        futures = [pool.submit(meet, *pair, timeout=60) for pair in (files, files[::-1])]
        assert len({future.result() for future in futures}) == 2

    def test_no_more_start_than_there_are_calls_at_a_time(self, pool):
        """Of a hundred, most would only take memory."""
        assert len({pool.submit(os.getpid, timeout=60).result() for _ in range(4)}) == 1

    def test_a_worker_is_replaced_after_many_calls(self, pool, monkeypatch):
        monkeypatch.setattr(workers, "_MAX_CALLS", 2)
        pids = [pool.submit(os.getpid, timeout=60).result() for _ in range(4)]
        assert pids[0] == pids[1] != pids[2] == pids[3]

    def test_none_waits_for_the_slowest(self, pool, tmp_path):
        last = str(tmp_path / "last")

        def wait():
            while not os.path.exists(last):
                time.sleep(0.01)

        slow = pool.submit(wait, timeout=60)
        quick = [pool.submit(pow, 2, i, timeout=60) for i in range(5)]
        assert [future.result() for future in quick] == [1, 2, 4, 8, 16]
        pool.submit(lambda: open(last, "w").close(), timeout=60).result()
        slow.result()

    def test_close_ends_calls_that_run_and_cancels_those_that_wait(self, pool):
        pool.submit(pow, 2, 3, timeout=60).result()
        running = [pool.submit(time.sleep, 600, timeout=600) for _ in range(2)]
        waiting = pool.submit(pow, 2, 3, timeout=60)
        assert eventually(lambda: all(future.running() for future in running))
        pool.close()
        assert all(isinstance(future.exception(), ChildProcessError) for future in running)
        with pytest.raises(CancelledError):
            waiting.result()
        assert pool.submit(pow, 2, 3, timeout=60).result() == 8

    def test_can_be_closed_again_and_again_while_calls_run(self, pool):
        for _ in range(3):
            running = [pool.submit(time.sleep, 600, timeout=600) for _ in range(2)]
            pool.close()
            assert all(future.done() for future in running)


OWNER = f"""
import os, time
from autotvm_opevo.tuning.workers import Worker
worker = Worker({MODULE!r})
pid, parent = worker.call(os.getpid, timeout={FORK_TIMEOUT}), worker.call(os.getppid, timeout=60)
print(pid, parent, flush=True)
worker.call(time.sleep, 600, timeout=600)
"""


@pytest.mark.parametrize("harm", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_however_the_owner_ends_no_process_stays_behind(harm):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 2
    owner.send_signal(harm)
    owner.wait(60)
    assert eventually(lambda: all(map(gone, pids)))


def test_a_pool_whose_end_was_interrupted_can_be_used_again_and_ends_then(pool, monkeypatch):
    worker = pool.submit(os.getpid, timeout=60).result(60)
    late = pool.submit(time.sleep, 600, timeout=6000)
    assert eventually(late.running)
    with monkeypatch.context() as patch:

        def interrupt(_):
            raise KeyboardInterrupt

        patch.setattr(workers.time, "sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pool.close()
    assert pool.submit(pow, 2, 3, timeout=60).result(60) == 8
    assert late.done()
    assert eventually(lambda: gone(worker))
