# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of torch: torch.ops.tandem.*, with gradients and with shapes for torch.compile.

What an operator does is a `_tandem.Operator`: C++ that finds the program of a call and runs it. The functions here that
prepare programs are called once for each combination of shapes.
"""

import math

import torch
from torch.distributed import distributed_c10d as c10d

import tandem
from tandem import _tandem

from . import _fusions, _padding
from ._groups import resolve as _resolve
from ._unsupported import check_once, check_transforms

@torch.compiler.assume_constant_result
def _ranks(group):
    return c10d._resolve_process_group(group).size()


@torch.compiler.assume_constant_result
def _rank(group):
    return c10d._resolve_process_group(group).rank()


def _piece(extent, group):
    """How many of `extent` rows this rank has: pieces of ceil(extent / ranks), the last ones shorter or empty."""
    size, rank = -(-extent // _ranks(group)), _rank(group)
    return max(0, min(size, extent - size * rank))


@torch.compiler.assume_constant_result
def _is_alone(group):
    """Has the group one rank? Then torch's own operators do all there is to do: torch.compile fuses them with others, and
    nothing is copied."""
    return _ranks(group) == 1


def _check(op, x, weights, dim):
    if x.dtype not in _fusions.NAMES:
        raise tandem.ArgumentError(f"{op}: expected f32, f16, bf16 or f64, found {x.dtype}")
    if x.dim() < 2 or not -x.dim() <= dim < x.dim() - 1 or dim == -1:
        raise tandem.ArgumentError(f"{op}: expected a dimension in front of the last one of {tuple(x.shape)}, found {dim}")
    if not weights:
        raise tandem.ArgumentError(f"{op}: expected at least one weight, found none")
    for weight in weights:
        if weight.dim() != 2 or weight.shape[0] != x.shape[-1] or weight.dtype != x.dtype or weight.device != x.device:
            raise tandem.ArgumentError(
                f"{op}: expected weights of {x.shape[-1]} rows, {x.dtype} on {x.device}, found {weight.dtype} of shape "
                f"{tuple(weight.shape)} on {weight.device}")
    return dim % x.dim()


def _check_divides(op, x, dim, ranks, tokens):
    if tokens % ranks and _inner(x, dim) != 1:  # those of other pieces would be cut elsewhere
        raise tandem.ArgumentError(f"{op}: expected a number of tokens that {ranks} ranks divide, since dimensions follow that of "
                                   f"tokens, {dim}; found {tokens} tokens, shape {tuple(x.shape)}")


def _check_piece(x, dim, group, tokens, op="all_gather_matmul"):
    _check_divides(op, x, dim, _ranks(group), tokens)
    if x.shape[dim] != _piece(tokens, group):
        raise tandem.ArgumentError(f"{op}: expected {_piece(tokens, group)} of {tokens} rows on rank "
                                   f"{_rank(group)}, found {x.shape[dim]}")


def _inner(x, dim):
    """Rows of each token: of [tokens, batch, in] with dim 0 as many as the batch has. They are part of `dim`."""
    return math.prod(x.shape[dim + 1:-1])


def _around(x, dim):
    return *x.shape[:dim], *x.shape[dim + 1:-1]


def _folded(x, dim):
    """The shape of x as [rows, columns], or [outer, rows, columns] where dimensions in front of `dim` have more than one index."""
    outer, rows = math.prod(x.shape[:dim]), x.shape[dim] * _inner(x, dim)
    return (rows, x.shape[-1]) if outer == 1 else (outer, rows, x.shape[-1])


def _transposed(weight):
    """Is it the transpose of a dense tensor? (`Operator` has made it dense if it is neither.)"""
    return not weight.is_contiguous()


def _global(weights, ranks, dim):
    """((global shape [in, out], is it stored as [out, in]), ..) of weights that are split along dim."""
    return tuple((_shape(weight, ranks, dim), _transposed(weight)) for weight in weights)


def _stored(weights):
    """The memory of new weights: [(shape, is the result its transpose)]."""
    return [(tuple(weight.shape[::-1]), True) if _transposed(weight) else (tuple(weight.shape), False) for weight in weights]


def _shape(tensor, ranks, dim):
    """The global shape of a tensor, or of a shape, that is split evenly along dim."""
    shape = list(getattr(tensor, "shape", tensor))
    shape[dim] *= ranks
    return tuple(shape)


def _tokens_of(x, dim, group, tokens):
    return x.shape[dim] * _ranks(group) if tokens is None else tokens


def _like(x, dim, rows, columns):
    """The shape of x with other rows and columns."""
    shape = list(x.shape)
    shape[dim], shape[-1] = rows, columns
    return shape


# Each returns what _tandem.Operator states. group: (name, context, notes).


def _prepare_gather(group, numbers, rows, weights):
    (x,), (dim, tokens, gathered) = rows, numbers
    dim, ranks = _check("all_gather_matmul", x, weights, dim), group[1].world_size
    tokens = _tokens_of(x, dim, group[0], tokens)
    (*outer, _, columns), inner = _folded(x, dim), _inner(x, dim)
    kinds, flags = _global(weights, ranks, 1), (gathered,)
    try:
        bound, call = _padding.padded_rows(group, "all_gather_matmul", x, ranks, tokens * inner, _around(x, dim), columns, kinds,
                                           flags)
    finally:
        _check_piece(x, dim, group[0], tokens)  # the others know now that this rank makes another call, or none
    if bound is not None:
        def padded(rows, weights):
            x, mine = rows[0], (-(-tokens // ranks) * inner, bound)
            made = _gather(group[0], (dim, ranks * bound, gathered), (_padding.pad(x.flatten(dim, -2), dim, 1, *mine),), weights,
                           _padding.agreed(group, x, call))
            made = [_padding.cut(one, dim, ranks, *mine, tokens * inner) for one in made]
            return [one.reshape(_like(x, dim, tokens, one.shape[-1])) for one in made]
        return padded
    program = _fusions.compiled(_fusions.all_gather_matmul, group, x, (*outer, tokens * inner, columns), kinds, flags)
    columns = [weight.shape[1] for weight in weights] + ([x.shape[-1]] if gathered else [])
    return program, range(1 + len(weights)), [(_like(x, dim, tokens, one), False) for one in columns], call


def _check_sum(op, xs, weights, dim):
    """The dimension; raises unless x_i @ weight_i can be added up."""
    shapes = [(*x.shape[:-1], weight.shape[-1]) for x, weight in zip(xs, weights)]
    if len(xs) != len(weights) or not xs or any(shape != shapes[0] for shape in shapes):  # a symbolic shape has no hash
        raise tandem.ArgumentError(f"{op}: expected products of one shape, found {[tuple(x.shape) for x in xs]} times "
                                   f"{[tuple(weight.shape) for weight in weights]}")
    if len({x.dtype for x in xs}) != 1:
        raise tandem.ArgumentError(f"{op}: expected products of one type, found {[x.dtype for x in xs]}")
    return [_check(op, x, [weight], dim) for x, weight in zip(xs, weights)][0]


def _interleaved(count):
    """The numbers of x_0, w_0, x_1, w_1, .. among x_0, x_1, .., w_0, w_1, .."""
    return [index for one in range(count) for index in (one, count + one)]


def _prepare_scatter(group, numbers, rows, weights):
    (dim,), ranks = numbers, group[1].world_size
    dim = _check_sum("matmul_reduce_scatter", rows, weights, dim)
    kinds, shapes = _global(weights, ranks, 0), tuple(_shape(_folded(x, dim), ranks, -1) for x in rows)
    tokens, inner = rows[0].shape[dim], _inner(rows[0], dim)
    here, columns = _piece(tokens, group[0]), tuple(shape[-1] for shape in shapes)
    bound, call = _padding.padded_rows(group, "matmul_reduce_scatter", rows[0], ranks, tokens * inner, _around(rows[0], dim), columns,
                                       kinds)
    _check_divides("matmul_reduce_scatter", rows[0], dim, ranks, tokens)
    if bound is not None:
        def padded(rows, weights):
            mine = -(-tokens // ranks) * inner, bound
            made = _scatter(group[0], (dim,), [_padding.pad(x.flatten(dim, -2), dim, ranks, *mine) for x in rows], weights,
                            _padding.agreed(group, rows[0], call))
            cut = _padding.cut(made[0], dim, 1, *mine, here * inner)
            return [cut.reshape(_like(rows[0], dim, here, cut.shape[-1]))]
        return padded
    program = _fusions.compiled(_fusions.matmul_reduce_scatter, group, rows[0], shapes, kinds, ())
    return program, _interleaved(len(rows)), [(_like(rows[0], dim, here, weights[0].shape[1]), False)], call


def _is_faster_in_two(program, gather):
    """Is one program for the gather and dx, and then torch's matmul for dw, predicted to be faster than one for all? In
    that one both products go by slices, and sums over slices of dw take time."""
    both = program.explain()
    if not both.seconds:
        return False  # no prediction: fixed rules, or nothing to do
    first = gather().explain()
    return bool(first.seconds) and first.seconds + both.baseline_seconds - first.baseline_seconds < both.seconds


def _prepare_scatter_backward(group, numbers, rows, weights):
    (x, _), (dim, need_x, need_weight) = rows, numbers
    dim, ranks = dim % x.dim(), group[1].world_size
    (kind,), flags = _global(weights, ranks, 0), (need_x, need_weight)
    *outer, rows_of_all, columns = _shape(_folded(x, dim), ranks, -1)
    tokens, inner = x.shape[dim], _inner(x, dim)
    bound, call = _padding.padded_rows(group, "matmul_reduce_scatter_backward", x, ranks, rows_of_all, _around(x, dim), columns, kind,
                                       flags)
    if bound is not None:
        def padded(rows, weights):
            (x, grad), mine = rows, (-(-tokens // ranks) * inner, bound)
            rows = _padding.pad(x.flatten(dim, -2), dim, ranks, *mine), _padding.pad(grad.flatten(dim, -2), dim, 1, *mine)
            made = _scatter_backward(group[0], (dim, need_x, need_weight), rows, weights, _padding.agreed(group, x, call))
            return [_padding.cut(made[0], dim, ranks, *mine, rows_of_all).reshape(x.shape), *made[1:]] if need_x else made
        return padded
    program = _fusions.compiled(_fusions.matmul_reduce_scatter_backward, group, x, (*outer, rows_of_all, columns), kind, flags)
    if all(flags) and _is_faster_in_two(program, lambda: _fusions.compiled(
            _fusions.all_gather_matmul, group, x, (*outer, rows_of_all, weights[0].shape[1]), _global([weights[0].t()], ranks, 1),
            (True,))):
        def in_two(rows, weights):
            (x, grad), (weight,) = rows, weights
            dx, whole = _gather(group[0], (dim, tokens, True), (grad,), (weight.t(),))
            return [dx, _gradient_of_weight(weight, x, whole)]
        return in_two
    inputs = [*([0] if need_weight else []), *([2] if need_x else []), 1]
    made = [*([(tuple(x.shape), False)] if need_x else []), *(_stored(weights) if need_weight else [])]
    return program, inputs, made, call


def _prepare_reduce(group, numbers, rows, weights):
    ranks, shape = group[1].world_size, rows[0].shape[:-1]
    _check_sum("matmul_all_reduce", rows, weights, 0)
    columns = tuple(x.shape[-1] * ranks for x in rows)
    kinds, tokens = _global(weights, ranks, 0), math.prod(shape)
    bound, call = _padding.padded_rows(group, "matmul_all_reduce", rows[0], 1, tokens, shape[:-1], columns, kinds)
    if bound is not None:
        def padded(rows, weights):
            rows = [_padding.pad(x.reshape(tokens, -1), 0, 1, tokens, bound) for x in rows]
            made = _reduce(group[0], numbers, rows, weights, _padding.agreed(group, rows[0], call))
            return [made[0][:tokens].unflatten(0, shape)]
        return padded
    shapes = tuple((tokens, one) for one in columns)
    program = _fusions.compiled(_fusions.matmul_all_reduce, group, rows[0], shapes, kinds, ())
    return program, _interleaved(len(rows)), [((*shape, weights[0].shape[1]), False)], call


_groups = _tandem.Groups()
_gather, _scatter, _scatter_backward, _reduce = (_tandem.Operator(_groups, prepare) for prepare in (
    _prepare_gather, _prepare_scatter, _prepare_scatter_backward, _prepare_reduce))
_library = torch.library.Library("tandem", "DEF")


def register(schema, run, fake):
    """Defines an operator without a gradient, on CPUs and GPUs; returns it. run, fake: what it does for tensors, and for
    tensors that have no data."""
    _library.define(schema)
    name = schema[:schema.index("(")]
    for key in ("CPU", "CUDA"):
        _library.impl(name, run, key)
    _library.impl(name, torch.library.fallthrough_kernel, "Autograd")
    torch.library.register_fake(f"tandem::{name}", fake, lib=_library)
    name, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.tandem, name), overload or "default")


def _differentiable(schema, run, fake, record):
    """Defines an operator with a gradient. Returns a function that calls it, and its overload `without_gradient`, which is
    what modes and graphs see. record: calls the overload, in a node of autograd if one is needed. That is all that the
    operator does, so eager calls begin there, and pass the dispatcher once."""
    name = schema[:schema.index("(")]
    _library.define(schema)
    _library.impl(name, record, "CompositeImplicitAutograd")
    operator = getattr(torch.ops.tandem, name).default

    def call(*arguments):
        return (operator if torch.compiler.is_compiling() else record)(*arguments)
    return call, register(schema.replace(name, f"{name}.without_gradient", 1), run, fake)


def _run_gather(x, weights, dim, group, tokens, gathered):
    return _gather(group, (dim, tokens, gathered), (x,), weights)


def _run_scatter(xs, weights, dim, group, rows=None):
    return _scatter(group, (dim,), xs, weights)[0]


def _run_scatter_backward(x, weight, grad, dim, group, need_x, need_weight):
    return _scatter_backward(group, (dim, need_x, need_weight), (x, grad), (weight,))


def _run_reduce(xs, weights, group):
    return _reduce(group, (), xs, weights)[0]


def _fake_gather(x, weights, dim, group, tokens, gathered):
    dim = _check("all_gather_matmul", x, weights, dim)
    tokens = _tokens_of(x, dim, group, tokens)
    columns = [weight.shape[1] for weight in weights] + ([x.shape[-1]] if gathered else [])
    return [x.new_empty(_like(x, dim, tokens, one)) for one in columns]


def _fake_scatter(xs, weights, dim, group, rows=None):
    dim = _check_sum("matmul_reduce_scatter", xs, weights, dim)
    rows = _piece(xs[0].shape[dim], group) if rows is None else rows
    return xs[0].new_empty(_like(xs[0], dim, rows, weights[0].shape[1]))


def _fake_scatter_backward(x, weight, grad, dim, group, need_x, need_weight):
    return ([x.new_empty(x.shape)] if need_x else []) + ([_empty_like_stored(weight)] if need_weight else [])


def _fake_reduce(xs, weights, group):
    _check_sum("matmul_all_reduce", xs, weights, 0)
    return xs[0].new_empty((*xs[0].shape[:-1], weights[0].shape[1]))


def _empty_like_stored(weight):
    if not weight.is_contiguous() and weight.t().is_contiguous():
        return weight.new_empty(weight.shape[::-1]).t()
    return weight.new_empty(weight.shape)


def _records(op, *tensors):
    """Does autograd record a call?"""
    check_transforms(op, tensors)
    if torch.is_grad_enabled():
        for one in tensors:  # any() takes longer
            if one.requires_grad:
                return True
    return False


def _used(grads, weights):
    """(gradients, transposed weights) of the results that something used; those are the same on all ranks."""
    pairs = [(grad, weight.t()) for grad, weight in zip(grads, weights) if grad is not None]
    return [grad for grad, _ in pairs], [transpose for _, transpose in pairs]


def _gradient_of_weight(weight, x, grad):
    """x^T @ grad, in memory as the weight is: the transpose of a dense tensor, or dense."""
    x, grad = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
    return (grad.t() @ x).t() if _transposed(weight) else x.t() @ grad


class _Gather(torch.autograd.Function):
    """Keeps the gathered x for the weights' gradients, as torch's layers do."""

    @staticmethod
    def forward(ctx, x, dim, group, tokens, gathered, *weights):
        ctx.set_materialize_grads(False)
        keeps = any(ctx.needs_input_grad[5:])
        made = _gather_op(x, weights, dim, group, tokens, keeps or gathered)
        ctx.dim, ctx.group, ctx.rows = dim, group, x.shape[dim]
        ctx.save_for_backward(made[-1] if keeps else None, *weights)
        if gathered:
            ctx.mark_non_differentiable(made[-1])
        return tuple(made[:len(weights) + gathered])

    @staticmethod
    def backward(ctx, *grads):
        check_once("all_gather_matmul", *grads)
        whole, *weights = ctx.saved_tensors
        used, transposes = _used(grads, weights)
        dx = None
        if ctx.needs_input_grad[0] and used:
            dx = _scatter_op(used, transposes, ctx.dim, ctx.group, ctx.rows)
        return dx, None, None, None, None, *(_gradient_of_weight(weight, whole, grad) if needed and grad is not None else None
                                             for weight, grad, needed in zip(weights, grads, ctx.needs_input_grad[5:]))


class _Sum(torch.autograd.Function):
    """op(xs, weights, *rest), a sum over ranks and products; the tensors are `count` xs and as many weights. gradients: of
    one product."""

    @staticmethod
    def forward(ctx, op, gradients, count, rest, *tensors):
        ctx.gradients, ctx.count, ctx.rest = gradients, count, rest
        ctx.save_for_backward(*tensors)
        return op(tensors[:count], tensors[count:], *rest)

    @staticmethod
    def backward(ctx, grad):
        saved, needs, count = ctx.saved_tensors, ctx.needs_input_grad[4:], ctx.count  # checkpointing unpacks a tensor once
        made = [ctx.gradients(x, weight, grad, need_x, need_weight, *ctx.rest) for x, weight, need_x, need_weight in
                zip(saved[:count], saved[count:], needs[:count], needs[count:])]
        return None, None, None, None, *(dx for dx, _ in made), *(dw for _, dw in made)


def _gradients_of_scatter(x, weight, grad, need_x, need_weight, dim, group, rows=None):
    """(dx or None, dw or None)."""
    check_once("matmul_reduce_scatter", grad)
    made = _scatter_backward_op(x, weight, grad, dim, group, need_x, need_weight) if need_x or need_weight else []
    return made[0] if need_x else None, made[-1] if need_weight else None


def _gradients_of_reduce(x, weight, grad, need_x, need_weight, group):
    check_once("matmul_all_reduce")
    return grad @ weight.t() if need_x else None, _gradient_of_weight(weight, x, grad) if need_weight else None


def _record_gather(x, weights, dim, group, tokens, gathered):
    if _records("all_gather_matmul", x, *weights):
        return list(_Gather.apply(x, dim, group, tokens, gathered, *weights))
    return _gather_op(x, weights, dim, group, tokens, gathered)


def _record_scatter(xs, weights, *rest):
    if _records("matmul_reduce_scatter", *xs, *weights):
        return _Sum.apply(_scatter_op, _gradients_of_scatter, len(xs), rest, *xs, *weights)
    return _scatter_op(xs, weights, *rest)


def _record_reduce(xs, weights, *rest):
    if _records("matmul_all_reduce", *xs, *weights):
        return _Sum.apply(_reduce_op, _gradients_of_reduce, len(xs), rest, *xs, *weights)
    return _reduce_op(xs, weights, *rest)


_call_gather, _gather_op = _differentiable(
    "all_gather_matmul(Tensor x, Tensor[] weights, int dim, str group, SymInt? tokens, bool gathered) -> Tensor[]",
    _run_gather, _fake_gather, _record_gather)
# rows: those of the result on this rank; None: _piece(). It is an argument since torch.compile caches code by the arguments
# in a graph: ranks that have different numbers of rows must not share code.
_call_scatter, _scatter_op = _differentiable(
    "matmul_reduce_scatter(Tensor[] xs, Tensor[] weights, int dim, str group, SymInt? rows=None) -> Tensor",
    _run_scatter, _fake_scatter, _record_scatter)
_call_reduce, _reduce_op = _differentiable(
    "matmul_all_reduce(Tensor[] xs, Tensor[] weights, str group) -> Tensor", _run_reduce, _fake_reduce, _record_reduce)
_scatter_backward_op = register(
    "matmul_reduce_scatter_backward(Tensor x, Tensor weight, Tensor grad, int dim, str group, bool need_x, "
    "bool need_weight) -> Tensor[]", _run_scatter_backward, _fake_scatter_backward)


class _Replicated(torch.autograd.Function):
    """y_i = x @ w_i where all ranks have the same x: the gradient of x is a sum over ranks, overlapped."""

    @staticmethod
    def forward(ctx, group, x, *weights):
        ctx.group = group
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, *weights)
        return tuple(x @ weight for weight in weights)

    @staticmethod
    def backward(ctx, *grads):
        check_once("column_parallel", *grads)
        x, *weights = ctx.saved_tensors
        used, transposes = _used(grads, weights)
        dx = _reduce_op(used, transposes, ctx.group) if ctx.needs_input_grad[1] and used else None
        return (None, dx, *(_gradient_of_weight(weight, x, grad) if needed and grad is not None else None
                            for weight, grad, needed in zip(weights, grads, ctx.needs_input_grad[2:])))


def _name(group):
    return group if isinstance(group, str) else _resolve(group).group_name


def _cast(x, weights):
    """(x, weights) as torch.autocast casts what torch's matmuls multiply."""
    kind = x.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return x, weights
    dtype = torch.get_autocast_dtype(kind)
    x, *weights = (one.to(dtype) if one.is_floating_point() and one.dtype != torch.float64 else one for one in (x, *weights))
    return x, tuple(weights)


