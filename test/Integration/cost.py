# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the compiler chooses by price, on whole programs.

  cost.py [--all] [-v] [PATTERN...]     (see harness.py)

1. Every function of test/Programs, compiled by price for several machines, is not slower than by the fixed rules, as
   the simulator says it. (--all: on every machine; else machines in turn.)
2. choices.mlir: what is left open is not slower than what a user could have written.

A price is the simulated time of the lowered candidate, so it does not differ from the simulator's (PricerTest). What can
still be wrong: loops are priced one by one, a candidate is missing, or a choice is made before prices are asked.
"""

import dataclasses
import os
import re

import harness
from check import functions

#: A gain under 6 % is ignored, also where the rules happen to choose it.
SLACK = 1 / (1 - 0.06)
#: A machine and a target that suits it.
MACHINES = (("h200x8", "cuda-peer"), ("mi300x8", "cuda-nccl"), ("dgx-h100-pod", "cuda-peer"), ("cpu2", "cpu-local"))
#: Numbers of devices that divide what the programs split.
DEVICES = (None, 2, 3, 4, 8)
#: What names a schedule of one-sided messages needs a target that has them.
ONE_SIDED = re.compile(r"(^|_)push|_xor|_rotated|_pod$")
CHOICES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "choices.mlir")


def simulate(test, path, entry, target, machine, *options):
    """Microseconds of a function that is compiled with `options`."""
    program = test.path(f"{entry}{len(options)}.tsp")
    done = harness.run([harness.tool("tandem-compile"), path, f"--entry={entry}", f"--target={target}", "--no-oracle",
                        "--check=false", *options, "-o", program])
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
        for d, devices in enumerate(function.devices):
            if devices not in DEVICES:
                continue
            for machine, target in MACHINES if options.all else [MACHINES[(n + d) % len(MACHINES)]]:
                if ONE_SIDED.search(function.name) and target == "cuda-nccl":
                    target = "cuda-peer"
                yield Program(function, devices, machine, target)


class NotSlowerThanTheRules(harness.CombinationTest):
    def check(self):
        c = self.combination
        mesh = c.function.mesh(c.devices) if c.function.axes else []
        rules = simulate(self, c.function.path, c.function.name, c.target, c.machine, *mesh)
        price = simulate(self, c.function.path, c.function.name, c.target, c.machine, *mesh, f"--machine={c.machine}")
        print(f"{c.name}: {price:.1f} us by price, {rules:.1f} us by the rules")
        self.assertLess(price, SLACK * rules + 1, c.name)


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
            self.assertLess(price, SLACK * time, name)


if __name__ == "__main__":
    harness.main(__doc__, combined=[(NotSlowerThanTheRules, programs), (NotSlowerThanKnown, choices)])
