# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tools/gpu/profile: from recordings with known times to a table and traces, and a recording of the stand-in driver's graphs
by its stand-in for CUPTI.
"""

import glob
import os
import re
import sys
import unittest

import harness
from harness import environment, program, tool

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROFILE = os.path.join(ROOT, "tools", "gpu", "profile")
LIBRARIES = os.path.join(harness.BIN, "..", "lib")
FAKE = os.path.join(LIBRARIES, "libTandemFakeCuda.so")
PROFILER = os.path.join(LIBRARIES, "libtandem_graph_profiler.so")

#: (name, begin, end in us after the call, bytes): 5 us until the first, 10 of a matmul, of which a copy and a wait take none for
#: themselves, 6 of the copy alone, 4 of a sum, 2 of the wait alone, 3 of nothing.
NODES = [("run_words", 5, 6, 0), ("nvjet_hsh_128x128(params)", 6, 16, 0), ("memcpy to a peer", 8, 22, 4096), ("signal_wait", 12, 13, 0),
         ("reduce_together_bf16_8_32", 22, 26, 0), ("signal_wait", 26, 27, 0), ("signal_raise", 30, 31, 0)]
#: Of these nodes.
PARTS = {"launch": 5, "matmul": 10, "transfer": 6, "sums": 4, "signals": 3, "gaps": 3}


def recording(device, nodes, slower=lambda run: 0, runs=30):
    """A file of the profiler: runs at every 1000 us, of the times of `nodes`, the last later by `slower`."""
    names = sorted({name for name, *_ in nodes})
    launches, records = [], []
    for run in range(runs):
        call = 1_000_000 * (run + 1)
        launches.append([run + 1, call, call + 2000])
        for number, (name, begin, end, count) in enumerate(nodes):
            late = slower(run) if number == len(nodes) - 1 else 0
            records.append([run + 1, device, 7 + number % 2, number, call + 1000 * begin, call + 1000 * (end + late), count, names.index(name)])
    return {"version": 1, "dropped": 0, "names": names, "launches": launches, "nodes": records}


class Table(harness.Test):
    def profile(self, *arguments, **env):
        return harness.run([sys.executable, PROFILE, *arguments], environment(PYTHONDONTWRITEBYTECODE=1, **env))

    def row(self, *arguments):
        done = self.profile("table", self.path("logs"), *arguments)
        self.assertEqual(done.code, 0, str(done))
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in done.out.splitlines()]

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("logs"))

    def test_parts(self):
        self.write("logs/ag-640x512x64.auto.10.json", recording(0, NODES))
        self.write("logs/ag-640x512x64.auto.11.json", recording(1, NODES[:2]))
        self.write("logs/ag-640x512x64.matmul.12.json", recording(0, [("nvjet", 4, 12, 0)]))
        head, _, row = self.row()
        self.assertEqual(dict(zip(head, row)), {
            "op": "ag", "tokens": "640", "N x K": "512 x 64", "arm": "auto", "nodes": "7", "run, us": "31.0",
            **{part: f"{time:.1f}" for part, time in PARTS.items()}, "matmul alone": "8.0"})

    def test_the_middle_half_of_the_runs_after_the_first(self):
        def slower(run):  # ten runs of warm-up, then a fifth that others have disturbed
            return 500 if run < 10 or run % 5 == 0 else 8

        self.write("logs/rs-1x2x3.auto.10.json", recording(0, NODES, slower, 50))
        head, _, row = self.row()
        self.assertEqual((dict(zip(head, row))["run, us"], dict(zip(head, row))["signals"]), ("39.0", "11.0"))

    def test_traces_are_drawn(self):
        for rank in range(2):
            self.write(f"logs/ar-640x512x64.auto.{rank}.json", recording(rank, NODES))
        self.row(f"--traces={self.path('traces')}")
        trace = harness.read_json(self.path("traces/ar-640x512x64.auto.json"))
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertEqual([(span["pid"], span["name"], span["ts"], span["dur"], span["args"]["kind"], span["args"]["bytes"])
                          for span in spans[:3]],
                         [(0, "run_words", 5, 1, "wait_signal", 0), (0, "nvjet_hsh_128x128", 6, 10, "matmul", 0),
                          (0, "memcpy to a peer", 8, 14, "put", 4096)])
        self.assertEqual(len(spans), 2 * len(NODES))
        done = harness.run([tool("tandem-sim"), f"--with={self.path('traces/ar-640x512x64.auto.json')}", f"--html={self.path('page.html')}"],
                           environment())
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("profile of a CUDA graph", self.read("page.html"))

    def test_what_is_not_a_recording(self):
        self.assertIn("has no recordings with runs of graphs", self.profile("table", self.path("logs")).err)
        self.write("logs/ag-1x2x3.auto.1.json", {**recording(0, NODES), "version": 2})
        self.assertRegex(self.profile("table", self.path("logs")).err, r"ag-1x2x3\.auto\.1\.json: expected version 1, found 2\n$")

    def stage(self, name):
        """As tools/gpu/cases: one case, whose program is built by hand."""
        os.makedirs(self.path("stage/cases-1"))
        os.symlink(os.path.abspath(harness.BIN), self.path("stage/bin"))
        os.makedirs(self.path("stage/lib"))
        self.write("stage/cases-1/bench.json", {"ranks": 2, "rows": [{"kind": "links", "variants": []}, {
            "kind": "shape", "shape": {"op": "ag", "m": 12, "n": 10, "k": 1},
            "variants": [{"file": os.path.abspath(program(name)), "name": "auto"}]}]})
        return self.path("stage")

    @unittest.skipUnless(os.path.isfile(PROFILER), "no CUPTI of CUDA 13")
    def test_a_run(self):
        stage = self.stage("push-2")
        variables = {"TANDEM_FAKE_GPUS": 4, **{f"TANDEM_{name}_LIBRARY": os.path.abspath(FAKE)
                                               for name in ("CUDA", "CUBLASLT", "NCCL", "CUPTI")}}
        run = ["run", stage, self.path("logs"), "--channel=peer", "--arms=auto"]
        self.assertIn("libtandem_graph_profiler.so is not there", self.profile(*run, **variables).err)
        os.symlink(os.path.abspath(PROFILER), self.path("stage/lib/libtandem_graph_profiler.so"))
        self.assertRegex(self.profile(*run, "--cases=ag:1x1x1", **variables).err, "not in .*/cases-\\*: ag:1x1x1 auto\n$")

        done = self.profile(*run, **{**variables, "TANDEM_CUPTI_LIBRARY": self.path("none.so")})
        self.assertEqual(done.code, 1, str(done))
        self.assertRegex(done.out, r"ag:12x10x1 auto: failed \(0\)\n[^$]*libtandem_graph_profiler: .*none\.so")
        self.assertEqual(glob.glob(self.path("logs/*")), [])

        for _ in range(2):  # another run's files do not stay
            done = self.profile(*run, **variables)
            self.assertEqual((done.code, done.out), (0, "ag:12x10x1 auto: 2 processes\n"), str(done))
        files = glob.glob(self.path("logs/ag-12x10x1.auto.*.json"))
        self.assertEqual(len(files), 2)
        for path in files:
            file = harness.read_json(path)
            self.assertGreaterEqual(len(file["launches"]), 60)
            names = [file["names"][node[7]] for node in file["nodes"] if node[0] == file["launches"][-1][0]]
            self.assertEqual(names.count("signal_wait"), 1)
            self.assertGreater(sum(node[6] for node in file["nodes"]), 0)
            for _, _, _, _, begin, end, *_ in file["nodes"]:
                self.assertLessEqual(begin, end)
        head, _, row = self.row()
        cells = dict(zip(head, row))
        self.assertEqual((cells["op"], cells["tokens"], cells["N x K"], cells["matmul alone"]), ("ag", "12", "10 x 1", "-"))
        whole = sum(float(cells[part]) for part in PARTS)
        self.assertAlmostEqual(whole, float(cells["run, us"]), delta=0.5)
        self.assertTrue(re.fullmatch(r"\d+", cells["nodes"]) and int(cells["nodes"]) >= 4, cells)


if __name__ == "__main__":
    harness.main(__doc__, Table)
