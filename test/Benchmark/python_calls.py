# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a call from Python costs before the device has something to do. Microseconds, the best of several rounds.

    PYTHONPATH=build/release/python python3 test/Benchmark/python_calls.py [DEVICE [torch]]

DEVICE: null (default: nothing is computed), cpu or cuda. With "torch", tensors of torch; else of NumPy. On a GPU the host
does not wait for runs, so the time is that of the call and of the launch."""

import sys
import time

import tandem
from tandem import TensorType

device = sys.argv[1] if len(sys.argv) > 1 else "null"
one = tandem.Mesh("one", x=1)


@tandem.fuse(TensorType("f32", (None, 16), one["x", None]), TensorType("f32", (16, 12), one[None, None]),
             results=one[None, None])
def product(x, w):
    return x @ w


def make(*shape):
    if sys.argv[2:] == ["torch"]:
        import torch
        return torch.ones(shape, device=device if device.startswith("cuda") else "cpu")
    import numpy
    return numpy.ones(shape, numpy.float32)


def best(call, count=1000, rounds=9):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - start) / count)
        if device.startswith("cuda"):
            program.wait()
    return min(times) * 1e6


with tandem.Context(device):
    x, w, out = make(8, 16), make(16, 12), make(8, 12)
    program = product.compile(shapes={"x": (8, 16)}, target="cuda-nccl" if device.startswith("cuda") else "cpu-local")
    for _ in range(3):
        program(x, w, out=out)
        product(x, w, out=out)
    known, new = best(lambda: program(x, w, out=out)), best(lambda: program(x, w))
    found = best(lambda: product(x, w, out=out))
    print(f"program, results given    {known:6.2f}\nprogram, new results      {new:6.2f}\n"
          f"fusion, results given     {found:6.2f}  of it, to find the program: {found - known:.2f}")
