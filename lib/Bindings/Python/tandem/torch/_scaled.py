# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of 8-bit floats with scales: torch.ops.tandem.*scaled*. They have no gradients: quantization is the caller's."""

import sys

import torch

import tandem
from tandem import _tandem

from . import _fusions, _ops, _padding
from ._unsupported import check_no_gradient

_RESULTS = [torch.float32, torch.float16, torch.bfloat16, *_fusions.NAMES_FP8]


def _check(op, x, weights, results, out_dtype):
    for name, tensor in [("x", x), *((f"weight {index}", weight) for index, weight in enumerate(weights))]:
        if tensor.dim() != 2 or tensor.dtype not in _fusions.NAMES_FP8 or tensor.device != x.device:
            raise tandem.ArgumentError(f"{op}: expected {name} of float8_e4m3fn or float8_e5m2 [rows, columns] on {x.device}, "
                                       f"found {tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}")
    if not weights or any(weight.shape[0] != x.shape[1] for weight in weights):
        raise tandem.ArgumentError(f"{op}: expected weights of {x.shape[1]} rows, found shapes "
                                   f"{[tuple(weight.shape) for weight in weights]}")
    if out_dtype not in results:
        raise tandem.ArgumentError(f"{op}: expected results of {', '.join(map(str, results))}, found {out_dtype}")


def _scale(op, name, scale, tensor, dim):
    """The scales of a tensor as numbers for the program: one, or one for each index of a dimension."""
    shape = [1, 1]
    shape[dim] = tensor.shape[dim]
    if isinstance(scale, torch.Tensor) and scale.dtype == torch.float32 and scale.device == tensor.device:
        if scale.dim() < 2 and scale.numel() == 1:
            return scale.reshape(())
        if list(scale.shape) == shape:
            return scale.reshape(shape[dim])
    found = f"{scale.dtype} of shape {tuple(scale.shape)} on {scale.device}" if isinstance(scale, torch.Tensor) else scale
    raise tandem.ArgumentError(f"{op}: expected {name} of float32, one number or shape {shape}, on {tensor.device}, found {found}")


