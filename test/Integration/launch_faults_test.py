# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Faults around tandem-run: ranks that do not fit together, ranks that end or stop outside of a run, files and streams
that cannot be read or written. Each ends soon, with the cause.
"""

import os
import resource
import shutil
import signal
import socket
import subprocess
import time
import unittest

import harness
from harness import environment, finish, free_port, program, start, start_ranks, tandem_run, tool


def shared_folder(pid):
    """Where UCX keeps the memory that this rank shares: a folder of its job."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        variables = dict(entry.split("=", 1) for entry in file.read().decode().split("\0") if entry)
    return variables["UCX_POSIX_DIR"]


def torch(ranks, port=None, **more):
    """The environments of ranks that are started one by one."""
    port = port or free_port()
    return [{"RANK": r, "WORLD_SIZE": ranks, "MASTER_ADDR": "localhost", "MASTER_PORT": port, **more}
            for r in range(ranks)]


class Disagreement(harness.Test):
    def check(self, expected, arguments, environments=None):
        """Ranks with arguments of their own: all fail, and each says why."""
        environments = environments or torch(len(arguments))
        ranks = []
        for env, each in zip(environments, arguments):
            ranks.append(start([tool("tandem-run"), *each], environment(**env)))
            harness.wait_until_listening(ranks[0], environments[0]["MASTER_PORT"])
        for done in [finish(rank) for rank in ranks]:
            self.assertGreater(done.code, 0, str(done))
            self.assertRegex(done.out + done.err, expected)
            self.assertLess(done.seconds, 20 * harness.SLOWER, str(done))

    def test_programs(self):
        self.check("rank [01] loaded another program: its id is ", [[program("push-2")], [program("wrong-push-2")]])

    def test_options(self):
        for option in ("--seed=7", "--repeat=3", "--verify", "--warmup=1"):
            with self.subTest(option=option):
                self.check("ranks have different options: " + option.split("=")[0],
                           [[program("matmul-2")], [program("matmul-2"), option]])

    def test_world_size(self):
        environments = torch(2)
        environments[1]["WORLD_SIZE"] = 3
        self.check("expects 3 ranks, rank 0 expects 2|is for 2 ranks, launched were 3",
                   [[program("matmul-2"), program("matmul-2")]] * 2, environments)

    def test_secret(self):
        environments = torch(2, TANDEM_SECRET="one")
        environments[1]["TANDEM_SECRET"] = "two"
        self.check("it belongs to another job, or has another TANDEM_SECRET",
                   [[program("matmul-2"), "--timeout=4"]] * 2, environments)

    def test_spelling_of_the_host(self):
        environments = torch(2)
        environments[1]["MASTER_ADDR"] = "127.0.0.1"
        ranks = start_ranks(environments, program("matmul-2"), "--verify")
        self.assertVerified(finish(ranks[0]), 2)
        self.assertEqual(finish(ranks[1]).code, 0)


