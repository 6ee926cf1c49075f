# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor parallelism for torch, with communication hidden behind matmuls. docs/torch.md describes this package."""

from ._collectives import AllGather, ReduceScatter, all_gather_into_tensor, all_reduce, reduce_scatter_tensor
from ._groups import StoreBootstrap, context
from ._inductor import CollectiveMatmulPass, overlap_compiled
from ._ops import all_gather_matmul, column_parallel, matmul_all_reduce, matmul_reduce_scatter
from ._parallel import ColwiseParallel, RowwiseParallel, column_linears
from ._parallelize import parallelize, plan
from ._replicated import Replicated
from ._scaled import all_gather_scaled_matmul, scaled_matmul_reduce_scatter
from ._step import StepReport, assert_overlapped, report
from ._warm_up import WarmUp, warm_up

__all__ = ["AllGather", "CollectiveMatmulPass", "ColwiseParallel", "ReduceScatter", "Replicated", "RowwiseParallel",
           "StepReport", "StoreBootstrap", "WarmUp", "all_gather_into_tensor", "all_gather_matmul", "all_gather_scaled_matmul",
           "all_reduce", "assert_overlapped", "column_linears", "column_parallel", "context", "matmul_all_reduce",
           "matmul_reduce_scatter", "overlap_compiled", "parallelize", "plan", "reduce_scatter_tensor", "report",
           "scaled_matmul_reduce_scatter", "warm_up"]
