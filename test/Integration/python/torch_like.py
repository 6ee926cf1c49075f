# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the package reads of torch and its tensors, over tensors of device.py. The package keeps the type."""

import numpy as np

float32, float16, bfloat16, int32, float64, int64, int8, bool, int16, float8_e4m3fn, float8_e5m2 = (object() for _ in range(11))


class Tensor:
    dtype, is_cpu, requires_grad, __module__ = float32, False, False, "torch"

    def __init__(self, tensor):
        self.tensor, self.shape = tensor, tensor.array.shape

    def get_device(self):
        return self.tensor.gpu

    def is_contiguous(self):
        return True

    def is_neg(self):
        return False

    def data_ptr(self):
        return self.tensor.address.value

    def new_empty(self, shape, dtype=float32):
        return Tensor(type(self.tensor)(np.empty(shape, np.float32)))


def _cuda_getCurrentRawStream(device):
    return 0
