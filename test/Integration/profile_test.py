# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tools/gpu/profile: from recordings with known times to a table and traces, and a recording of the stand-in driver's graphs
by its stand-in for CUPTI.
"""

import glob
import os
import sys
import unittest

import harness
from harness import environment, program, tool

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROFILE = os.path.join(ROOT, "tools", "gpu", "profile")
LIBRARIES = os.path.join(harness.BIN, "..", "lib")
FAKE = os.path.join(LIBRARIES, "libTandemFakeCuda.so")
PROFILER = os.path.join(LIBRARIES, "libtandem_graph_profiler.so")

#: (name, begin, end in us after the call, bytes): 5 us until the first, 1 of the beginning, 10 of a matmul, beside which a copy
#: and a wait begin, 6 of the copy alone, 4 of a sum, 1 of a wait alone, 3 of nothing, 1 of a signal.
NODES = [("run_words", 5, 6, 0), ("void cutlass::device_kernel<at::x>(params)", 6, 16, 0), ("memcpy to a peer", 8, 22, 4096),
         ("signal_wait", 12, 13, 0), ("reduce_block_per_output_bf16_8_32", 22, 26, 0), ("signal_wait", 26, 27, 0), ("signal_raise", 30, 31, 0)]
#: Of these nodes.
PARTS = {"launch": 5, "matmul": 10, "transfer": 6, "elementwise": 4, "signals": 3, "gaps": 3}
NCCL = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def recording(rank, nodes, slower=lambda run: 0, runs=61, lost=0):
    """A file of the profiler: runs at every 1000 us, of the times of `nodes`, the last later by `slower`."""
    names = sorted({name for name, *_ in nodes})
    launches, records = [], []
    for run in range(runs):
        call = 1_000_000 * (run + 1)
        launches.append([run + 1, call])
        for number, (name, begin, end, count) in enumerate(nodes):
            late = slower(run) if number == len(nodes) - 1 else 0
            records.append([run + 1, rank, 7 + number % 2, call + 1000 * begin, call + 1000 * (end + late), count, names.index(name)])
    return {"version": 1, "rank": rank, "lost": lost, "names": names, "launches": launches, "nodes": records}


class Table(harness.Test):
    def profile(self, *arguments, **env):
        return harness.run([sys.executable, PROFILE, *arguments], environment(PYTHONDONTWRITEBYTECODE=1, **env))

    def row(self, *arguments):
        done = self.profile("table", self.path("logs"), *arguments)
        self.assertEqual(done.code, 0, str(done))
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in done.out.splitlines()]

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("logs/profiles"))

    def test_parts(self):
        self.write("logs/profiles/ag-640x512x64.auto.10.json", recording(0, NODES))
        self.write("logs/profiles/ag-640x512x64.auto.11.json", recording(1, NODES[:2]))
        self.write("logs/profiles/ag-640x512x64.matmul.12.json", recording(0, [("nvjet", 4, 12, 0)]))
        self.write("logs/profiles/rs-640x512x64.matmul.13.json", recording(0, [("nvjet", 4, 12, 0)]))
        self.write("logs/profiles/ar-8x512x64.sequence.14.json", recording(0, [("nvjet", 4, 12, 0), (NCCL, 12, 20, 0), ("rows", 20, 21, 0)]))
        head, _, auto, matmul, nccl = self.row()
        self.assertEqual(dict(zip(head, auto)), {
            "op": "ag", "tokens": "640", "N x K": "512 x 64", "arm": "auto", "nodes": "7", "run, us": "31.0",
            **{part: f"{time:.1f}" for part, time in PARTS.items()}, "matmul alone": "8.0"})
        self.assertEqual(matmul, ["rs", "640", "512 x 64", "matmul", "1", "12.0", "4.0", "8.0", "0.0", "0.0", "0.0", "0.0", "8.0"])
        self.assertEqual(nccl, ["ar", "8", "512 x 64", "sequence", "3", "21.0", "4.0", "8.0", "8.0", "1.0", "0.0", "0.0", "-"])

    def test_the_middle_half_of_the_last_runs(self):
        def slower(run):  # 11 runs of warm-up, then a fifth that others have disturbed
            return 500 if run < 11 or run % 5 == 0 else 8

        self.write("logs/profiles/rs-1x2x3.auto.10.json", recording(0, NODES, slower))
        head, _, row = self.row()
        self.assertEqual((dict(zip(head, row))["run, us"], dict(zip(head, row))["signals"]), ("39.0", "11.0"))

    def test_traces_are_drawn(self):
        for rank in range(2):
            self.write(f"logs/profiles/ar-640x512x64.auto.{rank}.json", recording(rank, NODES))
        self.row(f"--traces={self.path('traces')}")
        trace = harness.read_json(self.path("traces/ar-640x512x64.auto.json"))
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertEqual([(span["pid"], span["name"], span["ts"], span["dur"], span["args"]["kind"], span["args"]["bytes"])
                          for span in spans[:3]],
                         [(0, "run_words", 5, 1, "wait_signal", 0), (0, "cutlass::device_kernel", 6, 10, "matmul", 0),
                          (0, "memcpy to a peer", 8, 14, "put", 4096)])
        self.assertEqual(len(spans), 2 * len(NODES))
        done = harness.run([tool("tandem-sim"), f"--with={self.path('traces/ar-640x512x64.auto.json')}", f"--svg={self.path('runs.svg')}"],
                           environment())
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("profile of a CUDA graph", self.read("runs.svg"))

    def test_what_is_not_a_recording(self):
        def error(name, value):
            path = self.write(f"logs/profiles/{name}", value)
            done = self.profile("table", self.path("logs"))
            os.unlink(path)
            self.assertEqual(done.code, 1, str(done))
            return done.err

        good = recording(0, NODES)
        self.assertIn("has no recordings with runs of graphs", self.profile("table", self.path("logs")).err)
        self.assertIn("has no recordings with runs of graphs", error("ag-1x2x3.auto.1.json", {**good, "launches": [], "nodes": []}))
        self.assertIn("ag-1x2x3.auto.1.json: expected version 1, found 2\n", error("ag-1x2x3.auto.1.json", {**good, "version": 2}))
        self.assertIn("ag-1x2x3.auto.1.json: expected 50 runs of graphs, found 49", error("ag-1x2x3.auto.1.json", recording(0, NODES, runs=49)))
        for value in ("{", "[]", "3", {"version": 1}, {**good, "names": []}):
            self.assertIn("ag-1x2x3.auto.1.json: not a recording of libtandem_graph_profiler.so", error("ag-1x2x3.auto.1.json", value))
        self.write("logs/profiles/ag-1x2x3.auto.1.json", good)
        self.assertIn("ag-1x2x3.auto.2.json: another recording of rank 0\n", error("ag-1x2x3.auto.2.json", good))
        self.assertIn("ag-1x2x3.auto.2.json: CUPTI has lost 3 nodes\n", error("ag-1x2x3.auto.2.json", recording(1, NODES, lost=3)))

    def stage(self, name):
        """One case, whose program is built by hand."""
        os.makedirs(self.path("stage/programs"))
        os.symlink(os.path.abspath(harness.BIN), self.path("stage/bin"))
        os.makedirs(self.path("stage/lib"))
        os.symlink(os.path.abspath(program(name)), self.path("stage/programs/ag-12x10x1-f8E4M3FN-rows-auto.2.0123abcd.tsp"))
        return self.path("stage")

    @unittest.skipUnless(os.path.isfile(PROFILER), "no CUPTI of CUDA 13")
    def test_a_run(self):
        stage = self.stage("push-2")
        variables = {"TANDEM_FAKE_GPUS": 4, **{f"TANDEM_{name}_LIBRARY": os.path.abspath(FAKE)
                                               for name in ("CUDA", "CUBLASLT", "NCCL", "CUPTI")}}
        run = ["run", stage, self.path("logs"), "--channel=peer", "--arms=auto"]
        self.assertIn("libtandem_graph_profiler.so is not there", self.profile(*run, **variables).err)
        os.symlink(os.path.abspath(PROFILER), self.path("stage/lib/libtandem_graph_profiler.so"))
        self.assertRegex(self.profile(*run, "--cases=ag:1x1x1", **variables).err, "not in .*/programs: ag:1x1x1 auto\n$")
        self.assertRegex(self.profile(*run, "--cases=", **variables).err, "not in .*/programs:  auto\n$")
        self.assertRegex(self.profile("run", self.path("logs"), self.path("logs")).err, "logs has no programs of cases")

        for said, more in ((r"none\.so", {"TANDEM_CUPTI_LIBRARY": self.path("none.so")}),
                           ("cannot record calls of cuGraphLaunch: the fake CUPTI refuses", {"TANDEM_FAKE_CUPTI_NO_CALLS": 1})):
            done = self.profile(*run, **{**variables, **more})
            self.assertEqual(done.code, 1, str(done))
            self.assertRegex(done.out, rf"(?s)^ag:12x10x1 auto: recordings of ranks \[\], of 2\n.*libtandem_graph_profiler: .*{said}")
            self.assertEqual(glob.glob(self.path("logs/profiles/*")), [])
        done = self.profile(*run, **variables, TANDEM_GRAPH=0)
        self.assertIn("ag:12x10x1 auto: recordings of ranks [], of 2\n", done.out)

        for _ in range(2):  # another run's files do not stay
            done = self.profile(*run, **variables)
            self.assertEqual((done.code, done.out), (0, "ag:12x10x1 auto: 2 ranks\n"), str(done))
        files = [harness.read_json(path) for path in glob.glob(self.path("logs/profiles/ag-12x10x1.auto.*.json"))]
        self.assertEqual(sorted(file["rank"] for file in files), [0, 1])
        for file in files:
            self.assertEqual((len(file["launches"]), file["lost"]), (61, 0))
            names = [file["names"][node[6]] for node in file["nodes"] if node[0] == file["launches"][-1][0]]
            self.assertEqual(names.count("signal_wait"), 1)
            self.assertLessEqual({"memcpy", "memcpy to a peer"}, set(names))
            self.assertNotIn("of_no_graph", file["names"])
            for *_, begin, end, _, _ in file["nodes"]:
                self.assertLessEqual(begin, end)
        head, _, row = self.row()
        cells = dict(zip(head, row))
        self.assertEqual((cells["op"], cells["tokens"], cells["N x K"], cells["matmul alone"]), ("ag", "12", "10 x 1", "-"))
        self.assertEqual(float(cells["matmul"]), 0)
        self.assertAlmostEqual(sum(float(cells[part]) for part in PARTS), float(cells["run, us"]), delta=0.5)

        self.assertEqual(self.profile(*run, **variables, TANDEM_FAKE_CUPTI_DROPPED=2).code, 0)
        done = self.profile("table", self.path("logs"))
        self.assertEqual((done.code, done.err.count("CUPTI has lost 2 nodes\n")), (1, 2), str(done))


if __name__ == "__main__":
    harness.main(__doc__, Table)
