# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tools/gpu/torch-bench: its rows, turns, failures and reports on a PyTorch that is NumPy (fake-torch), and its comparison
with what tandem-bench really writes."""

import importlib.machinery
import importlib.util
import os
import re
import signal
import statistics
import sys
import time

import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "tools", "gpu", "torch-bench")
FAKE_TORCH = os.path.join(ROOT, "test", "Integration", "fake-torch")
FAKE_GPU = os.path.join(harness.BIN, "..", "lib", "libTandemFakeCuda.so")
SHAPES = ["--dtypes=f32", "--shapes=ag:16x12x8,rs:16x8x12,ar:16x8x12"]
PROGRAMS = [(f"torch {role}", mode) for role in ("sequence", "matmul", "fused") for mode in ("direct", "graph")]


def load():
    loader = importlib.machinery.SourceFileLoader("torch_bench_script", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class TorchBench(harness.Test):
    def start(self, *arguments, fault=""):
        env = harness.environment(PYTHONPATH=FAKE_TORCH, FAKE_TORCH=fault, PYTHONDONTWRITEBYTECODE=1)
        return harness.start([sys.executable, SCRIPT, f"--json={self.path('t.json')}", "--iterations=5",
                              f"--timeout={20 * harness.SLOWER}", *arguments], env)

    def bench(self, *arguments, fault="", code=0):
        """Ends with that status and a report, which is given."""
        done = harness.finish(self.start(*arguments, fault=fault))
        self.assertEqual(done.code, code, str(done))
        self.said = done.out
        return harness.read_json(self.path("t.json"))

    def refuse(self, pattern, *arguments):
        # Without the packages of this machine, among which PyTorch may be.
        done = harness.run([sys.executable, "-S", SCRIPT, *arguments])
        self.assertEqual(done.code, 2, str(done))
        self.assertRegex(done.err, pattern)

    def measurement(self, report, row, what, mode):
        return next(m for m in report["rows"][row]["measurements"] if (m["what"], m["mode"]) == (what, mode))

    def test_rows(self):
        """Three ranks, an odd ring and a single set too; figures that fit each other."""
        for options in ((), ("--sets=1",), ("--modes=direct",), ("--sets=3", "--modes=graph,direct")):
            report = self.bench("-n", "3", "--dtypes=f32,bf16", "--shapes=ag:12x9x8,rs:12x8x9,ar:12x8x9", *options)
            self.assertEqual((report["ranks"], report["target"], report["gpu"], report["failure"], report["not_measured"]),
                             (3, "torch 2.11.0+fake, NCCL 2.28.9", "a fake GPU", "", []))
            self.assertEqual([(row["op"], row["dtype"]) for row in report["rows"]],
                             [(op, dtype) for dtype in ("f32", "bf16") for op in ("ag", "rs", "ar")])
            for row in report["rows"]:
                self.assertEqual([(m["what"], m["mode"]) for m in row["measurements"]],
                                 [p for p in PROGRAMS if options != ("--modes=direct",) or p[1] == "direct"])
                for m in row["measurements"]:
                    self.check(row, m)

    def check(self, row, m):
        if row["op"] == "ar" and m["role"] == "fused":
            self.assertIn("no fused matmul and all-reduce", m["refused"])
            return
        self.assertEqual(len(m["times_us"]), 5)
        self.assertAlmostEqual(m["median_us"], statistics.median(m["times_us"]))
        self.assertTrue(0 < m["p10_us"] <= m["median_us"] <= m["p90_us"] <= max(m["times_us"]), m)
        self.assertTrue(0 < m["host_us"] <= max(m["times_us"]), m)
        sequence = next(o for o in row["measurements"] if (o["role"], o["mode"]) == ("sequence", m["mode"]))
        self.assertAlmostEqual(m["ratio_to_sequence"], sequence["median_us"] / m["median_us"])
        reference = m["role"] == "matmul" or (m["role"], m["mode"]) == ("sequence", "direct")
        self.assertEqual((m["verified"], m["failure"]), (not reference, ""), m)
        self.assertTrue(reference or m["max_relative_error"] < 1e-5, m)

    def test_scaled_rows(self):
        """Products of 8 bits: their own operators, bytes of the factors and of the result."""
        report = self.bench("-n", "2", "--dtypes=f8E4M3FN,f8E4M3FN-rows", "--shapes=ag:12x6x8,rs:12x6x8,ar:12x6x8")
        self.assertEqual([row["bytes"] for row in report["rows"]], [12 * 8 / 2, 12 * 6, 2 * 12 * 6] * 2)
        for row in report["rows"]:
            for m in row["measurements"]:
                self.check(row, m)
        report = self.bench("-n", "2", "--dtypes=f8E4M3FN-rows", "--shapes=ag:12x6x8,rs:12x6x8", "--modes=graph,direct",
                            fault="stale", code=1)
        for row in (0, 1):
            self.assertIn("relative error inf", self.measurement(report, row, "torch fused", "graph")["failure"])

    def test_turns_are_those_of_tandem_bench(self):
        script = load()
        for count in range(1, 8):
            for sets in (1, 2, 3):
                before, firsts, last = {}, set(), None
                for number in range(60):
                    slots = script.slots_of(number, count, sets)
                    self.assertEqual(sorted(program for program, _ in slots), list(range(count)))
                    firsts.add(slots[0][0])
                    for program, inputs in slots:
                        self.assertIn(inputs, range(sets))
                        if sets > 1:
                            self.assertNotEqual(inputs, before.get(program))
                        before[program] = inputs
                    if sets > 1:
                        self.assertTrue(all(a[1] != b[1] for a, b in zip(slots, slots[1:])), (count, slots))
                    if sets == 2:
                        self.assertNotEqual(slots[0][1], last)
                    last = slots[-1][1]
                self.assertEqual(firsts, set(range(count) if count % sets == 0 else range(0, count, sets)))

    def test_default_rows_are_those_of_tandem_bench(self):
        script = load()
        with open(os.path.join(ROOT, "tools", "tandem-bench", "Shapes.cpp")) as file:
            text = file.read()
        for name, layers in (("kGathers", script.GATHERS), ("kReductions", script.REDUCTIONS)):
            found = re.search(name + r"\[\]\[2\] = \{(.*?)\};", text, re.DOTALL).group(1)
            self.assertEqual([tuple(map(int, pair)) for pair in re.findall(r"\{(\d+), (\d+)\}", found)], layers)
        self.assertEqual(len(script.parse_cases("", "1024,2048,8192", "bf16")), 3 * 19)

    def test_what_does_not_divide_is_refused(self):
        report = self.bench("-n", "2", "--shapes=rs:15x8x12,ag:16x13x8,ar:16x8x12")
        for row, why in ((0, "M = 15 is no multiple of 2 ranks"), (1, "N = 13 is no multiple of 2 ranks")):
            self.assertEqual({m["refused"] for m in report["rows"][row]["measurements"]}, {why})
        report = self.bench("-n", "2", "--shapes=rs:15x8x12", code=1)
        self.assertIn("nothing could be run", self.said)

    def test_refusals(self):
        for fault, modes, why in (("capture", ("graph",), "not permitted when stream is capturing"),
                                  ("raise", ("direct", "graph"), "no peer access"),
                                  ("multicast", ("direct", "graph"), "NVLink multicast is on")):
            with self.subTest(fault):
                report = self.bench("-n", "2", "--dtypes=f32", "--shapes=ag:16x12x8,rs:16x8x12", fault=fault)
                for m in (m for row in report["rows"] for m in row["measurements"]):
                    self.assertEqual("refused" in m, m["role"] == "fused" and m["mode"] in modes, m)
                    if "refused" in m:
                        self.assertIn(why, m["refused"])

    def test_wrong_results(self):
        report = self.bench("-n", "2", *SHAPES, fault="wrong", code=1)
        for row in (0, 1):
            for mode in ("direct", "graph"):
                m = self.measurement(report, row, "torch fused", mode)
                self.assertIn("relative error 1.0e-02 to the sequence", m["failure"])
                self.assertFalse(m["verified"])
                self.assertIn("median_us", m)
        self.assertTrue(self.measurement(report, 0, "torch sequence", "graph")["verified"])

    def test_wrong_later(self):
        """Only in runs that follow others."""
        report = self.bench("-n", "2", *SHAPES, "--modes=direct", fault="late", code=1)
        self.assertIn("relative error 1.0e-02", self.measurement(report, 0, "torch fused", "direct")["failure"])

    def test_nothing_is_written(self):
        report = self.bench("-n", "2", *SHAPES, fault="stale", code=1)
        for row in (0, 1):
            m = self.measurement(report, row, "torch fused", "graph")
            self.assertIn("relative error inf", m["failure"])
            self.assertIsNone(m["max_relative_error"])
            self.assertTrue(self.measurement(report, row, "torch fused", "direct")["verified"])

    def test_a_rank_that_hangs(self):
        """The program is left out from then on; all else is measured."""
        report = self.bench("-n", "2", *SHAPES, f"--timeout={3 * harness.SLOWER}", fault="hang", code=1)
        self.assertEqual((report["failure"], report["not_measured"], len(report["rows"])), ("", [], 3))
        m = self.measurement(report, 0, "torch fused", "graph")
        self.assertRegex(m["failure"], r"torch fused, graph: first run: not finished in time")
        self.assertNotIn("median_us", m)
        self.assertRegex(self.measurement(report, 1, "torch fused", "graph")["refused"], "has failed before: .*not finished in time")
        for row in (0, 1):
            self.assertTrue(self.measurement(report, row, "torch fused", "direct")["verified"])

    def test_a_rank_that_dies(self):
        report = self.bench("-n", "2", *SHAPES, "--modes=direct", fault="die", code=1)
        self.assertEqual(len(report["rows"]), 3)
        self.assertRegex(self.measurement(report, 0, "torch fused", "direct")["failure"], "^rank 1, .*ended with status 7")
        self.assertIn("median_us", self.measurement(report, 2, "torch sequence", "direct"))

    def test_too_few_gpus(self):
        report = self.bench("-n", "5", *SHAPES, code=1)
        self.assertIn("needs a GPU for each rank: 5 ranks, 4 GPUs", report["failure"])
        self.assertEqual(report["not_measured"], ["ag 16x12x8 f32", "rs 16x8x12 f32", "ar 16x8x12 f32"])

    def test_time_is_up(self):
        report = self.bench("-n", "2", *SHAPES, "--total-time=0.01", code=4)
        self.assertEqual((report["rows"], report["failure"]), ([], ""))
        self.assertEqual(report["not_measured"], ["ag 16x12x8 f32", "rs 16x8x12 f32", "ar 16x8x12 f32"])

    def test_ended_by_a_signal(self):
        """No rank stays, and what there was is written."""
        process = self.start("-n", "2", *SHAPES, f"--timeout={600 * harness.SLOWER}", fault="hang")
        begin = time.monotonic()
        while len(self.ranks_of(process.pid)) < 2 and time.monotonic() < begin + 20 * harness.SLOWER:
            time.sleep(0.05)
        ranks = self.ranks_of(process.pid)
        self.assertEqual(len(ranks), 2)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        done = harness.finish(process)
        self.assertEqual(done.code, 1, str(done))
        self.assertEqual(harness.read_json(self.path("t.json"))["failure"], "ended by a signal")
        self.assertTrue(all(map(harness.gone, ranks)))

    @staticmethod
    def ranks_of(pid):
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return list(map(int, file.read().split()))

    def test_usage(self):
        self.refuse("expected -n N")
        self.refuse(r'--shapes: expected OP:MxNxK or OP:NxK, found "ag:3"', "-n", "2", "--shapes=ag:3")
        self.refuse(r'--shapes: "x:1x1": expected one of ag, rs, ar, found "x"', "-n", "2", "--shapes=x:1x1")
        self.refuse(r'--dtypes: expected one of f32, f16, bf16, f8E4M3FN, f8E4M3FN-rows, found "i32"', "-n", "2", "--dtypes=i32")
        self.refuse(r'--tokens: expected a number from 1 to 16777216, found "0"', "-n", "2", "--tokens=0")
        self.refuse("invalid number from 2 to 64 value: '1'", "-n", "1")
        self.refuse("invalid list of direct, graph value: 'fast'", "-n", "2", "--modes=fast")
        self.refuse("cannot write", "-n", "2", f"--json={self.path('none')}/t.json")
        self.refuse("--report: expected --beside", "--report=x")
        self.refuse(r"has no PyTorch \(import torch\)", "-n", "2", "--shapes=ag:4x4x4")

    # --- beside tandem-bench ---

    def tandem(self, *options, env=None, shapes=SHAPES):
        done = harness.run([harness.tool("tandem-bench"), "-n", "2", "--iterations=3", "--warmup=1", "--link-rate=1",
                            "--timeout=20", "--schedules=auto,push", *shapes, *options, f"--json={self.path('b.json')}"], env)
        self.assertIn(done.code, (0, 1), str(done))
        return harness.read_json(self.path("b.json"))

    def test_beside_a_measured_report(self):
        """The rows, and the ranks, are those of the other report; so are sizes and the limit."""
        bench = self.tandem("--channel=local")
        report = self.bench(f"--beside={self.path('b.json')}")
        self.assertEqual([{k: row[k] for k in ("op", "m", "n", "k", "dtype", "flops", "bytes")} for row in report["rows"]],
                         [{k: row[k] for k in ("op", "m", "n", "k", "dtype", "flops", "bytes")} for row in bench["rows"]])
        self.assertEqual(report["link"]["bytes_per_second"], 1e9)
        row = report["rows"][0]
        matmul = self.measurement(report, 0, "torch matmul", "direct")["median_us"]
        self.assertAlmostEqual(row["limit_us"]["direct"], max(matmul, row["bytes"] / 1e9 * 1e6))
        for number, beside in enumerate(report["beside"]):
            auto = next(m for m in bench["rows"][number]["measurements"] if m["what"] == "auto")
            self.assertEqual((beside["tandem_us"], beside["tandem_mode"]), (auto["median_us"], "direct"))
            for role in ("sequence", "fused") if number < 2 else ("sequence",):
                best = min((self.measurement(report, number, f"torch {role}", mode)["median_us"], mode)
                           for mode in ("direct", "graph"))
                self.assertEqual((beside[f"torch_{role}_us"], beside[f"torch_{role}_mode"]), best)
                self.assertAlmostEqual(beside[f"{role}_over_tandem"], best[0] / auto["median_us"])
        self.assertIsNone(report["beside"][2]["torch_fused_us"])
        lines = [line for line in self.said.splitlines() if line.startswith("| ")]
        self.assertEqual([line.split(" | ")[0] for line in lines],
                         ["| row", "| ag 16x12x8 f32", "| rs 16x8x12 f32", "| ar 16x8x12 f32"])
        self.assertRegex(self.said, r"torch fused: Tandem is faster in \d of 2 rows")
        # The same from the two files, without PyTorch.
        done = harness.run([sys.executable, SCRIPT, f"--beside={self.path('b.json')}", f"--report={self.path('t.json')}",
                            f"--json={self.path('again.json')}"])
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(harness.read_json(self.path("again.json")), report)
        self.assertEqual([line for line in done.out.splitlines() if line.startswith("| ")], lines)

    def test_beside_scaled_rows(self):
        """tandem-bench's types and bytes are known here."""
        bench = self.tandem("--channel=local", shapes=["--dtypes=f8E4M3FN,f8E4M3FN-rows", "--shapes=ag:16x12x8,rs:16x8x12"])
        report = self.bench(f"--beside={self.path('b.json')}", "--modes=direct")
        self.assertEqual([{k: row[k] for k in ("op", "m", "n", "k", "dtype", "flops", "bytes")} for row in report["rows"]],
                         [{k: row[k] for k in ("op", "m", "n", "k", "dtype", "flops", "bytes")} for row in bench["rows"]])
        self.assertEqual(len(report["beside"]), len(bench["rows"]))
        self.assertTrue(all(row["fused_over_tandem"] for row in report["beside"]), report["beside"])

    def compared(self, bench, report):
        done = harness.run([sys.executable, SCRIPT, f"--beside={self.write('b.json', bench)}",
                            f"--report={self.write('t.json', report)}", f"--json={self.path('c.json')}"])
        self.assertEqual(done.code, 0, str(done))
        return done.out, harness.read_json(self.path("c.json"))["beside"]

    @staticmethod
    def row(op, m, *measurements):
        entries = [{"what": what, "mode": mode, **({"refused": us} if isinstance(us, str) else {"median_us": us}),
                    **({"failure": failure[0]} if failure else {})} for what, mode, us, *failure in measurements]
        return {"op": op, "m": m, "n": 8, "k": 8, "dtype": "bf16", "measurements": entries}

    def test_what_is_chosen(self):
        """Of Tandem the graph, of PyTorch the quicker mode; nothing that was wrong or refused."""
        bench = {"tandem_bench": 1, "ranks": 2, "device": "cuda", "channel": "peer", "rows": [
            self.row("ag", 8, ("sequence", "direct", 1), ("auto", "direct", 100), ("auto", "graph", 200)),
            self.row("ag", 16, ("auto", "direct", 100), ("auto", "graph", "why")),
            self.row("ag", 32, ("auto", "direct", 100), ("auto", "graph", 50, "wrong")),
            self.row("rs", 8, ("auto", "direct", "why"))]}
        report = {"torch_bench": 1, "ranks": 2, "rows": [
            self.row("ag", 8, ("torch fused", "direct", 300), ("torch fused", "graph", 250), ("torch sequence", "direct", 150)),
            self.row("ag", 16, ("torch fused", "direct", 80), ("torch fused", "graph", 50, "wrong"),
                     ("torch sequence", "direct", "why")),
            self.row("rs", 8, ("torch fused", "direct", 10)),
            self.row("rs", 64, ("torch fused", "direct", 10))]}
        out, rows = self.compared(bench, report)
        names = ("tandem_us", "tandem_mode", "torch_fused_us", "torch_fused_mode", "fused_over_tandem", "sequence_over_tandem")
        self.assertEqual([(row["op"], row["m"], *(row[name] for name in names)) for row in rows],
                         [("ag", 8, 200, "graph", 250, "graph", 1.25, .75),
                          ("ag", 16, 100, "direct", 80, "direct", .8, None),
                          ("ag", 32, 100, "direct", None, None, None, None),
                          ("rs", 8, None, None, 10, "direct", None, None),
                          ("rs", 64, None, None, 10, "direct", None, None)])
        self.assertIn("| ag 8x8x8 bf16 | 0.200 graph | 0.250 graph | 1.25 | 0.150 direct | 0.75 |\n", out)
        self.assertIn("| ag 32x8x8 bf16 | 0.100 direct | - | - | - | - |\n", out)
        self.assertIn("torch fused: Tandem is faster in 1 of 2 rows; ratio median 1.02, least 0.80 (ag 16x8x8 bf16)", out)
        self.assertIn("torch sequence: Tandem is faster in 0 of 1 rows", out)

    def test_graphs_of_tandem(self):
        if not os.path.exists(FAKE_GPU):
            self.skipTest("this build has no device cuda")
        env = harness.environment(TANDEM_CUDA_LIBRARY=FAKE_GPU, TANDEM_CUBLASLT_LIBRARY=FAKE_GPU)
        bench = self.tandem("--device=cuda", "--channel=peer,local", "--threads", env=env)
        beside = self.bench(f"--beside={self.path('b.json')}")["beside"]
        for row, found in zip(bench["rows"], beside):
            auto = next(m for m in row["measurements"] if (m["what"], m["mode"]) == ("auto", "graph"))
            self.assertEqual((found["tandem_us"], found["tandem_mode"]), (auto["median_us"], "graph"))

    def test_reports_that_are_none(self):
        good = {"tandem_bench": 1, "ranks": 2, "rows": [self.row("ag", 8, ("auto", "direct", 1))]}
        theirs = self.write("t.json", {"torch_bench": 1, "ranks": 3, "rows": []})
        beside = f"--beside={self.path('b.json')}"
        self.refuse("cannot read", beside, f"--report={theirs}")
        for bad, why in (([], "expected a report of tandem-bench --json"), ({}, "expected a report of tandem-bench --json"),
                         ({**good, "ranks": "2"}, "ranks: expected a number of at least 2, found '2'"),
                         ({"tandem_bench": 1, "ranks": 2}, "b.json: rows: missing"),
                         ({**good, "rows": [{"op": "ag"}]}, "b.json: m: missing"),
                         ({**good, "rows": [self.row("xx", 8)]}, "expected a shape, found xx 8x8x8 bf16"),
                         ({**good, "rows": [3]}, "b.json: ")):
            self.write("b.json", bad)
            self.refuse(why, beside)
        self.write("b.json", good)
        self.refuse(r"t\.json is of 3 ranks, .*b\.json of 2", beside, f"--report={theirs}")
        self.refuse(r"b\.json: expected a report of torch-bench --json", beside, f"--report={self.path('b.json')}")
        self.refuse("-n: .*b.json is of 2 ranks, asked for are 4", beside, "-n", "4")
        self.refuse("--shapes: --report measures nothing", beside, f"--report={theirs}", "--shapes=ag:4x4x4")
        self.write("b.json", {**good, "rows": []})
        self.refuse("b.json: no rows", beside)


if __name__ == "__main__":
    harness.main(__doc__, TorchBench)
