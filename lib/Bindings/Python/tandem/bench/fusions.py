# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The fusions of a case: a gather or a reduction with its matmul in some schedule, and the two parts alone."""

from .. import _trace
from .._mesh import Mesh, TensorType, didx, loop, serial
from .._program import fuse
from .shapes import Usage, extent

#: Schedules by name, with the keys that each takes and their values; None: a number.
_SLICED: dict = {"slices": None, "streams": None}
KEYS: dict = {
    "auto": {}, "sequence": {}, "pipeline": _SLICED, "exchange": _SLICED,
    "push": {**_SLICED, "order": ("rotated", "xor"), "merge": "merge", "copies": None, "sum": ("reduce", "matmul"),
             "by": ("engines", "sms", "epilogue"), "blocks": None},
    "gated": {"slices": None, "by": ("engines", "sms"), "blocks": None},
    "direct": {"shots": ("one", "two"), "protocol": ("simple", "block", "ll"), "blocks": None}}
DETERMINISTIC = ("bitwise", "batch")
USUAL = "auto,pipeline,exchange,push,push:streams=2,push:merge=double"


class Schedule:
    """`text`: a name and keys, as "push:slices=2:order=xor". `options`: those of the fusion's schedule."""

    def __init__(self, text):
        self.text = text
        self.name, *keys = text.split(":")
        self.options: dict = {}
        self.deterministic, self.is_doubling = None, False
        self.slices = 4 if self.name == "pipeline" else 1
        if self.name not in KEYS:
            raise Usage(f'--schedules: expected one of {", ".join(KEYS)}, found "{self.name}"')
        known = {**KEYS[self.name], "deterministic": DETERMINISTIC}
        for entry in keys:
            key, equals, value = entry.partition("=")
            what = f'--schedules: "{text}": {key}'
            if not equals or key not in known:
                raise Usage(f"{what}: expected KEY=VALUE with a key of {', '.join(known)}")
            if key == "merge":
                self.is_doubling = value == "double"
                if not self.is_doubling:
                    self.options["merge"] = [extent(what, part) for part in value.split("-")]
            elif known[key] is None:
                number = extent(what, value)
                if key == "slices":
                    self.slices = number
                else:
                    self.options[key] = number
            elif value not in known[key]:
                raise Usage(f'{what}: expected one of {", ".join(known[key])}, found "{value}"')
            elif key == "deterministic":
                self.deterministic = value
            else:
                self.options[key] = f'"{value}"' if key in ("shots", "protocol") else value

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
        return "pipeline" if self.name == "sequence" else self.name, options

    def rows(self, owner):
        """The digits of the rows that are computed slice by slice."""
        if self.name in ("sequence", "auto", "direct"):
            return None
        if self.name == "pipeline":
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
    elif name == "pipeline" and schedule.name != "sequence":  # its slices are a part of each owner's rows
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
        """Behind the product, which has the type of the result: sums travel in it."""
        y = product(x, w)
        y.axes = y.axes or axes  # in this order: the plan follows that of the operations
        shape = case.m, case.n
        if case.dtype == "f8E4M3FN":
            return ((sx * sw).broadcast_to(*shape) * y.astype("f32")).astype(y.dtype)
        if gathers and not is_auto:  # all of them at once
            sx = sx.reshard(mesh[(None,)], schedule="pipeline")
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
        return whole.reshard(end, schedule="pipeline")

    return fuse(TensorType(dtype, (case.m, case.k if gathers else case.n), begin), results=end)(communication)
