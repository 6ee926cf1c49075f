# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the compiler chooses by price, on whole programs.

  cost_model.py [--all] [-v] [PATTERN...]     (see harness.py)

1. Every function of test/Programs, compiled by price for several machines, is not slower than by the fixed rules, as
   the simulator says it. (--all: on every machine; else machines and numbers of devices in turn.)
2. choices.mlir: what is left open is not slower than what a user could have written.
3. Layers of several kinds and sizes, left open, are not slower than with any number of slices and any registered
   schedule. (--all: all layers and all numbers of slices.)

A price is the simulated time of the lowered candidate, so it does not differ from the simulator's (PricerTest). What can
still be wrong: loops are priced one by one, a candidate is missing, or a choice is made before prices are asked.
"""

import dataclasses
import itertools
import os
import pathlib
import re

import harness
from checker import functions

#: A machine and a target that suits it.
MACHINES = (("h200x8", "cuda-peer"), ("mi300x8", "cuda-nccl"), ("dgx-h100-pod", "cuda-peer"), ("cpu2", "cpu-local"))
#: Numbers of devices that divide what the programs split.
DEVICES = (None, 2, 3, 4, 8)
#: A schedule of one-sided messages needs a target that has them.
ONE_SIDED = re.compile(r"schedule<(push|hierarchical|gated|direct)")
#: What the types do not say: a schedule cuts its slices once more.
DOES_NOT_DIVIDE = re.compile(r"schedule direct\b.*(a multiple of the \d+ devices|slices of one size)")
#: Where the choice loses more, and by how much: an operand that is gathered is priced with its op alone. In the loop of the
#: other operand, whose slices have the same owners, its own slices would wait for no messages of their own.
SLOWER = {"scaled_gather": 1.3}
HERE = os.path.dirname(os.path.abspath(__file__))
CHOICES = os.path.join(HERE, "choices.mlir")
MACHINE_FILES = os.path.join(HERE, "..", "..", "machines")


def slack(microseconds, least_gain=0.06):
    """The most that a choice may take which ignores gains under this fraction and under 5 us."""
    return max(microseconds / (1 - least_gain), microseconds + 5) + 0.1


def simulate(test, path, entry, target, machine, *options, may_refuse=None):
    """Microseconds of a function that is compiled with `options`; None if it is refused for the reason `may_refuse`."""
    program = test.path(f"{entry}{len(options)}.tsp")
    done = harness.run([harness.tool("tandem-compile"), path, f"--entry={entry}", f"--target={target}", "--no-reference",
                        "--check=false", *options, "-o", program])
    if may_refuse and done.code == 1 and may_refuse.search(done.err):
        return None
    test.assertEqual(done.code, 0, str(done))
    report = program + ".json"
    done = harness.run([harness.tool("tandem-sim"), program, f"--machine={machine}", f"--json={report}"])
    test.assertEqual(done.code, 0, str(done))
    return harness.read_json(report)["seconds"] * 1e6


@dataclasses.dataclass(frozen=True)
class Program:
    function: object
    devices: int
    machine: str
    target: str

    @property
    def name(self):
        return "/".join(map(str, filter(None, (self.function.name, self.devices, self.machine))))


def programs(options):
    for n, function in enumerate(functions()):
        one_sided = ONE_SIDED.search(pathlib.Path(function.path).read_text())
        chosen = [devices for devices in function.devices if devices in DEVICES]
        if not options.all:
            chosen = [chosen[n % len(chosen)]]
        for devices in chosen:
            for machine, target in MACHINES if options.all else [MACHINES[n // 2 % len(MACHINES)]]:
                if one_sided and target == "cuda-nccl":
                    target = "cuda-peer"
                yield Program(function, devices, machine, target)


class NotSlowerThanTheRules(harness.CombinationTest):
    def check(self):
        c = self.combination
        mesh = c.function.mesh(c.devices) if c.function.axes else []
        rules = simulate(self, c.function.path, c.function.name, c.target, c.machine, *mesh, may_refuse=DOES_NOT_DIVIDE)
        if rules is None:
            self.skipTest("its schedule needs another number of devices")
        price = simulate(self, c.function.path, c.function.name, c.target, c.machine, *mesh, f"--machine={c.machine}")
        print(f"{c.name}: {price:.1f} us by price, {rules:.1f} us by the rules")
        self.assertLess(price, slack(rules) * SLOWER.get(c.function.name, 1), c.name)


@dataclasses.dataclass(frozen=True)
class Choice:
    auto: str
    known: tuple
    machine: str

    @property
    def name(self):
        return f"{self.auto}/{self.machine}"


def choices(options):
    with open(CHOICES) as file:
        names = re.findall(r"^func\.func @(\w+)", file.read(), re.M)
    for auto in names:
        if auto.endswith("_auto"):
            known = tuple(name for name in names if name.startswith(auto.replace("_auto", "_known")))
            for machine in ("h200x8", "mi300x8") if options.all else ("h200x8",):
                yield Choice(auto, known, machine)


class NotSlowerThanKnown(harness.CombinationTest):
    def check(self):
        c = self.combination

        def microseconds(entry, *options):
            return simulate(self, CHOICES, entry, "cuda-peer", c.machine, *options)

        price = microseconds(c.auto, f"--machine={c.machine}")
        others = {"the rules": microseconds(c.auto)}
        for known in c.known:
            others[known] = microseconds(known, f"--machine={c.machine}")
        print(f"{c.name}: {price:.1f} us, " + ", ".join(f"{name} {time:.1f} us" for name, time in others.items()))
        for name, time in others.items():
            self.assertLess(price, slack(time), name)


#: Kinds of layers: the axes of x, w and y, and what the matmul has besides the schedule. DIGITS is what is sliced.
ROWS, COLUMNS, WHOLE = '[didx("x"), -]', '[-, didx("x")]', "[-, -]"
LAYERS = {
    "gather": ("MxK", ROWS, "KxN", COLUMNS, "MxN", '[DIGITS, didx("x")]', ()),
    "gather_contracted": ("KxM", ROWS, "KxN", COLUMNS, "MxN", '[DIGITS, didx("x")]', ("transpose_a",)),
    "gather_3d": ("4xMxK", '[-, didx("x"), -]', "KxN", COLUMNS, "4xMxN", '[-, DIGITS, didx("x")]', ()),
    "reduce_scatter": ("MxK", COLUMNS, "KxN", ROWS, "MxN", ROWS, ()),
    "all_reduce": ("MxK", COLUMNS, "KxN", ROWS, "MxN", "[DIGITS, -]", ()),
}
SIZES = ((8192, 8192, 28672), (4096, 4096, 11008), (1024, 8192, 8192), (16384, 8192, 10240), (512, 4096, 14336),
         (65536, 4096, 4096))
SLICES = ("-", 'stream("x")', "stream(4)", "stream(2)", "stream(8)", "stream(16)", 'stream("x") * stream(2)')
#: A schedule that cannot run these slices, or slices that the result cannot have.
CANNOT_RUN = re.compile(r"error: (schedule \w+|expected)")


def registered_schedules(test):
    """The names that an unknown schedule's error lists."""
    path = test.path("unknown.mlir")
    with open(path, "w") as file:
        file.write("func.func @f() attributes {fusion.schedule = #fusion.schedule<none>} { return }\n")
    done = harness.run([harness.tool("tandem-compile"), path, "-o", os.devnull])
    listed = re.search(r"expected a schedule \(([\w, ]+)\), found", done.err)
    test.assertTrue(listed, str(done))
    return listed[1].split(", ")


