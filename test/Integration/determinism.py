# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Deterministic programs give the same bits with every schedule, and as often as they run (docs/semantics.md).

  determinism.py [--all] [-v] [PATTERN...]     (see harness.py)

1. One layer (test/Programs/deterministic.mlir) with all schedules of its gather and of its reduction has the bits of the
   unoverlapped baseline. So have gathers, reduce-scatters and all-reduces with bias, with all schedules and their options.
2. Without `fusion.deterministic` some schedule has others: else the test could not fail.
3. "batch": with fewer rows, the rows that are left have the same bits.
4. Functions of test/Programs that have a deterministic form have the bits of their baseline, as the checker proves it.
"""

import argparse
import dataclasses
import math
import os
import re

import numpy as np

import harness
from checker import functions

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
    def run_layer(self, name, text, ranks, *options, repeat=3, entry="layer", mesh=None):
        """What the program of `text` gives: result name -> bits."""
        source, program, dump = (self.path(f"{name}.{end}") for end in ("mlir", "tsp", "dump"))
        with open(source, "w") as file:
            file.write(text)
        done = harness.run([harness.tool("tandem-compile"), source, f"--entry={entry}", f"--mesh={mesh or f'x={ranks}'}",
                            f"--target=cpu-{self.combination.channel}", *options, "-o", program])
        self.assertEqual(done.code, 0, str(done))
        done = harness.tandem_run(program, "-n", ranks, f"--channel={self.combination.channel}", "--verify",
                                  f"--repeat={repeat}", f"--dump-npy={dump}", limit=120)
        self.assertVerified(done, ranks)
        return harness.read_dump(dump)

    def assertSameBits(self, a, b, what, result="y"):
        a, b = a[result], b[result]
        self.assertEqual(a.tobytes(), b.tobytes(), f"{what}: {np.sum(a != b)} elements of {result} differ")


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


#: A loop per kind of communication. D and S: the digits of the devices, and of slices in their place.
LOOPS = {
    # A matmul adds its bias before it rounds the product, so no schedule may add it by a command of its own.
    "gather": """
