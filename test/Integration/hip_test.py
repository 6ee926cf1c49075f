# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs on device hip, over the stand-in driver (test/Support/FakeHip.cpp).

  hip_test.py [--all] [-v] [PATTERN...]     (see harness.py)

1. The programs of programs.py in f32, in place of whose kernels nothing stands: the results agree with the unsharded
   reference and with NumPy. Each is compiled for a target of HIP and runs over RCCL, over symmetric memory by processes,
   and staged. (--all: every combination, also on device cuda; else those that are no variants, once.)
2. A program with a kernel: its code object is loaded and launched. The stand-in writes 42 in place of its results.
3. Programs of device cuda with grouped matmuls, in f16 and bf16: a stand-in for the library with the kernels computes them.
"""

import dataclasses
import os
import re
import unittest

import numpy as np

import harness
import fault_injection_test
import programs

#: Name -> device, target, options of tandem-run.
WAYS = {
    "hip-rccl": ("hip", "hip-rccl", ("--channel=ccl", "--threads")),
    "hip-peer": ("hip", "hip-peer", ("--channel=peer,ccl", "--threads")),
    "hip-ucx": ("hip", "hip-ucx", ("--channel=ucx",)),
    "cuda-nccl": ("cuda", "cuda-nccl", ("--channel=ccl", "--threads")),
    "cuda-peer": ("cuda", "cuda-peer", ("--channel=peer,ccl", "--threads")),
}
RANKS = (2, 4)
#: A line of a dump.
LAUNCH = re.compile(r"^ +\d+ s\d+ +launch\b", re.M)
ONE_SIDED = re.compile(r"schedule<(push|hierarchical|gated|direct)")
#: What the stand-in does not compute: reductions and matmuls of other types.
DTYPE = "f32"
HERE = fault_injection_test.runs_here("hip-peer")


@dataclasses.dataclass(frozen=True)
class Combination(programs.Combination):
    way: str = ""  # a name of WAYS

    @property
    def name(self):
        return f"{self.program.name}/{self.ranks}/{self.way}"


def runs_here(way):
    device, _, (channel, *_) = WAYS[way]
    prefix = "hip-" if device == "hip" else ""
    return fault_injection_test.runs_here(prefix + ("ccl" if "ccl" in channel else "peer"))


def combinations(options):
    chosen = [row for row in programs.PROGRAMS if DTYPE in row.dtypes and not row.others]
    ways = [way for way in WAYS if runs_here(way) and (options.all or way.startswith("hip"))]
    quick = 0
    for row in chosen:
        if not options.all and row.file == "direct" and runs_here("cuda-peer"):
            yield Combination(row, 4, "", DTYPE, "cuda-peer")
        if not options.all and row.variant:
            continue
        for ranks in RANKS:
            if ranks not in row.ranks:
                continue
            quick += 1
            # Schedules of one-sided messages need a target that has them.
            with open(os.path.join(programs.SOURCES, row.source)) as file:
                fitting = [way for way in ways if way.endswith("peer")] if ONE_SIDED.search(file.read()) else ways
            for way in fitting if options.all else fitting[quick % max(1, len(fitting)):][:1]:
                yield Combination(row, ranks, "", DTYPE, way)


@unittest.skipUnless(HERE, "no stand-in driver of HIP")
class OnStandIn(programs.ProgramTest):
    def run_program(self, dump):
        c = self.combination
        device, target, options = WAYS[c.way]
        compiled, mesh = self.path("program.tsp"), c.program.mesh(c.ranks) if c.program.mesh else f"x={c.ranks}"
        done = harness.run([harness.tool("tandem-compile"), self.source(), f"--entry={c.program.entry}", "--mesh", mesh,
                            f"--target={target}", "--check=false", "-o", compiled])
        self.assertEqual(done.code, 0, str(done))
        dumped = harness.run([harness.tool("tandem-compile"), "--dump", compiled, "--rank=all"])
        self.assertEqual(dumped.code, 0, str(dumped))
        if LAUNCH.search(dumped.out) and not c.program.inside:
            self.skipTest("has a kernel, which the stand-in does not compute")
        done = harness.tandem_run(compiled, "-n", c.ranks, f"--device={device}", *options, "--verify", "--repeat=3",
                                  f"--dump-npy={dump}", env=variables(device), limit=120)
        if c.program.file == "direct" and c.way == "cuda-peer":
            self.assertNotIn("one by one", done.err)
        return done


def variables(device):
    return {**fault_injection_test.variables("hip-peer" if device == "hip" else "peer"), "TANDEM_FAKE_GPUS": "4"}


KERNEL = """#tp = #tandem.mesh<"tp", ["x" = 2]>
!t = tensor<8x32xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @f(%x: !t {fusion.name = "x"}) -> (!t {fusion.name = "y"}) {
  %y = math.exp %x : !t
  return %y : !t
}
"""


@unittest.skipUnless(HERE, "no stand-in driver of HIP")
class Kernels(harness.Test):
    def launch(self, target, *options):
        source, program = self.path("kernel.mlir"), self.path("kernel.tsp")
        with open(source, "w") as file:
            file.write(KERNEL)
        done = harness.run([harness.tool("tandem-compile"), source, f"--target={target}", "-o", program])
        self.assertEqual(done.code, 0, str(done))
        return harness.tandem_run(program, "-n", 2, "--device=hip", "--channel=local", f"--dump-npy={self.path('dump')}",
                                  *options, env=variables("hip"))

    def test_the_code_object_runs(self):
        for target in ("hip-rccl", "hip-peer:gfx90a,gfx942"):
            done = self.launch(target)
            self.assertEqual(done.code, 0, str(done))
            np.testing.assert_array_equal(harness.read_dump(self.path("dump"))["y"], np.full((8, 32), 42, np.float32))

    def test_other_code_is_refused(self):
        for target in ("hip-rccl:gfx90a", "cuda-nccl", "cpu-local"):
            done = self.launch(target)
            self.assertEqual(done.code, 1, str(done))
            self.assertRegex(done.out + done.err, r"the program has no code for hip:\d \(gfx942\); compile it for a hip target")

    def test_no_native(self):
        done = self.launch("hip-rccl", "--no-native")
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("has native code (amdgcn), which this job refuses", done.out + done.err)

    def test_the_linker_is_missing(self):
        source = self.path("kernel.mlir")
        with open(source, "w") as file:
            file.write(KERNEL)
        command = [harness.tool("tandem-compile"), source, "--target=hip-rccl", "-o", self.path("kernel.tsp")]
        done = harness.run(command, harness.environment(TANDEM_LLD=self.path("none")))
        self.assertEqual(done.code, 1, str(done))
        self.assertIn(f"{self.path('none')}: ", done.err)
        self.assertFalse(os.path.exists(self.path("kernel.tsp")))


@unittest.skipUnless(fault_injection_test.runs_here("peer"), "no stand-in driver of CUDA")
class Grouped(harness.Test):
    """tandem.grouped_matmul in whole programs. The stand-in has no kernel that adds, so reduce-scatters are left out."""
    #: Entry -> the ways to run it.
    ENTRIES = {"grouped_gather": ("cuda-nccl", "cuda-peer"), "grouped_gather_push": ("cuda-peer",), "grouped_gather_ring": ("cuda-nccl",),
               "grouped_columns": ("cuda-nccl",)}

    def launch(self, entry, ranks, way, dtype, library):
        device, target, options = WAYS[way]
        source, program = self.path("grouped.mlir"), self.path("grouped.tsp")
        with open(os.path.join(programs.SOURCES, "grouped.mlir")) as original, open(source, "w") as file:
            file.write(re.sub(r"(x|\b)f32\b", r"\1" + dtype, original.read()))
        done = harness.run([harness.tool("tandem-compile"), source, f"--entry={entry}", "--mesh", f"x={ranks}", f"--target={target}",
                            "--check=false", "-o", program])
        self.assertEqual(done.code, 0, str(done))
        return harness.tandem_run(program, "-n", ranks, f"--device={device}", *options, "--verify", "--repeat=3",
                                  env={**variables(device), "TANDEM_GATED_LIBRARY": library}, limit=120)

    def test_programs(self):
        library = os.path.abspath(os.path.join(harness.BIN, "..", "lib", "libTandemFakeCuda.so"))
        for entry, ways in self.ENTRIES.items():
            for number, (way, ranks) in enumerate((way, ranks) for way in ways for ranks in RANKS):
                dtype = ("f16", "bf16")[number % 2]
                with self.subTest(entry=entry, way=way, ranks=ranks, dtype=dtype):
                    self.assertVerified(self.launch(entry, ranks, way, dtype, library), ranks)

    def test_without_the_library(self):
        done = self.launch("grouped_gather", 2, "cuda-nccl", "f16", self.path("none.so"))
        self.assertEqual(done.code, 1, str(done))
        self.assertRegex(done.out + done.err, r"rank \d: .*command \d+ \(call .*tandem\.grouped_matmul: libtandem_gated\.so.*none\.so")


if __name__ == "__main__":
    harness.main(__doc__, Kernels, Grouped, combined=[(OnStandIn, combinations)])
