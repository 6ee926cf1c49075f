# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

from contextlib import AbstractContextManager
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, TypeVar, Union, overload

import torch
import torch.fx
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor.parallel import ParallelStyle

import tandem

_Group = Union[None, str, ProcessGroup, DeviceMesh]  # a name, or a mesh of one dimension
_Module = TypeVar("_Module", bound=torch.nn.Module)

class StoreBootstrap:
    rank: int
    world_size: int
    local_rank: int
    local_size: int
    node: str
    def __init__(self, group: ProcessGroup, timeout: Optional[float] = None) -> None: ...
    def all_gather(self, data: bytes) -> List[bytes]: ...
    def barrier(self) -> None: ...

def context(group: Union[None, ProcessGroup, DeviceMesh] = None, device: Union[None, str, torch.device] = None,
            channels: str = "", torch_memory: Optional[bool] = None, timeout: Optional[float] = None) -> tandem.Context: ...

class CollectiveMatmulPass:
    replaced: Deque[str]
    skipped: Deque[str]
    def __init__(self, before: Optional[Callable[[torch.fx.Graph], None]] = None) -> None: ...
    def __call__(self, graph: torch.fx.Graph) -> None: ...
    def uuid(self) -> Any: ...

def overlap_compiled() -> AbstractContextManager[CollectiveMatmulPass]: ...

@overload
def all_gather_matmul(x: Tensor, weights: Tensor, dim: int = 0, group: _Group = None,
                      tokens: Optional[int] = None) -> Tensor: ...
@overload
def all_gather_matmul(x: Tensor, weights: Sequence[Tensor], dim: int = 0, group: _Group = None,
                      tokens: Optional[int] = None) -> List[Tensor]: ...
def matmul_reduce_scatter(x: Tensor, weight: Tensor, dim: int = 0, group: _Group = None) -> Tensor: ...
def matmul_all_reduce(x: Tensor, weight: Tensor, group: _Group = None) -> Tensor: ...
@overload
def column_parallel(x: Tensor, weights: Tensor, group: _Group = None) -> Tensor: ...
@overload
def column_parallel(x: Tensor, weights: Sequence[Tensor], group: _Group = None) -> List[Tensor]: ...

@overload
def all_gather_scaled_matmul(x: Tensor, weights: Tensor, scale_x: Tensor, scales: Tensor, group: _Group = None,
                             tokens: Optional[int] = None, out_dtype: torch.dtype = torch.bfloat16,
                             scale_result: Optional[Tensor] = None) -> Tensor: ...
@overload
def all_gather_scaled_matmul(x: Tensor, weights: Sequence[Tensor], scale_x: Tensor, scales: Sequence[Tensor],
                             group: _Group = None, tokens: Optional[int] = None,
                             out_dtype: torch.dtype = torch.bfloat16,
                             scale_result: Optional[Sequence[Tensor]] = None) -> List[Tensor]: ...
def scaled_matmul_reduce_scatter(x: Tensor, weight: Tensor, scale_x: Tensor, scale: Tensor,
                                 group: _Group = None,
                                 out_dtype: torch.dtype = torch.bfloat16) -> Tensor: ...

class ColwiseParallel(ParallelStyle):
    def __init__(self, *, input_layouts: Optional[Placement] = None, output_layouts: Optional[Placement] = None,
                 use_local_output: bool = True) -> None: ...
    def _apply(self, module: torch.nn.Module, device_mesh: DeviceMesh) -> torch.nn.Module: ...

class RowwiseParallel(ParallelStyle):
    def __init__(self, *, input_layouts: Optional[Placement] = None, output_layouts: Optional[Placement] = None,
                 use_local_output: bool = True) -> None: ...
    def _apply(self, module: torch.nn.Module, device_mesh: DeviceMesh) -> torch.nn.Module: ...

def column_linears(x: Tensor, layers: Sequence[torch.nn.Module]) -> List[Tensor]: ...
def plan(module: torch.nn.Module, sequence_dim: Optional[int] = 0, mesh: Optional[DeviceMesh] = None) -> Dict[str, ParallelStyle]: ...
def parallelize(module: _Module, mesh: DeviceMesh, parallelize_plan: Optional[Dict[str, ParallelStyle]] = None, *,
                sequence_dim: Optional[int] = 0, src_data_rank: Optional[int] = 0) -> _Module: ...
