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
PARTS = ("about four", "results 8192,1024 four", "stress four", "losses four", "plot four rank rank.svg 8192 1024", "plot four layer layer.svg 8192",
         "commands four", "index")


def page(*parts):
    return "".join(f"# Part\n<!-- generated: {part} -->\nold\n<!-- end -->\n" for part in parts or PARTS)


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

    def test_reports_become_pages(self):
        self.write("docs/performance.md", page())
        self.write("README.md", "Plain <!-- generated: value four worst -->9<!-- end --> times.\n" + page("plot four rank rank.svg 8192 1024"))
        done = self.add()
        self.assertEqual(done.code, 0, str(done))
        text, all_cases = self.read("docs/performance.md"), self.read("docs/measured/four.md")
        self.assertNotIn("old", text)
        self.assertIn("- 4 ranks, NVIDIA H200, device cuda, channel peer,ccl, torch 2.11, NCCL 2.28.9; CUDA graphs; medians of up to 20\n"
                      "  interleaved rounds. 2026-01-02, commit `abc`.", text)
        # The wrong arm, the refused one, that of the other mode and the torch that hung are not there.
        header, _, first, second, third = re.search(r"^\| op \| tokens \| N x K .*?\n\n", all_cases, re.M | re.S).group().strip().split("\n")
        cells = dict(zip(header.strip("| ").split(" | "), first.strip("| ").split(" | ")))
        self.assertEqual(cells, {"op": "ag", "tokens": "8192", "N x K": "5504 x 4096", "matmul": "0.160", "communication": "0.200",
                                 "roofline": "0.160", "baseline": "0.400", "torch plain": "0.410", "torch fused": "0.240", "`auto`": "0.200",
                                 "`auto`, p10 to p90": "0.199 to 0.201", "plain / `auto`": "2.00", "torch / `auto`": "1.20",
                                 "% of roofline": "80 %", "baseline / `push`": "1.99"})
        self.assertTrue(second.startswith("| ag | 1024 | 5504 x 4096 |  |  | 0.030 | 0.060 |  | 0.050 | 0.061 |"), second)
        self.assertTrue(third.startswith("| rs | 8192 | 8192 x 8192 |  |  | 0.300 | 0.600 |  |  | 0.480 |"), third)
        self.assertIn("| 4 NVIDIA H200 | all-gather, matmul | 8192 | 1 | 2.00 (2.00 to 2.00) | 1.20 (1.20 to 1.20) | 80 (80 to 80) |\n", text)
        self.assertIn("| 4 NVIDIA H200 | all-gather, matmul | 1024 | 1 | 0.98 (0.98 to 0.98) | 0.82 (0.82 to 0.82) | 49 (49 to 49) |\n", text)
        # Geometric mean of 2 and 60/61; the baseline took 60 us where `auto` took 61, torch 50; `auto` was predicted at 190, not 200.
        self.assertIn("| 4 NVIDIA H200 | layers of known models | 2 | 1.40 | 1 | 1 | 0.98 | 1 of 2 | 5.0 % |\n", text)
        self.assertIn("| 4 NVIDIA H200 | ag | 1024 x 5504 x 4096 | 61 | 60 | 0.98 | an overlapped program |\n", text)
        self.assertIn("- Not measured, time was up: rs 64x64x64 bf16.\n", all_cases)
        self.assertIn("\npython -m tandem.bench -n 4 --shapes=ag:5504x4096\n", text)
        self.assertIn("- [3 cases on 4 NVIDIA H200](measured/four.md), 2026-01-02\n", text)
        words = "speed-up over the fastest program without overlap: 0.98 to 2.00; torch's fused operators reach 1.20 to 1.67"
        self.assertIn(f"![{words}](images/rank.svg)", text)
        readme = self.read("README.md")
        self.assertIn("Plain <!-- generated: value four worst -->0.98<!-- end --> times.\n", readme)
        self.assertIn(f"![{words}](docs/images/rank.svg)", readme)
        self.check_picture()
        again = self.run_script("--check")
        self.assertEqual((again.code, again.out), (0, "nothing has changed\n"), str(again))

    def test_what_is_plain(self):
        """The fastest program without overlap may be torch's; a program that is the baseline has the baseline's time."""
        self.write("docs/performance.md", page("stress four", "losses four"))
        rows = [row("ag", 8192, 5504, 4096, 160, arm("sequence", 400), arm("auto", 200), arm("torch sequence", 150)),
                row("rs", 8192, 4096, 5504, 160, arm("sequence", 100), arm("auto", 120, same_as="sequence"), arm("torch sequence", 110))]
        self.assertEqual(self.add({**BENCH, "rows": rows}).code, 0)
        text = self.read("docs/performance.md")
        self.assertIn("| layers of known models | 2 | 0.87 | 0 | 1 | 0.75 | 1 of 2 | - |\n", text)
        self.assertEqual(re.findall(r"^\| .* us .*\n.*\n(.*)\n\n", text, re.M),
                         ["| 4 NVIDIA H200 | ag | 8192 x 5504 x 4096 | 200 | 150 | 0.75 | an overlapped program |"])

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
        self.write("docs/performance.md", page())
        self.assertEqual(self.add().code, 0)
        for name, old, new in (("docs/performance.md", "2.00 (2.00", "2.10 (2.00"), ("docs/images/rank.svg", "80 %", "81 %"),
                               ("docs/measured/four.md", "0.400", "0.401")):
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
        self.write("docs/measured/gone.md", "of a run that is not there")
        self.assertIn("docs/measured/gone.md differs", self.run_script("--check").err)
        self.assertEqual(self.run_script().code, 0)
        self.assertFalse(os.path.exists(os.path.join(self.docs, "measured", "gone.md")))

    def test_a_report_that_a_page_cannot_show_is_not_stored(self):
        self.write("docs/performance.md", page("value four unknown"))
        done = self.add()
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("performance.md: value four: expected one of cases known slower", done.err)
        self.assertFalse(os.path.exists(os.path.join(self.docs, "measured", "four.json")))
        self.write("docs/performance.md", page("sum four"))
        self.assertIn("performance.md: generated: sum four: no such part", self.add().err)

    def test_tables(self):
        """A file without cases has tables; a page may show one of them."""
        found = {"title": "Host time", "text": "Of a run.", "commands": ["bench"], "header": ["steps", "us"], "rows": [["8", "2.8"]], "notes": ["One GPU."]}
        self.write("docs/performance.md", page("table host 1"))
        os.makedirs(os.path.join(self.docs, "measured"))
        self.write("docs/measured/host.json", {"title": "Hosts", "tables": [found, {**found, "title": "Other", "rows": [["9", "3.0"]]}]})
        done = self.run_script()
        self.assertEqual(done.code, 0, str(done))
        text, both = self.read("docs/performance.md"), self.read("docs/measured/host.md")
        self.assertIn("Of a run.\n\n```sh\nbench\n```\n\n| steps | us |\n|---|---|\n| 9 | 3.0 |\n\n- One GPU.\n", text)
        self.assertNotIn("| 8 | 2.8 |", text)
        self.assertIn("# Hosts\n", both)
        self.assertIn("## Host time\n", both)
        self.assertIn("| 8 | 2.8 |\n", both)

    def test_limit_of_scaled_products(self):
        """8-bit factors travel in gathers, results of 16 bits in reductions."""
        arms = {"sequence": {"us": 4000}, "matmul": {"us": 1}, "auto": {"us": 2000}}
        cases = [{"op": op, "m": 1000, "n": 500, "k": 4000, "dtype": "f8E4M3FN-rows", "arms": arms} for op in ("ag", "rs")]
        self.write("docs/performance.md", page("about fp8"))
        os.makedirs(os.path.join(self.docs, "measured"))
        self.write("docs/measured/fp8.json", {"about": "2 H100", "gpu": "H100", "ranks": 2, "date": "2026", "commit": "abc", "commands": [],
                                              "link": {"bytes_per_second": 1e9}, "cases": cases})
        self.assertEqual(self.run_script().code, 0)
        text = self.read("docs/measured/fp8.md")
        self.assertIn("| ag | 1000 | 500 x 4000 | f8E4M3FN-rows | 0.001 | 2.000 | 4.000 | 2.000 | 2.00 |", text)
        self.assertIn("| rs | 1000 | 500 x 4000 | f8E4M3FN-rows | 0.001 | 0.500 | 4.000 | 2.000 | 2.00 |", text)

    def test_refused(self):
        self.write("docs/performance.md", page())
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
        self.write("docs/performance.md", page())
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
        self.write("docs/performance.md", page("sorted four many.svg"))
        self.assertEqual(self.add().code, 0)
        self.assertIn("over the fastest without overlap 0.98 to 2.00; over torch's best 0.82 to 1.20](images/many.svg)",
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
