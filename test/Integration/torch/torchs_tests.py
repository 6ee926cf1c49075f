# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A file of torch's tests, TANDEM_TORCHS_TEST, as a module in which this package's styles have the places of torch's. Its tests
count collectives: each operator of this package counts as the one that it overlaps."""

import os

import torch
from torch.distributed.tensor import debug, parallel
from torch.testing._internal.distributed._tensor import common_dtensor

import tandem.torch as tt

for place in (parallel, parallel.style, common_dtensor):
    place.ColwiseParallel, place.RowwiseParallel = tt.ColwiseParallel, tt.RowwiseParallel
_COUNTED = {"all_gather_matmul": "all_gather_into_tensor", "matmul_reduce_scatter": "reduce_scatter_tensor",
            "matmul_reduce_scatter_backward": "all_gather_into_tensor", "matmul_all_reduce": "all_reduce"}


class CommDebugMode(debug.CommDebugMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        namespace, _, name = func._schema.name.partition("::")
        if namespace == "tandem":
            self.comm_counts[getattr(torch.ops.c10d_functional, _COUNTED[name])] += 1
        return super().__torch_dispatch__(func, types, args, kwargs)


debug.CommDebugMode = CommDebugMode
with open(os.environ["TANDEM_TORCHS_TEST"]) as _file:
    exec(compile(_file.read(), _file.name, "exec"))  # its classes belong to this module: processes find them again