def all_gather_matmul(x, weights, dim=0, group=None, tokens=None):
    """all_gather(x, dim) @ weight, the gather hidden behind the product.

    x: [.., tokens of this rank, in], dense; its ranks' parts follow each other along `dim`, which is in front of the
    last dimension. [tokens, batch, in] with dim 0 works if all ranks have the same number of tokens. weights: one of
    shape [in, out of this rank], dense or the transpose of a dense one (such as `linear.weight.t()`), or a list of them,
    which share one gather. group: a process group, or its name. tokens: how many rows all ranks have together, if they
    do not all have the same number: rank r has rows r * n to (r + 1) * n, n = ceil(tokens / ranks), as DTensor's Shard.

    Returns [.., tokens, out of this rank], or a list. Differentiable; the backward pass overlaps its reduce-scatter and
    its gather. Collective: all ranks of the group make the same calls.
    """
    is_one = isinstance(weights, torch.Tensor)
    group, (x, weights) = _name(group), _cast(x, (weights,) if is_one else tuple(weights))
    if _is_alone(group):
        dim = _check("all_gather_matmul", x, weights, dim)
        if tokens is not None:
            _check_piece(x, dim, group, tokens)
        made = [x @ weight for weight in weights]
    else:
        made = _call_gather(x, weights, dim, group, tokens, False)
    return made[0] if is_one else made


