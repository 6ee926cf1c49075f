# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/performance.py and tools/gpu/cases: from reports of tandem-bench and torch-bench to pictures, tables and counts, on
made-up reports and on some of the real tandem-bench."""

import json
import os
import re
import sys
import xml.etree.ElementTree

import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "docs", "performance.py")
CASES = os.path.join(ROOT, "tools", "gpu", "cases")
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

    def run_cases(self, *arguments, **env):
        return harness.run([sys.executable, CASES, *arguments], harness.environment(PYTHONDONTWRITEBYTECODE=1, **env))

    def split(self):
        """The reports in two parts, with the cases that part 1 had no time for in neither."""
        return [self.write(f"{name}-{part}.json", {**report, "rows": rows}) for name, report in (("bench", BENCH), ("torch", TORCH))
                for part, rows in ((1, report["rows"][:1]), (2, report["rows"][1:]))]

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

    def test_cases_are_judged(self):
        done = self.run_cases("judge", *self.split(), f"--plot={self.path('plot.svg')}")
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("ag 8192x5504x4096: auto 200.0 us (is push), baseline 400.0 us, 2.00 x, torch 240.0 us, 1.20 x, 80 % of the limit\n",
                      done.out)
        self.assertIn("ag 1024x5504x4096: auto 61.0 us, baseline 60.0 us, 0.98 x, torch 50.0 us, 0.82 x, 49 % of the limit, BEHIND baseline, "
                      "BEHIND torch\n", done.out)
        self.assertIn("auto over the baseline: 3 cases, 1.350 x (geometric mean), least 0.984, below 0.99 in 1\n", done.out)
        self.assertIn("auto over torch's fused operators: 2 cases, 0.992 x (geometric mean), least 0.820, below 1.00 in 1\n", done.out)
        self.assertIn("auto's predicted time: median error 5.0 %\n", done.out)
        self.assertIn("not measured, time was up: 2 cases\n", done.out)
        self.assertIn("<svg", self.read("plot.svg"))
        good = self.write("good.json", {**BENCH, "rows": BENCH["rows"][2:], "not_measured": []})
        torch = self.write("good-torch.json", {**TORCH, "rows": [row("rs", 8192, 8192, 8192, None, arm("torch fused", 490))]})
        self.assertEqual(self.run_cases("judge", good, torch).code, 0)
        for reports, text in (((good,), "without torch: all cases\n"),
                              ((self.write("late.json", {**BENCH, "rows": BENCH["rows"][2:]}), torch), "time was up: 1 cases\n"),
                              ((self.write("failed.json", {**BENCH, "rows": [*BENCH["rows"][2:], row("ag", 64, 64, 64, 1)], "not_measured": []}),
                                torch), "auto failed or was refused: 1 cases\n")):
            done = self.run_cases("judge", *reports)
            self.assertEqual(done.code, 1, str(done))
            self.assertIn(text, done.out)
        self.assertIn("rs 8192 8192 8192 bf16 is in an earlier report, too", self.run_cases("judge", good, good).err)
        other = self.write("other.json", {**BENCH, "channel": "ccl"})
        self.assertIn("channel is ccl, expected peer,ccl", self.run_cases("judge", good, other).err)
        self.assertIn("expected a report of tandem-bench", self.run_cases("judge", self.write("torch.json", TORCH)).err)

    def test_cases_of_all_kinds_in_each_part(self):
        whole = self.run_cases("list").out.strip().split(",")
        self.assertGreaterEqual(len(whole), 200)
        self.assertEqual(len(set(whole)), len(whole))
        parts = [self.run_cases("list", f"--part={part}/3").out.strip().split(",") for part in (1, 2, 3)]
        self.assertEqual(sorted(sum(parts, [])), sorted(whole))
        for part in parts:
            for op in ("ag", "rs", "ar"):
                self.assertGreater(sum(case.startswith(op) for case in part), 14, op)
        random = [tuple(map(int, case[3:].split("x"))) for case in whole]
        self.assertTrue(all(1 <= m <= 16384 and 1024 <= min(n, k) and max(n, k) <= 53248 for m, n, k in random), random)
        self.assertIn("expected I/P", self.run_cases("list", "--part=4/3").err)

    def test_cases_run_from_a_stage(self):
        """With programs that write the reports, or what they were told to do."""
        stage, logs = self.path("stage"), self.path("logs")
        for folder in ("bin", "cases-2"):
            os.makedirs(os.path.join(stage, folder))
        self.write("stage/cases-2/machine", "h200x4")
        for name, report in (("bin/tandem-bench", BENCH), ("torch-bench", TORCH)):
            path = self.write(f"stage/{name}", f"""#!{sys.executable}