def _prepare_gather(group, numbers, rows, weights):
    (x, scale), (tokens, out, count, gathered) = rows, numbers
    ranks, op = group[1].world_size, "all_gather_scaled_matmul"
    weights, scales, rescaled = weights[:count], weights[count:2 * count], len(weights) > 2 * count
    tokens = _ops._tokens_of(x, 0, group[0], tokens)
    kinds = tuple((shape, transposed, _fusions.NAMES_FP8[weight.dtype], bool(one.dim()))
                  for (shape, transposed), weight, one in zip(_ops._global(weights, ranks, 1), weights, scales))
    flags = bool(scale.dim()), _name(_RESULTS[out]), rescaled, gathered
    try:
        bound, call = _padding.padded_rows(group, op, x, ranks, tokens, [], x.shape[1], kinds, flags)
    finally:
        _ops._check_piece(x, 0, group[0], tokens, op)
    if bound is not None:
        def padded(rows, weights):
            mine = -(-tokens // ranks), bound
            made = _gather(group[0], (ranks * bound, out, count, gathered), [_pad(one, 1, *mine) for one in rows], weights,
                           _padding.agreed(group, rows[0], call))
            return [_padding.cut(one, 0, ranks, *mine, tokens) for one in made]
        return padded
    program = _fusions.compiled(_fusions.all_gather_scaled_matmul, group, x, (tokens, x.shape[1]), kinds, flags)
    inputs = range(2 + (3 if rescaled else 2) * count)
    columns = [weight.shape[1] for weight in weights] + ([x.shape[1]] if gathered else [])
    return program, inputs, [((tokens, one), False) for one in columns], call


def _prepare_scatter(group, numbers, rows, weights):
    (x, scale), (out,), (weight, weight_scale) = rows, numbers, weights
    ranks, op = group[1].world_size, "scaled_matmul_reduce_scatter"
    tokens, here = x.shape[0], _ops._piece(x.shape[0], group[0])
    kind = tuple(weight.shape), _ops._transposed(weight), _fusions.NAMES_FP8[weight.dtype], bool(weight_scale.dim())
    flags = bool(scale.dim()), _name(_RESULTS[out])
    bound, call = _padding.padded_rows(group, op, x, ranks, tokens, [], x.shape[1], kind, flags)
    if bound is not None:
        def padded(rows, weights):
            mine = -(-tokens // ranks), bound
            made = _scatter(group[0], numbers, [_pad(one, ranks, *mine) for one in rows], weights,
                            _padding.agreed(group, rows[0], call))
            return [_padding.cut(made[0], 0, 1, *mine, here)]
        return padded
    # By prediction; by fixed rules one slice for each rank.
    machine = _fusions.machine_of(group, x)
    slices = [n for n in (0, 1, 2, 4) if machine and tokens % (ranks * max(1, n)) == 0]
    slices = slices or [1 if tokens % ranks == 0 else 0]
    programs = [_fusions.compiled(_fusions.scaled_matmul_reduce_scatter, group, x, tuple(x.shape), kind, (*flags, n))
                for n in slices]
    chosen = _tandem.choose([program.bytes for program in programs], machine) if machine else 0
    return programs[chosen], [0, 1, 2, 3], [((here, weight.shape[1]), False)], call


def _pad(rows, *pieces):
    """Rows or their scales; one scale for all stays."""
    return _padding.pad(rows, 0, *pieces) if rows.dim() else rows


def _name(dtype):
    return _fusions.NAMES.get(dtype) or _fusions.NAMES_FP8[dtype]


# Operators are in cycles that no garbage collector sees. Modules that are alive when Python ends are cleared, which frees them.
_this = sys.modules[__name__]
_gather, _scatter = (_tandem.Operator(_ops._groups, prepare) for prepare in (_prepare_gather, _prepare_scatter))


def _run_gather(x, weights, scale_x, scales, group, tokens, out_dtype, scales_result, gathered=False):
    return _gather(group, (tokens, _RESULTS.index(out_dtype), len(weights), gathered), (x, scale_x), (*weights, *scales, *scales_result))


def _run_scatter(x, weight, scale_x, scale, group, out_dtype, rows=None):
    return _scatter(group, (_RESULTS.index(out_dtype),), (x, scale_x), (weight, scale))[0]


def _fake_gather(x, weights, scale_x, scales, group, tokens, out_dtype, scales_result, gathered=False):
    tokens = _ops._tokens_of(x, 0, group, tokens)
    made = [x.new_empty((tokens, weight.shape[1]), dtype=out_dtype) for weight in weights]
    return made + ([x.new_empty((tokens, x.shape[1]))] if gathered else [])


def _fake_scatter(x, weight, scale_x, scale, group, out_dtype, rows=None):
    rows = _ops._piece(x.shape[0], group) if rows is None else rows
    return x.new_empty((rows, weight.shape[1]), dtype=out_dtype)


_gather_op = _ops.register(
    "all_gather_scaled_matmul(Tensor x, Tensor[] weights, Tensor scale_x, Tensor[] scales, str group, SymInt? tokens, "
    "ScalarType out_dtype, Tensor[] scales_result, bool gathered=False) -> Tensor[]", _run_gather, _fake_gather)
_scatter_op = _ops.register(
    "scaled_matmul_reduce_scatter(Tensor x, Tensor weight, Tensor scale_x, Tensor scale, str group, ScalarType out_dtype, "
    "SymInt? rows=None) -> Tensor", _run_scatter, _fake_scatter)


def all_gather_scaled_matmul(x, weights, scale_x, scales, group=None, tokens=None, out_dtype=torch.bfloat16,
                             scale_result=None):
    """(all_gather(x) @ weight) * scale_x * scale, the gather hidden behind the product. 8 bits of each number travel.

    x: [tokens of this rank, in] of float8_e4m3fn or float8_e5m2. weights: one of these types, [in, out of this rank], or a
    list. scale_x, scales: float32, as for torch's `_scaled_mm`: one number for the whole tensor (scale_x: the same on all
    ranks), or [tokens of this rank, 1] for rows of x and [1, out of this rank] for columns of a weight. A list of weights
    has a list of scales. Sums and scales are computed in float32 and rounded to out_dtype: float32, float16,
    bfloat16, or 8 bits, saturated. For bfloat16 and 8 bits, NVIDIA GPUs may round a sum to bfloat16 before it is scaled.
    scale_result: one number, by which results of 8 bits are multiplied; a list for a list.
    group, tokens: as for `all_gather_matmul`. Not differentiable. Collective.
    """
    is_one = isinstance(weights, torch.Tensor)
    op, group, weights, scales = "all_gather_scaled_matmul", _ops._name(group), _list(weights), _list(scales)
    results = [] if scale_result is None else _list(scale_result)
    _check(op, x, weights, _RESULTS, out_dtype)
    if len(scales) != len(weights) or len(results) not in (0, len(weights)):
        raise tandem.ArgumentError(f"{op}: expected a scale for each of {len(weights)} weights, found {len(scales)}"
                                   + (f" and {len(results)} of results" if results else ""))
    scale_x = _scale(op, "scale_x", scale_x, x, 0)
    scales = [_scale(op, "a weight's scale", scale, weight, 1) for scale, weight in zip(scales, weights)]
    if any(not isinstance(scale, torch.Tensor) or scale.dtype != torch.float32 or scale.numel() != 1 or scale.device != x.device for scale in results):
        raise tandem.ArgumentError(f"{op}: expected scale_result of float32, one number on {x.device}, found {scale_result}")
    check_no_gradient(op, (x, *weights, scale_x, *scales, *results))
    made = _gather_op(x, weights, scale_x, scales, group, tokens, out_dtype, [scale.reshape(()) for scale in results])
    return made[0] if is_one else made


def scaled_matmul_reduce_scatter(x, weight, scale_x, scale, group=None, out_dtype=torch.bfloat16):
    """reduce_scatter((x @ weight) * scale_x * scale), the sums hidden behind the product.

    x: [tokens, in of this rank]; weight: [in of this rank, out], both of float8_e4m3fn or float8_e5m2. scale_x, scale:
    float32, one number, or [tokens, 1] and [1, out]. They are those of this rank's parts: other ranks may have other ones.
    So products are scaled and rounded to out_dtype (float32, float16, bfloat16) before they are added up. Returns
    [tokens of this rank, out]: pieces of ceil(tokens / ranks) rows. Not differentiable. Collective.
    """
    op, group = "scaled_matmul_reduce_scatter", _ops._name(group)
    _check(op, x, [weight], _RESULTS[:3], out_dtype)
    scale_x, scale = _scale(op, "scale_x", scale_x, x, 0), _scale(op, "scale", scale, weight, 1)
    check_no_gradient(op, (x, weight, scale_x, scale))
    return _scatter_op(x, weight, scale_x, scale, group, out_dtype, _ops._piece(x.shape[0], group))


def _list(given):
    return list(given) if isinstance(given, (list, tuple)) else [given]
