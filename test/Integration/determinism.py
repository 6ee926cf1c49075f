# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Deterministic programs give the same bits with every schedule, and as often as they run (docs/determinism.md).

  determinism.py [--all] [-v] [PATTERN...]     (see harness.py)

1. One layer (test/Programs/deterministic.mlir) with all schedules of its gather and of its reduction has the bits of the
   unoverlapped baseline.
   So has a matmul with bias.
2. Without `fusion.deterministic` some schedule has others: else the test could not fail.
3. "batch": with fewer rows, the rows that are left have the same bits.
4. Functions of test/Programs that have a deterministic form have the bits of their baseline, as the checker proves it.
"""

import dataclasses
import os
import re

import numpy as np

import harness
from check import functions

HERE = os.path.dirname(os.path.abspath(__file__))
LAYER = os.path.join(HERE, "..", "Programs", "deterministic.mlir")
GATHERS = ("pipeline", "exchange", "push", "ring")
REDUCTIONS = ("pipeline", "exchange", "push")
#: Why a function has no deterministic form.
NO_FORM = re.compile(r"adds partial sums in an order of its own|slices in dimensions that are not added up")


def layer(dtype, gather, reduction, rows=72):
    with open(LAYER) as file:
        text = file.read()
    text = re.sub(r"(?<=x)f32\b|\bf32\b", dtype, text).replace("<72x", f"<{rows}x")
    return text.replace("schedule<push>", f"schedule<{gather}>").replace("schedule<exchange>", f"schedule<{reduction}>")


class Case(harness.CombinationTest):
    def run_layer(self, name, text, ranks, *options, repeat=3, entry="layer"):
        """What the program of `text` gives: result name -> bits."""
        source, program, dump = (self.path(f"{name}.{end}") for end in ("mlir", "tsp", "dump"))
        with open(source, "w") as file:
            file.write(text)
        done = harness.run([harness.tool("tandem-compile"), source, f"--entry={entry}", f"--mesh=x={ranks}",
                            f"--target=cpu-{self.combination.channel}", *options, "-o", program])
        self.assertEqual(done.code, 0, str(done))
        done = harness.tandem_run(program, "-n", ranks, f"--channel={self.combination.channel}", "--verify",
                                  f"--repeat={repeat}", f"--dump-npy={dump}", limit=120)
        self.assertVerified(done, ranks)
        return harness.read_dump(dump)

    def assertSameBits(self, a, b, what):
        self.assertEqual(a["y"].tobytes(), b["y"].tobytes(), f"{what}: {np.sum(a['y'] != b['y'])} elements differ")


@dataclasses.dataclass(frozen=True)
class Layer:
    dtype: str
    ranks: int
    channel: str

    @property
    def name(self):
        return f"{self.dtype}/{self.ranks}/{self.channel}"


def layers(options):
    if options.all:
        return [Layer(d, r, c) for d in harness.FLOATS for r in (2, 3, 4, 8) for c in harness.CHANNELS if 72 % r == 0]
    return [Layer("f32", 4, "local"), Layer("bf16", 2, "ucx"), Layer("f16", 8, "local")]


class SameBitsWithEverySchedule(Case):
    def check(self):
        c = self.combination
        baseline = self.run_layer("baseline", layer(c.dtype, "push", "push"), c.ranks, "--baseline")
        for gather in GATHERS:
            for reduction in REDUCTIONS:
                name = f"{gather}-{reduction}"
                self.assertSameBits(self.run_layer(name, layer(c.dtype, gather, reduction), c.ranks), baseline, name)


BIASED = """
#tp = #tandem.mesh<"tp", ["x" = ?]>
!x = tensor<72x24xf32, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<72x24xf32, #fusion.axes<#tp, [stream("x"), -]>>
!w = tensor<24x48xf32, #fusion.axes<#tp, [-, didx("x")]>>
!b = tensor<48xf32, #fusion.axes<#tp, [didx("x")]>>
!y = tensor<72x48xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
func.func @biased(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}, %b: !b {fusion.name = "b"}) -> (!y {fusion.name = "y"})
    attributes {fusion.deterministic = "bitwise"} {
  %g = fusion.reshard %x {schedule = #fusion.schedule<push>} : !x -> !g
  %y = fusion.matmul %g, %w bias %b : !g, !w, !b -> !y
  return %y : !y
}
"""


class SameBitsWithBias(Case):
    """A matmul adds its bias before it rounds the product, so no schedule may add it by a command of its own."""

    def check(self):
        c = self.combination
        text = re.sub(r"(?<=x)f32\b", c.dtype, BIASED)
        baseline = self.run_layer("baseline", text, c.ranks, "--baseline", entry="biased")
        for schedule in (*GATHERS, "push, streams = 2", f"push, merge = [1, {c.ranks - 1}]", "exchange, streams = 3"):
            other = text.replace("schedule<push>", f"schedule<{schedule}>")
            self.assertSameBits(self.run_layer("biased", other, c.ranks, entry="biased"), baseline, schedule)
        # A command of its own.
        source = self.write("gated.mlir", text.replace("schedule<push>", "schedule<gated>"))
        done = harness.run([harness.tool("tandem-compile"), source, f"--mesh=x={c.ranks}", "-o", self.path("gated.tsp")])
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("expected matmuls without bias, which it adds to rounded products", done.err)


class OtherBitsWithoutTheAttribute(Case):
    def check(self):
        c = self.combination
        if c.ranks == 2:
            return  # two partial sums have one order
        found = set()
        for reduction in ("pipeline", "ring", "push"):
            text = re.sub(r" attributes \{fusion.deterministic = .*?\}", "", layer(c.dtype, "push", reduction))
            found.add(self.run_layer(reduction, text, c.ranks)["y"].tobytes())
        self.assertGreater(len(found), 1, "every order gives the same bits")


class SameBitsOfFewerRows(Case):
    def check(self):
        c = self.combination
        found = {}
        for rows in (72, 24):
            text = layer(c.dtype, "push", "exchange", rows)
            found[rows] = self.run_layer(f"rows{rows}", text, c.ranks, "--deterministic=batch")
        self.assertEqual(found[72]["x"][:24].tobytes(), found[24]["x"].tobytes(), "other inputs")
        self.assertEqual(found[72]["y"][:24].tobytes(), found[24]["y"].tobytes())


@dataclasses.dataclass(frozen=True)
class Proof:
    function: object
    devices: int

    @property
    def name(self):
        return f"{self.function.name}/{self.devices}"


def proofs(options):
    for n, function in enumerate(functions()):
        devices = [d for d in function.devices if d in (None, 2, 4)]
        yield from (Proof(function, d) for d in (devices if options.all else devices[n % 2:][:1] or devices[:1]))


class HasTheBitsOfItsBaseline(harness.CombinationTest):
    def check(self):
        c = self.combination
        program = self.path("program.tsp")
        mesh = c.function.mesh(c.devices) if c.function.axes else []
        done = harness.run([harness.tool("tandem-compile"), c.function.path, f"--entry={c.function.name}", *mesh,
                            "--target=cpu-local", "--deterministic=bitwise", "-o", program])
        if done.code == 1 and NO_FORM.search(done.err):
            return
        self.assertEqual(done.code, 0, str(done))
        done = harness.run([harness.tool("tandem-compile"), "--dump", program, "--rank=0"])
        self.assertRegex(done.out, "cannot occur, .* bits-differ order-not-fixed")


if __name__ == "__main__":
    harness.main(__doc__, combined=[(SameBitsWithEverySchedule, layers), (SameBitsWithBias, layers), (OtherBitsWithoutTheAttribute, layers),
                                    (SameBitsOfFewerRows, layers), (HasTheBitsOfItsBaseline, proofs)])