class Files(harness.Test):
    def test_outputs_are_checked_first(self):
        for option in ("--json", "--trace"):
            for path in (self.path("missing/x"), self.folder, "/proc/x"):
                with self.subTest(option=option, path=path):
                    done = tandem_run(program("huge-2"), f"{option}={path}")
                    self.assertEqual(done.code, 2)
                    self.assertIn(f'cannot write "{path}"', done.err)
        # As a rank of a job: every rank ends.
        ranks = start_ranks(torch(2), program("matmul-2"), f"--json={self.folder}")
        done = [finish(rank) for rank in ranks]
        self.assertGreater(min(d.code for d in done), 0)
        self.assertIn(f'cannot write "{self.folder}"', done[0].err)

    def limited(self, *command, what=resource.RLIMIT_FSIZE, most=1024):
        """With files of at most 1 kB, as if the disk were full, or another limit."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(what, (most, most))
        return subprocess.run(command, env=environment(), capture_output=True, text=True, preexec_fn=limit,
                              timeout=60 * harness.SLOWER)

    def test_full_disk_is_found_first(self):
        for option in ("--json", "--trace"):
            with self.subTest(option=option):
                path = self.path("report")
                done = self.limited(tool("tandem-run"), program("matmul-2"), f"{option}={path}")
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(f'cannot write "{path}": File too large', done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertEqual(os.listdir(self.folder), [])

    def test_full_disk_keeps_the_old_file(self):
        if not os.path.exists(tool("tandem-sim")):
            self.skipTest("no tandem-sim")
        machine = os.path.join(os.path.dirname(__file__), "..", "..", "machines", "h200x8.json")
        for option in ("--json", "--trace", "--svg"):
            with self.subTest(option=option):
                path = self.path("old")
                with open(path, "w") as file:
                    file.write("old")
                # What is looked for at the start fits.
                done = self.limited(tool("tandem-sim"), program("long-3"), f"--machine={machine}", f"{option}={path}",
                                    most=4096)
                self.assertGreater(done.returncode, 0, done.stdout)
                self.assertIn(f'cannot write "{path}": File too large', done.stderr)
                with open(path) as file:
                    self.assertEqual(file.read(), "old")
                self.assertEqual(os.listdir(self.folder), ["old"])

    def test_full_disk_keeps_the_old_program(self):
        if not os.path.exists(tool("tandem-compile")):
            self.skipTest("no tandem-compile")
        source = os.path.join(os.path.dirname(__file__), "..", "Programs", "allgather-matmul-p2p.mlir")
        path = self.path("old.tsp")
        shutil.copy(program("matmul-1"), path)
        done = self.limited(tool("tandem-compile"), source, "--mesh", "x=4", "-o", path)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"cannot write \"{path}\": File too large", done.stderr)
        with open(path, "rb") as file, open(program("matmul-1"), "rb") as old:
            self.assertEqual(file.read(), old.read())
        self.assertEqual(os.listdir(self.folder), ["old.tsp"])

    def test_full_standard_output(self):
        for command in ([tool("tandem-run"), program("matmul-2")], [tool("tandem-run"), "--help"],
                        [tool("tandem-check"), program("matmul-2")]):
            with self.subTest(command=command), open("/dev/full", "w") as full:
                done = finish(start(command, stdout=full))
                self.assertGreater(done.code, 0)
                self.assertIn("cannot write to the standard output", done.err)

    def test_closed_streams(self):
        run = f"{tool('tandem-run')} {program('matmul-2')} --verify"
        for redirection, code in (("<&-", 0), ("2>&-", 0), (">&-", 1), ("<&- >&- 2>&-", 1)):
            with self.subTest(redirection=redirection):
                done = finish(start(["sh", "-c", f"{run} {redirection}"]))
                self.assertEqual(done.code, code, str(done))

    def test_endless_inputs(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        commands = [[tool("tandem-run")], [tool("tandem-check")]]
        if os.path.exists(tool("tandem-compile")):
            commands += [[tool("tandem-compile"), "-o", self.path("x")], [tool("tandem-compile"), "--dump"]]
        for command in commands:
            for path in (pipe, "/dev/zero"):
                with self.subTest(command=command, path=path):
                    done = finish(start([*command, path]), 20)
                    self.assertGreater(done.code, 0)
                    self.assertIn("not a regular file", done.err)

    def test_native_code(self):
        done = tandem_run(program("native-1"))
        self.assertEqual(done.code, 0, str(done))
        done = tandem_run(program("native-1"), "--no-native")
        self.assertEqual(done.code, 1, str(done))
        self.assertIn('--no-native: @native: kernel "kernel" has native code (ptx), which this job refuses', done.out)
        done = tandem_run(program("matmul-2"), "--no-native", "--verify")
        self.assertVerified(done, 2)

    @unittest.skipIf(harness.SLOWER > 1, "a sanitizer needs more address space than the limit leaves")
    def test_memory(self):
        for channel in ("ucx", "local"):
            done = self.limited(tool("tandem-run"), program("huge-2"), f"--channel={channel}", what=resource.RLIMIT_AS,
                                most=1 << 36)
            self.assertEqual(done.returncode, 1)
            self.assertIn("FAILED huge: rank 0: no memory for this rank's tensors: 549755813888 bytes", done.stdout)

    @unittest.skipIf(harness.SLOWER > 1, "a sanitizer ends the process")
    def test_memory_of_verify(self):
        """Only rank 0 needs the whole tensors: the others hear it, and the series goes on."""
        for channel in ("ucx", "local"):
            for name, message in (("result", 'result "out" of all ranks: 633318697598976 bytes'),
                                  ("input", "the unsharded reference's tensors: 1125899906843136 bytes")):
                with self.subTest(channel=channel, vast=name):
                    done = tandem_run(program(f"vast-{name}-2"), program("matmul-2"), "--verify",
                                      f"--channel={channel}")
                    self.assertEqual(done.code, 1, str(done))
                    self.assertIn(f"FAILED vast_{name}: rank 0: no memory for {message}\n", done.out)
                    self.assertRegex(done.out, "verified matmul: .*\n1 passed, 1 failed\n")
                    self.assertEqual(done.err, "")

    @unittest.skipIf(harness.SLOWER > 1, "a sanitizer has threads of its own")
    def test_threads(self):
        """No thread can be started: its stack would be larger than any address space."""
        for channel, expected in (("ucx", r"rank [01]: cannot start a thread for the heartbeat"),
                                  ("local", "cannot start a thread for rank 0")):
            with self.subTest(channel=channel):
                done = self.limited(tool("tandem-run"), program("matmul-2"), f"--channel={channel}", "--timeout=20",
                                    what=resource.RLIMIT_STACK, most=1 << 46)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, expected + ": Resource temporarily unavailable")

    @unittest.skipIf(harness.SLOWER > 1, "a sanitizer has descriptors of its own")
    def test_descriptors(self):
        """From too few to start a rank to enough for the heartbeat; UCX itself needs more, and may crash."""
        for most in range(5, 16):
            done = self.limited(tool("tandem-run"), program("matmul-2"), "--channel=ucx", "--timeout=20",
                                what=resource.RLIMIT_NOFILE, most=most)
            self.assertGreater(done.returncode, 0, done.stderr)
            self.assertNotIn("terminate called", done.stderr)
            if "rank 0: cannot make a descriptor for the heartbeat: Too many open files" in done.stderr:
                return
        self.fail("the heartbeat has had a descriptor with any limit")


class Launcher(harness.Test):
    def test_rank_that_ends_before_it_connects(self):
        """Or soon after: it is killed as soon as it can be seen."""
        for victim in (0, 1):
            with self.subTest(victim=victim):
                launcher = start([tool("tandem-run"), program("long-3"), "--timeout=60"])
                self.addCleanup(lambda: launcher.poll() is None and os.killpg(launcher.pid, signal.SIGKILL))
                pid = self.first_sight(launcher, victim)
                os.kill(pid, signal.SIGKILL)
                done = finish(launcher, 30)
                self.assertEqual(done.code, 128 + signal.SIGKILL, str(done))
                self.assertLess(done.seconds, 15 * harness.SLOWER, str(done))

    def first_sight(self, launcher, rank):
        deadline = time.monotonic() + 30 * harness.SLOWER
        while time.monotonic() < deadline and launcher.poll() is None:
            ranks = harness.children(launcher.pid)
            if rank in ranks:
                return ranks[rank]
        self.fail("no rank was started: " + str(finish(launcher)))

    def test_nothing_is_left(self):
        """However a job ends, its ranks and their shared memory go with it."""
        for name, number in (("rank killed", None), ("interrupted", signal.SIGINT), ("terminated", signal.SIGTERM)):
            with self.subTest(how=name):
                launcher = start([tool("tandem-run"), program("long-3"), "--repeat=1000"])
                self.addCleanup(lambda: launcher.poll() is None and os.killpg(launcher.pid, signal.SIGKILL))
                ranks = self.running(launcher)
                folder = shared_folder(ranks[1])
                # Where UCX can, it removes its files' names at once; elsewhere a killed rank leaves them.
                with open(os.path.join(folder, "left"), "x", encoding="ascii"):
                    pass
                if number:
                    os.kill(launcher.pid, number)
                else:
                    os.kill(ranks[1], signal.SIGKILL)
                done = finish(launcher)
                self.assertEqual(done.code, -number if number else 128 + signal.SIGKILL, str(done))
                self.assertTrue(all(harness.gone(pid) for pid in ranks.values()))
                self.assertFalse(os.path.exists(folder), folder)

    def test_next_launcher_removes_what_a_killed_one_left(self):
        launcher = start([tool("tandem-run"), program("long-3"), "--repeat=1000"])
        self.addCleanup(lambda: launcher.poll() is None and os.killpg(launcher.pid, signal.SIGKILL))
        ranks = self.running(launcher)
        folder = shared_folder(ranks[1])
        launcher.kill()
        finish(launcher)
        deadline = time.monotonic() + 30 * harness.SLOWER
        while (left := [rank for rank, pid in ranks.items() if not harness.gone(pid)]) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(left, [], "ranks that have outlived their launcher")
        self.assertVerified(tandem_run(program("matmul-2"), "--verify"), 2)
        self.assertFalse(os.path.exists(folder), folder)

    def running(self, launcher):
        """The three ranks, once they communicate."""
        deadline = time.monotonic() + 30 * harness.SLOWER
        while time.monotonic() < deadline and launcher.poll() is None:
            ranks = harness.children(launcher.pid)
            if len(ranks) == 3 and all(harness.switches(pid) > 400 for pid in ranks.values()):
                return ranks
            time.sleep(0.05)
        self.fail("the ranks do not run: " + str(finish(launcher)))

    def test_ignored_sigchld(self):
        done = finish(start(["sh", "-c", 'trap "" CHLD; exec "$0" "$@"', tool("tandem-run"), program("matmul-2"),
                             "--verify"]), 30)
        self.assertVerified(done, 2)

    def test_only_the_loopback_is_open(self):
        """While ranks run, nothing listens where another host could connect."""
        launcher = start([tool("tandem-run"), program("long-3"), "--repeat=1000"])
        self.addCleanup(lambda: launcher.poll() is None and os.killpg(launcher.pid, signal.SIGKILL))
        ranks = self.running(launcher)
        found = open_to_all(ranks.values())
        os.kill(launcher.pid, signal.SIGTERM)
        finish(launcher)
        self.assertEqual(found, [])

    def test_only_the_loopback_is_open_by_hand(self):
        """Ranks that nothing but their address of rank 0 tells that they are on one host."""
        for more in ({"MASTER_ADDR": "localhost"}, {"MASTER_ADDR": "127.0.0.1", "LOCAL_WORLD_SIZE": 3}):
            port = harness.free_port()
            jobs = []
            for rank in range(3):
                environment = {"RANK": rank, "WORLD_SIZE": 3, "MASTER_PORT": port, **more}
                jobs += harness.start_ranks([environment], program("long-3"), "--repeat=1000")
                self.addCleanup(lambda job=jobs[-1]: job.poll() is None and os.killpg(job.pid, signal.SIGKILL))
                if rank == 0:
                    harness.wait_until_listening(jobs[0], port)
                    self.assertEqual(open_to_all([jobs[0].pid]), [], more)
            deadline = time.monotonic() + 30 * harness.SLOWER
            while not all(harness.switches(job.pid) > 400 for job in jobs):
                self.assertLess(time.monotonic(), deadline, "the ranks do not run")
                self.assertEqual([job.poll() for job in jobs], [None] * 3)
                time.sleep(0.05)
            listening = {inode for job in jobs for inode in sockets_of(job.pid)}
            self.assertTrue(any(inode in listening for _, inode in listeners()), "UCX does not listen")
            self.assertEqual(open_to_all([job.pid for job in jobs]), [], more)
            for job in jobs:
                os.killpg(job.pid, signal.SIGKILL)
                finish(job)


def open_to_all(pids):
    """The addresses but the loopback where these processes listen."""
    listening = {inode for pid in pids for inode in sockets_of(pid)}
    return [address for address, inode in listeners() if inode in listening and not is_loopback(address)]


def sockets_of(pid):
    """The inodes of a process's sockets."""
    found = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except OSError:
        pass
    return found


def listeners():
    """(address, inode) of each listening TCP socket."""
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        try:
            with open(f"/proc/net/{table}") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        for row in rows:
            if row[3] == "0A":
                words = bytes.fromhex(row[1].split(":")[0])
                address = b"".join(words[i:i + 4][::-1] for i in range(0, len(words), 4))
                yield socket.inet_ntop(family, address), row[9]


def is_loopback(address):
    return address.startswith("127.") or address == "::1" or address.startswith("::ffff:127.")


if __name__ == "__main__":
    harness.main(__doc__, Disagreement, Files, Launcher)
