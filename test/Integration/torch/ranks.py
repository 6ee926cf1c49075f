# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a function of layers.py on ranks that are processes with a gloo group."""

import os
import subprocess
import sys
import tempfile
import time
import traceback

import layers

HERE = os.path.dirname(os.path.abspath(__file__))


def fork(function, environment, log):
    """The number of a process that calls `function`. torch is imported once, by this process."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # pytest has its own
        os.environ.update(environment)
        function()
        code = 0
    except BaseException:  # noqa: BLE001 - the process ends
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(pid, deadline):
    """The exit status of a process; -1 if it has none in time, and is ended then."""
    while not (done := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return -1
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(done[1])


def together(start, ranks, seconds):
    """Calls start(environment, log), which returns the id of a process, for each rank. Returns the exit statuses
    and what the ranks printed. They meet in a file, TANDEM_TEST_STORE, so no port is needed."""
    with tempfile.TemporaryDirectory() as folder:
        base = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1",
                "TANDEM_TEST_STORE": os.path.join(folder, "store"), "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "cache")}
        logs = [open(os.path.join(folder, f"rank{rank}"), "w+b") for rank in range(ranks)]
        pids = [start({**base, "RANK": str(rank), "LOCAL_RANK": str(rank)}, log) for rank, log in enumerate(logs)]
        deadline = time.monotonic() + seconds
        codes = [wait(pid, deadline) for pid in pids]
        texts = []
        for log in logs:
            log.seek(0)
            texts.append(log.read().decode(errors="replace"))
            log.close()
        return codes, texts


def run(name, ranks, *arguments, seconds=240, fresh=False):
    """Calls layers.NAME(rank, ranks, *arguments) on each rank, in a process; fails with what the first one to fail
    printed. `fresh`: each process starts and ends its own interpreter."""
    def start(environment, log):
        if not fresh:
            return fork(lambda: layers.main(name, arguments), environment, log)
        command = [sys.executable, os.path.join(HERE, "layers.py"), name, *map(str, arguments)]
        return subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=log,
                                stderr=subprocess.STDOUT).pid

    codes, texts = together(start, ranks, seconds)
    for rank, code in enumerate(codes):
        assert code == 0, f"rank {rank} of {ranks}:\n{texts[rank][-6000:]}"
    return texts
