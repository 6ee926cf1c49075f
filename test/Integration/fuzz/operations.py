# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random values, and random ops of the fusion dialect on them: what generator.py is made of."""

import dataclasses
import math

from program import Axes, Op, Value

MAX_ELEMENTS = 3000
EIGHT_BITS = ("f8E4M3FN", "f8E5M2")


def divisors(n):
    """Sizes of digits that fit an extent; any fits an empty one."""
    return [d for d in range(1, n + 1) if n % d == 0] if n else [1, 2, 3, 4]


class Operations:
    def argument(self, shape, dtype=None):
        axes = self.axes(shape, partial=0.07, stream=self.streams and self.chance(0.2))
        used = {what for dim in axes.dims for kind, what in dim if kind == "didx"} | set(axes.partial)
        if axes.partial and any(size > 1 and axis not in used for axis, size in axes.mesh.axes):
            # Copies of terms: a runner cannot know who holds which.
            axes = dataclasses.replace(axes, partial=(), kind="sum")
        exact = not axes.partial
        if self.chance(self.open_arguments):
            axes, exact = None, True
        value = Value(f"a{len(self.arguments)}", tuple(shape), dtype or self.dtype, axes, exact=exact)
        if value.dtype == "i32":
            value = dataclasses.replace(value, bound=8)
        self.arguments.append(value)
        self.values.append(value)
        return value

    def add(self, kind, operands, shape, axes, bound=None, dtype=None, floor=0, exact=False, **attributes):
        bound = max((v.bound for v in operands), default=1) if bound is None else bound
        dtype = dtype or (operands[0].dtype if operands else self.dtype)
        result = Value(f"v{len(self.ops)}", tuple(shape), dtype, axes, bound, floor, exact)
        self.ops.append(Op(kind, tuple(v.name for v in operands), result, attributes))
        self.values.append(result)
        return result

    def move(self, kind, operands, shape, axes, **attributes):
        """An op that changes no element."""
        return self.add(kind, operands, shape, axes, floor=min(v.floor for v in operands),
                        exact=all(v.exact for v in operands), **attributes)

    def words(self):
        """What the user says of an op's reshards: seldom anything."""
        words = {}
        if self.chance(0.06):
            words["fusion.gather"] = self.random.choice(('"before"', '"after"'))
        if self.chance(0.04):
            words["fusion.schedule"] = f"#fusion.schedule<{self.random.choice(('pipeline', 'exchange'))}>"
        return words

    def result_axes(self, shape, operands):
        """Of an op that is not elementwise: mostly left open."""
        if self.chance(self.open_results):
            return None
        mesh = next((v.axes.mesh for v in operands if v.axes), None)
        return self.axes(shape, mesh)

    def pick(self, condition=lambda value: True):
        """A value, rather a late one; where some have many uses, rather one of the first."""
        fit = [v for v in self.values if v.dtype != "i1" and v.dtype not in EIGHT_BITS and condition(v)]
        if not fit:
            return None
        if self.hubs and self.chance(0.5):
            return self.random.choice(fit[:3])
        return fit[-1] if self.chance(0.5) else self.random.choice(fit)

    def schedule(self):
        r = self.random
        if self.chance(0.65):
            return None
        kind = r.choices(("pipeline", "exchange", "push", "gated", "direct", "ring", "hierarchical"), (20, 20, 8, 8, 8, 6, 6))[0]
        if kind == "ring":
            form = r.choice(('', ', directions = 2', ', split = ' + chr(34) + 'yes' + chr(34)))
            return f"#fusion.schedule<ring{form}{', buffers = 2' if self.chance(0.3) else ''}>"
        if kind == "hierarchical":
            return f"#fusion.schedule<hierarchical{', merge = ' + chr(34) + 'node' + chr(34) if self.chance(0.2) else ''}>"
        if kind == "gated":
            return f"#fusion.schedule<gated{self.by_sms()}>"
        if kind == "direct":
            return self.direct()
        more = f", streams = {r.randint(1, 6)}" if self.chance(0.2) else ""
        if kind == "push":
            more += ", by = epilogue" if self.chance(0.2) else self.by_sms()
            more += ", order = xor" if self.chance(0.2) else ""
            more += ", sum = matmul" if self.chance(0.2) else ""
            more += f", copies = {r.randint(2, 5)}" if self.chance(0.2) else ""
            more += f", merge = [{r.choice(('1, 1', '2', '1, 2', '1, 1, 2', '2, 2'))}]" if self.chance(0.2) else ""
        return f"#fusion.schedule<{kind}{more}>"

    def by_sms(self):
        return f", by = sms, blocks = {self.random.randint(1, 20)}" if self.chance(0.2) else ""

    def direct(self):
        shots = self.random.choice(("", "", "", "one", "two"))
        protocol = self.random.choice(("", "", "", "block") + (() if shots == "two" else ("ll",)))
        options = "".join(f', {key} = "{value}"' for key, value in (("shots", shots), ("protocol", protocol)) if value)
        return f"#fusion.schedule<direct{options}>"

    def reshard(self, value):
        if value.axes and value.axes.partial and self.chance(0.2):
            whole = dataclasses.replace(value.axes, partial=(), kind="sum")
            return self.move("reshard", [value], value.shape, whole, schedule=self.direct())
        if value.axes and value.shape and self.chance(0.5):
            axes = self.nearby(value.axes, value.shape)
        else:
            stays = 0.8 if len(self.meshes) == 1 else 0.4
            axes = self.axes(value.shape, value.axes.mesh if value.axes and self.chance(stays) else None)
        if value.axes and value.axes.partial and value.axes.mesh == axes.mesh and self.chance(0.25):
            used = {what for dim in axes.dims for kind, what in dim if kind == "didx"}
            kept = tuple(a for a in value.axes.partial if a not in used and self.chance(0.7))
            axes = dataclasses.replace(axes, partial=kept, kind=value.axes.kind if kept else "sum")
        return self.move("reshard", [value], value.shape, axes, schedule=self.schedule())

    def streamed(self, value, d):
        """`value`, resharded so that dimension d comes in slices: what combines over it accumulates."""
        if not self.streams or not value.axes or value.shape[d] < 2 or self.chance(0.3):
            return value
        for _ in range(4):
            axes = self.axes(value.shape, value.axes.mesh, stream=True)
            if any(kind == "stream" for kind, _ in axes.dims[d]):
                return self.move("reshard", [value], value.shape, axes, schedule=self.schedule())
        return value

    def alike(self, value, like):
        """`value` as an elementwise op with `like` takes it: decided alike. There is no reshard to undecided axes."""
        assert like.axes or not value.axes
        if value.axes == like.axes:
            return value
        return self.move("reshard", [value], value.shape, like.axes, schedule=None)

    def matmul(self, value):
        r = self.random
        if value.dtype == "i32":
            return
        lhs = value
        # A vector is a matrix of one row (left) or of one column (right), which the result does not have.
        if not lhs.shape or (len(lhs.shape) < 2 and self.chance(0.5)):
            lhs = self.pick(lambda v: len(v.shape) >= 2 and v.dtype == value.dtype)
            if not lhs:
                return
        is_column = self.chance(0.15)
        transpose_a = len(lhs.shape) > 1 and self.chance(0.25)
        transpose_b = not is_column and self.chance(0.3)
        k = lhs.shape[-2 if transpose_a else -1]
        rows = lhs.shape[-1:] if transpose_a else lhs.shape[-2:-1]
        n = self.extent()
        batch = lhs.shape[:-2]
        fits = lambda v: (v.dtype == lhs.dtype and len(v.shape) >= 2 and v.shape[-1 if transpose_b else -2] == k
                          and len(v.shape) <= 4 and all(a == b or 1 in (a, b) for a, b in
                                                        zip(v.shape[:-2][::-1], batch[::-1])))
        rhs = self.pick(fits) if not is_column and self.chance(0.4) else None
        if is_column:
            rhs = self.pick(lambda v: v.shape == (k,) and v.dtype == lhs.dtype) or self.argument((k,), lhs.dtype)
        if not rhs:
            own = tuple(b if self.chance(0.8) else 1 for b in batch)[r.randint(0, len(batch)):]
            if not batch and self.chance(0.1):
                own = (self.extent(),)
            shape = own + ((n, k) if transpose_b else (k, n))
            if math.prod(shape) > MAX_ELEMENTS:
                return
            rhs = self.argument(shape, lhs.dtype)
        columns = () if is_column else (rhs.shape[-2 if transpose_b else -1],)
        a, b = batch, rhs.shape[:-2]
        rank = max(len(a), len(b))
        a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
        shape = tuple(q if p == 1 else p for p, q in zip(a, b)) + rows + columns
        bound = k * lhs.bound * rhs.bound
        if math.prod(shape) > MAX_ELEMENTS or bound > 500:
            return
        lhs = self.streamed(lhs, len(lhs.shape) - (2 if transpose_a else 1))
        if self.chance(0.2):
            rhs = self.streamed(rhs, len(rhs.shape) - (1 if transpose_b or is_column else 2))
        operands = [lhs, rhs]
        if columns and self.chance(self.biased):
            bias = self.pick(lambda v: v.shape == columns and v.dtype == lhs.dtype) if self.chance(0.5) else None
            operands.append(bias or self.argument(columns, lhs.dtype))
        if self.chance(0.1):
            operands[0:2] = operands[1::-1] if not (transpose_a or transpose_b) and lhs is rhs else operands[0:2]
        self.add("matmul", operands, shape, self.result_axes(shape, operands), bound + 1,
                 transpose_a=transpose_a, transpose_b=transpose_b, words=self.words())

    def eight_bits(self, value):
        """A product of 8-bit floats, whose left factor may be a cast of what is exact, scaled or not. No rounding to 8 bits
        depends on how the program runs."""
        r = self.random
        if value.dtype == "i32" or len(value.shape) != 2:
            return
        if value.exact and value.axes and not value.axes.partial and value.bound <= 100 and self.chance(0.6):
            lhs = self.add("arith.truncf", [value], value.shape, value.axes, dtype=r.choice(EIGHT_BITS), exact=True)
        else:
            lhs = self.whole_argument(value.shape, r.choice(EIGHT_BITS))
        if lhs.axes and self.chance(0.4):
            lhs = self.reshard(lhs)
        n, transpose = self.extent(), self.chance(0.5)
        k = lhs.shape[1]
        if max(lhs.shape[0], k) * n > MAX_ELEMENTS or k * lhs.bound > 500:
            return
        rhs = self.whole_argument((n, k) if transpose else (k, n), r.choice(EIGHT_BITS))
        lhs = self.streamed(lhs, 1)
        shape = (lhs.shape[0], n)
        product = self.add("matmul", [lhs, rhs], shape, self.result_axes(shape, [lhs, rhs]), k * lhs.bound + 1, self.dtype,
                           transpose_a=False, transpose_b=transpose, words=self.words())
        if product.axes and not product.axes.partial and self.chance(0.5):
            scale = self.argument((shape[0],), self.dtype)
            rows = self.add("broadcast", [scale], shape, product.axes, exact=scale.exact, dims=[0])
            self.add("arith.mulf", [product, rows], shape, product.axes, product.bound)

    def whole_argument(self, shape, dtype):
        """Not partial: there are no sums of 8 bits."""
        value = self.argument(shape, dtype)
        if value.axes and value.axes.partial:
            value = dataclasses.replace(value, axes=dataclasses.replace(value.axes, partial=(), kind="sum"), exact=True)
            self.arguments[-1] = self.values[-1] = value
        return value

    def gathered_rows(self, value):
        """A gather of rows and a matmul that reads them, as the schedule `gated` takes them. Others may read them, too."""
        r = self.random
        mesh = r.choice(self.meshes)
        split = [(axis, size) for axis, size in mesh.axes if size > 1]
        if value.dtype == "i32" or mesh.is_open or not split or not self.streams:
            return
        axis, size = r.choice(split)
        shape = [r.randint(1, 3) for _ in range(r.randint(1, 2))] + [r.randint(1, 12)]
        d, slices, n = r.randrange(len(shape) - 1), r.choice((1, 1, 2, 3)), self.extent()
        shape[d] *= size * slices
        if max(math.prod(shape[:-1]) * n, shape[-1] * n, math.prod(shape)) > MAX_ELEMENTS:
            return
        at = lambda *digits: tuple(digits if i == d else () for i in range(len(shape)))
        x = self.argument(shape, value.dtype)
        x = dataclasses.replace(x, axes=Axes(mesh, at(("didx", axis))), exact=True)
        self.arguments[-1] = self.values[-1] = x
        digits = (("stream", size),) + ((("stream", slices),) if slices > 1 else ())
        rows = self.move("reshard", [x], x.shape, Axes(mesh, at(*digits)),
                         schedule=f"#fusion.schedule<gated{self.by_sms()}>" if self.chance(0.7) else self.schedule())
        transpose = self.chance(0.3)
        operands = [rows, self.argument((n, shape[-1]) if transpose else (shape[-1], n), value.dtype)]
        if self.chance(self.biased):
            operands.append(self.argument((n,), value.dtype))
        self.add("matmul", operands, shape[:-1] + [n], None, shape[-1] * x.bound * operands[1].bound + 1,
                 transpose_a=False, transpose_b=transpose, words={})

    def stored_rows(self, value):
        """A product whose partial sums are reduced to rows, or all-reduced, as `push` by the epilogue takes them, or, of two
        devices, with sums by the matmul."""
        r = self.random
        mesh = r.choice(self.meshes)
        split = [(axis, size) for axis, size in mesh.axes if size > 1]
        if value.dtype == "i32" or mesh.is_open or not split or not self.streams:
            return
        axis, size = r.choice(split)
        slices = 2 if self.chance(0.1) else 1
        m, k, n = size * slices * r.randint(1, 4), size * r.randint(1, 4), self.extent()
        if max(m * k, k * n, m * n) > MAX_ELEMENTS:
            return
        transpose = self.chance(0.3)
        own = (("didx", axis),)
        operands = []
        for shape, dims in (((m, k), ((), own)), ((n, k), ((), own)) if transpose else ((k, n), (own, ()))):
            operand = self.argument(shape, value.dtype)
            operands.append(dataclasses.replace(operand, axes=Axes(mesh, dims), exact=True))
            self.arguments[-1] = self.values[-1] = operands[-1]
        bound = k * operands[0].bound * operands[1].bound + 1
        digits = (("stream", size),) + ((("stream", slices),) if slices > 1 else ())
        product = self.add("matmul", operands, (m, n), Axes(mesh, (digits, ()), (axis,)), bound,
                           transpose_a=False, transpose_b=transpose, words={})
        terms = product if self.chance(0.9) else self.add("arith.addf", [product, product], (m, n), product.axes, 2 * bound)
        way = r.choice(("sum = matmul", "by = epilogue", "by = epilogue, sum = matmul")) if size == 2 else "by = epilogue"
        schedule = f"#fusion.schedule<push, {way}>" if self.chance(0.8) else self.schedule()
        rows = digits if self.chance(0.4) else own
        self.move("reshard", [terms], (m, n), Axes(mesh, (rows, ())), schedule=schedule)

    def attention(self, value):
        if value.dtype not in ("f32", "f16", "bf16") or len(value.shape) < 2 or not value.shape[-1]:
            return
        batch, (rows, depth) = value.shape[:-2], value.shape[-2:]
        causal = self.chance(0.5)
        tokens, columns = rows if causal else self.extent(), self.extent()
        if max(math.prod(batch + shape) for shape in ((rows, tokens), (tokens, depth), (tokens, columns))) > MAX_ELEMENTS:
            return
        keys, values = (self.pick(lambda v: v.shape == shape and v.dtype == value.dtype) if self.chance(0.3) else None
                        for shape in (batch + (tokens, depth), batch + (tokens, columns)))
        keys = keys or self.argument(batch + (tokens, depth), value.dtype)
        values = values or self.argument(batch + (tokens, columns), value.dtype)
        # exp() turns the absolute error of a score into a relative one.
        scale = float(f"{min(depth ** -0.5, 1 / max(depth * value.bound * keys.bound, 1)):.6e}")
        operands = [value, self.streamed(keys, len(batch)), self.streamed(values, len(batch))]
        shape = batch + (rows, columns)
        zigzag = self.random.choice(divisors(rows // 2)) if causal and rows and rows % 2 == 0 and self.chance(0.5) else 0
        self.add("attention", operands, shape, self.result_axes(shape, operands), values.bound, causal=causal,
                 zigzag=zigzag, scale=scale, words=self.words())

    def grouped_matmul(self, value):
        """Rows by groups whose sizes are known at run time: numbers that do not ascend count as the ones before."""
        r = self.random
        if value.dtype not in ("f32", "f16", "bf16") or len(value.shape) < 2:
            return
        batch, (rows, k) = value.shape[:-2], value.shape[-2:]
        groups, n, transpose = r.randint(1, 5), self.extent(), self.chance(0.4)
        shape = batch + (rows, n)
        bound = k * value.bound + 1
        if max(math.prod(shape), groups * k * n) > MAX_ELEMENTS or bound > 500:
            return
        w = self.whole_argument((groups, n, k) if transpose else (groups, k, n), value.dtype)
        ends = self.whole_argument(batch + (groups,), "i32")
        operands = [self.streamed(value, r.randrange(len(batch))) if batch else value, w, ends]
        dtype = "f32" if self.chance(0.2) else value.dtype
        self.add("grouped_matmul", operands, shape, self.result_axes(shape, operands), bound, dtype, transpose_b=transpose)

    def reduce(self, value):
        r = self.random
        rank = len(value.shape)
        dims = sorted(r.sample(range(rank), min(rank, r.choices((1, 2, 3), (7, 2, 1))[0])))
        if len(dims) == rank and self.chance(0.7):
            return
        keep = self.chance(0.25)
        shape = tuple(1 if i in dims else n for i, n in enumerate(value.shape) if keep or i not in dims)
        # The maximum of nothing is infinite, which most ops turn into NaN.
        reduction = r.choice(("sum", "sum", "sum", "max", "min")) if math.prod(value.shape) else "sum"
        bound = value.bound
        if reduction == "sum":
            bound *= math.prod(value.shape[d] for d in dims)
        if bound > 1000:
            return
        if dims:
            value = self.streamed(value, r.choice(dims))
        self.add("reduce", [value], shape, self.result_axes(shape, [value]), bound,
                 exact=value.exact and (reduction != "sum" or value.dtype == "i32"), reduction=reduction,
                 dims=tuple(dims), keep_dims=keep, words=self.words())

    def broadcast(self, value):
        shape, dims = [], []
        for extent in value.shape:
            if self.chance(0.25):
                shape.append(self.extent())
            dims.append(len(shape))
            shape.append(self.extent() if extent == 1 and self.chance(0.7) else extent)
        if self.chance(0.25):
            shape.append(self.extent())
        if len(shape) > 5 or math.prod(shape) > MAX_ELEMENTS:
            return
        self.move("broadcast", [value], shape, self.result_axes(shape, [value]), dims=tuple(dims))

    def permute(self, value):
        rank = len(value.shape)
        permutation = tuple(self.random.sample(range(rank), rank))
        shape = tuple(value.shape[p] for p in permutation)
        self.move("permute", [value], shape, self.result_axes(shape, [value]), permutation=permutation,
                  words=self.words())

    def reshape(self, value):
        r = self.random
        shape = list(value.shape)
        for _ in range(r.randint(1, 2)):
            if len(shape) > 1 and self.chance(0.5):
                d = r.randrange(len(shape) - 1)
                shape[d:d + 2] = [shape[d] * shape[d + 1]]
            elif shape and len(shape) < 5:
                d = r.randrange(len(shape))
                n = r.choice(divisors(shape[d]))
                shape[d:d + 1] = [n, shape[d] // n] if self.chance(0.5) else [shape[d] // n, n]
        if shape:
            self.move("reshape", [value], shape, self.result_axes(shape, [value]))

    def slice(self, value):
        r = self.random
        offsets, steps, shape = [], [], []
        for extent in value.shape:
            offset = step = 0
            if self.chance(0.5) and extent > 1:
                offset, step = r.randrange(extent), r.choice((1, 1, 2, 3))
                least = not self.chance(self.empty)
                shape.append(r.randint(1, (extent - offset - 1) // step + 1) if least else 0)
            else:
                step = 1
                shape.append(extent)
            offsets.append(offset)
            steps.append(step)
        self.move("slice", [value], shape, self.result_axes(shape, [value]), offsets=tuple(offsets),
                  steps=tuple(steps))

    def concat(self, value):
        d = self.random.randrange(len(value.shape)) if value.shape else None
        if d is None:
            return
        fits = lambda v: (v.dtype == value.dtype and len(v.shape) == len(value.shape)
                          and all(i == d or a == b for i, (a, b) in enumerate(zip(v.shape, value.shape))))
        operands = [value] + [self.pick(fits) for _ in range(self.random.randint(1, 2))]
        shape = list(value.shape)
        shape[d] = sum(v.shape[d] for v in operands)
        if math.prod(shape) <= MAX_ELEMENTS:
            self.move("concat", operands, shape, self.result_axes(shape, operands), dim=d)
