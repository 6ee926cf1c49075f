# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Contexts that take their memory from torch. A small library takes the place of libtorch_cuda.so."""

import ctypes
import subprocess
import threading

import numpy as np
import pytest
from conftest import error, rows
from test_programs import TEXT

import tandem
from tandem import _tandem

STAND_IN = """
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

_Atomic int64_t live, allocations;
atomic_int device = -1, refuses;
void *_Atomic stream;
_Atomic pthread_t thread;
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
  thread = pthread_self();
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


def test_thread(library):
    """torch has pools of threads: those of the caller get none of this memory."""
    class Hooks(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_size_t),
                    ("allocate", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int)),
                    ("deallocate", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int)),
                    ("user", ctypes.c_void_p), ("leaves_symmetric", ctypes.c_uint64)]

    allocator = _tandem.TorchAllocator(0, library._name)
    hooks = Hooks.from_address(allocator.tandem_allocator)
    assert (hooks.struct_size, hooks.leaves_symmetric) == (ctypes.sizeof(Hooks), 1)
    memory = hooks.allocate(hooks.user, 64, 0)
    assert memory and allocator.bytes == 64
    assert ctypes.c_ulong.in_dll(library, "thread").value not in (0, threading.get_ident())
    hooks.deallocate(hooks.user, memory, 64, 0)
    assert allocator.bytes == 0


def test_no_such_functions(library):
    with pytest.raises(tandem.Error, match="libnowhere.so is not loaded"):
        _tandem.TorchAllocator(0, "libnowhere.so")
    with pytest.raises(tandem.Error, match="this version of torch has no aoti_torch_create_cuda_stream_guard"):
        _tandem.TorchAllocator(0, "libc.so.6")
    with pytest.raises(AttributeError, match="tandem_allocator"):
        tandem.Context(allocator=np.zeros(1))
