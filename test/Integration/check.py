# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The checker on whole programs.

  check.py [--all] [--sample=N] [-v]

1. Every function of test/Programs, on 1, 2, 3, 4 and 8 devices and in several ways of compiling: what the compiler
   makes has no error. (--all: every combination; else each function on each number of devices, ways in turn.)
2. check-mutants breaks the programs in one place. What the checker lets through is run: it must end, and either agree
   with the oracle (it was harmless) or compute something else (data that went elsewhere in good order is no concern of
   the checker's). A hang is a bug of the checker.
"""

import argparse
import collections
import glob
import os
import re
import sys
import unittest

import harness

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Programs")
DEVICES = (1, 2, 3, 4, 8)
WAYS = ([], ["--workers=1"], ["--workers=2"], ["--gather=after"], ["--disable-pass=hostir-localize-buffers"])
#: Mutations of what is computed, not of what orders it; the checker may let them through with other results.
OF_DATA = re.compile(r"(drop|duplicate|swap|change stream of) (copy|matmul|accumulate|reduce|launch|collective)"
                     r"|(move|shift|shrink) operand of|change peer of collective")
#: Let through, and wrong: reads of what the iteration before left in the same buffer. A file has one buffer for all
#: iterations of a worker, so the checker cannot tell their lives apart.
GAPS = {"swap group"}

OPTIONS = argparse.Namespace(all=False, sample=0)


def functions():
    """(file, public function) of test/Programs."""
    for path in sorted(glob.glob(os.path.join(SOURCES, "**", "*.mlir"), recursive=True)):
        with open(path) as file:
            for name in re.findall(r"^\s*(?:func\.func|fusion\.func)\s+(?:public\s+)?@([\w.$-]+)", file.read(), re.M):
                yield path, name


class Check(harness.Test):
    def compile(self, path, function, devices, way, name):
        """The program's path; None where the function does not go with so many devices."""
        out = self.path(name)
        for mesh in ([f"--mesh=x={devices}"], []):
            done = harness.run([harness.tool("tandem-compile"), path, f"--entry={function}", *mesh, *way, "-o", out])
            if done.code == 0:
                return out
            # Meshes of a size that is written down, or with other axes, take what they say; once is enough.
            if devices != DEVICES[0]:
                break
        self.assertRegex(done.err, r"\.mlir:\d+:\d+: error: |option 'mesh'", str(done))
        return None

    def test_correct_programs_pass(self):
        checked = 0
        for n, (path, function) in enumerate(functions()):
            for d, devices in enumerate(DEVICES):
                ways = WAYS if OPTIONS.all else [WAYS[(n + d) % len(WAYS)]]
                for way in ways:
                    with self.subTest(function=function, devices=devices, way=way):
                        program = self.compile(path, function, devices, way, "program.tsp")
                        if not program:
                            continue
                        done = harness.run([harness.tool("tandem-check"), program])
                        self.assertEqual(done.code, 0, str(done))
                        checked += 1
        self.assertGreater(checked, 50)
        print(f"{checked} programs have no error", file=sys.stderr)

    def test_mutants(self):
        outcomes = collections.Counter()
        survivors = self.path("survivors")
        os.mkdir(survivors)
        programs = []
        for n, (path, function) in enumerate(functions()):
            for devices in (2, 4) if OPTIONS.all else ((2, 3, 4)[n % 3],):
                program = self.compile(path, function, devices, [], f"program{len(programs)}.tsp")
                if program:
                    programs.append(program)
        sample = OPTIONS.sample or (400 if OPTIONS.all else 12)
        done = harness.run([harness.tool("check-mutants"), f"--sample={sample}", f"--survivors={survivors}", *programs],
                           limit=3000)
        self.assertEqual(done.code, 0, str(done))
        table = done.out
        listed = os.path.join(survivors, "survivors.txt")
        lines = []
        if os.path.exists(listed):
            with open(listed) as file:
                lines = [line.rstrip("\n").split("\t") for line in file]
        for program, what in lines:
            mutation = what.split(": ", 1)[1].split(",")[0]
            ran = harness.tandem_run(program, "--channel=local", "--verify", "--repeat=2", "--timeout=10")
            with self.subTest(what=what):
                self.assertNotRegex(ran.err, "no progress|stall|timeout|watchdog", f"hangs: {what}\n{ran}")
                self.assertIn(ran.code, (0, 1), f"{what}\n{ran}")
                harmless = ran.code == 0
                outcomes["harmless" if harmless else "other data"] += 1
                if not harmless and mutation not in GAPS:
                    self.assertRegex(mutation, OF_DATA, f"{what}\n{ran}")
        print(f"{table}of what survived: {dict(outcomes)}", file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--sample", type=int, default=0)
    known, rest = parser.parse_known_args()
    OPTIONS = known
    unittest.main(argv=[sys.argv[0], *rest])
