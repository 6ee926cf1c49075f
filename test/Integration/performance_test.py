# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/performance.py: from reports of tandem-bench and torch-bench to pictures and tables, on made-up reports and on one of
the real tandem-bench."""

import json
import os
import re
import sys
import xml.etree.ElementTree

import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "docs", "performance.py")
PARTS = ("about", "summary", "plot rank rank.svg 8192 1024", "plot layer layer.svg 8192", "table all", "commands", "notes")


def page(name, parts=PARTS):
    return "".join(f"# Part\n<!-- measured {name} {part} -->\nold\n<!-- end measured -->\n" for part in parts)


def arm(what, median, mode="graph", role="fused", **more):
    return {"what": what, "role": role, "mode": mode, "median_us": median, "p10_us": median - 1, "p90_us": median + 1, **more}


def row(op, m, n, k, limit, *arms):
    return {"op": op, "m": m, "n": n, "k": k, "dtype": "bf16", "limit_us": {"direct": 1, "graph": limit}, "measurements": list(arms)}


#: On 4 ranks: a rank's part of ag 11008 x 4096 with 8192 and with 1024 tokens, and the layer rs 8192 x 8192.
BENCH = {"tandem_bench": 1, "ranks": 4, "device": "cuda", "channel": "peer,ccl", "target": "cuda-peer", "machine": "h200x4",
         "iterations": 20, "warmup": 3, "sets": 2, "batch": 1, "gap_ms": 0, "seed": 1, "link": {"bytes_per_second": 4e11, "source": "put"},
         "median_prediction_error": 0.1, "not_measured": ["rs 64x64x64 bf16"], "failure": "", "rows": [
    row("ag", 8192, 5504, 4096, 160, arm("sequence", 400, role="sequence"), arm("matmul", 160, role="matmul"),
        arm("communication", 200, role="communication"), arm("auto", 200, predicted_us=190.0, same_as="push"), arm("push", 201),
        arm("auto", 7, mode="direct"), arm("ring", 20, failure="wrong"), {"what": "exchange", "role": "fused", "mode": "graph", "refused": "no"}),
    row("ag", 1024, 5504, 4096, 30, arm("sequence", 60, role="sequence"), arm("auto", 61), arm("push", 70)),
    row("rs", 8192, 8192, 8192, 300, arm("sequence", 600, role="sequence"), arm("auto", 480), arm("push", 480)),
]}
TORCH = {"torch_bench": 1, "ranks": 4, "gpu": "NVIDIA H200", "target": "torch 2.11, NCCL 2.28.9", "rows": [
    row("ag", 8192, 5504, 4096, None, arm("torch fused", 250), arm("torch fused", 240, mode="direct"), arm("torch sequence", 410)),
    row("ag", 1024, 5504, 4096, None, arm("torch fused", 50)),
    row("rs", 8192, 8192, 8192, None, arm("torch fused", 1, failure="hung")),
]}


class Performance(harness.Test):
    def setUp(self):
        super().setUp()
        self.docs = self.path("docs")
        os.makedirs(os.path.join(self.docs, "images"))

    def write(self, name, text):
        path = self.path(name)
        with open(path, "w") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))
        return path

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def run_script(self, *arguments):
        return harness.run([sys.executable, SCRIPT, f"--docs={self.docs}", *arguments])

    def add(self, bench=BENCH, torch=TORCH, *options):
        reports = [self.write("bench.json", bench)] + ([self.write("torch.json", torch)] if torch else [])
        return self.run_script("--add=four", "--commit=abc", "--date=2026-01-02", *options, *reports)

    def test_reports_become_a_page(self):
        self.write("docs/performance.md", page("four"))
        self.write("README.md", "![old](docs/images/rank.svg) ![other](docs/images/other.svg)\n")
        done = self.add()
        self.assertEqual(done.code, 0, str(done))
        text = self.read("docs/performance.md")
        self.assertNotIn("old", text)
        self.assertIn("4 ranks, NVIDIA H200, device cuda, channel peer,ccl, torch 2.11, NCCL 2.28.9; CUDA graphs; medians of up to 20\n"
                      "interleaved rounds. 2026-01-02, commit `abc`.", text)
        # The wrong arm, the refused one, that of the other mode and the torch that hung are not there.
        header, _, first, second, third = re.search(r"^\| op .*?\n\n", text, re.M | re.S).group().strip().split("\n")
        cells = dict(zip(header.strip("| ").split(" | "), first.strip("| ").split(" | ")))
        self.assertEqual(cells, {"op": "ag", "tokens": "8192", "N x K": "5504 x 4096", "matmul": "0.160", "NCCL": "0.200", "limit": "0.160",
                                 "baseline": "0.400", "`auto`": "0.200", "torch fused": "0.240", "**baseline / `auto`**": "**2.00**",
                                 "share of the limit": "80 %", "torch / `auto`": "1.20", "baseline / `push`": "1.99"})
        self.assertTrue(second.startswith("| ag | 1024 | 5504 x 4096 |  |  | 0.030 | 0.060 | 0.061 | 0.050 | **0.98** | 49 % | 0.82 |"), second)
        self.assertTrue(third.startswith("| rs | 8192 | 8192 x 8192 |  |  | 0.300 | 0.600 | 0.480 |  | **1.25** | 62 % |  |"), third)
        # Geometric mean of 2, 60/61 and 1.25; the worst; torch.
        self.assertIn("- `auto` is 1.35 times as fast as the baseline on gathers and reduce-scatters (geometric mean).\n", text)
        self.assertIn("- The worst case of `auto` is 0.984 times the speed of the baseline (3 shapes).\n", text)
        self.assertIn("faster than `auto` in 1 of 2 cases: by 22 % at most. Their median time is 1.01 of `auto`'s.\n", text)
        # The baseline took 60 us where `auto` took 61; the ring's 20 us were wrong.
        self.assertIn("- Another measured schedule is faster than `auto` by 1 % or more in 1 of the 3 cases below, by 2 % at most.\n", text)
        self.assertIn("- Median error of the predicted times: 5 % for `auto`.\n", text)
        self.assertIn("| matmuls of a rank of eight | 8192 | 1 | 2.00 (2.00 to 2.00) | 80 (80 to 80) | 1.20 (1.20 to 1.20) |\n", text)
        self.assertIn("| whole layers | 8192 | 1 | 1.25 (1.25 to 1.25) | 62 (62 to 62) | - |\n", text)
        self.assertIn("- Not measured, time was up: rs 64x64x64 bf16.\n", text)
        self.assertIn("SHAPES=ag:8192x5504x4096,ag:1024x5504x4096,rs:8192x8192x8192\n", text)
        self.assertIn("--schedules=sequence,auto,push,ring,exchange", text)
        self.assertIn("--machine=STAGE/machines/h200x4.json --json=bench.json\n", text)
        words = "speed-up over NCCL and cuBLASLt without overlap: 0.98 to 2.00; torch's fused operators reach 1.20 to 1.67"
        self.assertIn(f"![{words}](images/rank.svg)", text)
        self.assertEqual(self.read("README.md"), f"![{words}](docs/images/rank.svg) ![other](docs/images/other.svg)\n")
        self.check_picture()
        again = self.run_script("--check")
        self.assertEqual((again.code, again.out), (0, "nothing has changed\n"), str(again))

    def check_picture(self):
        """Bars are as long as the speed-ups, from the mark of 1; the limit of the first case is 400 / 160."""
        picture = xml.etree.ElementTree.parse(os.path.join(self.docs, "images", "rank.svg")).getroot()
        space = "{http://www.w3.org/2000/svg}"
        texts = [node.text for node in picture.iter(space + "text")]
        for word in ("8192 tokens", "1024 tokens", "5504 x 4096", "1.20 x", "80 %", "0.82 x", "49 %", "All-gather, then matmul"):
            self.assertIn(word, texts)
        self.assertNotIn("8192 x 8192", texts)
        bars = {rect.find(space + "title").text: float(rect.get("width")) for rect in picture.iter(space + "rect")
                if rect.find(space + "title") is not None}
        self.assertEqual(set(bars), {"Tandem 2.00 x", "torch 1.67 x", "Tandem 0.98 x", "torch 1.20 x"})
        self.assertAlmostEqual(bars["torch 1.67 x"] / bars["Tandem 2.00 x"], 2 / 3, delta=0.01)
        unit = bars["Tandem 2.00 x"]
        marks = [float(line.get("x1")) for line in picture.iter(space + "line") if line.get("stroke-width") == "2"]
        one = next(float(rect.get("x")) for rect in picture.iter(space + "rect")
                   if rect.find(space + "title") is not None and rect.find(space + "title").text == "Tandem 2.00 x")
        self.assertAlmostEqual(marks[1], one + 1.5 * unit, delta=0.2)  # marks[0] is the legend's

    def test_what_is_stale_is_named(self):
        self.write("docs/performance.md", page("four"))
        self.assertEqual(self.add().code, 0)
        for name, old, new in (("docs/performance.md", "**2.00**", "**2.10**"), ("docs/images/rank.svg", "80 %", "81 %")):
            with self.subTest(name=name):
                good = self.read(name)
                self.write(name, good.replace(old, new))
                done = self.run_script("--check")
                self.assertEqual((done.code, done.err), (1, f"{name} differs from docs/measured: run docs/performance.py\n"), str(done))
                self.assertEqual(self.run_script().code, 0)
                self.assertEqual(self.read(name), good)
        data = self.read("docs/measured/four.json")
        self.write("docs/measured/four.json", data.replace('"us": 200.0', '"us": 250.0', 1))
        done = self.run_script("--check")
        self.assertEqual(done.code, 1, str(done))
        self.write("docs/measured/five.json", data)
        self.assertIn("performance.md shows nothing of measured/five.json", self.run_script().err)

    def test_numbers_that_were_not_kept(self):
        """A table without a report: ratios only, and a summary of more cases than it has rows."""
        case = {"op": "ag", "m": 1024, "n": 64, "k": 64, "dtype": "f16", "group": "other", "limit": "matmul", "arms": {
            "sequence": {}, "matmul": {"to_sequence": 2.0}, "auto": {"to_sequence": 1.5}, "torch fused": {"over_auto": 1.2}}}
        self.write("docs/performance.md", page("old", ("about", "summary", "table other", "notes")))
        os.makedirs(os.path.join(self.docs, "measured"))
        self.write("docs/measured/old.json", {"about": "2 H200", "gpu": "H200", "ranks": 2, "date": "2026", "commit": "abc", "commands": [],
                                              "recovered": ["Rounded."], "summary": {"cases": 9, "least": 0.99}, "cases": [case]})
        done = self.run_script()
        self.assertEqual(done.code, 0, str(done))
        text = self.read("docs/performance.md")
        self.assertIn("| ag | 1024 | 64 x 64 | f16 | 2.00 | **1.50** | 75 % | 1.20 |\n", text)
        self.assertIn("0.99 times the speed of the baseline (9 shapes)", text)
        self.assertIn("\n- Rounded.\n", text)

    def test_refused(self):
        self.write("docs/performance.md", page("four"))
        for bench, torch, why in ((TORCH, None, r"bench.json: expected a report of tandem-bench --json"),
                                  (BENCH, {**TORCH, "ranks": 2}, "torch.json: of 2 ranks, expected 4"),
                                  ({**BENCH, "rows": BENCH["rows"][:0]}, None, "`auto` was measured in no case")):
            done = self.add(bench, torch)
            self.assertEqual(done.code, 1)
            self.assertIn(why, done.err)
        self.assertFalse(os.path.exists(os.path.join(self.docs, "measured", "four.json")))
        self.assertIn("performance.md: no file measured/four.json", self.run_script().err)

    def test_a_real_report(self):
        report = self.path("bench.json")
        done = harness.run([harness.tool("tandem-bench"), "-n", "2", "--threads", "--device=cpu", "--channel=local",
                            "--machine=h200x2", "--shapes=ag:64x64x64", "--dtypes=f32", "--modes=direct", "--link-rate=1",
                            "--schedules=sequence,auto,push", "--iterations=3", f"--json={report}"])
        self.assertEqual(done.code, 0, str(done))
        self.write("docs/performance.md", page("real", ("about", "plot other other.svg 64", "table all", "commands", "summary", "notes")))
        done = self.run_script("--add=real", "--gpu=CPU", report)
        self.assertEqual(done.code, 0, str(done))
        text = self.read("docs/performance.md")
        self.assertRegex(text, r"\| ag \| 64 \| 64 x 64 \| f32 \| \d\.\d{3} \| .* \| \*\*[\d.]+\*\* \| \d+ % \|")
        self.assertIn("--schedules=sequence,auto", text)
        self.assertIn("commands launched one by one", text)


if __name__ == "__main__":
    harness.main(__doc__, Performance)
