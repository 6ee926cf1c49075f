# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tandem-run on stream programs built by hand: every way to start ranks, what it reports, how ranks end."""

import contextlib
import json
import os
import shutil
import signal
import time
import unittest

import numpy as np

import harness
from harness import environment, finish, free_port, program, start, start_ranks, tandem_run, tool


class Launch(harness.Test):
    def test_own_processes(self):
        for name, ranks in (("matmul-1", 1), ("matmul-2", 2), ("matmul-4", 4), ("matmul-bf16-4", 4), ("gather-3", 3),
                            ("partial-3", 3)):
            for channel in ("ucx", "local"):
                with self.subTest(name=name, channel=channel):
                    done = tandem_run(program(name), "-n", ranks, f"--channel={channel}", "--verify", "--repeat=3")
                    self.assertVerified(done, ranks)
                    self.assertEqual(done.err, "")

    def test_the_program_says_how_many(self):
        self.assertVerified(tandem_run(program("matmul-3"), "--verify"), 3)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_mpirun(self):
        self.assertVerified(harness.mpirun(3, tool("tandem-run"), program("matmul-3"), "--verify"), 3)
        done = harness.mpirun(2, tool("tandem-run"), program("matmul-3"), "--verify")
        self.assertNotEqual(done.code, 0)
        self.assertIn('program "matmul" is for 3 ranks, launched were 2', done.err)

    def test_torchrun_variables(self):
        port = free_port()
        ranks = start_ranks([{"RANK": r, "WORLD_SIZE": 3, "LOCAL_RANK": r, "LOCAL_WORLD_SIZE": 3,
                              "MASTER_ADDR": "localhost", "MASTER_PORT": port} for r in range(3)],
                            program("matmul-3"), "--verify")
        done = [finish(rank) for rank in ranks]
        self.assertVerified(done[0], 3)
        self.assertEqual([(d.code, d.out) for d in done[1:]], [(0, "")] * 2)

    def test_slurm_variables(self):
        # The port follows from the job's number: one that no other test has.
        job = 100000 + os.getpid()
        ranks = start_ranks([{"SLURM_PROCID": r, "SLURM_NTASKS": 3, "SLURM_LOCALID": r, "SLURM_NODEID": 0,
                              "SLURM_TASKS_PER_NODE": "3", "SLURM_JOB_NODELIST": "localhost", "SLURM_JOB_ID": job,
                              "SLURM_STEP_ID": 0} for r in range(3)],
                            program("matmul-3"), "--verify")
        done = [finish(rank) for rank in ranks]
        self.assertVerified(done[0], 3)
        self.assertEqual([d.code for d in done], [0, 0, 0])

    def test_network_only(self):
        done = tandem_run(program("matmul-3"), "--verify", "--repeat=3", env=environment(TANDEM_UCX_NETWORK_ONLY=1))
        self.assertVerified(done, 3)

    def test_rank_that_never_comes(self):
        for more, options in (({}, ["--timeout=1"]), ({"TANDEM_LAUNCH_TIMEOUT": 1}, [])):
            with self.subTest(more=more, options=options):
                [rank] = start_ranks([{"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": free_port(), **more}],
                                     program("matmul-2"), *options)
                done = finish(rank)
                self.assertEqual(done.code, 1)
                self.assertIn("waited 1 s for rank 1 to connect", done.err)

    def test_without_ucx(self):
        done = tandem_run(program("matmul-2"), env=environment(TANDEM_UCX_LIBRARY="libnothere.so.0"))
        self.assertEqual(done.code, 1)
        self.assertIn("channel ucx: UCX is not installed: libnothere.so.0: cannot open shared object", done.out)


