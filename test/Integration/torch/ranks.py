# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a function of layers.py on ranks that are processes with a gloo group."""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def run(name, ranks, *arguments, seconds=240):
    """Starts `ranks` processes that call layers.NAME(rank, ranks, *arguments); fails with what the first one to fail
    printed. A rank that is left over is ended. They meet in a file, so no port is needed."""
    with tempfile.TemporaryDirectory() as folder:
        base = {**os.environ, "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1",
                "TANDEM_TEST_STORE": os.path.join(folder, "store"), "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "cache")}
        logs = [open(os.path.join(folder, f"rank{rank}"), "w+b") for rank in range(ranks)]
        processes = [
            subprocess.Popen([sys.executable, os.path.join(HERE, "layers.py"), name, *map(str, arguments)],
                             env={**base, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdin=subprocess.DEVNULL,
                             stdout=log, stderr=subprocess.STDOUT)
            for rank, log in enumerate(logs)]
        try:
            codes = [process.wait(seconds) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        texts = []
        for log in logs:
            log.seek(0)
            texts.append(log.read().decode(errors="replace"))
            log.close()
        for rank, code in enumerate(codes):
            assert code == 0, f"rank {rank} of {ranks}:\n{texts[rank][-6000:]}"
        return texts