!x = tensor<48x24xf32, #fusion.axes<#mesh, [D, -]>>
!g = tensor<48x24xf32, #fusion.axes<#mesh, [S, -]>>
!w = tensor<24x32xf32, #fusion.axes<#mesh, [-, D]>>
!b = tensor<32xf32, #fusion.axes<#mesh, [D]>>
!y = tensor<48x32xf32, #fusion.axes<#mesh, [S, D]>>
func.func @f(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}, %b: !b {fusion.name = "b"})
    -> (!y {fusion.name = "y"}, !y {fusion.name = "z"}) attributes {fusion.deterministic = "bitwise"} {
  %g = fusion.reshard %x {schedule = #fusion.schedule<pipeline>} : !x -> !g
  %y = fusion.matmul %g, %w bias %b : !g, !w, !b -> !y
  %p = fusion.matmul %g, %w : !g, !w -> !y
  %z = math.tanh %p : !y
  return %y, %z : !y, !y
}
""",
    # The gradient of the weight combines the slices: once, on all of them.
    "gradient": """
!x = tensor<48x24xf32, #fusion.axes<#mesh, [D, -]>>
!g = tensor<48x24xf32, #fusion.axes<#mesh, [S, -]>>
!d = tensor<48x16xf32, #fusion.axes<#mesh, [-, D]>>
!w = tensor<24x32xf32, #fusion.axes<#mesh, [-, D]>>
!b = tensor<32xf32, #fusion.axes<#mesh, [D]>>
!y = tensor<48x32xf32, #fusion.axes<#mesh, [S, D]>>
!z = tensor<24x16xf32, #fusion.axes<#mesh, [-, D]>>
func.func @f(%x: !x {fusion.name = "x"}, %d: !d {fusion.name = "d"}, %w: !w {fusion.name = "w"}, %b: !b {fusion.name = "b"})
    -> (!y {fusion.name = "y"}, !z {fusion.name = "z"}) attributes {fusion.deterministic = "bitwise"} {
  %g = fusion.reshard %x {schedule = #fusion.schedule<pipeline>} : !x -> !g
  %y = fusion.matmul %g, %w bias %b : !g, !w, !b -> !y
  %z = fusion.matmul %g, %d {transpose_a} : !g, !d -> !z
  return %y, %z : !y, !z
}
""",
    # R: the digits of the sum. A bias is added to it, and the matmul that reads it has another one.
    "reduction": """
!x = tensor<48x24xf32, #fusion.axes<#mesh, [-, D]>>
!w = tensor<24x32xf32, #fusion.axes<#mesh, [D, -]>>
!b = tensor<32xf32, #fusion.axes<#mesh, [-]>>
!t = tensor<48x32xf32, #fusion.axes<#mesh, [S, -], partial = AXES>>
!y = tensor<48x32xf32, #fusion.axes<#mesh, [R, -]>>
!v = tensor<32x16xf32, #fusion.axes<#mesh, [-, -]>>
!c = tensor<16xf32, #fusion.axes<#mesh, [-]>>
!z = tensor<48x16xf32, #fusion.axes<#mesh, [R, -]>>
func.func @f(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}, %b: !b {fusion.name = "b"},
    %v: !v {fusion.name = "v"}, %c: !c {fusion.name = "c"})
    -> (!y {fusion.name = "y"}, !z {fusion.name = "z"}) attributes {fusion.deterministic = "bitwise"} {
  %t = fusion.matmul %x, %w : !x, !w -> !t
  %s = fusion.reshard %t {schedule = #fusion.schedule<pipeline>} : !t -> !y
  %a = fusion.broadcast %b dims [1] : !b -> !y
  %y = arith.addf %s, %a : !y
  %z = fusion.matmul %y, %v bias %c : !y, !v, !c -> !z
  return %y, %z : !y, !z
}
""",
}
#: Two products are added before they are sent.
LOOPS["sum"] = LOOPS["reduction"].replace("%w: !w", '%u: !w {fusion.name = "u"}, %w: !w').replace(
    "%t = fusion.matmul %x, %w : !x, !w -> !t", """%p = fusion.matmul %x, %u : !x, !w -> !t
  %q = fusion.matmul %x, %w : !x, !w -> !t
  %t = arith.addf %p, %q : !t""")

PIPELINE = ("pipeline", "pipeline, streams = 3")
EXCHANGE = ("exchange", "exchange, streams = 3")
PUSH = ("push", "push, streams = 2", "push, copies = 2", "push, order = xor")
DIRECT = ("direct", "direct, shots = one", "direct, blocks = 3", "direct, protocol = block", "direct, protocol = ll")
TWO_SHOTS = ("direct, shots = two", "direct, protocol = block, shots = two")
RING = ("ring", "ring, directions = 2", "ring, buffers = 2")
HIERARCHICAL = ("hierarchical", "hierarchical, spread = send")
REFUSALS = ("adds partial sums in an order of its own, but|expected matmuls without bias, which it adds to rounded products|"
            "slices in dimensions that are not added up")


@dataclasses.dataclass(frozen=True)
class Choices:
    """The schedules that can run a loop, which all give the same bits. `kind`: gather, scatter or reduce."""
    loop: str
    kind: str
    slices: str  # "none", "one" or "two" for each device
    mesh: tuple
    accepted: tuple
    refused: tuple = ()
    dtype: str = "f32"
    channel: str = "local"

    @property
    def name(self):
        mesh = "x".join(str(size) for _, size in self.mesh)
        return f"{self.loop}-{self.kind}/{self.slices}/{mesh}/{self.dtype}/{self.channel}"

    @property
    def ranks(self):
        return math.prod(size for _, size in self.mesh)

    def text(self, schedule):
        axes = [axis for axis, _ in self.mesh]
        devices = " * ".join(f'didx("{axis}")' for axis in axes)
        slices = " * ".join([f'stream("{axis}")' for axis in axes] + ["stream(2)"] * (self.slices == "two"))
        slices = "-" if self.slices == "none" else slices
        text = LOOPS[self.loop].replace("[R", f"[{devices}" if self.kind == "scatter" else f"[{slices}")
        text = re.sub(r"\bD\b", devices, re.sub(r"\bS\b", slices, text)).replace("AXES", str(axes).replace("'", '"'))
        mesh = ", ".join(f'"{axis}" = ?' for axis in axes)
        text = f'#mesh = #tandem.mesh<"mesh", [{mesh}]>\n' + re.sub(r"(?<=x)f32\b", self.dtype, text)
        options = re.sub(r"= ([a-z]+)", r'= "\1"', schedule)
        return text.replace("schedule<pipeline>", f"schedule<{options}>")


def choices(options):
    tp, two, pod = (("x", 4),), (("x", 2),), (("node", 2), ("gpu", 2))
    merged = ("push, merge = [1, 1, 2]", "push, copies = 4")
    by_sms = ("push, by = sms", "push, by = sms, blocks = 2")
    in_slices = (*PIPELINE, *EXCHANGE, *PUSH)
    whole = ("pipeline, combine = whole", "push, combine = whole")
    found = [
        Choices("gather", "gather", "one", tp, (*in_slices, *RING, *merged, *by_sms), ("gated",)),
        Choices("gather", "gather", "two", tp, (*in_slices, *RING, *by_sms, "ring, split = yes"), ("gated",)),
        Choices("gather", "gather", "none", tp, (*PIPELINE, *EXCHANGE, *DIRECT)),
        Choices("gather", "gather", "one", pod, (*PIPELINE, *EXCHANGE, "push", "ring", *HIERARCHICAL, "hierarchical, merge = node",
                                                 "hierarchical, merge = node, spread = send"), ("gated",)),
        Choices("gather", "gather", "none", pod, (*PIPELINE, *EXCHANGE, *DIRECT)),
        Choices("gradient", "gather", "one", tp, whole, ("pipeline", "exchange", "push", "gated")),
        Choices("gradient", "gather", "two", tp, whole, ("pipeline", "exchange", "push", "gated")),
    ]
    for loop, epilogue in (("reduction", ("push, by = epilogue",)), ("sum", ())):
        found += [
            Choices(loop, "scatter", "one", tp, (*in_slices, *epilogue, "push, merge = [1, 1, 2]"), ("ring",)),
            Choices(loop, "reduce", "one", tp, (*PIPELINE, "push", "push, order = xor", *epilogue)),
            Choices(loop, "reduce", "none", tp, (*PIPELINE, *DIRECT, *TWO_SHOTS)),
        ]
    found += [
        Choices("reduction", "scatter", "one", two, (*in_slices, "push, by = epilogue"), ("ring", "push, sum = matmul")),
        Choices("reduction", "scatter", "two", tp, in_slices, ("ring", "ring, directions = 2", "ring, split = yes")),
        Choices("reduction", "scatter", "one", pod, (*PIPELINE, *EXCHANGE, "push"), ("ring", "hierarchical")),
        Choices("reduction", "scatter", "none", tp, (*PIPELINE, *DIRECT)),
        Choices("reduction", "scatter", "none", pod, (*PIPELINE, *DIRECT)),
        Choices("reduction", "reduce", "two", tp, (*PIPELINE, "push", "push, order = xor")),
        Choices("reduction", "reduce", "one", two, (*PIPELINE, "push", "push, by = epilogue"), ("push, sum = matmul",)),
        Choices("reduction", "reduce", "none", two, (*PIPELINE, *DIRECT)),
        Choices("reduction", "reduce", "none", pod, (*PIPELINE, *DIRECT)),
    ]
    for each in found:
        for dtype in ("f32", "bf16"):
            for channel in harness.CHANNELS if options.all else harness.CHANNELS[1:]:
                yield dataclasses.replace(each, dtype=dtype, channel=channel)


class SameBitsWithEveryChoice(Case):
    """Gathers, reduce-scatters and all-reduces, with bias."""

    def check(self):
        c = self.combination
        mesh = ",".join(f"{axis}={size}" for axis, size in c.mesh)
        baseline = self.run_layer("baseline", c.text(c.accepted[0]), c.ranks, "--baseline", entry="f", mesh=mesh)
        for schedule in c.accepted:
            found = self.run_layer("choice", c.text(schedule), c.ranks, entry="f", mesh=mesh)
            for result in "yz":
                self.assertSameBits(found, baseline, schedule, result)
        for schedule in c.refused:
            text = c.text(schedule)
            done = harness.run([harness.tool("tandem-compile"), self.write("refused.mlir", text), f"--mesh={mesh}",
                                "-o", self.path("refused.tsp")])
            self.assertEqual(done.code, 1, str(done))
            self.assertRegex(done.err, REFUSALS, schedule)
            # Not for nothing: without the attribute it has other bits. (Two partial sums have one order.)
            if c.ranks > 2 and c.loop != "gradient":
                found = self.run_layer("refused", re.sub(r" attributes \{.*?\}", "", text), c.ranks, entry="f", mesh=mesh)
                self.assertNotEqual(found["y"].tobytes(), baseline["y"].tobytes(), schedule)


class EveryScheduleHasChoices(harness.Test):
    def test_names(self):
        source = self.write("unknown.mlir", 'func.func @f() attributes {fusion.schedule = #fusion.schedule<all>} { return }')
        done = harness.run([harness.tool("tandem-compile"), source, "-o", self.path("unknown.tsp")])
        known = re.search(r"expected a schedule \((.*)\), found 'all'", done.err)
        self.assertTrue(known, str(done))
        tried = {schedule.split(",")[0] for c in choices(argparse.Namespace(all=False)) for schedule in c.accepted + c.refused}
        self.assertEqual(set(known[1].split(", ")), tried)


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
    harness.main(__doc__, EveryScheduleHasChoices, combined=[(SameBitsWithEverySchedule, layers), (SameBitsWithEveryChoice, choices), (OtherBitsWithoutTheAttribute, layers),
                                    (SameBitsOfFewerRows, layers), (HasTheBitsOfItsBaseline, proofs)])
