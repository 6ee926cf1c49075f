# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/performance.py: from reports of tandem.bench to pictures and tables, on made-up reports."""

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
    return {"op": op, "m": m, "n": n, "k": k, "dtype": "bf16", "limit_us": {"eager": 1, "graph": limit}, "measurements": list(arms)}


#: On 4 ranks: a rank's part of ag 11008 x 4096 with 8192 and with 1024 tokens, and the layer rs 8192 x 8192.
BENCH = {"tandem_bench": 2, "ranks": 4, "device": "cuda", "channel": "peer,ccl", "machine": "h200x4", "gpu": "NVIDIA H200",
         "torch": {"torch": "2.11", "nccl": "2.28.9"}, "command": "-n 4 --shapes=ag:5504x4096", "iterations": 20,
         "link": {"bytes_per_second": 4e11, "source": "put"}, "not_measured": ["rs 64x64x64 bf16"], "failure": "", "rows": [
    row("ag", 8192, 5504, 4096, 160, arm("sequence", 400, role="sequence"), arm("matmul", 160, role="matmul"),
        arm("communication", 200, role="communication"), arm("auto", 200, predicted_us=190.0, same_as="push"), arm("push", 201),
        arm("auto", 7, mode="eager"), arm("ring", 20, failure="wrong"), {"what": "exchange", "role": "fused", "mode": "graph", "refused": "no"},
        arm("torch fused", 250), arm("torch fused", 240, mode="eager"), arm("torch sequence", 410), arm("torch matmul", 1)),
    row("ag", 1024, 5504, 4096, 30, arm("sequence", 60, role="sequence"), arm("auto", 61), arm("push", 70), arm("torch fused", 50)),
    row("rs", 8192, 8192, 8192, 300, arm("sequence", 600, role="sequence"), arm("auto", 480), arm("push", 480),
        arm("torch fused", 1, failure="hung")),
]}


