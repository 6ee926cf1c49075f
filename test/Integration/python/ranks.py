# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One rank of a job of processes: a sharded product, whose result is compared with NumPy's. Prints "ok RANK"."""

import os

import numpy as np
from conftest import error, rows

import tandem
from tandem import TensorType, loop

context = tandem.init(timeout=30)
mesh = tandem.Mesh("tp", x=None)


@tandem.fuse(TensorType("f32", (None, 16), mesh["x", None]), TensorType("f32", (16, 12), mesh[None, None]),
             results=mesh[loop("x"), None])
def product(x, w):
    return x @ w


generator = np.random.default_rng(1)
x = generator.uniform(-1, 1, (8 * context.world_size, 16)).astype(np.float32)
w = generator.uniform(-1, 1, (16, 12)).astype(np.float32)
for _ in range(3):
    assert error(product(rows(x, context), w), x @ w) < 1e-5
assert context.channels == "ucx"
# One write, or mpirun mixes the pieces of two ranks where Python does not buffer (PYTHONUNBUFFERED).
os.write(1, f"ok {context.rank}\n".encode())
