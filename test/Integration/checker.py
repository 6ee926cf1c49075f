# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The checker on whole programs.

  checker.py [--all] [--sample=N] [-v] [PATTERN...]     (see harness.py)

1. Every function of test/Programs, on 1 to 8 devices and in several ways of compiling: what the compiler makes has no
   error. (--all: every combination; else each function on three numbers of devices, numbers and ways in turn.)
   Numbers of slices and orders of tokens that do not fit 5, 6 or 7 devices are skipped.
2. check-mutants breaks the programs in one place. What the checker lets through (or only its lint warns of) is run, twice
   in a row: it must end, and agree with the reference. Anything else is a bug of the checker.
"""

import collections
import dataclasses
import glob
import os
import re
import sys

import harness

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Programs")
DEVICES = (1, 2, 3, 4, 5, 6, 7, 8)
#: The quick set: functions take one of these in turn.
QUICK = ((1, 4, 6), (2, 3, 8), (4, 5, 7))
WAYS = ((), ("--workers=1",), ("--workers=2",), ("--gather=after",), ("--disable-pass=hostir-localize-buffers",))
#: What a program says that is not for so many devices.
DOES_NOT_FIT = re.compile(r"slices that leaves none empty|slices of one size|a dimension that is a multiple of the")
#: For these numbers of devices.
SOME_DO_NOT_FIT = (3, 5, 6, 7)


@dataclasses.dataclass(frozen=True)
class Function:
    """A public function of test/Programs, and the axes of its meshes whose sizes are `?`."""

    path: str
    name: str
    axes: tuple

    def mesh(self, devices):
        """Sizes for so many devices: of several axes, the first has two of them."""
        sizes = [devices] if len(self.axes) == 1 else [2, devices // 2] if devices % 2 == 0 else [1, devices]
        return [f"--mesh={axis}={size}" for axis, size in zip(self.axes, sizes)]

    @property
    def devices(self):
        """Numbers of them; None: as the file says."""
        return DEVICES if self.axes else (None,)


def functions():
    for path in sorted(glob.glob(os.path.join(SOURCES, "**", "*.mlir"), recursive=True)):
        with open(path) as file:
            text = file.read()
        axes = tuple(dict.fromkeys(re.findall(r'"(\w+)" = \?', text)))
        for name in re.findall(r"^\s*func\.func\s+(?:public\s+)?@([\w.$-]+)", text, re.M):
            yield Function(path, name, axes)


@dataclasses.dataclass(frozen=True)
class Combination:
    function: Function
    devices: int
    way: tuple

    @property
    def name(self):
        return "/".join(map(str, filter(None, (self.function.name, self.devices, *self.way))))


def combinations(options):
    for n, function in enumerate(functions()):
        for d, devices in enumerate(function.devices):
            if devices and not options.all and devices not in QUICK[n % len(QUICK)]:
                continue
            for way in WAYS if options.all else [WAYS[(n + d) % len(WAYS)]]:
                yield Combination(function, devices, way)


def compile_program(test, combination, out):
    function, out = combination.function, test.path(out)
    mesh = function.mesh(combination.devices) if function.axes else []
    done = harness.run([harness.tool("tandem-compile"), function.path, f"--entry={function.name}", *mesh,
                        *combination.way, "-o", out])
    if combination.devices in SOME_DO_NOT_FIT and DOES_NOT_FIT.search(done.err):
        test.skipTest("not for so many devices")
    test.assertEqual(done.code, 0, str(done))
    return out


class Correct(harness.CombinationTest):
    def check(self):
        program = compile_program(self, self.combination, "program.tsp")
        done = harness.run([harness.tool("tandem-check"), program])
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("data: checked", done.out)


@dataclasses.dataclass(frozen=True)
class Sample:
    """So many mutants of every program, compiled for each of so many devices."""

    size: int
    everything: bool
    name: str = "mutants"


def samples(options):
    yield Sample(options.sample or (400 if options.all else 12), options.all)


class Mutants(harness.CombinationTest):
    def programs(self):
        for n, function in enumerate(functions()):
            chosen = (2, 4) if self.combination.everything else ((2, 3, 4)[n % 3],)
            for devices in chosen if function.axes else function.devices:
                yield compile_program(self, Combination(function, devices, ()), f"{n}-{devices}.tsp")

    def check(self):
        outcomes = collections.Counter()
        survivors = self.path("survivors")
        os.mkdir(survivors)
        programs = list(self.programs())
        self.assertGreater(len(programs), 50)
        done = harness.run([harness.tool("check-mutants"), f"--sample={self.combination.size}", "--warned",
                            f"--survivors={survivors}", *programs], limit=3000)
        self.assertEqual(done.code, 0, str(done))
        table = done.out
        listed = os.path.join(survivors, "survivors.txt")
        lines = []
        if os.path.exists(listed):
            with open(listed) as file:
                lines = [line.rstrip("\n").split("\t") for line in file]
        for program, what in lines:
            ran = harness.tandem_run(program, "--channel=local", "--verify", "--repeat=2", "--timeout=10",
                                     f"--kernels={harness.KERNELS}")
            with self.subTest(what=what):
                self.assertNotRegex(ran.err, "no progress|stall|timeout|watchdog", f"hangs: {what}\n{ran}")
                outcomes["harmless" if ran.code == 0 else "wrong"] += 1
                self.assertEqual(ran.code, 0, f"{what}\n{ran}")
        print(f"{table}of what survived: {dict(outcomes)}", file=sys.stderr)


if __name__ == "__main__":
    harness.main(__doc__, combined=[(Correct, combinations), (Mutants, samples)],
                 more_options=lambda parser: parser.add_argument("--sample", type=int, default=0,
                                                                 help="mutants of each program"))
