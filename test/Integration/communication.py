# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every kind of communication between devices and meshes (test/Programs/Communication), with every rank as the root,
every reduction and meshes of every shape: compiled, run on real ranks, compared with the reference and with NumPy.

  communication.py [--all] [-v] [PATTERN...]     (see harness.py)

Ranks, root, reduction, channel and dtype are combined pairwise, with --all all of them. The files stand for four ranks
and one root; their meshes are written anew for the others.
"""

import dataclasses
import itertools
import os
import re
import unittest

import numpy as np

import harness
from harness import CHANNELS, DTYPES, FLOATS, NUMPY, TOLERANCE, pairwise

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Programs", "Communication")
#: Of what moves alike whatever it is; broadcast, scatter and gather are run with every dtype.
MOVED = ("f16", "i32")
REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min}
#: Of the ranks; "outside": one more.
ROOTS = ("first", "middle", "last", "outside")


def mesh(name, axes, devices=()):
    sizes = ", ".join(f'"{axis}" = {size}' for axis, size in axes.items())
    listed = f", devices = [{', '.join(map(str, devices))}]" if devices else ""
    return f'#tandem.mesh<"{name}", [{sizes}]{listed}>'


def one_root(backwards=False):
    """All ranks, and one of them (or one more) alone."""
    def meshes(p, root):
        devices = tuple(reversed(range(p))) if backwards else ()
        return {"tp": mesh("tp", {"x": p}, devices), "root": mesh("root", {}, (root,))}
    return meshes


def all_but_one(p, root):
    """`p` ranks of one more: `root` is left out."""
    return {"tp": mesh("tp", {"x": p}, tuple(r for r in range(p + 1) if r != root) if root < p else ())}


def halves(first, second, axes="xy"):
    """Two meshes of different devices: the even ranks forwards, as many odd ones backwards."""
    def meshes(p, root):
        count = p // 2
        return {first: mesh(first, {axes[0]: count}, tuple(range(0, 2 * count, 2))),
                second: mesh(second, {axes[1]: count}, tuple(range(1, 2 * count, 2))[::-1])}
    return meshes


def turned(p, root):
    """`root` is how far."""
    return {"tp": mesh("tp", {"x": p}),
            "turned": mesh("turned", {"x": p}, tuple((i + root) % p for i in range(p)))}


def overlapping(p, root):
    """All ranks from `root` on, and all but one: they share all but one."""
    few = [(root + 2 * i) % p for i in range((p + 1) // 2)] if p % 2 else list(range(0, p, 2))
    many = [r for r in range(p) if r != root % p][::-1]
    return {"few": mesh("few", {"x": len(few)}, tuple(few)), "many": mesh("many", {"y": len(many)}, tuple(many))}


def pod(p, root):
    nodes = 2 if p % 2 == 0 else 1
    return {"pod": mesh("pod", {"node": nodes, "gpu": p // nodes})}


def pod_and_root(p, root):
    return {**pod(p, root), "root": mesh("root", {}, (root,))}


@dataclasses.dataclass(frozen=True)
class Program:
    """One file. `meshes` takes the number of ranks and the root; `shapes` the number of ranks, and gives the inputs' and
    outputs'; `reference` the inputs and a reduction of NumPy."""

    name: str
    meshes: callable
    shapes: callable
    reference: callable
    roots: tuple = ("first",)
    reduces: bool = False
    dtypes: tuple = DTYPES
    #: Partial sums travel rounded.
    tolerance: float = 0

    @property
    def reductions(self):
        return tuple(REDUCTIONS) if self.reduces else (None,)


def signed(t, reduction):
    """What the reducing programs reduce: nothing above 0 for a maximum, nothing below for a minimum."""
    return np.abs(t) if reduction == "min" else -np.abs(t)


def reduced(t, reduction):
    return {"t1": REDUCTIONS[reduction](signed(t["t0"], reduction), axis=0)}


def moved(t, reduction):
    return {"t1": t["t0"]}


def rows(*extents, factor=3):
    """Shapes of a first dimension of `factor` rows a rank."""
    return lambda p: {"t0": (factor * p, *extents), "t1": (factor * p, *extents)}


