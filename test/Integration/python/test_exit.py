# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The end of a process whose other threads are in calls: it ends with 0, without a word, and waits for no timeout."""

import subprocess
import sys

import pytest

TEXT = """
import sys, threading
import numpy as np
import tandem

how = sys.argv[1]
ranks = 2 if how == "ranks" else 1
tp = tandem.Mesh("tp", x=ranks)
types = dict(x=tandem.TensorType("f32", (None, 64), tp["x", None]), w=tandem.TensorType("f32", (64, 32), tp[None, None]))

def product(x, w):
    return x @ w

product = tandem.fuse(**types, results=tp[None, None])(product)
w = np.ones((64, 32), np.float32)
started = threading.Semaphore(0)

def body(context):
    with context:
        for n in range(1, 1 << 20):
            if how in ("run", "ranks", "ended context"):
                product(np.ones((32, 64), np.float32), w)
            elif how == "compile":
                product(np.ones((n, 64), np.float32), w)
            elif how == "check":
                product.compile(shapes={"x": (32, 64)}).check()
            elif how == "contexts":
                tandem.Context().close()
            if n == 3:
                started.release()

if how == "ranks":
    world = tandem.World(2)
    threads = [threading.Thread(target=lambda rank: body(tandem.Context(world=world, rank=rank)), args=(rank,), daemon=True)
               for rank in range(2)]
else:
    context = tandem.Context() if how == "ended context" else tandem.init()
    threads = [threading.Thread(target=body, args=(context,), daemon=True) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: started.acquire()
"""


@pytest.mark.parametrize("how", ["run", "ranks", "compile", "check", "contexts", "ended context"])
def test_exit(how):
    for _ in range(3):
        found = subprocess.run([sys.executable, "-c", TEXT, how], capture_output=True, text=True, timeout=50)
        assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_a_kernel_that_refers_to_its_context_leaks_nothing():
    text = """
import numpy as np, tandem
context = tandem.Context()
tandem.register_kernel("k", lambda call: context, context=context)
"""
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=50)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
