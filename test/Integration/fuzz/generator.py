# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random fusions. The same seed gives the same program."""

import dataclasses
import math
import random

from program import Axes, Mesh, Op, Program, Value

MAX_ELEMENTS = 3000
FLOATS = ("f32", "f16", "bf16")
UNARY = ("arith.negf", "math.absf", "math.tanh", "math.exp")
BINARY = ("arith.addf", "arith.subf", "arith.mulf", "arith.maximumf", "arith.minimumf")
BINARY_INTEGER = ("arith.addi", "arith.subi", "arith.muli", "arith.maxsi", "arith.minsi")


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def ragged(n):
    """Counts of slices of which the last is shorter, but not empty."""
    return [c for c in range(2, n) if n % c and -(-n // -(-n // c)) == c]


class Generator:
    def __init__(self, seed):
        self.seed = seed
        self.random = random.Random(seed)
        self.arguments, self.ops, self.values = [], [], []
        self.dtype = self.random.choices(FLOATS + ("i32",), (6, 2, 2, 2))[0]
        self.streams = self.random.random() < 0.7

    def chance(self, probability):
        return self.random.random() < probability

    def program(self):
        r = self.random
        self.meshes = self.make_meshes()
        for _ in range(r.randint(1, 2)):
            self.argument(self.shape())
        wanted = r.choices((1, 2, 3, 4, 6, 9, 14), (3, 4, 5, 4, 4, 3, 1))[0]
        for _ in range(4 * wanted):
            if len(self.ops) >= wanted:
                break
            self.op()
        if not self.ops:
            self.reshard(self.values[0])
        used = {name for op in self.ops for name in op.operands}
        ends = [v.name for v in self.values if v.name not in used and v not in self.arguments]
        results = r.sample(ends, min(len(ends), r.choices((1, 2, 3), (6, 3, 1))[0]))
        if self.chance(0.15):
            results.append(r.choice(self.values).name)
        unknown = {}
        if self.chance(0.12):
            unknown = {a.name: tuple(i for i in range(len(a.shape)) if self.chance(0.4)) for a in self.arguments}
        return Program(self.seed, self.meshes, tuple(self.arguments), tuple(self.ops), tuple(results),
                       target=r.choice(("cpu-local", "cpu-ucx")), workers=r.randint(1, 5),
                       gather=r.choice(("before", "after")), unknown=unknown).live()

    # Meshes and shapes.

    def make_meshes(self):
        r = self.random
        is_open = self.chance(0.1)

        def mesh(name, world):
            sizes = []
            for _ in range(r.choices((1, 2, 3), (6, 4, 1))[0]):
                room = len(world) // math.prod(sizes)
                sizes.append(r.randint(1, room) if self.chance(0.7) else min(2, room))
            count = math.prod(sizes)
            devices = ()
            if world != list(range(8)) or (not is_open and self.chance(0.25)):
                devices = tuple(r.sample(world, count) if self.chance(0.7) else world[:count])
            return Mesh(name, tuple(zip("xyz", sizes)), devices, is_open and not devices)

        world = list(range(8))
        kind = r.choices(("one", "apart", "any", "root", "turned"), (13, 2, 3, 2, 1))[0]
        if kind == "one":
            return (mesh("m", world),)
        if kind == "apart":
            cut = r.randint(1, 7)
            r.shuffle(world)
            return (mesh("m", sorted(world[:cut])), mesh("n", sorted(world[cut:])))
        is_open = False
        if kind == "any":
            # They share devices, most likely.
            return tuple(mesh(name, r.sample(world, r.randint(2, 7))) for name in "mno"[:r.randint(2, 3)])
        first = mesh("m", world)
        if kind == "root":
            # One device alone, of the mesh or not.
            root = r.choice(first.ranks) if self.chance(0.7) else r.choice(world)
            return (first, Mesh("root", (), (root,)))
        return (first, dataclasses.replace(first, name="n", devices=tuple(r.sample(first.ranks, len(first.ranks)))))

    def extent(self):
        r = self.random
        if self.chance(0.12):
            return 1
        if self.chance(0.15):
            return r.choice((3, 5, 7, 9, 13))
        extent = 1
        for mesh in self.meshes:
            for _, size in mesh.axes:
                if self.chance(0.5):
                    extent *= size
        return min(extent * r.choice((1, 1, 2, 3, 4)), 48)

    def shape(self, rank=None):
        rank = rank or self.random.choices((1, 2, 3, 4), (2, 5, 4, 1))[0]
        while True:
            shape = tuple(self.extent() for _ in range(rank))
            if math.prod(shape) <= MAX_ELEMENTS:
                return shape

    def axes(self, shape, mesh=None, partial=0.0, stream=None):
        """Random axes that suit a shape."""
        r = self.random
        mesh = mesh or r.choice(self.meshes)
        if not shape:
            return Axes(mesh, ())
        digits = [[] for _ in shape]
        rest = list(shape)
        terms = []
        dense = self.chance(0.5)
        for axis, size in r.sample(mesh.axes, len(mesh.axes)):
            fits = [d for d in range(len(shape)) if rest[d] % size == 0]
            if self.chance(partial):
                terms.append(axis)
            elif fits and self.chance(0.85 if dense else 0.5):
                d = r.choice(fits)
                rest[d] //= size
                digits[d].append(("didx", axis))
        terms.sort(key=[axis for axis, _ in mesh.axes].index)
        stream = self.streams if stream is None else stream
        slices = 1
        closed = set()  # dimensions whose last digit has been written
        if stream and self.chance(0.6):
            for _ in range(r.choices((1, 2, 3), (7, 3, 1))[0]):
                d = r.randrange(len(shape))
                if d in closed:
                    continue
                if self.chance(0.2) and ragged(rest[d]) and slices * min(ragged(rest[d])) <= 24:
                    n = r.choice([c for c in ragged(rest[d]) if slices * c <= 24])
                    slices *= n
                    r.shuffle(digits[d])
                    digits[d].append(("stream", n))
                    closed.add(d)
                    continue
                n = r.choice(divisors(rest[d]))
                if slices * n > 24:
                    continue
                slices *= n
                if self.chance(0.4) and slices // n * rest[d] <= 24:
                    slices = slices // n * rest[d]
                    r.shuffle(digits[d])
                    digits[d].append(("stream", None))
                    rest[d] = 1
                    closed.add(d)
                    continue
                rest[d] //= n
                digits[d].append(("stream", n))
        if self.chance(0.25):
            d = r.randrange(len(shape))
            if d not in closed:
                digits[d].append(("serial", r.choice(divisors(rest[d]))))
        for d, dim in enumerate(digits):
            if d not in closed:
                r.shuffle(dim)
        kind = r.choice(("sum", "sum", "sum", "max", "min")) if terms else "sum"
        return Axes(mesh, tuple(map(tuple, digits)), tuple(terms), kind)

    def nearby(self, axes, shape):
        """Other axes that differ in a little: one mesh axis elsewhere, or other stream digits."""
        r = self.random
        other = self.axes(shape, axes.mesh)
        dims = list(axes.dims)
        d = r.randrange(len(dims))
        taken = {what for i, dim in enumerate(dims) if i != d for kind, what in dim if kind == "didx"}
        dims[d] = tuple(digit for digit in other.dims[d] if digit[0] != "didx" or digit[1] not in taken)
        return Axes(axes.mesh, tuple(dims))

    # Values and ops.

    def argument(self, shape, dtype=None):
        axes = self.axes(shape, partial=0.07, stream=self.streams and self.chance(0.2))
        used = {what for dim in axes.dims for kind, what in dim if kind == "didx"} | set(axes.partial)
        if axes.partial and any(size > 1 and axis not in used for axis, size in axes.mesh.axes):
            # Copies of terms: a runner cannot know who holds which.
            axes = dataclasses.replace(axes, partial=(), kind="sum")
        if self.chance(0.02):
            axes = None
        value = Value(f"a{len(self.arguments)}", tuple(shape), dtype or self.dtype, axes)
        if value.dtype == "i32":
            value = dataclasses.replace(value, bound=8)
        self.arguments.append(value)
        self.values.append(value)
        return value

    def add(self, kind, operands, shape, axes, bound=None, dtype=None, **attributes):
        bound = max((v.bound for v in operands), default=1) if bound is None else bound
        dtype = dtype or (operands[0].dtype if operands else self.dtype)
        result = Value(f"v{len(self.ops)}", tuple(shape), dtype, axes, bound)
        self.ops.append(Op(kind, tuple(v.name for v in operands), result, attributes))
        self.values.append(result)
        return result

    def result_axes(self, shape, operands):
        """Of an op that is not elementwise: mostly left open."""
        if self.chance(0.6):
            return None
        mesh = next((v.axes.mesh for v in operands if v.axes), None)
        return self.axes(shape, mesh)

    def pick(self, condition=lambda value: True):
        """A value, rather a late one."""
        fit = [v for v in self.values if condition(v)]
        if not fit:
            return None
        return fit[-1] if self.chance(0.5) else self.random.choice(fit)

    def op(self):
        makers = ((self.reshard, 6), (self.matmul, 4), (self.reduce, 3), (self.elementwise, 3), (self.binary, 4),
                  (self.broadcast, 2), (self.permute, 2), (self.reshape, 2), (self.slice, 1), (self.concat, 1),
                  (self.cast, 0.4))
        maker = self.random.choices([m for m, _ in makers], [w for _, w in makers])[0]
        value = self.pick()
        if value:
            maker(value)

    def schedule(self):
        r = self.random
        if self.chance(0.65):
            return None
        kind = r.choices(("pipeline", "exchange", "ring", "push", "hierarchical"), (8, 8, 1, 1, 1))[0]
        more = ", directions = 2" if self.chance(0.1) else ""
        more += f", streams = {r.randint(1, 6)}" if self.chance(0.2) else ""
        return f"#fusion.schedule<{kind}{more}>"

    def reshard(self, value):
        if value.axes and value.shape and self.chance(0.5):
            axes = self.nearby(value.axes, value.shape)
        else:
            stays = 0.8 if len(self.meshes) == 1 else 0.4
            axes = self.axes(value.shape, value.axes.mesh if value.axes and self.chance(stays) else None)
        if value.axes and value.axes.partial and value.axes.mesh == axes.mesh and self.chance(0.25):
            used = {what for dim in axes.dims for kind, what in dim if kind == "didx"}
            kept = tuple(a for a in value.axes.partial if a not in used and self.chance(0.7))
            axes = dataclasses.replace(axes, partial=kept, kind=value.axes.kind if kept else "sum")
        return self.add("reshard", [value], value.shape, axes, schedule=self.schedule())

    def streamed(self, value, d):
        """`value`, resharded so that dimension d comes in slices: what combines over it accumulates."""
        if not self.streams or not value.axes or value.shape[d] < 2 or self.chance(0.3):
            return value
        for _ in range(4):
            axes = self.axes(value.shape, value.axes.mesh, stream=True)
            if any(kind == "stream" for kind, _ in axes.dims[d]):
                return self.add("reshard", [value], value.shape, axes, schedule=self.schedule())
        return value

    def alike(self, value, like):
        """`value` as an elementwise op with `like` takes it: decided alike."""
        if value.axes == like.axes:
            return value
        return self.add("reshard", [value], value.shape, like.axes, schedule=None)

    def matmul(self, value):
        r = self.random
        if value.dtype == "i32":
            return
        lhs = value
        if len(lhs.shape) < 2:
            lhs = self.pick(lambda v: len(v.shape) >= 2 and v.dtype == value.dtype)
            if not lhs:
                return
        transpose_a, transpose_b = self.chance(0.25), self.chance(0.3)
        m, k = lhs.shape[-2:]
        m, k = (k, m) if transpose_a else (m, k)
        n = self.extent()
        batch = lhs.shape[:-2]
        fits = lambda v: (v.dtype == lhs.dtype and len(v.shape) >= 2 and v.shape[-1 if transpose_b else -2] == k
                          and len(v.shape) <= 4 and all(a == b or 1 in (a, b) for a, b in
                                                        zip(v.shape[:-2][::-1], batch[::-1])))
        rhs = self.pick(fits) if self.chance(0.4) else None
        if not rhs:
            own = tuple(b if self.chance(0.8) else 1 for b in batch)[r.randint(0, len(batch)):]
            if not batch and self.chance(0.1):
                own = (self.extent(),)
            shape = own + ((n, k) if transpose_b else (k, n))
            if math.prod(shape) > MAX_ELEMENTS:
                return
            rhs = self.argument(shape, lhs.dtype)
        n = rhs.shape[-2 if transpose_b else -1]
        a, b = batch, rhs.shape[:-2]
        rank = max(len(a), len(b))
        a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
        shape = tuple(max(p) for p in zip(a, b)) + (m, n)
        bound = k * lhs.bound * rhs.bound
        if math.prod(shape) > MAX_ELEMENTS or bound > 500:
            return
        lhs = self.streamed(lhs, len(lhs.shape) - (2 if transpose_a else 1))
        if self.chance(0.2):
            rhs = self.streamed(rhs, len(rhs.shape) - (1 if transpose_b else 2))
        operands = [lhs, rhs]
        if self.chance(0.15):
            operands.append(self.argument((n,), lhs.dtype))
        if self.chance(0.1):
            operands[0:2] = operands[1::-1] if not (transpose_a or transpose_b) and lhs is rhs else operands[0:2]
        self.add("matmul", operands, shape, self.result_axes(shape, operands), bound + 1,
                 transpose_a=transpose_a, transpose_b=transpose_b)

    def reduce(self, value):
        r = self.random
        rank = len(value.shape)
        dims = sorted(r.sample(range(rank), min(rank, r.choices((1, 2, 3), (7, 2, 1))[0])))
        if len(dims) == rank and self.chance(0.7):
            return
        shape = tuple(n for i, n in enumerate(value.shape) if i not in dims)
        reduction = r.choice(("sum", "sum", "sum", "max", "min"))
        bound = value.bound
        if reduction == "sum":
            bound *= math.prod(value.shape[d] for d in dims)
        if bound > 1000:
            return
        if dims:
            value = self.streamed(value, r.choice(dims))
        self.add("reduce", [value], shape, self.result_axes(shape, [value]), bound, reduction=reduction, dims=tuple(dims))

    def elementwise(self, value):
        if value.dtype == "i32":
            return
        kind = self.random.choice(UNARY)
        if kind == "math.exp" and value.bound > 3:
            kind = "math.tanh"
        bound = {"math.tanh": 1, "math.exp": math.exp(min(value.bound, 3))}.get(kind, value.bound)
        self.add(kind, [value], value.shape, value.axes, bound)

    def binary(self, value):
        kind = self.random.choice(BINARY if value.dtype != "i32" else BINARY_INTEGER)
        if value.dtype == "i32" and self.chance(0.8):
            return
        if self.chance(0.2):
            number = self.random.choice(("0.5", "2.0", "-1.5")) if value.dtype != "i32" else "3"
            other = self.add("constant", [], value.shape, value.axes, 3, value.dtype, number=number)
        else:
            other = self.pick(lambda v: v.shape == value.shape and v.dtype == value.dtype)
        product = value.bound * other.bound
        bound = value.bound + other.bound if kind[6:9] in ("add", "sub") else product if "mul" in kind else None
        if bound and bound > 1000:
            return
        if value.axes and not other.axes:
            other = self.alike(other, value)
        elif value.axes != other.axes:
            value = self.alike(value, other)
        operands = [value, other] if self.chance(0.5) else [other, value]
        self.add(kind, operands, value.shape, value.axes, bound)

    def cast(self, value):
        if value.dtype == "i32":
            return
        kind, dtype = ("arith.extf", "f32") if value.dtype != "f32" else ("arith.truncf",
                                                                         self.random.choice(("f16", "bf16")))
        self.add(kind, [value], value.shape, value.axes, dtype=dtype)

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
        self.add("broadcast", [value], shape, self.result_axes(shape, [value]), dims=tuple(dims))

    def permute(self, value):
        rank = len(value.shape)
        permutation = tuple(self.random.sample(range(rank), rank))
        shape = tuple(value.shape[p] for p in permutation)
        self.add("permute", [value], shape, self.result_axes(shape, [value]), permutation=permutation)

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
                shape[d:d + 1] = [n, shape[d] // n]
        if shape:
            self.add("reshape", [value], shape, self.result_axes(shape, [value]))

    def slice(self, value):
        r = self.random
        offsets, steps, shape = [], [], []
        for extent in value.shape:
            offset = step = 0
            if self.chance(0.5) and extent > 1:
                offset, step = r.randrange(extent), r.choice((1, 1, 2, 3))
                shape.append(r.randint(1, (extent - offset - 1) // step + 1))
            else:
                step = 1
                shape.append(extent)
            offsets.append(offset)
            steps.append(step)
        self.add("slice", [value], shape, self.result_axes(shape, [value]), offsets=tuple(offsets),
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
            self.add("concat", operands, shape, self.result_axes(shape, operands), dim=d)


def generate(seed):
    return Generator(seed).program()
