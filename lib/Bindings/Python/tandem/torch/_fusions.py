# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The layers as fusions, compiled for shapes and kept."""

import logging

import torch

import tandem

from . import _groups

log = logging.getLogger("tandem.torch")

NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64"}
NAMES_FP8 = {torch.float8_e4m3fn: "f8E4M3FN", torch.float8_e5m2: "f8E5M2"}


LARGEST = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0}


class Text:
    """Writes the text of a fusion over a mesh of one axis, "x"."""

    def __init__(self, name, dtype, ranks):
        self.name, self.dtype, self.ranks = name, dtype, ranks
        self.arguments, self.body, self.results = [], [], []
        self.types = {}

    def type(self, shape, axes=None, dtype=None):
        digits = "" if axes is None else f", #fusion.axes<#tp, [{', '.join(axes)}]>"
        return f"tensor<{''.join(f'{extent}x' for extent in shape)}{dtype or self.dtype}{digits}>"

    def argument(self, name, shape, axes, dtype=None):
        self.types[name] = self.type(shape, axes, dtype)
        self.arguments.append(f"%{name}: {self.types[name]} {{fusion.name = \"{name}\"}}")
        return name

    def value(self, name, op, operands, shape, axes=None, attributes="", dtype=None):
        """name = op operands."""
        self.types[name] = self.type(shape, axes, dtype)
        operands, types = [f"%{one}" for one in operands], [self.types[one] for one in operands]
        signature = (f"{types[0]} to {self.types[name]}" if op == "arith.truncf" else
                     self.types[name] if op.startswith("arith.") else f"{', '.join(types)} -> {self.types[name]}")
        self.body.append(f"  %{name} = {op} {', '.join(operands)}{attributes} : {signature}")
        return name

    def matmul(self, name, left, right, shape, axes=None, transpose_a=False, transpose_b=False, dtype=None):
        flags = ", ".join(flag for flag, on in (("transpose_a", transpose_a), ("transpose_b", transpose_b)) if on)
        return self.value(name, "fusion.matmul", (left, right), shape, axes, f" {{{flags}}}" if flags else "", dtype)

    def scaled(self, name, value, shape, axes, scales, dtype):
        """value, which is f32 and has these axes, times each scale, rounded to dtype. scales: (name, the dimensions of
        value that it has). Returns a name that begins with `name`."""
        steps = [("arith.mulf", self.value(f"{name}_by_{scale}", "fusion.broadcast", (scale,), shape, axes,
                                           f" dims {list(dims)}", "f32")) for scale, dims in scales]
        if dtype in LARGEST:  # saturated; NaN stays NaN
            steps += [("arith.minimumf", self.constant(f"{name}_most", LARGEST[dtype], shape, axes, "f32")),
                      ("arith.maximumf", self.constant(f"{name}_least", -LARGEST[dtype], shape, axes, "f32"))]
        for step, (op, operand) in enumerate(steps):
            value = self.value(f"{name}_{step}", op, (value, operand), shape, axes, dtype="f32")
        return value if dtype == "f32" else self.value(f"{name}_cast", "arith.truncf", (value,), shape, axes, dtype=dtype)

    def constant(self, name, number, shape, axes, dtype):
        self.types[name] = self.type(shape, axes, dtype)
        self.body.append(f"  %{name} = arith.constant dense<{number}> : {self.types[name]}")
        return name

    def rows(self, name, value, shape):
        """value with its leading dimensions merged, for products that contract over all rows."""
        if len(shape) == 2:
            return value
        return self.value(name, "fusion.reshape", (value,), (shape[0] * shape[1], shape[2]))

    def sum(self, name, terms, shape, axes):
        """name = the sum of products; terms: one (left, right, transpose_b) for each."""
        if len(terms) == 1:
            left, right, transpose_b = terms[0]
            return self.matmul(name, left, right, shape, axes, transpose_b=transpose_b)
        total = None
        for index, (left, right, transpose_b) in enumerate(terms):
            product = self.matmul(f"p{index}", left, right, shape, transpose_b=transpose_b)
            total = product if total is None else self.value(f"s{index}", "arith.addf", (total, product), shape)
        return self.value(name, "fusion.reshard", (total,), shape, axes)

    def result(self, name):
        self.results.append(name)

    def __str__(self):
        types = [self.types[name] for name in self.results]
        results = ", ".join(f"{type_} {{fusion.name = \"out_{name}\"}}" for name, type_ in zip(self.results, types))
        return "\n".join([
            f'#tp = #tandem.mesh<"tp", ["x" = {self.ranks}]>',
            f"func.func @{self.name}({', '.join(self.arguments)}) -> ({results}) {{", *self.body,
            f"  return {', '.join(f'%{name}' for name in self.results)} : {', '.join(types)}", "}", ""])


