# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler's cost model on whole programs.

  cost.py [--all] [-v] [PATTERN...]     (see harness.py)

1. Every function of test/Programs, compiled by cost for several machines: what the compiler predicts is within a factor
   of what the simulator says of the program. (--all: on every machine; else machines in turn.)
2. Choices that flip with machine and sizes are the quicker ones, by the simulator too.
3. Programs compiled by cost run and agree with their oracles.
"""

import dataclasses
import re

import harness
from check import functions

#: Between prediction and simulation, either way.
FACTOR = 1.3
#: A machine and a target that suits it.
MACHINES = (("h200x8", "cuda-peer"), ("mi300x8", "cuda-nccl"), ("dgx-h100-pod", "cuda-peer"), ("cpu2", "cpu-local"))
#: What the model leaves out: that loops on devices of their own overlap.
LEFT_OUT = re.compile(r"^two_meshes/")
#: Numbers of devices that divide what the programs split.
DEVICES = (None, 2, 3, 4, 8)
#: What names a schedule of one-sided messages needs a target that has them.
ONE_SIDED = re.compile(r"_push|_xor|_rotated|_pod$")


def simulate(test, program, machine):
    """Microseconds."""
    report = program + ".json"
    done = harness.run([harness.tool("tandem-sim"), program, f"--machine={machine}", f"--json={report}"])
    test.assertEqual(done.code, 0, str(done))
    return harness.read_json(report)["seconds"] * 1e6


def compile_program(test, path, out, *options):
    out = test.path(out)
    done = harness.run([harness.tool("tandem-compile"), path, "--log", *options, "-o", out])
    test.assertEqual(done.code, 0, str(done))
    return out, done.err


@dataclasses.dataclass(frozen=True)
class Prediction:
    function: object
    devices: int
    machine: str
    target: str

    @property
    def name(self):
        return "/".join(map(str, filter(None, (self.function.name, self.devices, self.machine))))


def predictions(options):
    for n, function in enumerate(functions()):
        for d, devices in enumerate(function.devices):
            if devices not in DEVICES:
                continue
            for machine, target in MACHINES if options.all else [MACHINES[(n + d) % len(MACHINES)]]:
                if ONE_SIDED.search(function.name) and target == "cuda-nccl":
                    target = "cuda-peer"
                yield Prediction(function, devices, machine, target)


class Predicts(harness.CombinationTest):
    def check(self):
        c = self.combination
        mesh = c.function.mesh(c.devices) if c.function.axes else []
        program, log = compile_program(self, c.function.path, "p.tsp", f"--entry={c.function.name}", *mesh,
                                       f"--machine={c.machine}", f"--target={c.target}")
        found = re.findall(r"predicted ([0-9.]+) us", log)
        self.assertTrue(found, log)
        # The oracle is a function, too, of one rank: the program comes first.
        predicted, simulated = float(found[0]), simulate(self, program, c.machine)
        print(f"{c.name}: predicted {predicted:.1f} us, simulated {simulated:.1f} us, {predicted / simulated - 1:+.1%}")
        if not LEFT_OUT.search(c.name):
            self.assertLess(predicted, FACTOR * simulated + 1, c.name)
            self.assertLess(simulated, FACTOR * predicted + 1, c.name)


if __name__ == "__main__":
    harness.main(__doc__, combined=[(Predicts, predictions)])
