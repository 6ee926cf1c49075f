# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tools/gpu/choices, on made-up reports and on one of the real tandem-bench."""

import json
import os
import sys

import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "tools", "gpu", "choices")


def arm(what, median, mode="graph", role="fused", **more):
    return {"what": what, "role": role, "mode": mode, "median_us": median, **more}


def row(*arms):
    return {"op": "ag", "m": 8, "n": 16, "k": 32, "dtype": "bf16", "limit_us": {"graph": 80}, "measurements": list(arms)}


class Choices(harness.Test):
    def judge(self, rows, *options):
        path = self.path("report.json")
        with open(path, "w") as file:
            json.dump({"rows": rows}, file)
        return harness.run([sys.executable, SCRIPT, path, *options])

    def test_a_good_choice(self):
        # The matmul alone is no choice, nor is what was timed in the other mode, refused or wrong.
        done = self.judge([row(arm("auto", 102, prediction_error=-0.04, same_as="gated", times_us=[102]),
                               arm("gated", 98, times_us=[98]), arm("direct", 99),
                               arm("sequence", 204, role="sequence"), arm("matmul", 50, role="matmul"),
                               arm("push", 10, mode="direct"), arm("ring", 20, failure="wrong"),
                               {"what": "exchange", "role": "fused", "mode": "graph", "refused": "no"})])
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("ag 8,16,32 bf16: auto 100.0 us (is gated), best direct 99.0 us, loss +1.0 %, 2.04 x sequence, "
                      "1.25 of the limit, predicted -2.1 %\n1 cases: 0 lose more than 3 %, the most +1.0 %; "
                      "median prediction error 2.1 %\n", done.out)
        self.assertEqual(self.judge([row(arm("auto", 102), arm("gated", 100))], "--most-loss=1").code, 1)

    def test_a_choice_that_is_another_arm(self):
        # One program, twice as many times.
        done = self.judge([row(arm("auto", 110, same_as="push", times_us=[100, 110, 120]),
                               arm("push", 98, times_us=[90, 98, 99]), arm("gated", 100))])
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("auto 99.5 us (is push), best push 99.5 us, loss +0.0 %", done.out)

    def test_a_bad_choice(self):
        done = self.judge([row(arm("auto", 100), arm("push", 99)), row(arm("auto", 110), arm("gated", 100))])
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("2 cases: 1 lose more than 3 %, the most +10.0 %\n", done.out)

    def test_a_bad_prediction(self):
        rows = [row(arm("auto", 100, prediction_error=error), arm("push", 100)) for error in (-0.06, 0.01, 0.07)]
        self.assertEqual(self.judge(rows).code, 1)
        self.assertEqual(self.judge(rows, "--most-error=6.5").code, 0)

    def test_nothing_to_judge(self):
        for rows in ([], [row(arm("auto", 1))], [row(arm("push", 1), arm("gated", 1))]):
            done = self.judge(rows)
            self.assertEqual(done.code, 1)
            self.assertIn("auto was not measured", done.out)
        path = self.path("no.json")
        with open(path, "w") as file:
            file.write("[]")
        done = harness.run([sys.executable, SCRIPT, path])
        self.assertEqual(done.code, 1)
        self.assertIn("expected a report of tandem-bench --json", done.err)

    def test_a_real_report(self):
        report = self.path("bench.json")
        done = harness.run([harness.tool("tandem-bench"), "-n", "2", "--threads", "--device=cpu", "--channel=local",
                            "--machine=h200x2", "--shapes=ag:64x64x64", "--dtypes=f32", "--modes=direct",
                            "--schedules=sequence,auto,gated", "--iterations=3", f"--json={report}"])
        self.assertEqual(done.code, 0, str(done))
        judged = harness.run([sys.executable, SCRIPT, report, "--most-loss=1e6", "--most-error=1e6"])
        self.assertEqual(judged.code, 0, str(judged))
        self.assertRegex(judged.out, r"^ag 64,64,64 f32: auto [\d.]+ us.*, best (sequence|gated) .* x sequence.*\n1 cases: ")


if __name__ == "__main__":
    harness.main(__doc__, Choices)
