# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Device tensors and streams, on the stand-in driver of GPUs that the unit tests use: device.py DRIVER.so. Its device
memory is memory of the host."""

import ctypes
import logging
import sys

import numpy as np
import torch_like
from conftest import error, rows

import tandem
from tandem import TensorType, loop

driver = ctypes.CDLL(sys.argv[1])
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
CUDA = 2


def check(code):
    assert code == 0, code


class Device:
    """A tensor of a library that has DLPack only, in memory of the device."""

    def __init__(self, array, number=None):
        self.array, self.streams, self.address, self.number = array, [], ctypes.c_void_p(), number
        check(driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(array.nbytes)))
        ctypes.memmove(self.address, array.ctypes.data, array.nbytes)

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        capsule = self.array.__dlpack__()
        tensor = pointer_of(capsule, b"dltensor")  # {void *data; int32 type, number; ...}
        ctypes.c_void_p.from_address(tensor).value = self.address.value
        ctypes.c_int32.from_address(tensor + 8).value = CUDA
        ctypes.c_int32.from_address(tensor + 12).value = self.gpu
        return capsule

    def __dlpack_device__(self):
        return CUDA, self.gpu

    @property
    def gpu(self):
        """Its number, that of the rank's device."""
        return tandem.current_context().rank if self.number is None else self.number

    def host(self):
        copy = np.empty_like(self.array)
        ctypes.memmove(copy.ctypes.data, self.address, copy.nbytes)
        return copy


def host(array):
    """The elements of a result."""
    assert array.__dlpack_device__() == (CUDA, tandem.current_context().rank)
    capsule = array.__dlpack__(stream=1)
    copy = np.empty(array.shape, np.float32)
    ctypes.memmove(copy.ctypes.data, ctypes.c_void_p.from_address(pointer_of(capsule, b"dltensor")).value, copy.nbytes)
    return copy


class StreamObject:
    """As in the protocol of CUDA streams."""

    def __init__(self, number):
        self.number = number

    def __cuda_stream__(self):
        return 0, self.number


mesh = tandem.Mesh("tp", x=2)


@tandem.fuse(TensorType("f32", (None, 16), mesh["x", None]), TensorType("f32", (16, 12), mesh[None, None]),
             results=mesh[loop("x"), None])
def product(x, w):
    return x @ w


generator = np.random.default_rng(1)
x = generator.uniform(-1, 1, (16, 16)).astype(np.float32)
w = generator.uniform(-1, 1, (16, 12)).astype(np.float32)


def run(context):
    assert context.channels == "peer,ccl"
    primary = ctypes.c_void_p()
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(primary), context.rank))
    check(driver.cuCtxPushCurrent_v2(primary))
    mine, weight, out = Device(rows(x, context)), Device(w), Device(np.zeros((16, 12), np.float32))
    # The library has no current stream: the call waits.
    assert error(host(product(mine, weight)), x @ w) < 1e-5
    assert mine.streams == [1]

    own = ctypes.c_void_p()
    check(driver.cuStreamCreateWithPriority(ctypes.byref(own), 1, 0))
    for given in (own.value, StreamObject(own.value)):
        ctypes.memset(out.address, 0, out.array.nbytes)
        assert product(mine, weight, out=out, stream=given) is out
        check(driver.cuStreamSynchronize(own))
        assert error(out.host(), x @ w) < 1e-5
        assert mine.streams[-1] == out.streams[-1] == own.value

    other = 1 - context.rank
    for wrong, message in ((rows(x, context), "expected a tensor of the device"), ("x", "expected a tensor"),
                           (Device(rows(x, context), other), f"expected a tensor of GPU {context.rank}")):
        try:
            product(wrong, weight)
            raise AssertionError("accepted")
        except tandem.ArgumentError as found:
            assert message in str(found), found
    try:
        product(mine, weight, stream="s")
        raise AssertionError("accepted")
    except tandem.ArgumentError as found:
        assert "expected a number or an object with __cuda_stream__" in str(found), found


def run_torch(context):
    """As torch's tensors: on the rank's GPU, and on another one."""
    primary = ctypes.c_void_p()
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(primary), context.rank))
    check(driver.cuCtxPushCurrent_v2(primary))
    weight = torch_like.Tensor(Device(w))
    y = product(torch_like.Tensor(Device(rows(x, context))), weight)
    check(driver.cuStreamSynchronize(None))
    assert error(y.tensor.host(), x @ w) < 1e-5
    try:
        product(torch_like.Tensor(Device(rows(x, context), 1 - context.rank)), weight)
        raise AssertionError("accepted")
    except tandem.ArgumentError as found:
        assert f"found one of GPU {1 - context.rank}" in str(found), found


with tandem.local_world(2, device="cuda", timeout=20) as world:
    world.run(run)
    sys.modules["torch"] = sys.modules["torch._C"] = torch_like
    world.run(run_torch)


def staged(context):
    assert error(host(product(Device(rows(x, context)), Device(w))), x @ w) < 1e-5


# What the runtime has to say goes to logging.
messages = []
handler = logging.Handler()
handler.emit = lambda record: messages.append((record.levelname, record.getMessage()))
logging.getLogger("tandem").addHandler(handler)
with tandem.local_world(2, device="cuda", channels="local", timeout=20) as world:
    world.run(staged)
assert [level for level, text in messages if "channel local moves host memory" in text] == ["WARNING"], messages


# What its handler raises, the call raises.
def refuse(record):
    raise KeyError(record.getMessage())


handler.emit = refuse
with tandem.local_world(2, device="cuda", channels="local", timeout=20) as world:
    try:
        world.run(staged)
        raise AssertionError("accepted")
    except KeyError as found:
        assert "channel local moves host memory" in str(found), found
print("ok")
