# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ranks of a benchmark: threads of this process, or processes of a launcher or of `launch`."""

import contextlib
import faulthandler
import json
import os
import socket
import subprocess
import sys
import threading
import time

from .. import _tandem
from .._context import Context

_LEAD = 500_000  # ns from the arrival of the last rank to the common start: the news must have come by then
_ROUNDS = 16  # of clocks of several hosts
REPORTED = 5


class Ranks:
    """One rank's connection to the others: `rank`, `size`, `all_gather(bytes)`. All other calls are collective."""

    def __init__(self, rank, size, all_gather, local_rank, local_size, context):
        self.rank, self.size, self._gather, self._context = rank, size, all_gather, context
        self.local_rank, self.local_size = local_rank, local_size
        self.spins = (os.cpu_count() or 1) >= local_size  # each rank of the host has a core to itself
        self._offset = 0
        self.watched, self._phase = None, "starting"

    def context(self, **options):
        return Context(**self._context, **options)

    def gather_bytes(self, data):
        """Those of all ranks, by rank."""
        sizes = [int(size) for size in self._gather(b"%20d" % len(data))]
        parts = self._gather(data.ljust(max(sizes))) if max(sizes) else [b""] * self.size
        return [part[:size] for part, size in zip(parts, sizes)]

    def gather(self, value):
        """What all ranks say (JSON), by rank."""
        return [json.loads(part) for part in self.gather_bytes(json.dumps(value).encode())]

    def share(self, data):
        """Rank 0's bytes, on all ranks."""
        return self.gather_bytes(data if self.rank == 0 else b"")[0]

    def first_problem(self, problem):
        """That of the first rank that has one, with its number; "" if none has."""
        return next((f"rank {rank}: {text}" for rank, text in enumerate(self.gather(problem)) if text), "")

    def attempt(self, action):
        """Why some rank could not do it; "" if all could."""
        try:
            action()
            problem = ""
        except Exception as error:  # noqa: BLE001 - what cannot be prepared is reported as refused
            problem = f"{type(error).__name__}: {error}".splitlines()[0][:400]
        return self.first_problem(problem)

    def start(self):
        """Once: the difference of the clocks of several hosts."""
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            hosts = self.gather(file.read())
        if len(set(hosts)) == 1:
            return
        least, most = -(1 << 62), 1 << 62
        for _ in range(_ROUNDS):  # rank 0's time was sent before it was read here, and this rank's before it was read there
            mine = time.monotonic_ns()
            sent = self.gather(mine)
            arrived = time.monotonic_ns()
            read = self.gather(arrived)
            most, least = min(most, arrived - sent[0]), max(least, mine - read[0])
        self._offset = 0 if self.rank == 0 else (least + most) // 2

    def barrier(self, word=0):
        """The common start, in ns of this host's clock, and rank 0's word."""
        parts = self._gather(b"%20d%20d" % (time.monotonic_ns() - self._offset, word))
        return max(int(part[:20]) for part in parts) + _LEAD + self._offset, int(parts[0][20:])

    def phase(self, text, seconds):
        """From now on this rank does `text`, within so many seconds: else the process ends with a stack of each thread."""
        self._phase = text
        if self.watched is not None:
            with open(self.watched, "w", encoding="utf-8") as file:
                file.write(text)
            faulthandler.dump_traceback_later(seconds, exit=True)


class _Threads:
    """An all-gather of threads."""

    def __init__(self, size, timeout):
        self.parts, self.barrier, self.timeout = [None] * size, threading.Barrier(size), timeout

    def all_gather(self, rank, data):
        self.parts[rank] = data
        self.barrier.wait(self.timeout)
        parts = list(self.parts)
        self.barrier.wait(self.timeout)
        return parts


def run_threads(size, options, timeout, body):
    """`body(ranks)` on ranks that are threads of this process; gives rank 0's result. Raises the first error."""
    world, shared, results, failures = _tandem.World(size, timeout), _Threads(size, timeout), [None] * size, []

    def one(rank):
        try:
            results[rank] = body(Ranks(rank, size, lambda data: shared.all_gather(rank, data), rank, size,
                                       {"world": world, "rank": rank, "timeout": timeout, **options}))
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)
            shared.barrier.abort()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise next((error for error in failures if not isinstance(error, threading.BrokenBarrierError)), failures[0])
    return results[0]


def join(options, timeout, folder=""):
    """This process as a rank of its launcher's job. `folder`: where `launch` reads what it does."""
    job = _tandem.Job()
    ranks = Ranks(job.rank, job.world_size, job.all_gather, job.local_rank, job.local_size,
                  {"bootstrap": job, "timeout": timeout, **options})
    if folder:
        ranks.watched = os.path.join(folder, f"phase.{job.rank}")
    return ranks


def is_launched():
    """Whether a launcher started this process as one of several ranks."""
    return any(int(os.environ.get(name) or 1) > 1 for name in
               ("TANDEM_WORLD_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"))


def launch(size, arguments, folder):
    """Starts `size` ranks on this host. (exit status, "", ""), or the status, the phase and the reason of the first rank that failed.
    A rank that ends with REPORTED has said what is wrong."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    processes = []
    try:
        for rank in range(size):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size),
                           "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            environment.setdefault("OMP_NUM_THREADS", "1")
            processes.append(subprocess.Popen([sys.executable, "-m", "tandem.bench", *arguments, f"--folder={folder}"], env=environment,
                                              stdin=subprocess.DEVNULL))
        while True:
            codes = [process.poll() for process in processes]
            failed = [rank for rank, code in enumerate(codes) if code not in (None, 0, 3, 4, REPORTED)]
            if failed:
                # The one that says why comes first: another may have died of it.
                rank = min(failed, key=lambda one: not os.path.exists(os.path.join(folder, f"error.{one}")))
                return codes[rank], _read(folder, "phase", rank), f"rank {rank}: " + (
                    _read(folder, "error", rank) or f"ended with status {codes[rank]}")
            if None not in codes:
                return 1 if REPORTED in codes else max(filter(None, codes), default=0), "", ""
            time.sleep(0.02)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def _read(folder, kind, rank):
    path = os.path.join(folder, f"{kind}.{rank}")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()
