# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of torch: torch.ops.tandem.*, with gradients and with shapes for torch.compile."""

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

import tandem

from . import _fusions

_library = torch.library.Library("tandem", "DEF")
_library.define("all_gather_matmul(Tensor x, Tensor[] weights, int dim, str group, SymInt? tokens, bool gathered) "
                "-> Tensor[]")
_library.define("all_gather_matmul_backward(Tensor x, Tensor[] weights, Tensor[] grads, int dim, str group, "
                "bool need_x, bool need_weights) -> Tensor[]")
_library.define("matmul_reduce_scatter(Tensor x, Tensor weight, int dim, str group) -> Tensor")
_library.define("matmul_reduce_scatter_backward(Tensor x, Tensor weight, Tensor grad, int dim, str group, "
                "bool need_x, bool need_weight) -> Tensor[]")
_library.define("matmul_all_reduce(Tensor[] xs, Tensor[] weights, str group) -> Tensor")


def _ranks(group):
    return c10d._resolve_process_group(group).size()


def _rank(group):
    return c10d._resolve_process_group(group).rank()


def _piece(extent, group):
    """How many of `extent` rows this rank has: pieces of ceil(extent / ranks), the last ones shorter or empty."""
    size, rank = -(-extent // _ranks(group)), _rank(group)
    return max(0, min(size, extent - size * rank))


def _check(op, x, weights, dim):
    if x.dim() < 2 or not -x.dim() <= dim < x.dim() - 1 or dim == -1:
        raise tandem.ArgumentError(f"{op}: expected a dimension in front of the last one of {tuple(x.shape)}, found {dim}")
    for weight in weights:
        if weight.dim() != 2 or weight.shape[0] != x.shape[-1] or weight.dtype != x.dtype or weight.device != x.device:
            raise tandem.ArgumentError(
                f"{op}: expected weights of {x.shape[-1]} rows, {x.dtype} on {x.device}, found {weight.dtype} of shape "
                f"{tuple(weight.shape)} on {weight.device}")
    return dim % x.dim()


def _fold(x, dim):
    """x as [rows, columns], or [outer, rows, columns] where dimensions in front of `dim` have more than one index."""
    outer = 1
    for extent in x.shape[:dim]:
        outer *= extent
    inner = 1
    for extent in x.shape[dim + 1:-1]:
        inner *= extent
    if inner != 1:
        raise tandem.ArgumentError(f"expected one dimension between {dim} and the last one, found shape {tuple(x.shape)}")
    x = x.contiguous()
    return x.view(x.shape[dim], x.shape[-1]) if outer == 1 else x.view(outer, x.shape[dim], x.shape[-1])


def _stored(weight):
    """(the memory of a weight as a dense tensor, is it the transpose?)"""
    if not weight.is_contiguous() and weight.t().is_contiguous():
        return weight.t(), True
    return weight.contiguous(), False


def _shape(tensor, ranks, dim):
    """The global shape of a tensor that is split evenly along dim."""
    shape = list(tensor.shape)
    shape[dim] *= ranks
    return tuple(shape)


def _tokens_of(x, dim, group, tokens):
    return x.shape[dim] * _ranks(group) if tokens is None else tokens


def _like(x, dim, rows, columns):
    """The shape of x with other rows and columns."""
    shape = list(x.shape)
    shape[dim], shape[-1] = rows, columns
    return shape


def _all_gather_matmul(x, weights, dim, group, tokens, gathered):
    dim = _check("all_gather_matmul", x, weights, dim)
    ranks, tokens = _ranks(group), _tokens_of(x, dim, group, tokens)
    if tokens is not None and x.shape[dim] != _piece(tokens, group):
        raise tandem.ArgumentError(f"all_gather_matmul: expected {_piece(tokens, group)} of {tokens} rows on rank "
                                   f"{_rank(group)}, found {x.shape[dim]}")
    rows = _fold(x, dim)
    shape = (*rows.shape[:-2], tokens, rows.shape[-1])
    stored = [_stored(weight) for weight in weights]
    results = _fusions.run(_fusions.all_gather_matmul, group, [rows, *(weight for weight, _ in stored)], shape,
                           tuple((_shape(weight, ranks, 1), transposed)
                                 for weight, (_, transposed) in zip(weights, stored)), (gathered,))
    return [result.view(_like(x, dim, tokens, result.shape[-1])) for result in results]


def _all_gather_matmul_backward(x, weights, grads, dim, group, need_x, need_weights):
    dim, ranks = dim % x.dim(), _ranks(group)
    tokens = grads[0].shape[dim]
    rows = _fold(x, dim)
    shape = (*rows.shape[:-2], tokens, rows.shape[-1])
    stored = [_stored(weight) for weight in weights]
    tensors = [rows] if need_weights else []
    if need_x:
        tensors += [weight for weight, _ in stored]
    tensors += [_fold(grad, dim) for grad in grads]
    results = list(_fusions.run(_fusions.all_gather_matmul_backward, group, tensors, shape,
                                tuple((_shape(weight, ranks, 1), transposed)
                                      for weight, (_, transposed) in zip(weights, stored)), (need_x, need_weights)))
    made = [results.pop(0).view(x.shape)] if need_x else []
    return made + [grad.t() if transposed else grad for grad, (_, transposed) in zip(results, stored)]


def _matmul_reduce_scatter(x, weight, dim, group):
    dim, ranks = _check("matmul_reduce_scatter", x, [weight], dim), _ranks(group)
    rows, (stored, transposed) = _fold(x, dim), _stored(weight)
    (result,) = _fusions.run(_fusions.matmul_reduce_scatter, group, [rows, stored], _shape(rows, ranks, -1),
                             (_shape(weight, ranks, 0), transposed), ())
    return result.view(_like(x, dim, _piece(x.shape[dim], group), weight.shape[1]))


def _matmul_reduce_scatter_backward(x, weight, grad, dim, group, need_x, need_weight):
    dim, ranks = dim % x.dim(), _ranks(group)
    rows, (stored, transposed) = _fold(x, dim), _stored(weight)
    tensors = [*([rows] if need_weight else []), *([stored] if need_x else []), _fold(grad, dim)]
    results = list(_fusions.run(_fusions.matmul_reduce_scatter_backward, group, tensors, _shape(rows, ranks, -1),
                                (_shape(weight, ranks, 0), transposed), (need_x, need_weight)))
    made = [results.pop(0).view(x.shape)] if need_x else []
    return made + [result.t() if transposed else result for result in results]


def _matmul_all_reduce(xs, weights, group):
    ranks, tensors, shapes, kept = _ranks(group), [], [], []
    for x, weight in zip(xs, weights):
        _check("matmul_all_reduce", x, [weight], 0)
        rows, (stored, transposed) = x.reshape(-1, x.shape[-1]).contiguous(), _stored(weight)
        tensors += [rows, stored]
        shapes.append(_shape(rows, ranks, -1))
        kept.append((_shape(weight, ranks, 0), transposed))
    (result,) = _fusions.run(_fusions.matmul_all_reduce, group, tensors, tuple(shapes), tuple(kept), ())
    return result.view(*xs[0].shape[:-1], weights[0].shape[1])


for _name in ("all_gather_matmul", "all_gather_matmul_backward", "matmul_reduce_scatter",
              "matmul_reduce_scatter_backward", "matmul_all_reduce"):
    for _key in ("CPU", "CUDA"):
        _library.impl(_name, globals()["_" + _name], _key)


@torch.library.register_fake("tandem::all_gather_matmul", lib=_library)
def _(x, weights, dim, group, tokens, gathered):
    dim = _check("all_gather_matmul", x, weights, dim)
    tokens = _tokens_of(x, dim, group, tokens)
    columns = [weight.shape[1] for weight in weights] + ([x.shape[-1]] if gathered else [])
    return [x.new_empty(_like(x, dim, tokens, one)) for one in columns]


@torch.library.register_fake("tandem::all_gather_matmul_backward", lib=_library)
def _(x, weights, grads, dim, group, need_x, need_weights):
    return ([x.new_empty(x.shape)] if need_x else []) + ([_empty_like_stored(weight) for weight in weights]
                                                         if need_weights else [])


@torch.library.register_fake("tandem::matmul_reduce_scatter", lib=_library)
def _(x, weight, dim, group):
    dim = _check("matmul_reduce_scatter", x, [weight], dim)
    return x.new_empty(_like(x, dim, _piece(x.shape[dim], group), weight.shape[1]))


@torch.library.register_fake("tandem::matmul_reduce_scatter_backward", lib=_library)
def _(x, weight, grad, dim, group, need_x, need_weight):
    return ([x.new_empty(x.shape)] if need_x else []) + ([_empty_like_stored(weight)] if need_weight else [])


@torch.library.register_fake("tandem::matmul_all_reduce", lib=_library)
def _(xs, weights, group):
    return xs[0].new_empty((*xs[0].shape[:-1], weights[0].shape[1]))


def _empty_like_stored(weight):
    if not weight.is_contiguous() and weight.t().is_contiguous():
        return weight.new_empty(weight.shape[::-1]).t()
    return weight.new_empty(weight.shape)


def _save_gather(ctx, inputs, output):
    x, weights, ctx.dim, ctx.group, _, ctx.gathered = inputs
    ctx.save_for_backward(x, *weights)
    ctx.outputs = [(one.shape, one.dtype, one.device) for one in output]


def _gather_backward(ctx, grads):
    if ctx.gathered:
        raise RuntimeError("all_gather_matmul: the gathered value has no gradient")
    x, *weights = ctx.saved_tensors
    grads = [torch.zeros(shape, dtype=dtype, device=device) if grad is None else grad
             for grad, (shape, dtype, device) in zip(grads, ctx.outputs)]
    need_x = ctx.needs_input_grad[0]
    needed = ctx.needs_input_grad[1]
    need_weights = any(needed) if isinstance(needed, (list, tuple)) else bool(needed)
    made = torch.ops.tandem.all_gather_matmul_backward(x, weights, grads, ctx.dim, ctx.group, need_x, need_weights)
    return (made[0] if need_x else None, list(made[int(need_x):]) if need_weights else [None] * len(weights), None,
            None, None, None)


torch.library.register_autograd("tandem::all_gather_matmul", _gather_backward, setup_context=_save_gather, lib=_library)


def _save_scatter(ctx, inputs, output):
    x, weight, ctx.dim, ctx.group = inputs
    ctx.save_for_backward(x, weight)


def _scatter_backward(ctx, grad):
    x, weight = ctx.saved_tensors
    need_x, need_weight = ctx.needs_input_grad[:2]
    made = torch.ops.tandem.matmul_reduce_scatter_backward(x, weight, grad, ctx.dim, ctx.group, need_x, need_weight)
    return made[0] if need_x else None, made[-1] if need_weight else None, None, None


torch.library.register_autograd("tandem::matmul_reduce_scatter", _scatter_backward, setup_context=_save_scatter,
                                lib=_library)


def _save_reduce(ctx, inputs, output):
    xs, weights, _ = inputs
    ctx.count = len(xs)
    ctx.save_for_backward(*xs, *weights)


def _reduce_backward(ctx, grad):
    xs, weights = ctx.saved_tensors[:ctx.count], ctx.saved_tensors[ctx.count:]
    rows = grad.reshape(-1, grad.shape[-1])
    return ([grad @ weight.t() for weight in weights],
            [x.reshape(-1, x.shape[-1]).t() @ rows for x in xs], None)


torch.library.register_autograd("tandem::matmul_all_reduce", _reduce_backward, setup_context=_save_reduce, lib=_library)


class _Replicated(torch.autograd.Function):
    """y_i = x @ w_i where all ranks have the same x: the gradient of x is a sum over ranks, overlapped."""

    @staticmethod
    def forward(ctx, group, x, *weights):
        ctx.group = group
        ctx.save_for_backward(x, *weights)
        return tuple(x @ weight for weight in weights)

    @staticmethod
    def backward(ctx, *grads):
        x, *weights = ctx.saved_tensors
        rows = x.reshape(-1, x.shape[-1])
        dx = None
        if ctx.needs_input_grad[1]:
            dx = torch.ops.tandem.matmul_all_reduce([grad.contiguous() for grad in grads],
                                                    [weight.t() for weight in weights], ctx.group)
        return (None, dx, *(rows.t() @ grad.reshape(-1, grad.shape[-1]) if needed else None
                            for grad, needed in zip(grads, ctx.needs_input_grad[2:])))


def _name(group):
    return (group or dist.group.WORLD).group_name if not isinstance(group, str) else group


def all_gather_matmul(x, weights, dim=0, group=None, tokens=None):
    """all_gather(x, dim) @ weight, the gather hidden behind the product.

    x: [.., tokens of this rank, in], dense; its ranks' parts follow each other along `dim`, which is in front of the
    last dimension. weights: one of shape [in, out of this rank], dense or the transpose of a dense one (such as
    `linear.weight.t()`), or a list of them, which share one gather. group: a process group, or its name. tokens: how
    many rows all ranks have together, if they do not all have the same number: rank r has rows r * n to (r + 1) * n,
    n = ceil(tokens / ranks), as DTensor's Shard.

    Returns [.., tokens, out of this rank], or a list. Differentiable; the backward pass overlaps its reduce-scatter and
    its gather. Collective: all ranks of the group make the same calls.
    """
    if isinstance(weights, torch.Tensor):
        return torch.ops.tandem.all_gather_matmul(x, [weights], dim, _name(group), tokens, False)[0]
    return list(torch.ops.tandem.all_gather_matmul(x, list(weights), dim, _name(group), tokens, False))


def matmul_reduce_scatter(x, weight, dim=0, group=None):
    """reduce_scatter(x @ weight, dim), the sums hidden behind the product.

    x: [.., tokens, in of this rank]; weight: [in of this rank, out], dense or the transpose of a dense one. Returns
    [.., tokens of this rank, out]: pieces of ceil(tokens / ranks) rows. Differentiable. Collective.
    """
    return torch.ops.tandem.matmul_reduce_scatter(x, weight, dim, _name(group))


def matmul_all_reduce(x, weight, group=None):
    """all_reduce(x @ weight), the sums hidden behind the product.

    x: [.., tokens, in of this rank]; weight: [in of this rank, out]. Returns [.., tokens, out], the same bits on all
    ranks. Differentiable: the gradient of the result is the same on all ranks. Collective.
    """
    return torch.ops.tandem.matmul_all_reduce([x], [weight], _name(group))


def column_parallel(x, weights, group=None):
    """x @ weight where all ranks have the same x, and each has some columns of weight. The gradient of x is the sum over
    the ranks, hidden behind the product. weights: one, or a list that shares the sum."""
    if isinstance(weights, torch.Tensor):
        return _Replicated.apply(_name(group), x, weights)[0]
    return list(_Replicated.apply(_name(group), x, *weights))
