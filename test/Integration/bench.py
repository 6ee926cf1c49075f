# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tandem-bench: small shapes on two ranks. Whether figures are good is not asked; that they fit each other is."""

import csv
import json
import os
import re
import statistics
import subprocess
import xml.etree.ElementTree as ElementTree

import harness

BENCH = harness.tool("tandem-bench")
FAKE_GPU = os.path.join(harness.BIN, "..", "lib", "libTandemFakeCuda.so")
QUICK = ["--iterations=5", "--warmup=1", "--link-bytes=65536", "--timeout=20"]
SHAPES = ["--dtypes=f32", "--shapes=ag:16x12x8,rs:16x8x12,ar:16x8x12", "--schedules=auto,pipeline:slices=2,exchange,push"]


class Bench(harness.Test):
    def check_reports(self, done, modes=("direct",)):
        """What all reports of the three shapes have in common; gives the JSON."""
        with open(self.path("b.json")) as file:
            report = json.load(file)
        self.assertEqual(report["failure"], "", str(done))
        self.assertEqual([row["op"] for row in report["rows"]], ["ag", "rs", "ar"])
        lines = list(csv.DictReader(open(self.path("b.csv"))))
        svg = ElementTree.parse(self.path("b.svg")).getroot()
        drawn = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
        for row in report["rows"]:
            names = ["sequence", "matmul", "communication", "auto", "pipeline:slices=2", "exchange", "push"]
            self.assertEqual([(m["what"], m["mode"]) for m in row["measurements"]],
                             [(name, mode) for name in names for mode in modes])
            self.check_row(row, report)
        measured = [m for row in report["rows"] for m in row["measurements"]]
        self.assertEqual(len(lines), len(measured))
        for line, m in zip(lines, measured):
            self.assertEqual((line["what"], line["mode"]), (m["what"], m["mode"]))
            self.assertEqual(bool(line["refused"]), "refused" in m)
            if "refused" not in m:
                self.assertAlmostEqual(float(line["median_us"]) / m["median_us"], 1, 4)
        bars = [text for text in drawn if text and " ms" in text]
        self.assertEqual(len(bars), sum("refused" not in m for m in measured))
        # A reduction that ends replicated has slices of no one owner.
        self.assertIn("owner", [m for m in report["rows"][2]["measurements"] if m["what"] == "exchange"][0]["refused"])
        return report

    def check_row(self, row, report):
        by_name = {(m["what"], m["mode"]): m for m in row["measurements"]}
        for m in row["measurements"]:
            if "refused" in m:
                self.assertEqual(row["op"], "ar", m)
                continue
            times = m["times_us"]
            self.assertEqual(len(times), report["iterations"])
            self.assertAlmostEqual(m["median_us"] / statistics.median(times), 1)
            self.assertTrue(0 < min(times) <= m["p10_us"] <= m["median_us"] <= m["p90_us"] <= max(times), m)
            self.assertTrue(0 < m["host_us"] <= max(times), m)
            sequence = by_name["sequence", m["mode"]]["median_us"]
            self.assertAlmostEqual(m["ratio_to_sequence"], sequence / m["median_us"])
            limit = max(by_name["matmul", m["mode"]]["median_us"],
                        row["bytes"] / report["link"]["bytes_per_second"] * 1e6)
            self.assertAlmostEqual(row["limit_us"][m["mode"]] / limit, 1)
            self.assertAlmostEqual(m["ratio_to_limit"], m["median_us"] / limit)
            self.assertTrue(m["verified"], m)

    def reports(self):
        return [f"--{kind}={self.path('b.' + kind)}" for kind in ("json", "csv", "svg")]

    def test_threads_and_processes(self):
        for channel in harness.CHANNELS:
            with self.subTest(channel):
                done = harness.run([BENCH, "-n", "2", f"--channel={channel}", *QUICK, *SHAPES, *self.reports()])
                self.assertEqual(done.code, 0, str(done))
                self.check_reports(done)
                self.assertIn("verified", done.out)
                self.assertIn("refused: ", done.out)

    def test_staged_predicted_and_judged(self):
        """Programs of a folder; each line with its prediction; a threshold that decides the exit status."""
        stage = self.path("stage")
        done = harness.run([BENCH, f"--stage={stage}", "-n", "2", "--channel=local", *SHAPES])
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.out, r"stage: 24 programs of 3 shapes for 2 ranks, target cpu-local \(1 refused\)")
        done = harness.run([BENCH, stage, "--channel=local", "--machine=cpu2", "--link-rate=1", "--fail-if-slower=0",
                            *QUICK, *self.reports()])
        report = self.check_reports(done)
        self.assertEqual(report["link"]["bytes_per_second"], 1e9)
        errors = []
        for m in (m for row in report["rows"] for m in row["measurements"] if "refused" not in m):
            self.assertAlmostEqual(m["prediction_error"], m["predicted_us"] / m["median_us"] - 1)
            errors.append(abs(m["prediction_error"]))
        self.assertAlmostEqual(report["median_prediction_error"], statistics.median(errors))
        slower = [m for row in report["rows"] for m in row["measurements"]
                  if m["what"] == "auto" and m["ratio_to_sequence"] < 1 and m.get("same_as") != "sequence"]
        self.assertEqual(done.code, 3 if slower else 0, str(done))
        self.assertEqual(done.out.count("slower than the sequence: auto"), len(slower))

    def test_auto_that_is_the_sequence(self):
        """One program, measured twice, is not slower than itself, whatever the clock says."""
        done = harness.run([BENCH, "-n", "2", "--channel=local", "--dtypes=f32", "--shapes=ag:16x16x16",
                            "--schedules=auto,exchange", "--machine=cpu2", "--fail-if-slower=0", *QUICK,
                            *self.reports()])
        self.assertEqual(done.code, 0, str(done))
        with open(self.path("b.json")) as file:
            report = json.load(file)
        self.assertIn("is sequence", done.out)
        same = {m["what"]: m.get("same_as") for m in report["rows"][0]["measurements"]}
        self.assertEqual(same["auto"], "sequence")
        self.assertIsNone(same["exchange"])

    def test_graphs(self):
        """All ways of launching, on GPUs that are threads of the host."""
        if not os.path.exists(FAKE_GPU):
            self.skipTest("this build has no device cuda")
        env = harness.environment(TANDEM_CUDA_LIBRARY=FAKE_GPU, TANDEM_CUBLASLT_LIBRARY=FAKE_GPU)
        done = harness.run([BENCH, "-n", "2", "--device=cuda", "--channel=peer,local", "--threads", *QUICK, *SHAPES,
                            "--modes=direct,graph,traced", "--machine=h200x2", *self.reports()], env=env)
        self.assertEqual(done.code, 0, str(done))
        report = self.check_reports(done, modes=("direct", "graph", "traced"))
        # What is predicted is a run that nobody looks at.
        for m in (m for row in report["rows"] for m in row["measurements"] if "refused" not in m):
            self.assertEqual(m["predicted_us"] is None, m["mode"] == "traced", m)

    def test_traced_calibration(self):
        done = harness.run([BENCH, "-n", "2", "--channel=local", f"--calibrate={self.path('m.json')}", "--modes=traced"])
        self.assertEqual(done.code, 2, str(done))
        self.assertIn("--modes: a calibration does not trace", done.err)

    def test_calibration(self):
        """A machine file with numbers of this host, which the simulator takes, and those of the base where there are none."""
        machine = self.path("here.json")
        figures, again = self.path("figures.json"), self.path("again.json")
        done = harness.run([BENCH, "-n", "2", "--channel=local", f"--calibrate={machine}", "--iterations=2", "--warmup=1",
                            "--sets=1", f"--json={figures}"], limit=120)
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.out, r"probes simulated on it: median error \d")
        made = harness.read_json(machine)
        self.assertEqual(made["name"], "here")
        self.assertIn(f"--calibrate={machine}", made["sources"]["calibrated"]["text"])
        self.assertEqual(made["device"]["copy_interference"][2], "estimate")
        points = [point for table in made["device"]["matmul"] if table["source"] == "calibrated" for point in table["points"]]
        self.assertTrue(points)
        for m, n, k, microseconds in points:
            self.assertTrue(1e-3 < m * n * k / microseconds / 1e3 < 1e6, (m, n, k, microseconds))  # GFLOP/s, halved
        # What was measured says it all.
        wanted = harness.run([BENCH, f"--probe-figures={figures}", f"--calibrate={again}"])
        self.assertEqual(wanted.code, 0, str(wanted))
        self.assertEqual(wanted.out.splitlines()[:-1], done.out.splitlines()[:-1])
        self.assertRegex(wanted.out, r"probes simulated on it: median error \d")
        kept = harness.read_json(again)
        self.assertEqual({**kept, "name": "here"}, made)
        stage = self.path("stage")
        self.assertEqual(harness.run([BENCH, f"--stage={stage}", "-n", "2", "--channel=local", *SHAPES]).code, 0)
        done = harness.run([harness.tool("tandem-sim"), os.path.join(stage, "1-0.tsp"), f"--machine={machine}"])
        self.assertEqual(done.code, 0, str(done))
        # One is not for the other.
        done = harness.run([BENCH, stage, "--channel=local", f"--calibrate={machine}"])
        self.assertEqual(done.code, 2, str(done))
        self.assertIn("was staged without --probes", done.err)

    def test_calibration_of_fused_exchanges(self):
        """Where GPUs that are threads of the host have kernels for them; else the machine has none."""
        if not os.path.exists(FAKE_GPU):
            self.skipTest("this build has no device cuda")
        stage, machine = self.path("probes"), self.path("here.json")
        done = harness.run([BENCH, f"--stage={stage}", "-n", "2", "--channel=peer", "--probes", "--shapes=ag:16x16x16", "--dtypes=f32"])
        self.assertEqual(done.code, 0, str(done))
        index = os.path.join(stage, "bench.json")
        staged = harness.read_json(index)
        wanted = re.compile(r"(accumulate|exchange|exchange_twice|exchange_blocks) 256 |exchange 1048576 ")
        staged["rows"] = [row for row in staged["rows"] if wanted.match(row["variants"][0]["name"])]
        self.assertEqual(len(staged["rows"]), 5)
        with open(index, "w") as file:
            json.dump(staged, file)
        env = harness.environment(TANDEM_CUDA_LIBRARY=FAKE_GPU, TANDEM_CUBLASLT_LIBRARY=FAKE_GPU)
        for channel in ("peer", "local"):
            done = harness.run([BENCH, stage, "--device=cuda", f"--channel={channel}", "--threads", "--modes=graph", "--machine=h200x2",
                                "--iterations=3", "--warmup=0", "--sets=1", f"--calibrate={machine}"], env=env)
            self.assertEqual(done.code, 0, str(done))
            exchange = harness.read_json(machine)["transports"].get("fused_exchange")
            if channel == "local":
                self.assertIsNone(exchange)
                continue
            sources = {name: value[2] for name, value in exchange.items()}
            self.assertEqual(sources, {"startup": "calibrated", "signal": "calibrated", "count": "calibrated", "block_stores": "calibrated",
                                       "block_memory": "exchange", "block_signal": "signals", "word_signal": "signals"})

    def test_calibration_in_too_little_time(self):
        """What is left is named, and keeps the base's numbers."""
        machine = self.path("here.json")
        done = harness.run([BENCH, "-n", "2", "--channel=local", f"--calibrate={machine}", "--iterations=1", "--warmup=0",
                            "--sets=1", "--total-time=0.1"])
        self.assertEqual(done.code, 4, str(done))
        self.assertIn("not measured, time was up: ", done.out)
        self.assertIn("name", harness.read_json(machine))

    def make_stage(self, ranks, *programs):
        """A folder with programs that are made by hand, a row each, and no row of links."""
        folder = self.path("made")
        os.makedirs(folder, exist_ok=True)
        subprocess.run([harness.tool("make-programs"), folder], check=True, stdout=subprocess.DEVNULL)
        rows = [{"kind": "shape", "shape": {"op": "ag", "m": 4, "n": 4, "k": 4, "dtype": "f32"},
                 "variants": [{"role": "fused", "name": name, "file": f"{name}.tsp"}]} for name in programs]
        with open(os.path.join(folder, "bench.json"), "w") as file:
            json.dump({"tandem_bench": 1, "ranks": ranks, "target": "cpu-ucx", "link_bytes": 64, "probes": False, "rows": rows}, file)
        return folder

    def test_tuning(self):
        """What --tune stores, the compiler takes; another machine's file is left alone."""
        source = os.path.join(os.path.dirname(__file__), "..", "Programs", "mlp.mlir")
        tuned, machine = self.path("tuned.json"), "--machine=cpu2"
        done = harness.run([BENCH, f"--tune={tuned}", f"--program={source}", "-n", "2", machine, "--verify=all", *QUICK])
        self.assertEqual(done.code, 0, str(done))
        known = harness.read_json(tuned)
        self.assertRegex(known["machine"], r"^2 x cpu, .*; ucx$")
        self.assertTrue(known["loops"])
        for loop in known["loops"]:
            self.assertIn(f"loop {loop['signature']}: ", done.out)
            self.assertLessEqual(loop["seconds"], loop["plain"])
        done = harness.run([harness.tool("tandem-compile"), source, "--mesh=x=2", machine, f"--tuned={tuned}",
                            "--explain"])
        self.assertEqual(done.code, 0, str(done))
        for loop in known["loops"]:
            self.assertIn(f"{loop['what']}, by tuned", done.out)
        # Shapes, compiled elsewhere; what was known stays.
        stage = self.path("stage")
        shapes = ["--dtypes=f32", "--shapes=ag:15x12x8,ag:16x12x8,rs:16x8x12"]
        done = harness.run([BENCH, f"--tune={tuned}", f"--stage={stage}", "-n", "2", machine, *shapes])
        self.assertEqual(done.code, 0, str(done))
        done = harness.run([BENCH, stage, f"--tune={tuned}", *QUICK])
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.out, r"15x12x8.*: loop ")
        more = harness.read_json(tuned)["loops"]
        self.assertEqual(more[:len(known["loops"])], known["loops"])
        self.assertGreater(len(more), len(known["loops"]))
        for folder, options, why in ((stage, [], "was staged with --tune"),
                                     (stage, [f"--tune={tuned}", "--channel=local"], "was measured on")):
            done = harness.run([BENCH, folder, *options, *QUICK])
            self.assertEqual((done.code, why in done.err), (2, True), str(done))
        self.assertEqual(harness.read_json(tuned)["loops"], more)
        for options, why in ((["--program=x.mlir"], "only with --tune"), ([f"--tune={tuned}"], "expected --machine")):
            done = harness.run([BENCH, "-n", "2", *options])
            self.assertEqual((done.code, why in done.err), (2, True), str(done))

    def test_a_rank_that_never_sends(self):
        """All ranks end soon, with the command that waited; what was measured before is reported."""
        folder = self.make_stage(2, "matmul-2", "silent-2")
        for channel in harness.CHANNELS:
            with self.subTest(channel):
                done = harness.run([BENCH, folder, f"--channel={channel}", *QUICK, "--timeout=1", *self.reports()], limit=20)
                self.assertEqual(done.code, 1, str(done))
                self.assertRegex(done.out + done.err, r"recv from rank 1|rank 1 has left")
                report = harness.read_json(self.path("b.json"))
                self.assertEqual(len(report["rows"]), 1)
                self.assertIn("rank 0: ", report["failure"])

    def test_time_is_up(self):
        """Rows that are left are named, and the others are there."""
        done = harness.run([BENCH, self.make_stage(2, *["matmul-2"] * 200), "--channel=local", *QUICK, "--iterations=50",
                            "--total-time=0.3", *self.reports()])
        self.assertEqual(done.code, 4, str(done))
        report = harness.read_json(self.path("b.json"))
        self.assertEqual(len(report["rows"]) + len(report["not_measured"]), 200)
        self.assertEqual(done.out.count("not measured, time was up: ag 4x4x4 f32"), len(report["not_measured"]))

    def test_a_wrong_result(self):
        done = harness.run([BENCH, self.make_stage(3, "wrong-3"), "--channel=local", *QUICK, *self.reports()])
        self.assertEqual(done.code, 1, str(done))
        self.assertRegex(done.out, r"WRONG: ag 4x4x4 f32, wrong-3, direct: argument \"out\", index \[6,0\]: rank 2 holds")
        measurement = harness.read_json(self.path("b.json"))["rows"][0]["measurements"][0]
        self.assertFalse(measurement["verified"])
        self.assertIsNone(measurement["max_relative_error"])

    def test_a_program_for_other_ranks(self):
        """The folder is wrong: what was measured before is reported, and the file is named."""
        folder = self.make_stage(2, "matmul-2", "matmul-3")
        for channel in harness.CHANNELS:
            with self.subTest(channel):
                done = harness.run([BENCH, folder, f"--channel={channel}", *QUICK, *self.reports()])
                self.assertEqual(done.code, 2, str(done))
                report = harness.read_json(self.path("b.json"))
                self.assertIn("matmul-3.tsp: the program is for 3 ranks, there are 2", report["failure"])
                self.assertTrue(report["rows"][0]["measurements"][0]["verified"])

    def test_a_damaged_program(self):
        folder = self.make_stage(2, "matmul-2")
        path = os.path.join(folder, "matmul-2.tsp")
        with open(path, "rb") as file:
            whole = file.read()
        with open(path, "wb") as file:
            file.write(whole[:len(whole) // 2])
        done = harness.run([BENCH, folder, "--channel=local", *QUICK])
        self.assertEqual(done.code, 2, str(done))
        self.assertIn("matmul-2.tsp: ", done.err)

    def test_reports_that_cannot_be_written(self):
        """Are an error before anything is measured."""
        folder = self.make_stage(2, "matmul-2")
        for option in ("json", "csv", "svg"):
            done = harness.run([BENCH, folder, "--channel=local", *QUICK, f"--{option}={self.path('none')}/report"])
            self.assertEqual(done.code, 2, str(done))
            self.assertIn("cannot write", done.err)
            self.assertNotIn("rounds", done.out)

    def test_nothing_could_be_run(self):
        done = harness.run([BENCH, "-n", "2", "--channel=local", "--dtypes=f32", "--shapes=ag:16777216x8x16777216",
                            "--schedules=push", "--link-rate=1", *QUICK])
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("nothing could be run", done.out)


if __name__ == "__main__":
    harness.main(__doc__, Bench)
