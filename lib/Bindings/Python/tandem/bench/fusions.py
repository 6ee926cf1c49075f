# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The fusions of a case: a gather or a reduction with its matmul in some schedule, and the two parts alone."""

from .. import _tandem, _trace
from .._mesh import Mesh, TensorType, didx, loop, serial
from .._program import fuse
from .shapes import Usage, extent

#: The words of the choices order, by, compute and sum of each schedule (docs/schedules.md).
CHOICES = {name: [words.split() for words in row] for name, row in _tandem.schedules().items()}
NAMES = ("auto", "sequence", *CHOICES)
DETERMINISTIC = ("bitwise", "batch")
USUAL = "auto,pipeline,exchange,push,push:streams=2,push:merge=double"


class Schedule:
    """`text`: a name and keys, as "push:slices=2:order=xor". `options`: those of the fusion's schedule, which the compiler
    verifies. The compiler's choice and the sequence are no schedules."""

    def __init__(self, text):
        self.text = text
        self.name, *keys = text.split(":")
        self.options: dict = {}
        self.deterministic, self.is_doubling = None, False
        if self.name not in NAMES:
            raise Usage(f'--schedules: expected one of {", ".join(NAMES)}, found "{self.name}"')
        _, by, compute, _ = CHOICES.get(self.name, ((),) * 4)
        self.is_collective = "collective" in by
        self.has_slices = self.name in CHOICES and "whole" not in compute
        self.slices = 4 if self.is_collective else 1
        for entry in keys:
            key, equals, value = entry.partition("=")
            what = f'--schedules: "{text}": {key}'
            if not equals or self.name not in CHOICES and key != "deterministic":
                raise Usage(f"{what}: expected KEY=VALUE, and of auto and sequence deterministic=VALUE")
            if key == "merge":
                self.is_doubling = value == "double"
                if not self.is_doubling:
                    self.options["merge"] = [extent(what, part) for part in value.split("-")]
            elif key == "slices":
                self.slices = extent(what, value)
            elif key != "deterministic":
                self.options[key] = extent(what, value) if value.isdigit() else value
            elif value in DETERMINISTIC:
                self.deterministic = value
            else:
                raise Usage(f'{what}: expected one of {", ".join(DETERMINISTIC)}, found "{value}"')

    def of(self, ranks, reduces):
        """As `schedule=` takes it."""
        options = dict(self.options)
        if self.is_doubling:
            if ranks & (ranks - 1):
                raise Usage(f"merge=double needs a power of 2 as number of ranks, found {ranks}")
            merge = [1]
            while sum(merge) < ranks:
                merge.append(sum(merge))
            options["merge"] = merge[::-1] if reduces else merge  # few where the loop waits for nothing else
        return (self.name, options) if self.name in CHOICES else (None, {"by": "collective"})

    def rows(self, owner):
        """The digits of the rows that are computed slice by slice."""
        if not self.has_slices:
            return None
        if self.is_collective:
            return owner * loop(self.slices)
        return loop("x") * loop(self.slices) if self.slices > 1 else loop("x")


def _weight(case, mesh, rows, columns):
    """Of 8 bits it is stored along K, as cuBLASLt reads it. `rows`, `columns`: the axes of K and N."""
    if case.is_scaled:
        return TensorType(case.types.factor, (case.n, case.k), mesh[columns, rows])
    return TensorType(case.types.factor, (case.k, case.n), mesh[rows, columns])


def _product(case, x, w, **options):
    return _trace.matmul(x, w, transpose_b=case.is_scaled, dtype=case.types.result, **options)


def fused(case, ranks, schedule):
    """The fusion of a case. Raises Usage if the schedule does not fit."""
    mesh, gathers, scatters = Mesh("tp", x=ranks), case.op == "ag", case.op == "rs"
    is_auto, (name, options) = schedule.name == "auto", schedule.of(ranks, not gathers)
    types = {"x": TensorType(case.types.factor, (case.m, case.k), mesh[("x", None) if gathers else (None, "x")]),
             "w": _weight(case, mesh, *((None, "x") if gathers else ("x", None)))}
    if gathers:
        axes = mesh[schedule.rows(serial("x")), "x"]
    elif schedule.is_collective:  # its slices are a part of each owner's rows
        rows = didx("x") * loop(schedule.slices) if scatters else loop(schedule.slices)
        terms, axes = serial("x") * loop(schedule.slices) if scatters else rows, mesh[rows, None]
    else:
        terms = schedule.rows(None)
        axes = mesh["x" if scatters else terms, None]
    if case.dtype == "f8E4M3FN-rows":
        types["sx"] = TensorType("f32", (case.m,), mesh[None if case.op == "ar" else "x"])
        types["sw"] = TensorType("f32", (case.n,), mesh["x" if gathers else None])
    elif case.is_scaled:
        types["sx"] = types["sw"] = TensorType("f32", (), mesh[()])

    def product(x, w):
        if gathers and not is_auto:
            return _product(case, x, w, gather="before", schedule=(name, options))
        y = _product(case, x, w)
        if gathers or is_auto:
            return y
        y.axes = mesh.axes(terms, None, partial="x")
        return y.reshard(axes, schedule=name, **options)

    def bench(x, w):
        return product(x, w)

    def scaled(x, w, sx, sw):
        """After the product, which has the type of the result: sums travel in it."""
        y = product(x, w)
        y.axes = y.axes or axes  # in this order: the plan follows that of the operations
        shape = case.m, case.n
        if case.dtype == "f8E4M3FN":
            return ((sx * sw).broadcast_to(*shape) * y.astype("f32")).astype(y.dtype)
        if gathers and not is_auto:  # all of them at once
            sx = sx.reshard(mesh[(None,)], by="collective")
        rows = _trace.Value("fusion.broadcast", [sx], shape, "f32", dims=[0])
        return (sw.broadcast_to(*shape) * (rows * y.astype("f32"))).astype(y.dtype)

    return fuse(results=axes, **types)(scaled if case.is_scaled else bench)


def matmul(case, ranks):
    """A rank's product alone, without scales."""
    mesh, gathers = Mesh("tp", x=ranks), case.op == "ag"
    x = TensorType(case.types.factor, (case.m, case.k), mesh[(None, None) if gathers else (None, "x")])
    w = _weight(case, mesh, *((None, "x") if gathers else ("x", None)))

    def matmul(x, w):
        return _product(case, x, w)

    return fuse(x, w, results=mesh[None, "x"] if gathers else mesh.axes(None, None, partial="x"))(matmul)


def communication(case, ranks):
    """The collective alone."""
    mesh, gathers = Mesh("tp", x=ranks), case.op == "ag"
    dtype = case.types.factor if gathers else case.types.result
    begin = mesh["x", None] if gathers else mesh.axes(None, None, partial="x")
    end = mesh["x" if case.op == "rs" else None, None]

    def communication(whole):
        return whole.reshard(end, by="collective")

    return fuse(TensorType(dtype, (case.m, case.k if gathers else case.n), begin), results=end)(communication)
