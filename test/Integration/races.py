# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the checker accepts, run by a runtime that looks for data races: every function of test/Programs, with its ranks
as threads of one process, several runs in a row. For builds with ThreadSanitizer.

These have no compiler: TANDEM_COMPILE names that of another build, else one is looked for in the usual folders. It checks
what it writes. Without one the test is skipped.
"""

import dataclasses
import os
import sys

import checker
import harness

#: ctest's SKIP_RETURN_CODE.
SKIPPED = 77
BUILDS = os.path.join(checker.SOURCES, "..", "..", "build")


def find_compiler():
    named = os.environ.get("TANDEM_COMPILE")
    usual = [os.path.join(BUILDS, folder, "bin", "tandem-compile") for folder in ("", "release", "gcc")]
    return next((path for path in ([named] if named else usual) if os.access(path, os.X_OK)), None)


COMPILER = find_compiler()


@dataclasses.dataclass(frozen=True)
class Run:
    function: checker.Function
    devices: int

    @property
    def name(self):
        return "/".join(map(str, filter(None, (self.function.name, self.devices))))


def runs(options):
    for n, function in enumerate(checker.functions()):
        devices = (2, 4) if options.all else ((2, 4)[n % 2],)
        for each in devices if function.axes else (None,):
            yield Run(function, each)


class Races(harness.CombinationTest):
    def check(self):
        program = self.path("program.tsp")
        function = self.combination.function
        mesh = function.mesh(self.combination.devices) if function.axes else []
        done = harness.run([COMPILER, function.path, f"--entry={function.name}", *mesh,
                            "--no-reference", "-o", program])
        self.assertEqual(done.code, 0, str(done))
        done = harness.tandem_run(program, "--channel=local", "--repeat=3", f"--kernels={harness.KERNELS}")
        self.assertEqual(done.code, 0, str(done))
        self.assertNotIn("ThreadSanitizer", done.err, str(done))


if __name__ == "__main__":
    if not COMPILER:
        print("skipped: there is no tandem-compile; TANDEM_COMPILE may name one", file=sys.stderr)
        sys.exit(SKIPPED)
    harness.main(__doc__, combined=[(Races, runs)])
