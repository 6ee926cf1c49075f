# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The layers as fusions, compiled for shapes and kept."""

import logging
import math
import time
from typing import Any

import torch

import tandem
from tandem import Axes, Mesh, didx, loop
from tandem._emit import emit
from tandem._trace import Value, matmul, round_to, scaled_matmul

from . import _groups

log = logging.getLogger("tandem.torch")

NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64"}
NAMES_FP8 = {torch.float8_e4m3fn: "f8E4M3FN", torch.float8_e5m2: "f8E5M2"}


class Layer:
    """A fusion over a mesh of one axis, "x", while it is traced: its arguments, and its results with their axes."""

    def __init__(self, dtype, ranks):
        self.dtype, self.mesh = dtype, Mesh("tp", x=ranks)
        self.arguments, self.results = [], {}

    def axes(self, shape, row, last):
        """Those of [.., rows, columns]."""
        return self.mesh.axes(*[None] * (len(shape) - 2), row, last)

    def argument(self, name, shape, *dims, dtype=None):
        """`dims`: how each dimension is split, or the axes."""
        axes = dims[0] if dims and isinstance(dims[0], Axes) else self.mesh.axes(*dims)
        self.arguments.append(Value("argument", [], shape, dtype or self.dtype, axes, name=name))
        return self.arguments[-1]

    def weight(self, index, shape, transposed, split, dtype=None):
        """A weight of shape [in, out], of which dimension `split` is split over the ranks; stored as [out, in] if
        transposed."""
        dims = ("x", None) if split == 0 else (None, "x")
        return self.argument(f"w{index}", shape[::-1] if transposed else shape, *(dims[::-1] if transposed else dims),
                             dtype=dtype)

    def result(self, name, value, axes):
        self.results[f"out_{name}"] = value, axes

    def text(self, name):
        values, axes = zip(*self.results.values())
        return emit(name, self.arguments, values, axes, list(self.results), {}, place=None)


def _pieces(extent, ranks, sliced):
    """How rows are split over the ranks. Two slices each, for fixed rules, where they divide evenly: else pieces would be
    larger than ceil(extent / ranks)."""
    return didx("x") * loop(2) if sliced and extent % (2 * ranks) == 0 else "x"


def all_gather_matmul(dtype, ranks, x, weights, sliced, gathered):
    """y_i = all_gather(x) @ w_i. x: its global shape [.., tokens, in]; weights: (global shape [in, out], transposed)."""
    layer = Layer(dtype, ranks)
    left = layer.argument("x", x, layer.axes(x, "x", None))
    ws = [layer.weight(index, shape, transposed, 1) for index, (shape, transposed) in enumerate(weights)]
    for index, (w, (_, transposed)) in enumerate(zip(ws, weights)):
        layer.result(f"y{index}", matmul(left, w, transpose_b=transposed), layer.axes(x, loop("x") if sliced else None, "x"))
    if gathered:
        whole = layer.axes(x, None, None)
        layer.result("whole", left.reshard(whole), whole)
    return layer


def _products(layer, xs, weights, axes):
    """The sum of x_i @ w_i, where each rank has some columns of x_i and the rows of w_i."""
    terms = [(layer.argument(f"x{index}", x, layer.axes(x, None, "x")), layer.weight(index, *weight, 0), weight[1])
             for index, (x, weight) in enumerate(zip(xs, weights))]
    total, *more = [matmul(x, w, transpose_b=transposed) for x, w, transposed in terms]
    for product in more:
        total = total + product
    layer.result("y", total.reshard(axes) if more else total, axes)
    return layer


def matmul_reduce_scatter(dtype, ranks, xs, weights, sliced):
    """y = reduce_scatter(sum of x_i @ w_i). x_i: [.., tokens, in], of which in is split; weights: (global shape,
    transposed)."""
    layer = Layer(dtype, ranks)
    return _products(layer, xs, weights, layer.axes(xs[0], _pieces(xs[0][-2], ranks, sliced), None))


def matmul_reduce_scatter_backward(dtype, ranks, x, weight, sliced, need_x, need_weight):
    """dx = all_gather(dy) @ w^T, dw = x^T @ all_gather(dy): one gather."""
    layer = Layer(dtype, ranks)
    shape, transposed = weight
    left: Any = layer.argument("x", x, layer.axes(x, None, "x")) if need_weight else None
    w: Any = layer.weight(0, shape, transposed, 0) if need_x else None
    dy = layer.argument("dy", (*x[:-1], shape[1]), layer.axes(x, "x", None))
    if need_x:
        layer.result("dx", matmul(dy, w, transpose_b=not transposed), layer.axes(x, loop("x") if sliced else None, "x"))
    if need_weight:  # contracts over all rows
        rows, grads = (one.reshape(math.prod(x[:-1]), one.shape[-1]) for one in (left, dy))
        dw = matmul(grads, rows, transpose_a=True) if transposed else matmul(rows, grads, transpose_a=True)
        layer.result("dw", dw, layer.mesh[None, "x"] if transposed else layer.mesh["x", None])
    return layer