import json, sys
options = dict(option.split("=", 1) for option in sys.argv[1:] if "=" in option)
json.dump({report!r}, open(options["--json"], "w"))
json.dump(sys.argv[1:], open(options["--json"] + ".told", "w"))
sys.exit(4)
""")
            os.chmod(path, 0o755)
        done = self.run_cases("run", stage, logs, "2", "--seconds=100")
        self.assertEqual((done.code, done.out), (0, "tandem-bench and torch-bench ended with 4, 4 (4: time was up)\n"), str(done))
        told = harness.read_json(f"{logs}/cases-2.json.told")
        self.assertEqual(told[0], f"{stage}/cases-2")
        self.assertLessEqual({"--device=cuda", "--modes=graph", "--total-time=55", f"--machine={stage}/machines/h200x4.json"}, set(told))
        self.assertIn(f"--beside={logs}/cases-2.json", harness.read_json(f"{logs}/cases-2-torch.json.told"))
        done = self.run_cases("judge", f"{logs}/cases-2.json", f"{logs}/cases-2-torch.json")
        self.assertIn("auto over torch's fused operators: 2 cases", done.out)
        self.write("stage/bin/tandem-bench", f"#!{sys.executable}\nraise SystemExit(1)\n")
        os.remove(f"{logs}/cases-2.json")
        self.assertEqual(self.run_cases("run", stage, logs, "2").code, 1)

    def test_cases_are_explained(self):
        """Two known layers on 4 ranks, one of which misses what is asked, with a simulator that says where the time goes."""
        def layer(*head, auto):
            return row(*head, arm("sequence", 600, role="sequence"), arm("matmul", head[4], role="matmul"), arm("auto", auto))

        shapes = [("ag", 8192, 5504, 4096), ("rs", 640, 4096, 5504), ("ag", 8192, 64, 64)]
        for folder in ("bin", "stage/cases-1"):
            os.makedirs(self.path(folder))
        rows = [layer(*shapes[0], 320, auto=400), layer(*shapes[1], 30, auto=33), layer(*shapes[2], 320, auto=400)]
        report = self.write("stage/cases-1.json", {**BENCH, "rows": rows}) # a report in the folder of the programs
        self.write("stage/cases-1/bench.json", {"rows": [{"kind": "links", "variants": [{"file": "0-0.tsp", "name": "put"}]}] + [
            {"kind": "shape", "shape": dict(zip(("op", "m", "n", "k"), shape)), "variants": [
                {"file": f"{i}-0.tsp", "name": "matmul"}, {"file": f"{i}-1.tsp", "name": "auto"}]} for i, shape in enumerate(shapes, 1)]})
        path = self.write("bin/tandem-sim", f"""#!{sys.executable}
import json, sys
assert sys.argv[2:] == ["--machine=some", "--json=-"], sys.argv
rank = {{"path": {{"host": 1, "matmul": 5, "put": 2, "wait_signal": 1, "reduce": 1}}}}
print(json.dumps({{"seconds": 440e-6, "per_rank": [{{"path": {{"host": 3}}}}, rank]}}))
""")
        os.chmod(path, 0o755)
        done = self.run_cases("explain", self.path("bin"), self.path("stage"), report, "--machine=some")
        self.assertEqual(done.code, 0, str(done))
        shares = " | ".join(["10", "50", "20", "10", "0", "10"])
        self.assertIn("| 0 of 1 | 1.25 (1.25 to 1.25) | 1.50 (1.50 to 1.50) | " + shares, done.out)
        self.assertIn("| rs | 640 | at most 1.35 of the limit; 1.20 x the baseline | 1 of 1 | 1.10 (1.10 to 1.10) |", done.out)
        self.assertIn("| ag 8192 | 5504 x 4096 | 320 | 400 | 1.25 | 1.50 | 40 | 200 | 80 | 40 | 0 | 40 |\n", done.out)
        self.assertIn("missed: ag:8192x5504x4096\n", done.out)
        self.assertIn("median error of simulated times: matmul 37.5 % of 3, auto 10.0 % of 3\n", done.out)
        self.assertIn("has no program of ag 8192x5504x4096, which was measured",
                      self.run_cases("explain", self.path("bin"), self.path("none"), report, "--machine=some").err)
        self.write("bin/tandem-sim", f"#!{sys.executable}\nraise SystemExit('no such machine')\n")
        done = self.run_cases("explain", self.path("bin"), self.path("stage"), report, "--machine=some")
        self.assertEqual((done.code, done.err), (1, "cases: no such machine\n"))


if __name__ == "__main__":
    harness.main(__doc__, Performance)