class BadUse(harness.Test):
    def check(self, expected, *arguments, env=None):
        done = tandem_run(*arguments, env=env)
        self.assertGreater(done.code, 0, str(done))
        self.assertIn(expected, done.err, str(done))
        self.assertEqual(done.out, "")

    def test_command_line(self):
        self.check("expected a program")
        self.check('unknown option "--what"', program("matmul-1"), "--what")
        self.check("-n: expected a number from 1 to 65536", program("matmul-1"), "-n", "0")
        self.check('--repeat: expected a number from 1 to 100000000, found "x"', program("matmul-1"), "--repeat=x")
        self.check("--channel: expected one of ucx, local, ccl, peer", program("matmul-1"), "--channel=smoke")
        self.check("--device: expected one of cpu, null, cuda", program("matmul-1"), "--device=gpu")
        self.check("--timeout: expected seconds", program("matmul-1"), "--timeout=0")

    def test_rank_count(self):
        self.check('program "matmul" is for 3 ranks, launched were 4', program("matmul-3"), "-n", "4")
        self.check('program "matmul" is for 3 ranks, launched were 2', program("matmul-3"), "-n", "2",
                   "--channel=local")
        self.check("-n 3, but torch has started this as rank 0 of 2", program("matmul-3"), "-n", "3",
                   env=environment(RANK=0, WORLD_SIZE=2, MASTER_ADDR="localhost", MASTER_PORT=free_port()))

    def test_environment(self):
        self.check('environment variable RANK: expected a number from 0 to 65535, found "x"', program("matmul-2"),
                   env=environment(RANK="x", WORLD_SIZE=2, MASTER_ADDR="localhost", MASTER_PORT=1))

    def test_settings(self):
        """Of the runtime: found before a rank is started."""
        for name, value in (("UCX_SPIN", "abc"), ("UCX_SPIN", "-5"), ("UCX_NETWORK_ONLY", "xyz"),
                            ("UCX_GPU_DIRECT", "maybe"), ("GRAPH", "banana"), ("TUNE", "zzz"), ("EPILOGUES", "x"),
                            ("TF32", "2")):
            with self.subTest(name=name, value=value):
                expected = "a number from 0 to 3600000000" if name == "UCX_SPIN" else "0 or 1"
                done = tandem_run(program("matmul-2"), env=environment(**{"TANDEM_" + name: value}))
                self.assertEqual(done.code, 2, str(done))
                self.assertEqual(done.err, f"tandem-run: environment variable TANDEM_{name}: expected {expected}, "
                                           f'found "{value}"\n')

    def test_files(self):
        self.check("cannot read", self.path("missing.tsp"))
        with open(self.path("empty.tsp"), "wb"):
            pass
        self.check("empty.tsp", self.path("empty.tsp"))
        with open(program("matmul-2"), "rb") as file:
            data = bytearray(file.read())
        with open(self.path("cut.tsp"), "wb") as file:
            file.write(data[:-100])
        self.check("cut.tsp", self.path("cut.tsp"))

    def test_one_rank_cannot_load(self):
        with open(program("matmul-3"), "rb") as file:
            data = bytearray(file.read())
        data[100] ^= 1  # the program of rank 0 follows the header
        with open(self.path("flipped.tsp"), "wb") as file:
            file.write(data)
        for channel in ("ucx", "local"):
            with self.subTest(channel=channel):
                done = tandem_run(self.path("flipped.tsp"), "-n", 3, f"--channel={channel}", "--verify")
                self.assertEqual(done.code, 1, str(done))
                self.assertIn("rank 0: content hash is", done.out + done.err)
                # Nobody waits for rank 0 until the timeout (60 s).
                self.assertLess(done.seconds, 10 * harness.SLOWER)