def matmul_all_reduce(dtype, ranks, xs, weights, sliced):
    """y = all_reduce(sum of x_i @ w_i)."""
    layer = Layer(dtype, ranks)
    return _products(layer, xs, weights, layer.axes(xs[0], None, None))


def all_gather_scaled_matmul(dtype, ranks, x, weights, sliced, by_row, out, rescaled, gathered=False):
    """y_i = all_gather(x) @ w_i, times scales. weights: (global shape [in, out], transposed, dtype, has it a scale for each
    column). by_row: has x a scale for each row. rescaled: is each result multiplied by a number of its own."""
    layer = Layer(dtype, ranks)
    left = layer.argument("x", x, "x", None)
    by_rows = layer.argument("sx", x[:1], "x", dtype="f32") if by_row else layer.argument("sx", (), dtype="f32")
    ws = [layer.weight(index, shape, transposed, 1, kind) for index, (shape, transposed, kind, _) in enumerate(weights)]
    scales = [layer.argument(f"sw{index}", shape[1:], "x", dtype="f32") if by_column else
              layer.argument(f"sw{index}", (), dtype="f32") for index, (shape, _, _, by_column) in enumerate(weights)]
    rescales = [layer.argument(f"sy{index}", (), dtype="f32") if rescaled else None for index in range(len(weights))]
    for index, (w, scale, rescale) in enumerate(zip(ws, scales, rescales)):
        y = scaled_matmul(left, w, by_rows, scale, transpose_b=weights[index][1], dtype=out, scale_result=rescale)
        layer.result(f"y{index}", y, layer.mesh[loop("x") if sliced else None, "x"])
    if gathered:
        layer.result("whole", left.reshard(layer.mesh[None, None]), layer.mesh[None, None])
    return layer


def scaled_matmul_reduce_scatter(dtype, ranks, x, weight, sliced, by_row, out, slices):
    """y = the sum over ranks of x @ w, times scales that differ from rank to rank: they are applied before the sum. So the
    ranks are a dimension of all arguments. x: (tokens, in of a rank); weight: (shape [in of a rank, out], transposed, dtype,
    has it a scale for each column). slices: of the rows of each rank, in one loop with the sums; 0: products come first."""
    layer = Layer(dtype, ranks)
    (tokens, _), (shape, transposed, kind, by_column) = x, weight

    def argument(name, extents, kind):
        return layer.argument(name, (ranks, *extents), "x", *[None] * len(extents), dtype=kind)

    left = argument("x", x, None)
    by_rows = argument("sx", (tokens,) if by_row else (), "f32")
    w = argument("w0", shape[::-1] if transposed else shape, kind)
    scale = argument("sw", (shape[1],) if by_column else (), "f32")
    product = matmul(left, w, transpose_b=transposed, dtype="f32")
    if slices:
        product.axes = layer.mesh["x", loop("x") * loop(slices), None]
    for one, dims in (by_rows, [0, 1] if by_row else [0]), (scale, [0, 2] if by_column else [0]):
        product = product * Value("fusion.broadcast", [one], product.shape, "f32", dims=dims)
    total = round_to(product, out).sum(0)
    options = {"by": "messages"} if sliced and slices else {}
    axes = layer.mesh["x", None]
    layer.result("y", total.reshard(axes, **options), axes)
    return layer


class Planned:
    """In place of the context of a group, where programs are compiled that do not run now. certify: also predict their times.
    seconds: what compiling took. calls: what runs of the programs state, as `padded_rows` has it."""

    def __init__(self, world_size, machine, target, certify=True):
        self.world_size, self.machine, self.target, self.certify = world_size, machine, target, certify
        self.seconds, self.calls = 0.0, []


def machine_of(group, like):
    planned = isinstance(group[1], Planned)
    return group[1].machine if planned else _groups.machine(group[1], like.device, group[1].world_size)


def compile_for(planned, layer, name):
    begin = time.perf_counter()
    made = tandem.compile(layer.text(name), target=planned.target, machine=planned.machine, name=name, certify=planned.certify)
    planned.seconds += time.perf_counter() - begin
    return made


def compiled(make, group, like, *key):
    """The program of the fusion make(dtype, ranks, *shapes, sliced, *flags) for tensors like `like`; key: shapes, flags."""
    context, ranks = group[1], group[1].world_size
    machine = machine_of(group, like)
    *shapes, flags = key
    layer = make(NAMES.get(like.dtype) or NAMES_FP8[like.dtype], ranks, *shapes, machine is None, *flags)
    if isinstance(context, Planned):
        return compile_for(context, layer, make.__name__)
    program = tandem.compile(layer.text(make.__name__), target=tandem._program._target(context), machine=machine, name=make.__name__)
    if like.device.type == "cuda":
        _groups.make_room(program, context, like.device)
    if log.isEnabledFor(logging.INFO):
        log.info("%s %s\n%s", make.__name__, shapes, program.explain())
    return program
