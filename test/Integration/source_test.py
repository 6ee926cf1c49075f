# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tandem-run on a program that it compiles itself: who runs what, who holds which term, and what is compared how."""

import re
import socket

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

NODES = """
#pod = #tandem.mesh<"pod", ["node" = ?, "gpu" = ?]>
!x = tensor<3x2x8xf32, #fusion.axes<#pod, [didx("node"), didx("gpu"), -]>>
!y = tensor<3x2x8xf32, #fusion.axes<#pod, [-, -, -]>>
func.func @f(%x: !x {fusion.name = "x"}, %z: tensor<3x2xf32, #fusion.axes<#pod, [serial("node"), serial("gpu")]>>)
    -> (!y {fusion.name = "y"}) {
  %0 = fusion.reshard %x : !x -> !y
  return %0 : !y
}
"""


class Source(harness.Test):
    def source(self, text, name="program.mlir"):
        return self.write(name, text)

    def test_copies_of_terms(self):
        """A term has copies where the value is replicated over another axis of the mesh."""
        path = self.source(REDUCE)
        for entry in ("copied_terms", "stays_partial"):
            for x in (2, 3):
                with self.subTest(entry=entry, x=x):
                    done = harness.tandem_run(path, "-n", 2 * x, f"--mesh=x={x}", f"--entry={entry}", "--channel=local",
                                              "--verify")
                    self.assertVerified(done, 2 * x)

    def test_ranks_outside_of_the_mesh(self):
        """They run nothing, however the mesh got its size and wherever it lies."""
        for size, devices, mesh in (("2", "", ()), ("?", "", ("--mesh=x=2",)), ("2", ", devices = [3, 1]", ())):
            for channel in ("local", "ucx"):
                with self.subTest(size=size, devices=devices, channel=channel):
                    path = self.source(GATHER % (size, devices))
                    done = harness.tandem_run(path, "-n", 4, f"--channel={channel}", *mesh, "--verify", "--per-rank")
                    self.assertVerified(done, 4)
                    idle = (0, 2) if devices else (2, 3)
                    for rank in range(4):
                        words = f"rank {rank}: 0 commands" in done.out
                        self.assertEqual(words, rank in idle, done.out)

    def test_too_few_ranks(self):
        done = harness.tandem_run(self.source(GATHER % ("4", "")), "-n", 2, "--channel=local")
        self.assertNotEqual(done.code, 0)
        self.assertIn("expected at least 4 ranks, for the devices of its meshes, found 2", done.err)

    def test_several(self):
        """One that cannot be compiled fails by itself, and all are compiled for the ranks of the first."""
        first = self.source(GATHER % ("?", ""), "first.mlir")
        broken = self.source(GATHER.replace("didx", "dix") % ("?", ""), "broken.mlir")
        other = self.source(GATHER % ("4", ""), "other.mlir")
        last = self.source(GATHER % ("3", ""), "last.mlir")
        for channel in ("local", "ucx"):
            with self.subTest(channel=channel):
                done = harness.tandem_run(first, broken, other, last, "-n", 3, f"--channel={channel}", "--verify",
                                          "--entry=gather")
                self.assertEqual(done.code, 1, str(done))
                lines = done.out.splitlines()
                self.assertEqual(len(lines), 5, str(done))
                self.assertTrue(lines[0].startswith(f"{first}: verified gather: ranks 3"), str(done))
                self.assertRegex(lines[1], rf"^{re.escape(broken)}: FAILED .*broken.mlir:\d+:\d+: error: ", str(done))
                self.assertRegex(lines[2], rf"^{re.escape(other)}: FAILED .*expected at least 4 ranks, for the devices of its meshes, found 3", str(done))
                self.assertTrue(lines[3].startswith(f"{last}: verified gather: ranks 3"), str(done))
                self.assertEqual(lines[4], "2 passed, 2 failed")
        # Without -n the first says.
        done = harness.tandem_run(last, first, "--channel=local", "--verify")
        self.assertEqual((done.code, done.out.count(": verified gather: ranks 3")), (0, 2), str(done))

    def test_several_as_ranks(self):
        """Rank 0 compiles for all."""
        first = self.source(GATHER % ("?", ""), "first.mlir")
        broken = self.source("module {", "broken.mlir")
        last = self.source(GATHER % ("2", ""), "last.mlir")
        with socket.socket() as listener:
            listener.bind(("", 0))
            port = listener.getsockname()[1]
        ranks = [harness.start([harness.tool("tandem-run"), first, broken, last, "--verify"],
                               harness.environment(RANK=r, WORLD_SIZE=2, LOCAL_RANK=r, LOCAL_WORLD_SIZE=2,
                                                   MASTER_ADDR="localhost", MASTER_PORT=port)) for r in range(2)]
        done = [harness.finish(rank) for rank in ranks]
        self.assertEqual((done[0].code, done[1].code, done[1].out, done[1].err), (1, 1, "", ""), str(done[0]))
        lines = done[0].out.splitlines()
        self.assertTrue(lines[0].startswith(f"{first}: verified gather: ranks 2"), str(done[0]))
        self.assertRegex(lines[1], rf"^{re.escape(broken)}: FAILED .*broken.mlir:\d+:\d+: error: ", str(done[0]))
        self.assertTrue(lines[2].startswith(f"{last}: verified gather: ranks 2"), str(done[0]))
        self.assertEqual(lines[3:], ["2 passed, 1 failed"])

    def test_tolerance_by_result(self):
        """By the loosest type on the way to a result; what is only moved is compared exactly."""
        report = self.path("report.json")
        done = harness.tandem_run(self.source(MIXED), "-n", 2, "--channel=local", "--verify", f"--json={report}")
        self.assertVerified(done, 2)
        results = {result["name"]: result for result in harness.read_json(report)["results"]}
        self.assertEqual(results["y"]["tolerance"], 8e-3)
        self.assertEqual(results["z"]["tolerance"], 1e-5)
        self.assertTrue(results["moved"]["exact"])
        self.assertFalse(results["z"]["exact"])

    def test_nodes(self):
        """Runs on 3 nodes of 2 ranks, and on no other mesh of 6."""
        source = self.source(NODES)
        for per_node, code in ((2, 0), (3, 1)):
            port = harness.free_port()
            ranks = harness.start_ranks([{"RANK": r, "WORLD_SIZE": 6, "LOCAL_RANK": r % per_node,
                                          "LOCAL_WORLD_SIZE": per_node, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
                                         for r in range(6)], source, "--channel=ucx", "--verify")
            done = [harness.finish(rank) for rank in ranks]
            if code == 0:
                self.assertVerified(done[0], 6)
            else:
                self.assertIn("divide", done[0].err)
            self.assertEqual([d.code for d in done], [code] * 6)
        # Of one host, which nothing says but its name.
        self.assertIn("divide", harness.tandem_run(source, "-n", 6, "--channel=ucx").err)


if __name__ == "__main__":
    harness.main(__doc__, Source)