class Reports(harness.Test):
    def test_json_and_lines(self):
        report = self.path("out.json")
        done = tandem_run(program("matmul-4"), "-n", "4", "--verify", "--repeat=5", f"--json={report}")
        self.assertVerified(done, 4)
        with open(report) as file:
            data = json.load(file)
        self.assertTrue(data["verified"])
        self.assertEqual(data["ranks"], 4)
        self.assertEqual(data["commands"], 4 * 18)
        # Each rank sends its 6 x 10 floats to three others.
        self.assertEqual(data["bytes_sent"], 4 * 3 * 6 * 10 * 4)
        self.assertEqual(len(data["times_ms"]), 5)
        self.assertEqual([(rank["commands"], rank["bytes_sent"]) for rank in data["per_rank"]], 4 * [(18, 720)])
        self.assertEqual(data["per_rank"][3]["by_kind"]["send"], 3)
        self.assertEqual(data["results"][0]["name"], "out")

    def test_dump(self):
        for name, tolerance in (("matmul-3", 1e-5), ("matmul-f16-4", 1e-3), ("matmul-bf16-4", 8e-3)):
            with self.subTest(name=name):
                folder = self.path(name)
                self.assertVerified(tandem_run(program(name), "--verify", f"--dump-npy={folder}"), name[-1])
                tensors = harness.read_dump(folder)
                reference = tensors["x"].astype(np.float64) @ tensors["w"].astype(np.float64)
                error = np.linalg.norm(tensors["out"] - reference) / np.linalg.norm(reference)
                self.assertLess(error, tolerance)
                self.assertGreater(np.linalg.norm(reference), 1)

    def test_inputs_follow_the_seed(self):
        """The generator as Inputs.h documents it, written again."""
        def mix(z):
            z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & (2**64 - 1)
            z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & (2**64 - 1)
            return z ^ (z >> 31)

        def u(seed, argument, element):
            golden = 0x9e3779b97f4a7c15
            key = mix((seed + golden * (argument + 1)) % 2**64)
            return mix((key + golden * (element + 1)) % 2**64)

        for name, seed in (("matmul-2", 0), ("matmul-2", 7), ("gather-2", 2**64 - 1), ("matmul-f16-4", 1)):
            with self.subTest(name=name, seed=seed):
                folder = self.path(f"{name}-{seed}")
                done = tandem_run(program(name), "--verify", f"--seed={seed}", f"--dump-npy={folder}")
                self.assertVerified(done, name[-1])
                x = harness.read_dump(folder)["x"].ravel()
                if x.dtype == np.int32:
                    expected = [u(seed, 0, i) % 17 - 8 for i in range(x.size)]
                else:
                    expected = [(u(seed, 0, i) >> 40) * 2.0**-23 - 1 for i in range(x.size)]
                np.testing.assert_array_equal(x, np.array(expected).astype(x.dtype))

    def test_partial(self):
        folder = self.path("dump")
        self.assertVerified(tandem_run(program("partial-4"), "--verify", f"--dump-npy={folder}"), 4)
        tensors = harness.read_dump(folder)
        np.testing.assert_array_equal(tensors["x"], tensors["out"])
        self.assertGreater(np.linalg.norm(tensors["x"]), 1)