def _pieces(extent, ranks, sliced):
    """The digits of rows that are split over the ranks. Two slices each, for fixed rules, where they divide evenly: else
    pieces would be larger than ceil(extent / ranks)."""
    return 'didx("x") * stream(2)' if sliced and extent % (2 * ranks) == 0 else 'didx("x")'


def _axes(shape, row, last):
    """Those of [.., rows, columns]."""
    return ["-"] * (len(shape) - 2) + [row, last]


def _weight(text, index, shape, transposed, split, dtype=None):
    """A weight of shape [in, out], of which dimension `split` is split over the ranks; stored as [out, in] if
    transposed."""
    axes = ["-", "-"]
    axes[split] = 'didx("x")'
    if transposed:
        shape, axes = shape[::-1], axes[::-1]
    return text.argument(f"w{index}", shape, axes, dtype)


def all_gather_matmul(dtype, ranks, x, weights, sliced, gathered):
    """y_i = all_gather(x) @ w_i. x: its global shape [.., tokens, in]; weights: (global shape [in, out], transposed)."""
    text = Text("all_gather_matmul", dtype, ranks)
    text.argument("x", x, _axes(x, 'didx("x")', "-"))
    for index, (shape, transposed) in enumerate(weights):
        _weight(text, index, shape, transposed, 1)
    for index, (shape, transposed) in enumerate(weights):
        out = (*x[:-1], shape[1])
        axes = _axes(x, 'stream("x")' if sliced else "-", 'didx("x")')
        text.result(text.matmul(f"y{index}", "x", f"w{index}", out, axes, transpose_b=transposed))
    if gathered:
        text.result(text.value("whole", "fusion.reshard", ("x",), x, ["-"] * len(x)))
    return text


def _products(text, xs, weights, axes):
    """The sum of x_i @ w_i, where each rank has some columns of x_i and the rows of w_i."""
    for index, (x, (shape, transposed)) in enumerate(zip(xs, weights)):
        text.argument(f"x{index}", x, _axes(x, "-", 'didx("x")'))
        _weight(text, index, shape, transposed, 0)
    terms = [(f"x{index}", f"w{index}", transposed) for index, (_, transposed) in enumerate(weights)]
    text.result(text.sum("y", terms, (*xs[0][:-1], weights[0][0][1]), axes))
    return text


def matmul_reduce_scatter(dtype, ranks, xs, weights, sliced):
    """y = reduce_scatter(sum of x_i @ w_i). x_i: [.., tokens, in], of which in is split; weights: (global shape,
    transposed)."""
    axes = _axes(xs[0], _pieces(xs[0][-2], ranks, sliced), "-")
    return _products(Text("matmul_reduce_scatter", dtype, ranks), xs, weights, axes)


def matmul_reduce_scatter_backward(dtype, ranks, x, weight, sliced, need_x, need_weight):
    """dx = all_gather(dy) @ w^T, dw = x^T @ all_gather(dy): one gather."""
    text = Text("matmul_reduce_scatter_backward", dtype, ranks)
    shape, transposed = weight
    out = (*x[:-1], shape[1])
    if need_weight:
        text.argument("x", x, _axes(x, "-", 'didx("x")'))
    if need_x:
        _weight(text, 0, shape, transposed, 0)
    text.argument("dy", out, _axes(x, 'didx("x")', "-"))
    if need_x:
        axes = _axes(x, 'stream("x")' if sliced else "-", 'didx("x")')
        text.result(text.matmul("dx", "dy", "w0", x, axes, transpose_b=not transposed))
    if need_weight:
        rows, grads = text.rows("xr", "x", x), text.rows("dyr", "dy", out)
        pair = (grads, rows) if transposed else (rows, grads)
        axes = ["-", 'didx("x")'] if transposed else ['didx("x")', "-"]
        text.result(text.matmul("dw", *pair, shape[::-1] if transposed else shape, axes, transpose_a=True))
    return text