@dataclasses.dataclass(frozen=True)
class Layer:
    kind: str
    size: tuple
    slices: tuple
    machine: str = "h200x8"

    @property
    def name(self):
        return f"layer/{self.kind}/{'x'.join(map(str, self.size))}"

    def text(self, digits, schedule):
        *operands, flags = LAYERS[self.kind]
        extents = dict(zip("MKN", map(str, self.size)))

        def tensor(shape, axes):
            shape = "x".join(extents.get(extent, extent) for extent in shape.split("x"))
            return f"tensor<{shape}xbf16, #fusion.axes<#tp, {axes}>>"

        x, w, y = (tensor(*operands[i:i + 2]) for i in (0, 2, 4))
        attributes = ", ".join((*flags, *([f"fusion.schedule = #fusion.schedule<{schedule}>"] if schedule else [])))
        terms = ""
        if self.kind == "reduce_scatter" and digits != "-":
            # What is reduced is computed in slices: the matmul's result is written out.
            partial = tensor("MxN", '[DIGITS, -], partial = ["x"]')
            terms = f"""  %t = fusion.matmul %x, %w : {x}, {w} -> {partial}
  %y = fusion.reshard %t{f" {{schedule = #fusion.schedule<{schedule}>}}" if schedule else ""} : {partial} -> {y}
"""
        body = terms or f"  %y = fusion.matmul %x, %w {{{attributes}}} : {x}, {w} -> {y}\n"
        function = f"func.func @layer(%x: {x}, %w: {w}) -> {y} {{\n{body}  return %y : {y}\n}}\n"
        return '#tp = #tandem.mesh<"tp", ["x" = 8]>\n' + function.replace("DIGITS", digits)


def layers(options):
    if options.all:
        yield from (Layer(kind, size, SLICES) for kind, size in itertools.product(LAYERS, SIZES))
    else:
        for n, kind in enumerate(LAYERS):
            yield Layer(kind, SIZES[(n + 1) % len(SIZES)], SLICES[:3])


class NotSlowerThanAnnotated(harness.CombinationTest):
    def check(self):
        c = self.combination
        path = self.path("layer.mlir")

        def microseconds(digits, schedule, *options, **more):
            with open(path, "w") as file:
                file.write(c.text(digits, schedule))
            return simulate(self, path, "layer", "cuda-peer", c.machine, *options, **more)

        price = microseconds("-", "", f"--machine={c.machine}")
        known = {}
        for digits, schedule in itertools.product(c.slices, registered_schedules(self)):
            time = microseconds(digits, schedule, may_refuse=CANNOT_RUN)
            if time:
                known[digits, schedule] = time
        # Slices beside other work of the SMs must gain more: that is where the model errs most.
        machine = harness.read_json(os.path.join(MACHINE_FILES, c.machine + ".json"))
        sliced = machine["device"]["least_gain_beside_sms"][0]
        best = min(known, key=known.get)
        print(f"{c.name}: {price:.1f} us, {known[best]:.1f} us with {best} of {len(known)}")
        self.assertGreater(len(known), 2)
        for (digits, schedule), time in known.items():
            one_sided = schedule == "push"
            most = slack(time) if digits == "-" or one_sided else slack(time, sliced)
            self.assertLess(price, most, f"{digits} {schedule}")


if __name__ == "__main__":
    harness.main(__doc__, combined=[(NotSlowerThanTheRules, programs), (NotSlowerThanKnown, choices),
                                    (NotSlowerThanAnnotated, layers)])
