# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that fork after a run, as data loaders do: the child has none of the runtime's threads, and must not wait for them."""

import subprocess
import sys

import pytest

TEXT = """
import os, sys, threading, time
import numpy as np
import tandem

tp = tandem.Mesh("tp", x=1)

@tandem.fuse(x=tandem.TensorType("f32", (32, 64), tp["x", None]), w=tandem.TensorType("f32", (64, 32), tp[None, None]),
             results=tp[None, None])
def product(x, w):
    return x @ w

x, w = np.ones((32, 64), np.float32), np.ones((64, 32), np.float32)
assert (product(x, w) == 64).all()
program = product.compile()
program.prepare()
threads, stop = [], False
if sys.argv[1] == "while others run":
    def others():
        while not stop: product(x, w)
    threads = [threading.Thread(target=others) for _ in range(3)]
    for thread in threads: thread.start()
    time.sleep(0.05)
child = os.fork()
if child == 0:
    if sys.argv[1] != "exit":
        for call in (lambda: product(x, w), program.prepare, lambda: program(x, w)):
            try:
                call()
                os._exit(3)
            except tandem.ArgumentError as error:
                assert "from its fork" in str(error), error
    if sys.argv[1] == "close":
        tandem.current_context().close()
    if sys.argv[1] == "init":
        tandem.init()
        assert (product(x, w) == 64).all()
    if threads:
        os._exit(0)  # the frames of threads that are not there would be leaks
    sys.exit(0)
_, status = os.waitpid(child, 0)
stop = True
for thread in threads: thread.join()
assert (product(x, w) == 64).all()
sys.exit(status)
"""


@pytest.mark.parametrize("then", ["call", "close", "init", "exit", "while others run"])
def test_fork(then):
    found = subprocess.run([sys.executable, "-c", TEXT, then], capture_output=True, text=True, timeout=30)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
