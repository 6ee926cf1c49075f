# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The simulator draws every program of the reference on 8 MI300X, a machine that it has no measurement of.

  simulator_drawings_test.py [--all] [-v] [PATTERN...]     (see harness.py)

The programs are all functions of test/Programs, on 8 devices, and those of documented_overlaps.py in the sizes of their documents.
(--all: also on 2 to 7 devices.) Trace, picture and report of each are checked as those of tandem-sim.test.
"""

import dataclasses
import os
import sys

import checker
import documented_overlaps
import harness

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Tools", "Inputs"))
import check_timeline  # noqa: E402

MACHINE = "mi300x8"
DEVICES = 8


@dataclasses.dataclass(frozen=True)
class Drawing:
    """Of a function of test/Programs, or of a program of documented_overlaps.py."""

    program: object
    devices: int

    @property
    def name(self):
        return f"{self.program.name}/{self.devices}"

    def arguments(self, test):
        """Of tandem-compile: the file and what chooses the program."""
        if isinstance(self.program, checker.Function):
            mesh = self.program.mesh(self.devices) if self.program.axes else []
            return [self.program.path, f"--entry={self.program.name}", *mesh]
        source = test.path("document.mlir")
        with open(source, "w") as file:
            file.write(self.program.text(self.devices))
        return [source, *(f"--mesh={axis}" for axis in self.program.mesh(self.devices).split(","))]


def drawings(options):
    for function in checker.functions():
        for devices in function.devices:
            if devices in (None, DEVICES) or (options.all and devices > 1):
                yield Drawing(function, devices)
    for combination in documented_overlaps.checked(options):
        if combination.ranks == DEVICES or (options.all and combination.ranks < DEVICES):
            yield Drawing(combination.program, combination.ranks)


class Drawn(harness.CombinationTest):
    def check(self):
        arguments = self.combination.arguments(self)
        program = self.path("program.tsp")
        done = harness.run([harness.tool("tandem-compile"), *arguments, "--target=cpu-local", "--no-reference", "--check=false",
                            "-o", program], limit=120)
        if self.combination.devices in checker.SOME_DO_NOT_FIT and checker.DOES_NOT_FIT.search(done.err):
            self.skipTest("not for so many devices")
        self.assertEqual(done.code, 0, str(done))
        trace, svg, report = (self.path(name) for name in ("trace.json", "picture.svg", "report.json"))
        done = harness.run([harness.tool("tandem-sim"), program, f"--machine={MACHINE}", f"--trace={trace}",
                            f"--trace-ranks={DEVICES}", f"--svg={svg}", f"--json={report}"])
        self.assertEqual(done.code, 0, str(done))
        figures = harness.read_json(report)
        self.assertEqual(figures["machine"], MACHINE)
        self.assertGreater(figures["seconds"], 0)
        check_timeline.check_report(report, figures["ranks"])
        drawn = check_timeline.check_trace(trace, figures["ranks"], os.path.basename(arguments[0]))
        check_timeline.check_svg(svg, figures["ranks"])
        check_timeline.check_exposed(drawn, svg, figures["ranks"])


if __name__ == "__main__":
    harness.main(__doc__, combined=[(Drawn, drawings)])