def matmul_all_reduce(dtype, ranks, xs, weights, sliced):
    """y = all_reduce(sum of x_i @ w_i)."""
    return _products(Text("matmul_all_reduce", dtype, ranks), xs, weights, _axes(xs[0], "-", "-"))


def all_gather_scaled_matmul(dtype, ranks, x, weights, sliced, by_row, out, rescaled):
    """y_i = all_gather(x) @ w_i, times scales. weights: (global shape [in, out], transposed, dtype, has it a scale for each
    column). by_row: has x a scale for each row. rescaled: is each result multiplied by a number of its own."""
    text = Text("all_gather_scaled_matmul", dtype, ranks)
    text.argument("x", x, ['didx("x")', "-"])
    text.argument("sx", x[:1] if by_row else (), ['didx("x")'] if by_row else [], "f32")
    for index, (shape, transposed, kind, _) in enumerate(weights):
        _weight(text, index, shape, transposed, 1, kind)
    for index, (shape, _, _, by_column) in enumerate(weights):
        text.argument(f"sw{index}", shape[1:] if by_column else (), ['didx("x")'] if by_column else [], "f32")
    for index in range(len(weights) if rescaled else 0):
        text.argument(f"sy{index}", (), [], "f32")
    for index, (shape, transposed, _, by_column) in enumerate(weights):
        y, axes = (x[0], shape[1]), ['stream("x")' if sliced else "-", 'didx("x")']
        product = text.matmul(f"p{index}", "x", f"w{index}", y, axes, transpose_b=transposed, dtype="f32")
        scales = [("sx", [0] if by_row else []), (f"sw{index}", [1] if by_column else [])]
        text.result(text.scaled(f"y{index}", product, y, axes, scales + ([(f"sy{index}", [])] if rescaled else []), out))
    return text


def scaled_matmul_reduce_scatter(dtype, ranks, x, weight, sliced, by_row, out, slices):
    """y = the sum over ranks of x @ w, times scales that differ from rank to rank: they are applied before the sum. So the
    ranks are a dimension of all arguments. x: (tokens, in of a rank); weight: (shape [in of a rank, out], transposed, dtype,
    has it a scale for each column). slices: of the rows of each rank, in one loop with the sums; 0: products come first."""
    text = Text("scaled_matmul_reduce_scatter", dtype, ranks)
    (tokens, _), (shape, transposed, kind, by_column) = x, weight
    mine = 'didx("x")'
    text.argument("x", (ranks, *x), [mine, "-", "-"])
    text.argument("sx", (ranks, tokens) if by_row else (ranks,), [mine, "-"] if by_row else [mine], "f32")
    text.argument("w0", (ranks, *(shape[::-1] if transposed else shape)), [mine, "-", "-"], kind)
    text.argument("sw", (ranks, shape[1]) if by_column else (ranks,), [mine, "-"] if by_column else [mine], "f32")
    terms, axes = (ranks, tokens, shape[1]), [mine, f'stream("x") * stream({slices})', "-"] if slices else None
    product = text.matmul("p", "x", "w0", terms, axes, transpose_b=transposed, dtype="f32")
    scales = [("sx", [0, 1] if by_row else [0]), ("sw", [0, 2] if by_column else [0])]
    product = text.scaled("s", product, terms, axes, scales, out)
    y = terms[1:]
    total = text.value("total", "fusion.reduce sum", (product,), y, None, " dims [0]", out)
    schedule = " {schedule = #fusion.schedule<exchange>}" if sliced and slices else ""
    text.result(text.value("y", "fusion.reshard", (total,), y, [mine, "-"], schedule, out))
    return text


def machine_of(group, like):
    return _groups.machine(group[1], like.device, group[1].world_size)


def compiled(make, group, like, *key):
    """The program of the fusion make(dtype, ranks, *shapes, sliced, *flags) for tensors like `like`; key: shapes, flags."""
    context, ranks = group[1], group[1].world_size
    machine = machine_of(group, like)
    *shapes, flags = key
    text = make(NAMES.get(like.dtype) or NAMES_FP8[like.dtype], ranks, *shapes, machine is None, *flags)
    program = tandem.compile(str(text), target=tandem._program._target(context), machine=machine, name=make.__name__)
    if like.device.type == "cuda":
        _groups.make_room(program, context, like.device)
    if log.isEnabledFor(logging.INFO):
        log.info("%s %s\n%s", make.__name__, shapes, program.explain())
    return program
