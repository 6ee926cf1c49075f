# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import ctypes

import torch


class Counting:
    """An allocator of the CPU, in the place of torch's on GPUs."""

    class Hooks(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_size_t), ("allocate", ctypes.c_void_p), ("deallocate", ctypes.c_void_p),
                    ("user", ctypes.c_void_p), ("leaves_symmetric", ctypes.c_uint64)]

    def __init__(self):
        self.live, self.kinds = {}, set()
        types = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int
        self._functions = (ctypes.CFUNCTYPE(ctypes.c_void_p, *types)(self.allocate),
                           ctypes.CFUNCTYPE(None, ctypes.c_void_p, *types)(self.deallocate))
        addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in self._functions]
        self._hooks = self.Hooks(ctypes.sizeof(self.Hooks), *addresses, None, 1)
        self.tandem_allocator = ctypes.addressof(self._hooks)

    def allocate(self, user, size, kind):
        memory = torch.empty(size, dtype=torch.uint8)
        self.live[memory.data_ptr()] = memory
        self.kinds.add(kind)
        return memory.data_ptr()

    def deallocate(self, user, address, size, kind):
        assert self.live.pop(address).numel() == size

    @property
    def bytes(self):
        return sum(memory.numel() for memory in self.live.values())
