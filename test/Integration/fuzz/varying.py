# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Extents that vary from run to run (docs/families.md): which dimensions of a program have one extent, and the program at
another extent."""

import dataclasses


class Dims:
    """Sets of dimensions, as (value, dimension), that have the same extent by the meaning of the ops."""

    def __init__(self):
        self.leader, self.blocked = {}, set()

    def find(self, dim):
        self.leader.setdefault(dim, dim)
        while self.leader[dim] != dim:
            dim = self.leader[dim]
        return dim

    def join(self, *dims):
        first = self.find(dims[0])
        for dim in dims[1:]:
            other = self.find(dim)
            if other != first:
                self.leader[other] = first
                if other in self.blocked:
                    self.blocked.add(first)

    def block(self, *dims):
        """What no op takes with another extent, or what has no `?` in a text."""
        self.blocked.update(map(self.find, dims))


def link(dims, op, shapes):
    a, result = op.attributes, op.result.name
    extents = [shapes[name] for name in op.operands]
    rank = len(op.result.shape)
    of = lambda k, d: (op.operands[k], d % max(len(extents[k]), 1))
    out = lambda d: (result, d % max(rank, 1))
    everything = lambda: dims.block(*((result, d) for d in range(rank)),
                                    *(of(k, d) for k, shape in enumerate(extents) for d in range(len(shape))))

    def batch(operands, count):
        """The leading `count` dimensions of the result are those of the operands (index, dimensions behind them)."""
        for i in range(count):
            same = []
            for k, behind in operands:
                d = len(extents[k]) - behind - count + i
                if d >= 0 and extents[k][d] == op.result.shape[i]:
                    same.append(of(k, d))
                elif d >= 0:
                    dims.block(of(k, d))
            dims.join(out(i), *same)

    if op.kind in ("constant", "reshape", "slice"):
        everything()
    elif op.kind == "permute":
        for i, d in enumerate(a["permutation"]):
            dims.join(out(i), of(0, d))
    elif op.kind == "reduce":
        kept = [d for d in range(len(extents[0])) if a.get("keep_dims") or d not in a["dims"]]
        for i, d in enumerate(kept):
            if d in a["dims"]:
                dims.block(out(i))
            else:
                dims.join(out(i), of(0, d))
    elif op.kind == "broadcast":
        for d in set(range(rank)) - set(a["dims"]):
            dims.block(out(d))
        for i, d in enumerate(a["dims"]):
            if extents[0][i] == op.result.shape[d]:
                dims.join(out(d), of(0, i))
            else:
                dims.block(out(d), of(0, i))
    elif op.kind == "concat":
        for d in range(rank):
            if d == a["dim"]:
                dims.block(out(d), *(of(k, d) for k in range(len(extents))))
            else:
                dims.join(out(d), *(of(k, d) for k in range(len(extents))))
    elif op.kind == "matmul":
        lhs, rhs = len(extents[0]), len(extents[1])
        k_left = of(0, -2 if a.get("transpose_a") and lhs > 1 else -1)
        k_right = of(1, (-1 if a.get("transpose_b") else -2) if rhs > 1 else -1)
        dims.join(k_left, k_right)
        columns = rhs > 1
        if lhs > 1:
            dims.join(out(-2 if columns else -1), of(0, -1 if a.get("transpose_a") else -2))
        if columns:
            n = of(1, -2 if a.get("transpose_b") else -1)
            dims.join(out(-1), n, *([of(2, -1)] if len(op.operands) == 3 else []))
        batch([(0, 2), (1, 2)], rank - (lhs > 1) - columns)
    elif op.kind == "attention":
        batch([(0, 2), (1, 2), (2, 2)], rank - 2)
        dims.join(out(-2), of(0, -2))
        dims.join(of(1, -2), of(2, -2))
        if a["causal"]:
            dims.join(of(0, -2), of(1, -2))
        if a["zigzag"]:
            dims.block(of(0, -2), of(1, -2))
        dims.block(of(0, -1), of(1, -1), of(2, -1), out(-1))
    elif op.kind == "grouped_matmul":
        batch([(0, 2), (2, 1)], rank - 2)
        dims.join(out(-2), of(0, -2))
        dims.join(of(0, -1), of(1, 2 if a["transpose_b"] else 1))
        dims.join(out(-1), of(1, 1 if a["transpose_b"] else 2))
        dims.join(of(1, 0), of(2, -1))
    else:  # elementwise, reshard
        for d in range(rank):
            dims.join(out(d), *(of(k, d) for k in range(len(extents))))


def classes(program):
    """Lists of (value, dimension) that may vary, by extent: {extent: [list, ...]}. Only those that arguments have."""
    dims = Dims()
    shapes = {v.name: v.shape for v in (*program.arguments, *(op.result for op in program.ops))}
    for op in program.ops:
        link(dims, op, shapes)
    members = {}
    for name, shape in shapes.items():
        for d in range(len(shape)):
            members.setdefault(dims.find((name, d)), []).append((name, d))
    arguments = {v.name for v in program.arguments}
    found = {}
    for leader, group in members.items():
        extents = {shapes[name][d] for name, d in group}
        if leader not in dims.blocked and len(extents) == 1 and arguments & {name for name, _ in group}:
            found.setdefault(extents.pop(), []).append(group)
    return found


def vary(program, random):
    """The program as one of any extent up to a bound, or itself if no dimension may vary."""
    choices = {extent: groups for extent, groups in classes(program).items() if extent > 1}
    if not choices or program.unknown or program.one_loop:
        return program
    # Rather the keys of attention, which are hidden behind the extent.
    keys = {op.operands[1] for op in program.ops if op.kind == "attention"}
    hides = lambda group: any(name in keys for name, _ in group)
    rather = [extent for extent in choices if any(map(hides, choices[extent]))] if random.random() < 0.7 else []
    bound = random.choice(sorted(rather or choices))
    groups = [g for g in choices[bound] if random.random() < (0.9 if hides(g) else 0.6)] or [random.choice(choices[bound])]
    varying = {}
    for name, d in (dim for group in groups for dim in group):
        varying.setdefault(name, set()).add(d)
    extents = (bound, random.randrange(bound + 1), random.choice((0, 1, random.randrange(bound + 1))))
    return dataclasses.replace(program, bound=bound, extents=extents,
                               varying={name: tuple(sorted(found)) for name, found in varying.items()})


def at_extent(program, extent):
    """What a run with this extent computes."""
    def resized(value):
        dims = program.varying.get(value.name, ())
        return dataclasses.replace(value, shape=tuple(extent if d in dims else n for d, n in enumerate(value.shape)))

    return dataclasses.replace(program, arguments=tuple(map(resized, program.arguments)),
                               ops=tuple(dataclasses.replace(op, result=resized(op.result)) for op in program.ops))