class Performance(harness.Test):
    def setUp(self):
        super().setUp()
        self.docs = self.path("docs")
        os.makedirs(os.path.join(self.docs, "images"))

    def run_script(self, *arguments):
        return harness.run([sys.executable, SCRIPT, f"--docs={self.docs}", *arguments])

    def add(self, bench=BENCH):
        return self.run_script("--add=four", "--commit=abc", "--date=2026-01-02", self.write("bench.json", bench))

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
        self.assertIn("\npython -m tandem.bench -n 4 --shapes=ag:5504x4096\n", text)
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

    def test_a_report_that_the_page_does_not_show_is_not_stored(self):
        self.write("docs/performance.md", "# Performance\n")
        done = self.add()
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("performance.md shows nothing of measured/four.json: begin a part with <!-- measured four table all -->", done.err)
        self.assertFalse(os.path.exists(os.path.join(self.docs, "measured", "four.json")))

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

    def test_limit_of_scaled_products(self):
        """8-bit factors travel in gathers, results of 16 bits in reductions."""
        arms = {"sequence": {"us": 4000}, "matmul": {"us": 1}, "auto": {"us": 2000}}
        cases = [{"op": op, "m": 1000, "n": 500, "k": 4000, "dtype": "f8E4M3FN-rows", "arms": arms} for op in ("ag", "rs")]
        self.write("docs/performance.md", page("fp8", ("about", "table other")))
        os.makedirs(os.path.join(self.docs, "measured"))
        self.write("docs/measured/fp8.json", {"about": "2 H100", "gpu": "H100", "ranks": 2, "date": "2026", "commit": "abc", "commands": [],
                                              "link": {"bytes_per_second": 1e9}, "cases": cases})
        self.assertEqual(self.run_script().code, 0)
        text = self.read("docs/performance.md")
        self.assertIn("| ag | 1000 | 500 x 4000 | f8E4M3FN-rows | 0.001 | 2.000 | 4.000 | 2.000 | **2.00** |", text)
        self.assertIn("| rs | 1000 | 500 x 4000 | f8E4M3FN-rows | 0.001 | 0.500 | 4.000 | 2.000 | **2.00** |", text)

    def test_refused(self):
        self.write("docs/performance.md", page("four"))
        for bench, why in (({**BENCH, "tandem_bench": 1}, "bench.json: expected version 2 of tandem_bench"),
                           ([], "bench.json: expected a report of tandem.bench --json"),
                           ({**BENCH, "rows": []}, "`auto` was measured in no case")):
            done = self.add(bench)
            self.assertEqual(done.code, 1)
            self.assertIn(why, done.err)
        good = self.write("bench.json", BENCH)
        for other, why in ((BENCH, "5504 4096 bf16 is in an earlier report, too"),
                           ({**BENCH, "rows": [], "channel": "ccl"}, "channel is ccl, expected peer,ccl"),
                           ({**BENCH, "rows": [], "ranks": 2}, "ranks is 2, expected 4")):
            self.assertIn(why, self.run_script("--add=four", "--commit=abc", good, self.write("other.json", other)).err)
        self.assertFalse(os.path.exists(os.path.join(self.docs, "measured", "four.json")))
        self.assertIn("performance.md: no file measured/four.json", self.run_script().err)

    def split(self):
        """The report in two parts, with the cases that part 1 had no time for in neither."""
        return [self.write(f"bench-{part}.json", {**BENCH, "rows": rows}) for part, rows in ((1, BENCH["rows"][:1]), (2, BENCH["rows"][1:]))]

    def test_parts_of_a_run_become_one(self):
        self.write("docs/performance.md", page("four"))
        self.assertEqual(self.add().code, 0)
        whole = self.read("docs/measured/four.json")
        done = self.run_script("--add=four", "--commit=abc", "--date=2026-01-02", *self.split()[::-1])
        self.assertEqual(done.code, 0, str(done))
        data, parts = json.loads(whole), harness.read_json(self.path("docs/measured/four.json"))
        self.assertEqual(sorted(map(str, data["cases"])), sorted(map(str, parts["cases"])))
        self.assertEqual(parts["not_measured"], 2 * data["not_measured"])
        # What one part had no time for, another one has measured.
        bench, *others = self.split()
        late = self.write("late.json", {**harness.read_json(bench), "not_measured": ["{op} {m}x{n}x{k} {dtype}".format(**BENCH["rows"][-1])]})
        self.assertEqual(self.run_script("--add=four", "--commit=abc", "--date=2026-01-02", late, *others).code, 0)
        self.assertEqual(harness.read_json(self.path("docs/measured/four.json"))["not_measured"], data["not_measured"])

    def test_the_picture_of_many_cases(self):
        self.write("docs/performance.md", page("four", ("sorted many.svg",)))
        self.assertEqual(self.add().code, 0)
        self.assertIn("over the baseline 0.98 to 2.00; over torch's fused operators 0.82 to 1.20](images/many.svg)",
                      self.read("docs/performance.md"))
        picture = xml.etree.ElementTree.parse(os.path.join(self.docs, "images", "many.svg")).getroot()
        space = "{http://www.w3.org/2000/svg}"
        points = {rect.find(space + "title").text: float(rect.get("y")) for rect in picture.iter(space + "rect")
                  if rect.find(space + "title") is not None}
        over_baseline = ["ag 8192 tokens, 5504 x 4096: 2.00 x", "rs 8192 tokens, 8192 x 8192: 1.25 x",
                         "ag 1024 tokens, 5504 x 4096: 0.98 x"]
        self.assertEqual(set(points) - set(over_baseline), {"ag 8192 tokens, 5504 x 4096: 1.20 x", "ag 1024 tokens, 5504 x 4096: 0.82 x"})
        high, middle, low = (points[name] for name in over_baseline)
        self.assertAlmostEqual((middle - high) / (low - high), (2 - 1.25) / (2 - 60 / 61), delta=0.01)


if __name__ == "__main__":
    harness.main(__doc__, Performance)
