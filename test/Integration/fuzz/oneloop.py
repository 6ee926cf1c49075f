# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random fusions that are one loop: every op works on the same slices of one dimension, its rows, and nothing combines
rows (but at the end, where a sum over them may be a result). Devices split other dimensions, so that slices are
communicated."""

import dataclasses
import math

from operations import MAX_ELEMENTS
from program import Axes, Program


def one_loop(generator):
    return OneLoop(generator).program()


class OneLoop:
    def __init__(self, generator):
        self.g = generator
        self.random = generator.random
        self.rows = {}  # name of a value -> dimension of its rows

    def program(self):
        g, r = self.g, self.random
        g.dtype, g.hubs, g.open_arguments = r.choice(("f32", "f32", "f16", "bf16", "i32")), False, 0
        g.meshes = g.make_meshes()[:1]
        self.mesh = g.meshes[0]
        slices, inside, outside = r.randint(2, 5), r.randint(1, 3), r.choice((1, 1, 1, 2))
        self.extent = outside * slices * inside
        self.digits = ((("serial", outside),) if outside > 1 else ()) + (("stream", slices if inside > 1 else None),)
        if inside > 1 and outside == 1 and g.chance(0.3):
            self.extent -= r.randrange(1, inside)  # the last slice is shorter
        self.source()
        wanted = r.choices((1, 2, 3, 5, 8), (1, 3, 4, 3, 2))[0]
        for _ in range(6 * wanted):
            if len(g.ops) >= wanted:
                break
            r.choices((self.reshard, self.elementwise, self.binary, self.matmul, self.reduce, self.permute,
                       self.source), (4, 2, 3, 4 if g.dtype != "i32" else 0, 2, 1, 0.5))[0]()
        if not g.ops:
            self.reshard()
        used = {name for op in g.ops for name in op.operands}
        results = [op.result.name for op in g.ops if op.result.name not in used]
        return Program(g.seed, g.meshes, tuple(g.arguments), tuple(g.ops), tuple(results),
                       target=r.choice(("cpu-local", "cpu-ucx")), workers=r.randint(1, 5),
                       gather=r.choice(("before", "after")), one_loop=True).live()

    def pick(self, condition=lambda value: True):
        """Not partial, and with rows; `condition` may ask for more."""
        fit = [v for v in self.g.values if v.name in self.rows and not v.axes.partial and condition(v)]
        return self.random.choice(fit) if fit else None

    def axes(self, shape, rows, streamed=True, partial=()):
        """Rows in slices, or whole; the mesh's axes on other dimensions."""
        rest, dims = list(shape), [()] * len(shape)
        for axis, size in self.mesh.axes:
            fits = [d for d in range(len(shape)) if d != rows and rest[d] % size == 0]
            if fits and axis not in partial and self.g.chance(0.7):
                d = self.random.choice(fits)
                rest[d] //= size
                dims[d] += (("didx", axis),)
        if rows is not None and streamed:
            dims[rows] = self.digits
        return Axes(self.mesh, tuple(dims), partial)

    def other_extents(self, rank):
        while True:
            extents = [self.g.extent() for _ in range(rank)]
            if math.prod(extents) * self.extent <= MAX_ELEMENTS:
                return extents

    def source(self):
        shape = self.other_extents(self.random.choice((1, 1, 2)))
        rows = self.random.randrange(len(shape) + 1)
        shape.insert(rows, self.extent)
        argument = self.g.argument(tuple(shape))
        argument = dataclasses.replace(argument, axes=self.axes(shape, rows, streamed=self.g.chance(0.5)), exact=True)
        self.g.arguments[-1] = self.g.values[-1] = argument
        self.rows[argument.name] = rows
        if not argument.axes.dims[rows]:
            # The first op on it says how its rows are cut.
            return self.reshard(argument)
        return argument

    def made(self, value, rows):
        self.rows[value.name] = rows
        return value

    def reshard(self, value=None):
        """To other axes of the same slices; of a partial value, to any that are not."""
        value = value or self.pick()
        rows = self.rows[value.name]
        # What is not in slices itself is only the source of those that are.
        if not value.axes.dims[rows]:
            del self.rows[value.name]
        axes = self.axes(value.shape, rows)
        return self.made(self.g.move("reshard", [value], value.shape, axes, schedule=None), rows)

    def settled(self, value, rows):
        return self.reshard(self.made(value, rows)) if value.axes.partial else self.made(value, rows)

    def elementwise(self):
        if self.g.dtype == "i32":
            return self.binary()
        value = self.pick()
        made = self.g.unary(value)
        for op in self.g.ops:  # those that came before it, too
            if op.result.shape == value.shape and op.result.axes == value.axes and op.result.dtype == value.dtype:
                self.rows.setdefault(op.result.name, self.rows[value.name])
        return made

    def binary(self):
        value = self.pick()
        rows = self.rows[value.name]
        other = self.pick(lambda v: v.shape == value.shape and self.rows[v.name] == rows)
        if other.axes != value.axes:
            other = self.made(self.g.move("reshard", [other], other.shape, value.axes, schedule=None), rows)
        bound = value.bound + other.bound
        if bound > 1000:
            return
        kind = "arith.addi" if value.dtype == "i32" else self.random.choice(("arith.addf", "arith.maximumf"))
        self.made(self.g.add(kind, [value, other], value.shape, value.axes, bound), rows)

    def weight(self, extents, k, digits):
        """An operand without rows, whose dimension k has these digits."""
        dims = [()] * len(extents)
        dims[k] = digits
        taken = {axis for _, axis in digits}
        free = [(axis, size) for axis, size in self.mesh.axes if axis not in taken and extents[1 - k] % size == 0]
        if free and self.g.chance(0.6):
            dims[1 - k] = (("didx", self.random.choice(free)[0]),)
        argument = dataclasses.replace(self.g.argument(tuple(extents)), axes=Axes(self.mesh, tuple(dims)))
        self.g.arguments[-1] = self.g.values[-1] = argument
        return argument

    def matmul(self):
        """Rows times a weight, whose columns or contracted rows may be split; or, of a batch of rows, all of it."""
        value = self.pick(lambda v: len(v.shape) >= 2 and self.rows[v.name] != len(v.shape) - 1)
        if not value:
            return
        rows, k, n = self.rows[value.name], value.shape[-1], self.g.extent()
        if math.prod(value.shape[:-1]) * n > MAX_ELEMENTS or k * value.bound > 500:
            return
        transposed = self.g.chance(0.3)
        digits = value.axes.dims[-1]
        weight = self.weight((n, k) if transposed else (k, n), 1 if transposed else 0, digits)
        columns = weight.axes.dims[0 if transposed else 1]
        taken = {what for dim in value.axes.dims[:-1] for kind, what in dim if kind == "didx"}
        if any(axis in taken for _, axis in columns):
            columns = ()
            dims = ((), digits) if transposed else (digits, ())
            weight = dataclasses.replace(weight, axes=Axes(self.mesh, dims))
            self.g.arguments[-1] = self.g.values[-1] = weight
        partial = tuple(axis for axis, _ in self.mesh.axes if ("didx", axis) in digits)
        axes = Axes(self.mesh, value.axes.dims[:-1] + (columns,), partial)
        made = self.g.add("matmul", [value, weight], value.shape[:-1] + (n,), axes, k * value.bound,
                          transpose_b=transposed)
        self.settled(made, rows)

    def reduce(self):
        value = self.pick(lambda v: len(v.shape) >= 2)
        if not value:
            return
        rows = self.rows[value.name]
        d = self.random.choice([d for d in range(len(value.shape)) if d != rows])
        if value.bound * value.shape[d] > 1000:
            return
        reduction = self.random.choice(("sum", "max", "min")) if value.shape[d] else "sum"
        partial = tuple(axis for axis, _ in self.mesh.axes if ("didx", axis) in value.axes.dims[d])
        axes = Axes(self.mesh, value.axes.dims[:d] + value.axes.dims[d + 1:], partial, reduction if partial else "sum")
        made = self.g.add("reduce", [value], value.shape[:d] + value.shape[d + 1:], axes, value.bound * value.shape[d],
                          reduction=reduction, dims=(d,))
        self.settled(made, rows - (d < rows))

    def permute(self):
        value = self.pick()
        order = tuple(self.random.sample(range(len(value.shape)), len(value.shape)))
        axes = Axes(self.mesh, tuple(value.axes.dims[p] for p in order))
        made = self.g.move("permute", [value], tuple(value.shape[p] for p in order), axes, permutation=order)
        self.made(made, order.index(self.rows[value.name]))
