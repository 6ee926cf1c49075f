# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random fusions: meshes, shapes, axes, and which ops follow each other; the ops are in operations.py. The same seed
gives the same program until somebody changes the generator: what failed is kept as text.
"""

import dataclasses
import math
import random

from elementwise import Elementwise
from oneloop import one_loop
from operations import MAX_ELEMENTS, Operations, divisors
from program import Axes, Mesh, Program
from varying import vary

FLOATS = ("f32", "f16", "bf16", "f64")
#: What a program has for certain, if it can: one of these, each as often, and often another.
KINDS = ("plain", "padded", "bias", "attention", "grouped", "family", "deterministic")


def ragged(n):
    """Counts of slices of which the last is shorter, but not empty."""
    return [c for c in range(2, n) if n % c and -(-n // -(-n // c)) == c]


class Generator(Operations, Elementwise):
    def __init__(self, seed):
        self.seed = seed
        self.random = random.Random(seed)
        self.arguments, self.ops, self.values = [], [], []
        self.dtype = self.random.choices(FLOATS + ("i32",), (6, 2, 2, 1, 2))[0]
        self.kinds = {KINDS[seed % len(KINDS)]}
        if self.random.random() < 0.5:
            self.kinds.add(self.random.choice(KINDS))
        if self.kinds & {"bias", "attention", "grouped"} and self.dtype in ("i32", "f64"):
            self.dtype = "f32"
        self.biased = 0.9 if "bias" in self.kinds else 0.25
        self.streams = self.random.random() < 0.7
        #: How often the axes of an argument, and of a result, are left open.
        self.open_arguments, self.open_results = self.random.choices(((0.02, 0.6), (0.5, 0.85)), (3, 1))[0]
        #: Whether a few values have many uses.
        self.hubs = self.random.random() < 0.3
        #: How often an extent is 0.
        self.empty = 0.15 if self.random.random() < 0.15 else 0
        #: How often mesh axes need not divide an extent.
        self.uneven = 0.7 if "padded" in self.kinds else 0.5 if self.random.random() < 0.3 else 0

    def chance(self, probability):
        return self.random.random() < probability

    def program(self):
        r = self.random
        self.meshes = self.make_meshes()
        for _ in range(r.randint(1, 2)):
            self.argument(self.shape())
        if not any(a.axes for a in self.arguments):
            first = dataclasses.replace(self.arguments[0], axes=self.axes(self.arguments[0].shape))
            self.arguments[0] = self.values[0] = first
        wanted = r.choices((1, 2, 3, 4, 6, 9, 14), (2, 4, 5, 4, 4, 4, 2))[0]
        for kind, maker in (("attention", self.attention), ("grouped", self.grouped_matmul), ("bias", self.matmul)):
            before = len(self.ops)
            for _ in range(8 if kind in self.kinds else 0):
                if len(self.ops) == before:
                    maker(self.pick(lambda v: len(v.shape) > 1) or self.argument(self.shape(r.choice((2, 3)))))
        for _ in range(4 * wanted):
            if len(self.ops) >= wanted:
                break
            self.op()
        if not self.ops:
            self.reshard(self.values[0])
        used = {name for op in self.ops for name in op.operands}
        ends = [v.name for v in self.values
                if v.name not in used and v not in self.arguments and v.dtype != "i1"]
        if not ends:
            ends = [v.name for v in self.values if v.dtype != "i1"]
        results = r.sample(ends, min(len(ends), r.choices((1, 2, 3, 4), (6, 4, 2, 1))[0]))
        if self.chance(0.15):
            results.append(r.choice([v.name for v in self.values if v.dtype != "i1"]))
        truths = [v.name for v in self.values if v.dtype == "i1" and v.exact]
        if truths and self.chance(0.3):
            results.append(r.choice(truths))
        unknown = {}
        if self.chance(0.12) and "family" not in self.kinds:
            unknown = {a.name: tuple(i for i in range(len(a.shape)) if self.chance(0.4)) for a in self.arguments}
        program = Program(self.seed, self.meshes, tuple(self.arguments), tuple(self.ops), tuple(results),
                          target=r.choice(("cpu-local", "cpu-ucx")), workers=r.randint(1, 5),
                          gather=r.choice(("before", "after")), unknown=unknown, disabled=self.left_out())
        # What nobody needs may stand in a text, too.
        live = program.live()
        decided = any(v.axes for v in (*live.arguments, *(op.result for op in live.ops)))
        program = live if decided and not self.chance(0.1) else program
        if self.chance(0.15):
            program = dataclasses.replace(program, machine=r.choice(("eager", "eager", "eager", "cpu2", "h200x8")),
                                          gather=r.choice(("before", "after", "cost", "cost")))
        if "deterministic" in self.kinds:
            program = dataclasses.replace(program, deterministic=r.choice(("bitwise", "batch")))
        return vary(program, r) if "family" in self.kinds else program

    def left_out(self):
        """Passes that no later one needs."""
        passes = ("canonicalize", "cse", "hostir-localize-buffers", "hostir-fuse-launches")
        return (self.random.choice(passes),) if self.chance(0.08) else ()

    def op(self):
        makers = ((self.reshard, 6), (self.matmul, 4), (self.gathered_rows, 1), (self.stored_rows, 1), (self.attention, 1.5), (self.grouped_matmul, 1),
                  (self.reduce, 3), (self.unary, 2),
                  (self.binary, 4), (self.divide, 0.8), (self.choose, 1.5), (self.number, 0.8), (self.broadcast, 2), (self.permute, 2),
                  (self.reshape, 2), (self.slice, 1.5), (self.concat, 1.5), (self.cast, 0.6),
                  (self.eight_bits, 4 if self.seed % 6 == 3 else 0))
        maker = self.random.choices([m for m, _ in makers], [w for _, w in makers])[0]
        value = self.pick()
        if value:
            maker(value)

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
        kind = r.choices(("one", "apart", "any", "root", "turned"), (12, 2, 4, 3, 2))[0]
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
        if self.chance(self.empty):
            return 0
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
        uneven = self.chance(self.uneven)
        closed = set()  # dimensions whose last digit has been written
        for axis, size in r.sample(mesh.axes, len(mesh.axes)):
            fits = [d for d in range(len(shape)) if rest[d] % size == 0 or uneven]
            if self.chance(partial):
                terms.append(axis)
            elif fits and self.chance(0.85 if dense else 0.5):
                d = r.choice(fits)
                if rest[d] % size:
                    closed.add(d)
                rest[d] = -(-rest[d] // size)
                digits[d].append(("didx", axis))
        terms.sort(key=[axis for axis, _ in mesh.axes].index)
        stream = self.streams if stream is None else stream
        slices = 1
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


def generate(seed):
    generator = Generator(seed)
    return one_loop(generator) if generator.chance(0.5) and generator.kinds == {"plain"} else generator.program()