class Failures(harness.Test):
    def test_wrong_result(self):
        for channel in ("ucx", "local"):
            report = self.path("out.json")
            done = tandem_run(program("wrong-3"), "--verify", f"--channel={channel}", f"--json={report}")
            self.assertEqual(done.code, 1)
            self.assertIn('FAILED wrong: argument "out", index [6,0]: rank 2 holds another value than rank 0', done.out)
            self.assertNotIn("verified", done.out)
            with open(report) as file:
                self.assertFalse(json.load(file)["verified"])
        # Without --verify nobody compares.
        self.assertEqual(tandem_run(program("wrong-3")).code, 0)

    def test_message_that_never_comes(self):
        done = tandem_run(program("silent-2"), "--timeout=1")
        self.assertEqual(done.code, 1)
        self.assertRegex(done.out, r"FAILED silent: rank 0: no end after 1000 ms.*command 3 \(group: recv from rank 1")
        self.assertLess(done.seconds, 10 * harness.SLOWER)

    def running(self, *arguments, env=None):
        """A launcher whose ranks are in the middle of a long run."""
        launcher = start([tool("tandem-run"), program("long-3"), *arguments], env)
        self.addCleanup(lambda: launcher.poll() is None and os.killpg(launcher.pid, signal.SIGKILL))
        deadline = time.monotonic() + 30 * harness.SLOWER
        while time.monotonic() < deadline:
            ranks = harness.children(launcher.pid)
            if len(ranks) == 3 and all(harness.switches(pid) > 400 for pid in ranks.values()):
                return launcher, ranks
            if launcher.poll() is not None:
                break
            time.sleep(0.01)
        self.fail("the ranks do not run: " + str(finish(launcher)))

    def ends(self, ranks, within):
        deadline = time.monotonic() + within
        while not all(harness.gone(pid) for pid in ranks):
            self.assertLess(time.monotonic(), deadline, "a rank goes on")
            time.sleep(0.02)

    def test_undisturbed(self):
        done = tandem_run(program("long-3"), f"--timeout={6 * harness.SLOWER}")
        self.assertEqual(done.code, 0, str(done))

    def test_killed_rank(self):
        for network in (0, 1):
            with self.subTest(network=network):
                launcher, ranks = self.running("--timeout=60", "--repeat=1000",
                                               env=environment(TANDEM_UCX_NETWORK_ONLY=network))
                os.kill(ranks[1], signal.SIGKILL)
                # Long before the timeout.
                self.ends([ranks[0], ranks[2]], 10 * harness.SLOWER)
                done = finish(launcher)
                self.assertEqual(done.code, 128 + signal.SIGKILL, str(done))
                self.assertRegex(done.out, r"FAILED long: rank 0: .*command \d+ \(group.*lost rank 1", str(done))
                self.assertRegex(done.err, r"rank 2: .*command \d+ \(group.*lost rank 1", str(done))
                self.assertIn("rank 1 was ended by signal 9", done.err)

    def test_killed_rank_zero(self):
        launcher, ranks = self.running("--timeout=60", "--repeat=1000")
        os.kill(ranks[0], signal.SIGKILL)
        self.ends([ranks[1], ranks[2]], 10 * harness.SLOWER)
        done = finish(launcher)
        self.assertEqual(done.code, 128 + signal.SIGKILL)
        self.assertIn("rank 0 was ended by a signal", done.out)
        self.assertRegex(done.err, r"rank 1: .*lost rank 0", str(done))

    def test_stopped_rank(self):
        timeout = 6 * harness.SLOWER
        launcher, ranks = self.running(f"--timeout={timeout}")
        os.kill(ranks[1], signal.SIGSTOP)
        self.ends([ranks[0], ranks[2]], timeout + 3 * harness.SLOWER)
        done = finish(launcher)
        self.assertNotEqual(done.code, 0)
        self.assertRegex(done.out, r"FAILED long: rank 0: .*command \d+ \(group", str(done))
        self.assertRegex(done.err, r"rank 2: .*command \d+ \(group", str(done))
        self.assertIn("rank 1 did not end by itself and was killed", done.err)

    def test_stopped_rank_zero(self):
        """It is the one that tells the others of failures. They miss it, and wait until all must have."""
        timeout = 6 * harness.SLOWER
        launcher, ranks = self.running(f"--timeout={timeout}")
        os.kill(ranks[0], signal.SIGSTOP)
        self.ends([ranks[1], ranks[2]], 11 + timeout + 3 * harness.SLOWER)
        done = finish(launcher)
        self.assertNotEqual(done.code, 0)
        for rank in (1, 2):
            self.assertRegex(done.err, rf"rank {rank}: run of @long: .*command \d+ \(group.*"
                                       r"(rank 0 has sent no heartbeat for|lost rank 0: it has sent no heartbeat)"
                                       rf"|rank {rank}: no end after .*rank 0 has sent no heartbeat for", str(done))
        self.assertIn("rank 0 did not end by itself and was killed", done.err)

    def test_all_ranks_stopped(self):
        """None of them notices, so the launcher does: after the timeout and 10 s."""
        path, timeout = self.path("hang.json"), 5 * harness.SLOWER
        launcher, ranks = self.running(f"--timeout={timeout:g}", "--repeat=1000", f"--hang-report={path}")
        for pid in ranks.values():
            os.kill(pid, signal.SIGSTOP)
        done = finish(launcher)
        self.assertEqual(done.code, 128 + signal.SIGKILL, str(done))
        self.assertIn("FAILED", done.out)
        self.assertIn("rank 0 was stopped", done.out)
        for rank in ranks:
            self.assertIn(f"rank {rank} was stopped for {timeout + 10:g} s, as were all others that had not ended, "
                          "and was killed", done.err)
        self.assertEqual({each["process"] for each in harness.read_json(path)["ranks"]}, {"stopped"})

    def test_killed_launcher_leaves_no_rank(self):
        launcher, ranks = self.running("--timeout=60", "--repeat=1000")
        launcher.kill()
        self.ends(ranks.values(), 10 * harness.SLOWER)
        finish(launcher)

    def started_by_shell(self, variables, end, *arguments, **settings):
        """Ranks of a shell in the place of a launcher; also a file that has a line for each rank that has started."""
        started = self.path("started")
        lines = [f"{name}=$rank" for name in variables]
        script = (f'for rank in 0 1 2; do {" ".join(lines)} "$@" & echo $! >> {started}; done; {end}')
        return start(["sh", "-c", script, "sh", tool("tandem-run"), program("long-3"), *arguments],
                     environment(OMPI_COMM_WORLD_SIZE=3, WORLD_SIZE=3, MASTER_ADDR="127.0.0.1",
                                 MASTER_PORT=harness.free_port(), **settings)), started

    def all_met(self, started):
        """The ranks that a shell has started, once they have met."""
        deadline = time.monotonic() + 60 * harness.SLOWER
        ranks = []
        while len(ranks) < 3 or any(harness.threads(pid) < 2 for pid in ranks):
            self.assertLess(time.monotonic(), deadline, "the ranks do not meet")
            time.sleep(0.02)
            if os.path.exists(started):
                with open(started) as file:
                    ranks = [int(line) for line in file]
        return ranks

    def test_killed_mpirun_leaves_no_rank(self):
        """Open MPI starts the ranks of its host itself, and they outlive it if it gets SIGKILL."""
        launcher, started = self.started_by_shell(["OMPI_COMM_WORLD_RANK"], "wait", "--timeout=60", "--repeat=100000")
        self.addCleanup(self.end_group, launcher.pid)
        ranks = self.all_met(started)
        launcher.kill()
        done = finish(launcher)
        self.ends(ranks, 20 * harness.SLOWER)
        self.assertRegex(done.out + done.err, r"rank [012]: its parent, process \d+ \(openmpi or a wrapper\), has ended",
                         str(done))

    def test_shell_that_ends_by_itself(self):
        """Ranks that were started by hand may outlive their parent, and others if they are told so."""
        for variables, watch in (["RANK"], "1"), (["OMPI_COMM_WORLD_RANK"], "0"):
            with self.subTest(variables=variables):
                go = self.path("go")
                shell, started = self.started_by_shell(
                    variables, f"while ! test -e {go}; do sleep 0.05; done; exit 0", "--timeout=60", "--repeat=100000",
                    TANDEM_WATCH_LAUNCHER=watch)
                self.addCleanup(self.end_group, shell.pid)
                ranks = self.all_met(started)
                with open(go, "w"):
                    pass
                while not harness.gone(shell.pid):
                    shell.poll()
                    time.sleep(0.02)
                os.remove(go)
                time.sleep(2)  # four looks at the parent
                self.assertFalse([pid for pid in ranks if harness.gone(pid)])
                self.end_group(shell.pid)
                finish(shell)
                os.remove(started)

    @staticmethod
    def end_group(group):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    harness.main(__doc__, Launch, BadUse, Reports, Failures)
