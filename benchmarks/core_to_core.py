"""How long a cache line takes from one core to another.

    python -m benchmarks.core_to_core

A hypervisor may move a virtual CPU to a core that shares no cache with the others, for seconds or
minutes. What an operator then reads of the one before it comes from the other core's cache, or from
memory: networks take half as long again, kernels that are timed alone do not.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

# Two threads write to the same cache line in turns; prints the nanoseconds of one way.
_SOURCE = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TURNS = 100000 };
static _Alignas(128) atomic_int line;

static void run_on(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

static void take_turns(int first) {
  for (int turn = first; turn < 2 * TURNS; turn += 2) {
    while (atomic_load_explicit(&line, memory_order_acquire) != turn) {}
    atomic_store_explicit(&line, turn + 1, memory_order_release);
  }
}

static void* other(void* core) {
  run_on(*(int*)core);
  take_turns(1);
  return NULL;
}

int main(int argc, char** argv) {
  int core = atoi(argv[2]);
  pthread_t thread;
  struct timespec begin, end;
  run_on(atoi(argv[1]));
  pthread_create(&thread, NULL, other, &core);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  take_turns(0);
  pthread_join(thread, NULL);
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("%f\\n",
         ((end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec) / (2 * TURNS));
}
"""
# Of several attempts the shortest counts, since other processes disturb.
_ATTEMPTS = 3


def core_to_core() -> float:
    """Nanoseconds from the first core of this process to the farthest of its others; 0 with a
    single core.
    """
    first, *others = sorted(os.sched_getaffinity(0))
    return max((_one_way(first, other) for other in others), default=0.0)


def _one_way(first: int, second: int) -> float:
    command = [_program(), str(first), str(second)]
    return min(
        float(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=60).stdout)
        for _ in range(_ATTEMPTS)
    )


# Deleted when this process ends.
_folder = tempfile.TemporaryDirectory()


@cache
def _program() -> str:
    program = str(Path(_folder.name, "core_to_core"))
    subprocess.run(
        ["cc", "-O2", "-pthread", "-x", "c", "-", "-o", program],
        check=True,
        input=_SOURCE.encode(),
        timeout=60,
    )
    return program


def main() -> None:
    for _ in range(10):
        print(f"{time.strftime('%X')}  {core_to_core():.0f} ns", flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main()
