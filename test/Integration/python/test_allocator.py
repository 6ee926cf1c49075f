# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of contexts from torch's functions, over a library that stands in for libtorch_cuda.so."""

import ctypes
import subprocess

import numpy as np
import pytest
from conftest import error, rows
from test_programs import TEXT

import tandem
from tandem import _tandem

STAND_IN = """
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

_Atomic int64_t live, allocations;
atomic_int device = -1, refuses;
void *_Atomic stream;
static _Thread_local int guards;

int32_t aoti_torch_create_cuda_stream_guard(void *on, int32_t of, void **guard) {
  stream = on;
  device = of;
  ++guards;
  *guard = &guards;
  return 0;
}
int32_t aoti_torch_delete_cuda_stream_guard(void *guard) {
  if (guard != &guards)
    abort();
  --guards;
  return 0;
}
int32_t aoti_torch_cuda_caching_allocator_raw_alloc(uint64_t bytes, void **memory) {
  if (guards != 1 || refuses)
    return 1;
  ++live;
  ++allocations;
  *memory = aligned_alloc(64, bytes);
  return 0;
}
int32_t aoti_torch_cuda_caching_allocator_raw_delete(void *memory) {
  if (guards != 0)
    abort();
  --live;
  free(memory);
  return 0;
}
"""


@pytest.fixture
def library(tmp_path):
    path = str(tmp_path / "libstands_in.so")
    subprocess.run(["cc", "-std=c11", "-shared", "-fPIC", "-xc", "-", "-o", path], input=STAND_IN, text=True, check=True)
    return ctypes.CDLL(path)


def test_torch_allocator(library, random):
    """Intermediate values are in torch's memory, on a stream of their own; all is given back."""
    def number(name, kind=ctypes.c_int):
        return kind.in_dll(library, name)

    allocator = _tandem.TorchAllocator(3, library._name)
    program = tandem.compile(TEXT, mesh={"x": 4}, shapes={"x": (8, 16)})
    x, w = random(8, 16), random(16, 12)
    with tandem.local_world(4, timeout=20, allocator=allocator) as world:
        assert allocator.bytes == 0
        for y in world.run(lambda context: program(rows(x, context), w)):
            assert error(y, x @ w) < 1e-5
        needs = world.run(lambda context: program.memory())
        assert all(allocator is used for used in world.run(lambda context: context.allocator))
        assert allocator.bytes == sum(-(-one.arena // 64) * 64 for one in needs) > 0
        assert number("allocations", ctypes.c_int64).value == number("live", ctypes.c_int64).value == 4
        assert (number("device").value, number("stream", ctypes.c_size_t).value) == (3, 2)
    assert allocator.bytes == number("live", ctypes.c_int64).value == 0

    number("refuses").value = 1
    with tandem.local_world(4, timeout=20, allocator=allocator) as world:
        with pytest.raises(tandem.Error, match="cannot allocate"):
            world.run(lambda context: program(rows(x, context), w))
    assert allocator.bytes == 0


def test_no_such_functions(library):
    with pytest.raises(tandem.Error, match="libnowhere.so is not loaded"):
        _tandem.TorchAllocator(0, "libnowhere.so")
    with pytest.raises(tandem.Error, match="this version of torch has no aoti_torch_create_cuda_stream_guard"):
        _tandem.TorchAllocator(0, "libc.so.6")
    with pytest.raises(AttributeError, match="tandem_allocator"):
        tandem.Context(allocator=np.zeros(1))
