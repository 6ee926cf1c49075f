# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tandem-run --verify: who runs what, who holds which term, and what is compared how."""

import harness

REDUCE = """
#pod = #tandem.mesh<"pod", ["x" = ?, "y" = 2]>
#terms = #fusion.axes<#pod, [-, didx("y")], partial = ["x"]>
#columns = #fusion.axes<#pod, [-, didx("y")]>
#all = #fusion.axes<#pod, [-, -]>
func.func @copied_terms(%a: tensor<4x6xf32, #fusion.axes<#pod, [-, -], partial = ["x"]>> {fusion.name = "a"})
    -> (tensor<4x6xf32, #all> {fusion.name = "b"}) {
  %b = fusion.reshard %a : tensor<4x6xf32, #fusion.axes<#pod, [-, -], partial = ["x"]>> -> tensor<4x6xf32, #all>
  return %b : tensor<4x6xf32, #all>
}
func.func @stays_partial(%a: tensor<4x6xf32, #terms> {fusion.name = "a"}) -> (tensor<4x6xf32, #terms> {fusion.name = "b"}) {
  %b = arith.addf %a, %a : tensor<4x6xf32, #terms>
  return %b : tensor<4x6xf32, #terms>
}
"""

GATHER = """
#tp = #tandem.mesh<"tp", ["x" = %s]%s>
func.func @gather(%%a: tensor<12x4xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<12x4xf32, #fusion.axes<#tp, [-, -]>> {
  %%b = fusion.reshard %%a : tensor<12x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<12x4xf32, #fusion.axes<#tp, [-, -]>>
  return %%b : tensor<12x4xf32, #fusion.axes<#tp, [-, -]>>
}
"""

MIXED = """
#tp = #tandem.mesh<"tp", ["x" = 2]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
func.func @mixed(%a: tensor<8x16xbf16, #rows> {fusion.name = "a"}, %w: tensor<16x16xbf16, #fusion.axes<#tp, [-, -]>>,
                 %c: tensor<8x16xf32, #rows> {fusion.name = "c"})
    -> (tensor<8x16xf32, #rows> {fusion.name = "y"}, tensor<8x16xf32, #rows> {fusion.name = "z"},
        tensor<8x16xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "moved"}) {
  %p = fusion.matmul %a, %w
      : tensor<8x16xbf16, #rows>, tensor<16x16xbf16, #fusion.axes<#tp, [-, -]>> -> tensor<8x16xbf16, #rows>
  %y = arith.extf %p : tensor<8x16xbf16, #rows> to tensor<8x16xf32, #rows>
  %z = arith.addf %c, %c : tensor<8x16xf32, #rows>
  %m = fusion.reshard %c : tensor<8x16xf32, #rows> -> tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>
  return %y, %z, %m : tensor<8x16xf32, #rows>, tensor<8x16xf32, #rows>, tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>
}
"""

class Verify(harness.Test):
    def compiled(self, text, *options):
        """The path of the program."""
        path = self.path("program.tsp")
        done = harness.run([harness.tool("tandem-compile"), self.write("program.mlir", text), "-o", path, *options])
        self.assertEqual(done.code, 0, str(done))
        return path

    def test_copies_of_terms(self):
        """A term has copies where the value is replicated over another axis of the mesh."""
        for entry in ("copied_terms", "stays_partial"):
            for x in (2, 3):
                with self.subTest(entry=entry, x=x):
                    path = self.compiled(REDUCE, f"--mesh=x={x}", f"--entry={entry}", "--target=cpu-local")
                    done = harness.tandem_run(path, "--channel=local", "--verify")
                    self.assertVerified(done, 2 * x)

    def test_ranks_outside_of_the_mesh(self):
        """They run nothing, however the mesh got its size and wherever it lies."""
        for size, devices, mesh in (("2", "", ()), ("?", "", ("--mesh=x=2",)), ("2", ", devices = [3, 1]", ())):
            for channel in ("local", "ucx"):
                with self.subTest(size=size, devices=devices, channel=channel):
                    path, report = self.compiled(GATHER % (size, devices), "--ranks=4", *mesh), self.path("report.json")
                    self.assertVerified(harness.tandem_run(path, f"--channel={channel}", "--verify", f"--json={report}"), 4)
                    idle = [rank for rank, each in enumerate(harness.read_json(report)["per_rank"]) if not each["commands"]]
                    self.assertEqual(idle, [0, 2] if devices else [2, 3])

    def test_tolerance_by_result(self):
        """By the loosest type on the way to a result; what is only moved is compared exactly."""
        report = self.path("report.json")
        done = harness.tandem_run(self.compiled(MIXED), "--channel=local", "--verify", f"--json={report}")
        self.assertVerified(done, 2)
        results = {result["name"]: result for result in harness.read_json(report)["results"]}
        self.assertEqual(results["y"]["tolerance"], 8e-3)
        self.assertEqual(results["z"]["tolerance"], 1e-5)
        self.assertTrue(results["moved"]["exact"])
        self.assertFalse(results["z"]["exact"])


if __name__ == "__main__":
    harness.main(__doc__, Verify)
