# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Threads that share the context of tandem.init: calls run one after another, and none is wrong."""

import subprocess
import sys

import pytest

# Each process starts cold: the context, the program and the instance are made by whichever thread comes first.
TEXT = """
import sys, threading
import numpy as np
import tandem

tp = tandem.Mesh("tp", x=1)

@tandem.fuse(x=tandem.TensorType("f32", (None, 64), tp["x", None]), w=tandem.TensorType("f32", (64, 32), tp[None, None]),
             results=tp[None, None])
def product(x, w):
    return x @ w

def fused(x, w):
    return product(x, w)

kind, shapes, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
product.most_programs = most
if kind == "program":
    program = product.compile(shapes={"x": (32, 64)}, ranks=1)
    fused = program
start, failures = threading.Barrier(8), []

def body(seed):
    random = np.random.default_rng(seed)
    try:
        start.wait()
        for run in range(100):
            rows = 32 * (1 + (seed + run) % shapes)
            x = random.uniform(-1, 1, (rows, 64)).astype(np.float32)
            w = random.uniform(-1, 1, (64, 32)).astype(np.float32)
            if np.abs(fused(x, w) - x @ w).max() > 1e-4:
                failures.append((seed, run, "wrong"))
    except BaseException as error:
        failures.append((seed, error))

threads = [threading.Thread(target=body, args=(seed,)) for seed in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(failures), failures[:3])
"""


@pytest.mark.parametrize("kind, shapes, most", [("program", 1, 512), ("fusion", 1, 512), ("fusion", 3, 512), ("fusion", 3, 1)])
def test_shared_context(kind, shapes, most):
    for _ in range(3):
        found = subprocess.run([sys.executable, "-c", TEXT, kind, str(shapes), str(most)], capture_output=True, text=True, timeout=60)
        assert (found.returncode, found.stdout) == (0, "0 []\n"), found.stdout + found.stderr


def test_close_while_others_run():
    """A call of another thread ends, or says that the context is closed."""
    text = TEXT.replace("for thread in threads: thread.join()",
                        "import time; time.sleep(0.3); tandem.current_context().close()\n"
                        "for thread in threads: thread.join()\n"
                        "failures = [one for one in failures if 'closed' not in str(one[1])]").replace("range(100)", "range(20000)")
    found = subprocess.run([sys.executable, "-c", text, "program", "1", "512"], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (0, "0 []\n"), found.stdout + found.stderr


def test_closed_contexts():
    """Threads prepare a program at once that closed contexts have kept: each end of such a context lets another of
    the threads go on."""
    text = """
import tandem
tp = tandem.Mesh("tp", x=8)
@tandem.fuse(x=tandem.TensorType("f32", (None, 64), tp["x", None]), w=tandem.TensorType("f32", (64, 32), tp[None, None]),
             results=tp[None, None])
def product(x, w):
    return x @ w
program = product.compile(shapes={"x": (64, 64)}, ranks=8)
for _ in range(60):
    with tandem.local_world(8) as world:
        world.run(program.prepare)
print("done")
"""
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (0, "done\n"), found.stdout + found.stderr
