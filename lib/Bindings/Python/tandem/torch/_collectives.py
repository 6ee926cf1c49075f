# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Collectives next to no matmul, as torch.distributed has them, and those of FSDP (docs/torch.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather as _AllGather
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter as _ReduceScatter

import tandem
from tandem import Mesh, _tandem, didx, loop
from tandem._emit import emit
from tandem._program import _channel_names
from tandem._trace import Value

from . import _fusions, _groups
from ._ops import _groups as _shared
from ._ops import _name, _ranks

#: What is added up. Types that are only moved travel as bytes.
_NAMES = {**_fusions.NAMES, torch.int32: "i32", torch.int64: "i64"}


def _compiled(group: tuple, like: torch.Tensor, name: str, extent: int, is_sum: bool, is_split: bool) -> tuple[Any, str]:
    """(program, call). The program of a collective of a value of `extent` elements: a sum, or a gather of parts; the result is
    split, or whole. A gather over several nodes of equally many ranks, in their order, crosses the network once per node."""
    ranks, inside, dtype = group[1].world_size, _groups._context(group[0], like.device)[2].ranks_of_a_node, _NAMES.get(like.dtype, "i8")
    call = f"{name}: {extent} elements, {dtype}"
    _groups._agree(group[0], like.device, call)
    # Prices are those of a collective alone. Next to a matmul it must not take SMs, so engines copy what is gathered in a node.
    has_nodes = inside not in (1, ranks) and not is_sum
    by_engines = like.is_cuda and not is_sum and "peer" in _channel_names(group[1])
    mesh = Mesh("group", node=ranks // inside, x=inside) if has_nodes else Mesh("group", x=ranks)
    split = didx("node") * didx("x") if has_nodes else didx("x")
    whole = loop("node") * loop("x") if has_nodes else loop("x") if by_engines else None
    axes = mesh.axes(split if is_split else whole)
    x = Value("argument", [], (extent,), dtype, mesh.axes(None, partial="x") if is_sum else mesh.axes(split), name="x")
    y = x.reshard(axes, **({"order": "nodes"} if has_nodes else {"by": "engines"} if by_engines else {}))
    text = emit(name, [x], [y], [axes], ["y"], {}, place=None)
    program = tandem.compile(text, target=tandem._program._target(group[1]), machine=_fusions.machine_of(group, like), name=name)
    if like.is_cuda:
        _groups.make_room(program, group[1], like.device)
    return program, call


def _prepare_gather(group, numbers, rows, weights):
    program, call = _compiled(group, rows[0], "all_gather_into_tensor", rows[1].numel(), False, False)
    return program, [0], [(1, False)], call


def _prepare_scatter(group, numbers, rows, weights):
    program, call = _compiled(group, rows[0], "reduce_scatter_tensor", rows[0].numel(), True, True)
    return program, [0], [(1, False)], call


def _prepare_reduce(group, numbers, rows, weights):
    program, call = _compiled(group, rows[0], "all_reduce", rows[0].numel(), True, False)
    return program, [0], [((rows[0].numel(),), False)], call


_gather, _scatter, _reduce = (_tandem.Operator(_shared, prepare) for prepare in (_prepare_gather, _prepare_scatter, _prepare_reduce))


def _flat(op: str, name: str, tensor: torch.Tensor, elements: int | None = None, like: torch.Tensor | None = None) -> torch.Tensor:
    """A dense tensor as one dimension."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_contiguous():
        raise tandem.ArgumentError(f"{op}: expected {name} to be a dense tensor, found {_found(tensor)}")
    if elements is not None and tensor.numel() != elements or like is not None and (tensor.dtype, tensor.device) != (like.dtype, like.device):
        raise tandem.ArgumentError(f"{op}: expected {name} of {elements} elements, {like.dtype if like is not None else tensor.dtype} on "
                                   f"{like.device if like is not None else tensor.device}, found {_found(tensor)}")
    return tensor.detach().reshape(-1)


def _found(tensor: Any) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}" if isinstance(tensor, torch.Tensor) else repr(tensor)


def _divisor(op: str, reduce_op: Any, x: torch.Tensor, ranks: int) -> int:
    """What the sum is divided by."""
    kind = getattr(reduce_op, "op", reduce_op)
    kind = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.AVG}.get(kind, kind)
    if kind not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG) or kind == dist.ReduceOp.AVG and not x.is_floating_point():
        raise tandem.ArgumentError(f"{op}: expected SUM, or AVG of floating-point numbers, found {reduce_op} of {x.dtype}")
    if x.dtype not in _NAMES:
        raise tandem.ArgumentError(f"{op}: expected {', '.join(map(str, _NAMES))}, found {x.dtype}")
    return ranks if kind == dist.ReduceOp.AVG else 1


def all_gather_into_tensor(output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any = None, async_op: bool = False) -> None:
    """`torch.distributed.all_gather_into_tensor` by Tandem: on GPUs inside a node by copy engines, which take no SMs from
    matmuls that run meanwhile; across nodes each part crosses the network once per node.

    Dense tensors of any type; the input may be this rank's part of the output. Runs on torch's current stream; with
    async_op, too, nothing is returned. Not differentiable. Collective.
    """
    op, name = "all_gather_into_tensor", _name(group)
    ranks = _ranks(name)
    x = _flat(op, "the input", input_tensor)
    y = _flat(op, "the output", output_tensor, x.numel() * ranks, x)
    if ranks == 1:
        y.copy_(x)
    elif x.numel():
        if x.dtype not in _NAMES:
            x, y = x.view(torch.int8), y.view(torch.int8)
        inside = x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
        _gather(name, (), (x.clone() if inside else x, y), ())


def reduce_scatter_tensor(output: torch.Tensor, input: torch.Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None,
                          async_op: bool = False) -> None:
    """`torch.distributed.reduce_scatter_tensor` by Tandem, as `all_gather_into_tensor`. op: SUM or AVG. Sums are in f32 at
    least."""
    called, name = "reduce_scatter_tensor", _name(group)
    ranks = _ranks(name)
    y = _flat(called, "the output", output)
    x = _flat(called, "the input", input, y.numel() * ranks, y)
    divisor = _divisor(called, op, x, ranks)
    if ranks == 1:
        y.copy_(x)
    elif x.numel():
        _scatter(name, (), (x, y), ())
        if divisor > 1:
            y.div_(divisor)


def all_reduce(tensor: torch.Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> None:
    """`torch.distributed.all_reduce` by Tandem, as `reduce_scatter_tensor`. The same bits on all ranks."""
    name = _name(group)
    x = _flat("all_reduce", "the tensor", tensor)
    divisor = _divisor("all_reduce", op, x, _ranks(name))
    if _ranks(name) > 1 and x.numel():
        made, = _reduce(name, (), (x,), ())
        x.copy_(made.div_(divisor) if divisor > 1 else made)


class _Allocates:
    def allocate(self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class AllGather(_Allocates, _AllGather):
    """For `FSDPModule.set_custom_all_gather`: the parameters of FSDP by `all_gather_into_tensor`. The same on one node and on
    many."""

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, async_op: bool = False) -> None:
        all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


class ReduceScatter(_Allocates, _ReduceScatter):
    """For `FSDPModule.set_custom_reduce_scatter`: the gradients of FSDP by `reduce_scatter_tensor`."""

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any, async_op: bool = False) -> None:
        reduce_scatter_tensor(output_tensor, input_tensor, op, group, async_op)
