# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Uses an installed package with nothing but Python: installed.py PROGRAM.tsp [runtime]. With "runtime", the compiler's
library is not installed."""

import array
import re
import sys

import tandem

if len(sys.argv) == 3:
    try:
        tandem.compile("")
        raise AssertionError("compiled without the compiler")
    except tandem.Error as error:
        assert error.code == "unsupported" and "not installed" in str(error), error

x = [float(i % 7) for i in range(8 * 16)]
w = [float(i % 5) for i in range(16 * 12)]
y = bytearray(4 * 8 * 12)


def shaped(values, *shape):
    return memoryview(values).cast("B").cast("f", shape)


def run(program):
    y[:] = bytes(len(y))
    program(shaped(array.array("f", x), 8, 16), shaped(array.array("f", w), 16, 12), out=shaped(y, 8, 12))
    found = memoryview(y).cast("f").tolist()
    expected = [sum(x[16 * i + k] * w[12 * k + j] for k in range(16)) for i in range(8) for j in range(12)]
    assert all(abs(a - b) < 1e-3 for a, b in zip(found, expected))


def loaded():
    """The libraries of this process."""
    with open("/proc/self/maps") as maps:
        return sorted(set(re.findall(r"/(lib[^/]*\.so[^/]*)\n", maps.read())))


run(tandem.load(sys.argv[1]))
heavy = [name for name in loaded() if re.match(r"lib(LLVM|MLIR|clang|uc[pst]|cuda|cublas|nccl|tandem_compiler)", name)]
assert not heavy, heavy
if len(sys.argv) == 2:
    tp = tandem.Mesh("tp", x=1)

    @tandem.fuse(tandem.TensorType("f32", (8, 16), tp["x", None]), tandem.TensorType("f32", (16, 12), tp[None, None]),
                 results=tp[None, None])
    def product(x, w):
        return x @ w

    run(product.compile())
    assert product.compile(target="cuda-peer", machine="h200x2").simulate("h200x8").seconds > 0
    assert not [name for name in loaded() if re.match("lib(LLVM|MLIR)", name)]
print("ok")