PROGRAMS = [
    Program("broadcast", one_root(), lambda p: {"t0": (6, 5), "t1": (6, 5)}, moved, ROOTS),
    Program("scatter", one_root(backwards=True), rows(5), moved, ROOTS),
    Program("gather", one_root(), rows(6), moved, ROOTS),
    Program("reduce", one_root(), lambda p: {"t0": (2 * p, 4, 3), "t1": (4, 3)}, reduced, ROOTS, True, FLOATS, 2),
    Program("all-gather", all_but_one, rows(6), moved, ("outside", "first", "middle"), dtypes=MOVED),
    Program("all-reduce", all_but_one, lambda p: {"t0": (2 * p, 10, 3), "t1": (10, 3)}, reduced,
            ("outside", "first", "middle"), True, FLOATS, 2),
    Program("reduce-scatter", all_but_one, lambda p: {"t0": (2 * p, 3 * p, 4), "t1": (3 * p, 4)}, reduced,
            ("outside", "first", "middle"), True, FLOATS, 2),
    Program("partial", one_root(), lambda p: {"t0": (5, 3 * p), "t1": (5, 3 * p)}, moved, ("first", "last"), True, FLOATS),
    Program("all-to-all", all_but_one, lambda p: {"t0": (2 * p, 3 * p, 4), "t1": (2 * p, 3 * p, 4)}, moved,
            ("outside", "first", "middle"), dtypes=MOVED),
    Program("send-recv", halves("here", "there"), rows(5), moved, dtypes=MOVED),
    Program("permute", turned, rows(5), moved, ("first", "middle", "last"), dtypes=MOVED),
    Program("overlapping", overlapping, lambda p: {"t0": (2 * p * (p - 1), 5), "t1": (2 * p * (p - 1), 5)}, moved,
            ("first", "middle", "last"), dtypes=MOVED),
    Program("two-meshes", halves("first", "second"),
            lambda p: {"x": (8, 6), "a": (6, 4 * (p // 2)), "b": (4 * (p // 2), 5), "out": (8, 5)},
            lambda t, reduction: {"out": t["x"] @ t["a"] @ t["b"]}, dtypes=FLOATS, tolerance=2),
    Program("pod", pod, lambda p: {"t0": (p, 3 * p, 2 * p), "t1": (3 * p, 2 * p)},
            lambda t, reduction: {"t1": t["t0"].sum(0)}, dtypes=("bf16", "i32"), tolerance=2),
    Program("pod-whole", pod, lambda p: {"t0": (2 * p, 3 * p, 5), "t1": (3 * p, 5)}, reduced, reduces=True, dtypes=FLOATS,
            tolerance=2),
    Program("pod-turn", pod_and_root, lambda p: {"t0": (3 * p, 2 * p), "t1": (3 * p, 2 * p)}, moved, ROOTS,
            dtypes=("f32", "bf16")),
]
RANKS = (2, 3, 4, 8)


@dataclasses.dataclass(frozen=True)
class Combination:
    program: Program
    ranks: int
    root: int
    reduction: str
    channel: str
    dtype: str

    @property
    def name(self):
        parts = [self.program.name, f"{self.ranks}r{self.root}", self.reduction, self.channel, self.dtype]
        return "/".join(filter(None, parts))


def combinations(options):
    for program in PROGRAMS:
        factors = (RANKS, program.roots, program.reductions, CHANNELS, program.dtypes)
        for ranks, root, *rest in itertools.product(*factors) if options.all else pairwise(*factors):
            places = {"first": [0], "middle": [ranks // 2], "last": [ranks - 1], "outside": [ranks]}[root]
            if options.all and root == "middle":
                places = range(1, ranks - 1)
            elif options.all and root == "last" and ranks == 1:
                places = []
            for place in places:
                yield Combination(program, ranks, place, *rest)


class CommunicationTest(harness.CombinationTest):
    def source(self):
        c = self.combination
        with open(os.path.join(SOURCES, c.program.name + ".mlir")) as file:
            text = "".join(line for line in file if not line.startswith("//"))
        for name, written in c.program.meshes(c.ranks, c.root).items():
            text, count = re.subn(rf"^#{name} = .*$", f"#{name} = {written}", text, flags=re.M)
            self.assertEqual(count, 1, f"mesh #{name}")
        if c.reduction:
            text = text.replace("reduce max", f"reduce {c.reduction}").replace("partial = max", f"partial = {c.reduction}")
            if c.reduction == "min":
                text = text.replace("arith.negf %positive", "math.absf %positive")
        text = re.sub(r"(?<=x)f32\b", c.dtype, text)
        path = self.path("program.mlir")
        with open(path, "w") as file:
            file.write(text)
        return path

    def check(self):
        c = self.combination
        shapes = c.program.shapes(c.ranks)
        inputs = [name for name in shapes if name not in ("t1", "out")]
        compiled, dump = self.path("program.tsp"), self.path("dump")
        done = harness.run([harness.tool("tandem-compile"), self.source(), f"--target=cpu-{c.channel}", "-o", compiled]
                           + [f"--shape=arg{i}={'x'.join(map(str, shapes[name]))}" for i, name in enumerate(inputs)])
        self.assertEqual(done.code, 0, str(done))
        done = harness.tandem_run(compiled, f"--channel={c.channel}", "--verify", "--repeat=2", f"--dump-npy={dump}",
                                  limit=120)
        self.assertEqual(done.code, 0, str(done))
        tensors = harness.read_dump(dump)
        wide = {name: tensors[name].astype(np.int64 if c.dtype in ("i32", "i8") else np.float64) for name in inputs}
        for name, wanted in c.program.reference(wide, c.reduction).items():
            found = tensors[name]
            self.assertEqual((found.shape, found.dtype), (shapes[name], NUMPY[c.dtype]))
            tolerance = 0 if c.reduction in ("max", "min") else c.program.tolerance * TOLERANCE[c.dtype]
            self.assertClose(found, wanted, tolerance, name)


class Harness(unittest.TestCase):
    def test_every_program_has_a_row(self):
        files = {os.path.splitext(name)[0] for name in os.listdir(SOURCES) if name.endswith(".mlir")}
        self.assertEqual(files, {program.name for program in PROGRAMS})


if __name__ == "__main__":
    harness.main(__doc__, Harness, combined=[(CommunicationTest, combinations)])
