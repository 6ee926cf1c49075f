# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tandem-run with several programs: what fails by itself, what ends the whole, and what is said of each."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

import numpy as np

import harness
from harness import environment, finish, program, start, tandem_run, tool

FAKE_GPU = os.path.join(harness.BIN, "..", "lib", "libTandemFakeCuda.so")


class SeveralTest(harness.Test):
    def corrupt(self, name, rank):
        """A copy in which one rank's program is not what its hash says."""
        with open(program(name), "rb") as file:
            data = bytearray(file.read())
        # The last rank's lies at the end, before the reference; the first's behind the header.
        data[100 if rank == 0 else len(data) // 2] ^= 1
        path = self.path(f"corrupt-{name}-{rank}.tsp")
        with open(path, "wb") as file:
            file.write(data)
        return path

    def check(self, done, expected, total, code=1):
        """`expected`: pairs of a file and how its line goes on; one line each, in this order, and the total."""
        self.assertEqual(done.code, code, str(done))
        # UCX warns on standard output of what a rank that was killed had sent.
        lines = [line for line in done.out.splitlines() if "UCX  WARN" not in line]
        self.assertEqual(len(lines), len(expected) + 1, str(done))
        for line, (file, pattern) in zip(lines, expected):
            self.assertTrue(line.startswith(file + ": "), f"{line}\n{done}")
            self.assertRegex(line[len(file) + 2:], pattern, str(done))
        self.assertEqual(lines[-1], total, str(done))


class Several(SeveralTest):
    def test_all_pass(self):
        for channel in ("ucx", "local"):
            with self.subTest(channel=channel):
                files = [program(name) for name in ("matmul-3", "gather-3", "matmul-3", "partial-3")]
                done = tandem_run(*files, f"--channel={channel}", "--verify", "--repeat=3")
                self.check(done, [(files[0], r"^verified matmul: ranks 3, max relative error \d\.\de[-+]\d\d, median"),
                                  (files[1], "^verified gather: ranks 3"), (files[2], "^verified matmul: ranks 3"),
                                  (files[3], "^verified partial: ranks 3")], "4 passed, 0 failed", 0)
                self.assertEqual(done.err, "")

    def test_one_that_is_wrong(self):
        for channel in ("ucx", "local"):
            with self.subTest(channel=channel):
                files = [program(name) for name in ("matmul-3", "wrong-3", "gather-3")]
                done = tandem_run(*files, f"--channel={channel}", "--verify", "--repeat=3")
                wrong = r'^FAILED wrong: argument "out", index \[6,0\]: rank 2 holds another value than rank 0'
                self.check(done, [(files[0], "^verified matmul"), (files[1], wrong), (files[2], "^verified gather")],
                           "2 passed, 1 failed")
                self.assertEqual(done.err, "") # what all ranks know is said once

    def test_files_that_are_none(self):
        """Missing, cut, for another number of ranks: what can be read is run."""
        missing, cut = self.path("missing.tsp"), self.path("cut.tsp")
        with open(program("matmul-3"), "rb") as source, open(cut, "wb") as file:
            file.write(source.read()[:-100])
        files = [missing, program("matmul-3"), cut, program("matmul-2"), program("gather-3")]
        for channel in ("ucx", "local"):
            with self.subTest(channel=channel):
                done = tandem_run(*files, f"--channel={channel}", "--verify")
                self.check(done, [(missing, '^FAILED .*missing.tsp: cannot read ".*missing.tsp"'),
                                  (files[1], "^verified matmul: ranks 3"),
                                  (cut, "^FAILED .*cut.tsp: .*cut.tsp: "),
                                  (files[3], 'program "matmul" is for 2 ranks, launched were 3$'),
                                  (files[4], "^verified gather: ranks 3")], "2 passed, 3 failed")
                # The number that was asked for decides.
                done = tandem_run(program("matmul-3"), program("matmul-2"), "-n", 2, f"--channel={channel}", "--verify")
                self.check(done, [(program("matmul-3"), "is for 3 ranks, launched were 2$"),
                                  (program("matmul-2"), "^verified matmul: ranks 2")], "1 passed, 1 failed")

    def test_nothing_to_run(self):
        for channel in ("ucx", "local"):
            done = tandem_run(self.path("a.tsp"), self.path("b.tsp"), f"--channel={channel}")
            self.check(done, [(self.path("a.tsp"), "cannot read"), (self.path("b.tsp"), "cannot read")],
                       "0 passed, 2 failed")

    def test_refused_before_it_ran(self):
        """By one rank (its part is damaged), by all (no reference; a channel that lacks something): the next one runs."""
        damaged = self.corrupt("matmul-3", 0)
        files = [damaged, program("matmul-3"), damaged, program("long-3"), program("needs-all-3"), program("gather-3")]
        for channel in ("ucx", "local"):
            with self.subTest(channel=channel):
                done = tandem_run(*files, f"--channel={channel}", "--verify", "--repeat=3")
                hash_is = r"^FAILED matmul: rank 0: .*content hash is"
                lacks = (r"^FAILED needs_all: rank 0: .*needs .*collectives.*this context has ucx" if channel == "ucx"
                         else "^verified needs_all")
                self.check(done, [(damaged, hash_is), (files[1], "^verified matmul"), (damaged, hash_is),
                                  (files[3], "^FAILED long: rank 0: --verify: the file has no unsharded reference$"),
                                  (files[4], lacks), (files[5], "^verified gather")],
                           "2 passed, 4 failed" if channel == "ucx" else "3 passed, 3 failed")
                self.assertLess(done.seconds, 20 * harness.SLOWER) # nobody waits until the timeout

    def test_damage_of_another_rank(self):
        damaged = self.corrupt("matmul-2", 1)
        for channel in ("ucx", "local"):
            with self.subTest(channel=channel):
                done = tandem_run(program("gather-2"), damaged, program("matmul-2"), f"--channel={channel}", "--verify")
                self.check(done, [(program("gather-2"), "^verified gather"),
                                  (damaged, "^FAILED matmul: rank 1: .*content hash is"),
                                  (program("matmul-2"), "^verified matmul")], "2 passed, 1 failed")
                self.assertRegex(done.err, f"^tandem-run: {re.escape(damaged)}: rank 1: .*content hash is")

    def test_a_run_that_never_ends(self):
        """Where the context is gone, nothing more runs."""
        files = [program(name) for name in ("matmul-2", "silent-2", "gather-2", "matmul-2")]
        for channel in ("ucx", "local"):
            with self.subTest(channel=channel):
                report = self.path("report.json")
                done = tandem_run(*files, f"--channel={channel}", "--timeout=1", f"--json={report}")
                self.check(done, [(files[0], "^ran matmul"),
                                  (files[1], r"^FAILED silent: rank 0: .*command 3 \(group: recv from rank 1")],
                           f"1 passed, 1 failed, 2 not run: {files[2]} {files[3]}")
                self.assertLess(done.seconds, 15 * harness.SLOWER)
                data = harness.read_json(report)
                self.assertEqual([p["failure"] == "" for p in data["programs"]], [True, False])
                self.assertEqual((data["passed"], data["failed"], data["not_run"]), (1, 1, files[2:]))

    def test_without_ucx(self):
        done = tandem_run(program("matmul-2"), program("gather-2"), env=environment(TANDEM_UCX_LIBRARY="libnothere.so.0"))
        self.check(done, [(program("matmul-2"), "^FAILED matmul: rank 0: channel ucx: UCX is not installed")],
                   f"0 passed, 1 failed, 1 not run: {program('gather-2')}")

    def killed(self, rank):
        files = [program("matmul-3"), program("long-3"), program("gather-3")]
        launcher = start([tool("tandem-run"), *files, "--timeout=60", "--repeat=1000"])
        self.addCleanup(lambda: launcher.poll() is None and os.killpg(launcher.pid, signal.SIGKILL))
        deadline = time.monotonic() + 30 * harness.SLOWER
        while True:
            ranks = harness.children(launcher.pid)
            if len(ranks) == 3 and all(harness.switches(pid) > 20000 for pid in ranks.values()):
                break
            if launcher.poll() is not None or time.monotonic() > deadline:
                self.fail("the ranks do not run: " + str(finish(launcher)))
            time.sleep(0.05)
        os.kill(ranks[rank], signal.SIGKILL)
        done = finish(launcher)
        self.assertLess(done.seconds, 20 * harness.SLOWER)
        return files, done

    def test_killed_rank(self):
        files, done = self.killed(1)
        self.check(done, [(files[0], "^ran matmul"), (files[1], "^FAILED long: rank 0: .*lost rank 1")],
                   f"1 passed, 1 failed, 1 not run: {files[2]}", 128 + signal.SIGKILL)

    def test_killed_rank_zero(self):
        """The launcher says what rank 0 cannot."""
        files, done = self.killed(0)
        self.check(done, [(files[0], "^ran matmul"), (files[1], "^FAILED .*long-3.tsp: rank 0 was ended by a signal$")],
                   f"1 passed, 1 failed, 1 not run: {files[2]}", 128 + signal.SIGKILL)

    def test_one_world(self):
        """Each rank is one process, however many programs there are."""
        files = [program("matmul-3")] * 20
        launcher = start([tool("tandem-run"), *files, "--verify"])
        seen = {}
        while launcher.poll() is None:
            for rank, pid in harness.children(launcher.pid).items():
                seen.setdefault(rank, set()).add(pid)
            time.sleep(0.01)
        done = finish(launcher)
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(len(done.out.splitlines()), 21, str(done))
        self.assertTrue(seen and all(len(pids) == 1 for pids in seen.values()), seen)

    def test_ranks_of_another_launcher(self):
        """Each rank reads for itself, and nobody goes on with what another one cannot read."""
        with socket.socket() as listener:
            listener.bind(("", 0))
            port = listener.getsockname()[1]
        mine = self.path("own.tsp")
        files = [program("matmul-3"), self.path("missing.tsp"), mine, program("matmul-2"), program("wrong-3"),
                 program("gather-3")]
        shutil.copy(program("matmul-3"), mine)
        ranks = []
        for r in range(3):
            own = list(files)
            if r == 2:
                own[2] = self.path("gone.tsp")
            ranks.append(start([tool("tandem-run"), *own, "--verify"],
                               environment(RANK=r, WORLD_SIZE=3, LOCAL_RANK=r, LOCAL_WORLD_SIZE=3,
                                           MASTER_ADDR="localhost", MASTER_PORT=port)))
        done = [finish(rank) for rank in ranks]
        self.check(done[0], [(files[0], "^verified matmul: ranks 3"), (files[1], '^FAILED .*: cannot read ".*missing.tsp"'),
                             (mine, '^FAILED .*: rank 2: cannot read ".*gone.tsp"'),
                             (files[3], "is for 2 ranks, launched were 3$"), (files[4], "^FAILED wrong: "),
                             (files[5], "^verified gather")], "2 passed, 4 failed")
        self.assertEqual([(d.code, d.out, d.err) for d in done[1:]], [(1, "", "")] * 2)

    def test_ranks_stay_until_rank_0_has_printed(self):
        """mpirun and torchrun kill the other ranks once one has failed, and with rank 0 its output would be lost."""
        with socket.socket() as listener:
            listener.bind(("", 0))
            port = listener.getsockname()[1]
        # Rank 0 cannot print: its pipe is full.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b" " * 4096)
        os.set_blocking(writer, True)
        ranks = [start([tool("tandem-run"), program("wrong-3"), "--verify"],
                       environment(RANK=r, WORLD_SIZE=3, LOCAL_RANK=r, LOCAL_WORLD_SIZE=3, MASTER_ADDR="localhost",
                                   MASTER_PORT=port), stdout=writer if r == 0 else subprocess.PIPE)
                 for r in range(3)]
        os.close(writer)
        time.sleep(3)  # the others would end within it
        self.assertEqual([rank.poll() for rank in ranks], [None] * 3)
        with os.fdopen(reader) as pipe:
            self.assertIn("FAILED wrong: ", pipe.read())
        self.assertEqual([finish(rank).code for rank in ranks], [1] * 3)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_mpirun(self):
        files = [program(name) for name in ("matmul-3", "matmul-2", "gather-3")]
        done = harness.mpirun(3, tool("tandem-run"), *files, "--verify")
        self.assertEqual(done.code, 1, str(done))
        for file, words in zip(files, ("verified matmul", "is for 2 ranks, launched were 3", "verified gather")):
            self.assertRegex(done.out, rf"(?m)^{re.escape(file)}: .*{words}")
        self.assertIn("2 passed, 1 failed\n", done.out)

    def test_reports(self):
        report, folder = self.path("out.json"), self.path("dump")
        files = [program(name) for name in ("matmul-3", "wrong-3", "gather-3")]
        done = tandem_run(*files, "--verify", "--repeat=5", f"--json={report}", f"--dump-npy={folder}")
        self.assertEqual(done.code, 1, str(done))
        data = harness.read_json(report)
        self.assertEqual([(p["file"], p["name"], p["verified"]) for p in data["programs"]],
                         [(files[0], "matmul", True), (files[1], "wrong", False), (files[2], "gather", True)])
        self.assertIn("rank 2 holds another value", data["programs"][1]["failure"])
        self.assertEqual([len(p["times_ms"]) for p in data["programs"]], [5, 0, 5])
        self.assertEqual((data["passed"], data["failed"], data["not_run"]), (2, 1, []))
        # As from a process of its own.
        self.assertEqual(tandem_run(files[2], f"--json={report}", f"--dump-npy={self.path('alone')}").code, 0)
        alone = harness.read_json(report)
        self.assertEqual(set(alone) | {"file"}, set(data["programs"][2]))
        self.assertEqual(alone["bytes_sent"], data["programs"][2]["bytes_sent"])
        self.assertEqual(sorted(os.listdir(folder)), ["gather-3", "matmul-3"])
        one, other = harness.read_dump(self.path("alone")), harness.read_dump(os.path.join(folder, "gather-3"))
        np.testing.assert_array_equal(one["out"], other["out"])

    def test_a_report_that_cannot_be_written(self):
        done = tandem_run(program("matmul-2"), program("gather-2"), "--channel=local", "--json=/dev/full")
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("2 passed, 0 failed\n", done.out)
        self.assertIn("cannot write", done.err)

    def test_what_several_cannot_have(self):
        done = tandem_run(program("matmul-2"), program("gather-2"), "--trace=x")
        self.assertEqual((done.code, done.out), (2, ""), str(done))
        self.assertIn("--trace: expected one program, found 2", done.err)
        os.mkdir(self.path("other"))
        same = self.path("other/matmul-2.tsp")
        done = tandem_run(program("matmul-2"), same, f"--dump-npy={self.path('dump')}")
        self.assertEqual((done.code, done.out), (2, ""), str(done))
        self.assertIn("would both be written to", done.err)
        self.assertFalse(os.path.exists(self.path("dump")))

    @unittest.skipIf(harness.SLOWER > 1, "a sanitizer keeps memory that was given back")
    def test_memory_is_given_back(self):
        """Many programs need no more than one, whether they pass, are wrong or are refused. Bytes at the peak of one
        process."""
        def peak(name, count, code):
            measure = ("import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, "
                       "stderr=subprocess.DEVNULL); "
                       "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
            # Else blocks of this size come from heaps, of which the library keeps some, after the first was freed.
            env = environment(MALLOC_MMAP_THRESHOLD_=2**20, MALLOC_ARENA_MAX=1)
            done = harness.run([sys.executable, "-c", measure, tool("tandem-run"), *[program(name)] * count, "--verify"],
                               env)
            self.assertEqual(done.out.split()[0], str(code), str(done))
            return int(done.out.split()[1]) * 1024

        size = 8 * 2**20 # of each argument, and of the arena
        for name, code in (("large-2", 0), ("large-wrong-2", 1), ("large-refused-2", 1)):
            with self.subTest(name=name):
                few, many = peak(name, 2, code), peak(name, 8, code)
                # Memory of threads that ended takes some; six programs that kept one buffer would take 6 * size.
                self.assertLess(many, few + 2 * size, f"{few} for two programs, {many} for eight")


@unittest.skipUnless(os.path.exists(FAKE_GPU), "the driver that stands in for CUDA was not built")
class SeveralOnGpus(SeveralTest):
    def test_peer(self):
        damaged = self.corrupt("push-2", 1)
        files = [program("push-2"), program("wrong-push-2"), damaged, program("gather-2"), program("push-2")]
        env = environment(TANDEM_CUDA_LIBRARY=FAKE_GPU, TANDEM_CUBLASLT_LIBRARY=FAKE_GPU, TANDEM_FAKE_GPUS=2)
        for options in ((), ("--no-graph",), ("--threads",)):
            with self.subTest(options=options):
                done = tandem_run(*files, "--device=cuda", "--channel=peer", "--verify", "--repeat=20", *options, env=env)
                self.check(done, [(files[0], "^verified push"),
                                  (files[1], r'^FAILED wrong_push: argument "out".*rank 1'),
                                  (files[2], "^FAILED push: rank 1: .*content hash is"),
                                  (files[3], "^FAILED gather: rank 0: .*needs two_sided.*this context has peer"),
                                  (files[4], "^verified push")], "2 passed, 3 failed")


if __name__ == "__main__":
    harness.main(__doc__, Several, SeveralOnGpus)