def matmul_reduce_scatter(x, weight, dim=0, group=None):
    """reduce_scatter(x @ weight, dim), the sums hidden behind the product.

    x: [.., tokens, in of this rank]; weight: [in of this rank, out], dense or the transpose of a dense one. Returns
    [.., tokens of this rank, out]: pieces of ceil(tokens / ranks) rows. [tokens, batch, in] with dim 0 works if the
    ranks divide the tokens. Differentiable. Collective.
    """
    group, (x, (weight,)) = _name(group), _cast(x, (weight,))
    if _is_alone(group):
        _check("matmul_reduce_scatter", x, [weight], dim)
        return x @ weight
    rows = _piece(x.shape[dim], group) if torch.compiler.is_compiling() else None
    return _call_scatter([x], [weight], dim, group, rows)


def matmul_all_reduce(x, weight, group=None):
    """all_reduce(x @ weight), the sums hidden behind the product.

    x: [.., tokens, in of this rank]; weight: [in of this rank, out]. Returns [.., tokens, out], the same bits on all
    ranks. Differentiable: the gradient of the result is the same on all ranks. Collective.
    """
    group, (x, (weight,)) = _name(group), _cast(x, (weight,))
    if _is_alone(group):
        _check("matmul_all_reduce", x, [weight], 0)
        return x @ weight
    return _call_reduce([x], [weight], group)


def column_parallel(x, weights, group=None):
    """x @ weight where all ranks have the same x, and each has some columns of weight. The gradient of x is the sum over
    the ranks, hidden behind the product. weights: one, or a list that shares the sum."""
    is_one = isinstance(weights, torch.Tensor)
    group, (x, weights) = _name(group), _cast(x, (weights,) if is_one else tuple(weights))
    check_transforms("column_parallel", (x, *weights))
    if _is_alone(group):
        made = [x @ weight for weight in weights]
    else:
        made = _Replicated.apply(group, x, *weights)
    return made[0] if is_one else list(made)
