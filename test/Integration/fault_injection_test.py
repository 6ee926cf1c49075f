# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The injection matrix of docs/operations.md: a fault on each channel. Every rank ends in time, with rank, command and
cause; nothing stays behind; the next run works. Channels ccl and peer run over the stand-in driver, of CUDA and of HIP.
"""

import dataclasses
import glob
import os
import signal
import time
import unittest

import harness
from harness import environment, finish, program, start, tool

FAKE = next(iter(glob.glob(os.path.join(harness.BIN, "..", "lib", "libTandemFakeCuda.*"))), None)
#: For HIP alone, where there is no CUDA toolkit.
FAKE_HIP = FAKE or next(iter(glob.glob(os.path.join(harness.BIN, "..", "lib", "libTandemFakeHip.*"))), None)
LIBRARIES = ("TANDEM_CUDA_LIBRARY", "TANDEM_CUBLASLT_LIBRARY", "TANDEM_NCCL_LIBRARY")
HIP_LIBRARIES = ("TANDEM_HIP_LIBRARY", "TANDEM_HIPBLASLT_LIBRARY", "TANDEM_RCCL_LIBRARY")

#: Channel -> options, a program that runs for long, one whose rank 0 waits for seconds, one that is quick.
CHANNELS = {
    "local": (["--channel=local"], "long-3", "late-2", "matmul-2"),
    "ucx": (["--channel=ucx"], "long-3", "late-2", "matmul-2"),
    "ccl": (["--channel=ccl", "--threads", "--device=cuda"], "long-3", "late-2", "matmul-2"),
    "peer": (["--channel=peer", "--device=cuda"], "long-push-2", "late-push-2", "push-2"),
    "hip-ccl": (["--channel=ccl", "--threads", "--device=hip"], "long-3", "late-2", "matmul-2"),
    "hip-peer": (["--channel=peer", "--device=hip"], "long-push-2", "late-push-2", "push-2"),
}
#: Ranks are processes.
PROCESSES = ("ucx", "peer", "hip-peer")


def runs_here(channel):
    """True if this build has the device and libraries of a channel."""
    if not channel.startswith("hip-"):
        return channel in ("local", "ucx") or bool(FAKE)
    if not FAKE_HIP:
        return False
    with open(FAKE_HIP, "rb") as file:
        text = file.read()
    return b"\0hipInit\0" in text and (channel != "hip-ccl" or b"\0ncclGroupStart\0" in text)


def variables(channel):
    """Of a process, for a channel."""
    if channel in ("local", "ucx"):
        return environment()
    if channel.startswith("hip-"):
        return environment(TANDEM_FAKE_GPUS=4, **dict.fromkeys(HIP_LIBRARIES, FAKE_HIP))
    return environment(TANDEM_FAKE_GPUS=4, **dict.fromkeys(LIBRARIES, FAKE))


def timeout(seconds):
    """Also bounds how long ranks may take to connect."""
    return f"--timeout={seconds * harness.SLOWER:g}"


def shared_folder(launcher):
    """Where UCX keeps the shared memory of this launcher's ranks, which it holds open; None: nowhere so far."""
    try:
        links = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{launcher}/fd")]
    except OSError:
        return None
    return next((link for link in links if link.startswith("/dev/shm/tandem-")), None)


class Matrix(harness.Test):
    """Helpers: starts a job on a channel, and looks at its end."""

    def launch(self, channel, *arguments, **more):
        job = start([tool("tandem-run"), *arguments], {**variables(channel), **more})
        self.addCleanup(lambda: job.poll() is None and os.killpg(job.pid, signal.SIGKILL))
        job.shared = more.get("UCX_POSIX_DIR")
        if channel in PROCESSES and not job.shared:
            wait_for(self, lambda: setattr(job, "shared", shared_folder(job.pid)) or job.shared or job.poll() is not None)
            self.assertTrue(job.shared, "the launcher has no folder for shared memory")
        return job

    def assertUsable(self, channel):
        options, _, _, quick = CHANNELS[channel]
        done = finish(self.launch(channel, program(quick), *options))
        self.assertEqual(done.code, 0, str(done))

    def assertGone(self, job):
        """What `start` made a group for has no process, shared memory or file any more."""
        self.assertEqual(harness.left_of(job), [])
        if job.shared:
            self.assertFalse(os.path.exists(job.shared), job.shared)
        self.assertEqual(os.listdir(self.folder), [])


class HangReport(Matrix):
    def check(self, job, expected, code=1):
        """`expected`: of the report's text."""
        done = finish(job)
        self.assertEqual(done.code, code, str(done))
        report = harness.read_json(self.path("hang.json"))
        self.assertRegex("\n".join(report["summary"]), expected, str(done))
        for line in report["summary"]:
            self.assertIn(line, done.err)
        files = [rank["file"] for rank in report["ranks"]]
        self.assertEqual([file["rank"] for file in files if file], [rank for rank, file in enumerate(files) if file])
        self.assertEqual([name for name in os.listdir(self.folder) if not name.startswith("hang.json.rank")], ["hang.json"])
        return report

    def in_flight(self, job, ranks):
        """Waits until each rank has recorded a command in flight; the files of the ranks."""
        files = [self.path(f"hang.json.rank{rank}") for rank in range(ranks)]
        wait_for(self, lambda: job.poll() is not None
                 or all(os.path.exists(file) and harness.read_json(file)["in_flight"] for file in files))
        self.assertIsNone(job.poll())
        return files

    def late(self, channel, *more):
        """Rank 0 waits for rank 1, which has not come so far."""
        options, _, late, _ = CHANNELS[channel]
        job = self.launch(channel, program(late), timeout(1), *options, *more,
                          f"--hang-report={self.path('hang.json')}")
        report = self.check(job, r"  stream 0 in command 1 \((group: recv from rank 1|wait_signal slot 0 value 1) .*, run 0\n"
                                 r"    waits for rank 1 stream 0 command \d{4,} \((send|signal) ")
        waits = report["ranks"][0]["file"]["in_flight"][0]["waits_for"][0]
        self.assertEqual((waits["rank"], waits["stream"]), (1, 0))
        return report, waits["state"]

    def test_local(self):
        report, state = self.late("local")
        self.assertEqual((report["held_up_by"], state), ([1], "not begun"))

    def test_ucx(self):
        report, state = self.late("ucx")
        self.assertEqual((report["held_up_by"], state), ([1], "not begun"))
        self.assertRegex(report["ranks"][1]["file"]["in_flight"][0]["description"], r"command \d+ \(copy ")

    @unittest.skipUnless(FAKE, "no stand-in driver")
    def test_peer(self):
        report, _ = self.late("peer")
        self.assertEqual(report["held_up_by"], [1])

    @unittest.skipUnless(FAKE, "no stand-in driver")
    def test_ccl(self):
        # On a GPU, a position without a graph is that of the next command that waits. Or the host has not enqueued it yet.
        _, state = self.late("ccl", "--no-graph")
        self.assertIn(state, ("in flight", "not begun"))

    @unittest.skipUnless(FAKE, "no stand-in driver")
    def test_ccl_graph(self):
        report, state = self.late("ccl")
        self.assertIn(state, ("perhaps in flight", "not begun"))
        self.assertFalse(report["ranks"][0]["file"]["in_flight"][0]["certain"])

    def test_the_program_lacks_the_other_end(self):
        job = self.launch("local", program("silent-2"), timeout(1), "--channel=local",
                          f"--hang-report={self.path('hang.json')}")
        report = self.check(job, "the program has no send for its message")
        self.assertEqual([bool(rank["file"] and rank["file"]["in_flight"]) for rank in report["ranks"]], [True, False])

    def test_signals_to_threads(self):
        """The ranks record; SIGUSR1 changes nothing else."""
        job = self.launch("local", program("crawl-2"), "--repeat=100000", "--channel=local",
                          f"--hang-report={self.path('hang.json')}")
        files = self.in_flight(job, 2)
        os.kill(job.pid, signal.SIGUSR1)
        before = [os.stat(file).st_ino for file in files]
        wait_for(self, lambda: all(os.stat(file).st_ino != old for file, old in zip(files, before)) or job.poll() is not None)
        self.assertIsNone(job.poll())
        os.kill(job.pid, signal.SIGTERM)
        self.assertEqual(finish(job).code, -signal.SIGTERM)
        self.assertTrue(any(harness.read_json(file)["in_flight"] for file in files))

    def test_signals_to_a_launcher(self):
        """SIGUSR1 changes nothing; the job then ends by SIGTERM."""
        job = self.launch("ucx", program("crawl-2"), "--repeat=100000", "--channel=ucx",
                          f"--hang-report={self.path('hang.json')}")
        self.in_flight(job, 2)
        os.kill(job.pid, signal.SIGUSR1)
        wait_for(self, lambda: os.path.exists(self.path("hang.json")))
        self.assertIsNone(job.poll())
        os.unlink(self.path("hang.json"))
        os.kill(job.pid, signal.SIGTERM)
        report = self.check(job, "rank 1: ", code=-signal.SIGTERM)
        self.assertTrue(any(rank["file"] and rank["file"]["in_flight"] for rank in report["ranks"]), report)

    def test_ranks_go_on_after_what_their_launcher_answers(self):
        job = self.launch("ucx", program("long-3"), "--repeat=100000", "--channel=ucx",
                          f"--hang-report={self.path('hang.json')}")
        for pid in busy(self, job, "ucx").values():
            os.kill(pid, signal.SIGUSR1)
        os.kill(job.pid, signal.SIGTERM)
        report = self.check(job, "rank 2: ", code=-signal.SIGTERM)
        self.assertEqual([rank["process"] for rank in report["ranks"]], ["running"] * 3)

    def test_an_ignored_signal_stays_ignored(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN) # as below nohup
        try:
            job = self.launch("ucx", program("long-3"), "--repeat=100000", "--channel=ucx",
                              f"--hang-report={self.path('hang.json')}")
        finally:
            signal.signal(signal.SIGHUP, before)
        busy(self, job, "ucx")
        os.kill(job.pid, signal.SIGHUP)
        os.kill(job.pid, signal.SIGUSR1)
        wait_for(self, lambda: os.path.exists(self.path("hang.json")))
        os.kill(job.pid, signal.SIGTERM)
        self.check(job, "rank 2: ", code=-signal.SIGTERM)

    def start_by_hand(self, name, *more):
        port = harness.free_port()
        environments = [{"RANK": r, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": port} for r in range(2)]
        jobs = harness.start_ranks(environments, program(name), f"--hang-report={self.path('hang.json')}", *more)
        for job in jobs:
            self.addCleanup(lambda job=job: job.poll() is None and os.killpg(job.pid, signal.SIGKILL))
        return jobs

    def test_signals_to_ranks_of_others(self):
        jobs = self.start_by_hand("crawl-2", "--repeat=100000")
        files = self.in_flight(jobs[0], 2) # before that, SIGUSR1 ends a process
        os.kill(jobs[0].pid, signal.SIGUSR1)
        wait_for(self, lambda: harness.read_json(files[0])["reason"] == "signal" or jobs[0].poll() is not None)
        self.assertEqual([job.poll() for job in jobs], [None, None])
        os.kill(jobs[1].pid, signal.SIGTERM)
        self.assertEqual(finish(jobs[1]).code, -signal.SIGTERM)
        self.assertEqual(finish(jobs[0]).code, 1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["hang.json.rank0", "hang.json.rank1"])

    def test_started_by_others(self):
        for job in self.start_by_hand("late-2", timeout(1)):
            self.assertEqual(finish(job).code, 1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["hang.json.rank0", "hang.json.rank1"])
        record = harness.read_json(self.path("hang.json.rank0"))
        self.assertEqual(record["in_flight"][0]["waits_for"][0]["rank"], 1)
        self.assertRegex(record["error"], "rank 0: ")


@unittest.skipUnless(FAKE, "no stand-in driver")
class Staged(Matrix):
    """Memory of a GPU over UCX, which moves host memory."""

    def test_messages(self):
        env = environment(TANDEM_FAKE_GPUS=4, **dict.fromkeys(LIBRARIES, FAKE))
        done = harness.tandem_run(program("matmul-3"), "--channel=ucx", "--device=cuda", "--verify", "--repeat=3", env=env)
        self.assertVerified(done, 3)
        self.assertIn("channel ucx moves host memory: data of device cuda:0 is copied through it", done.err)

    def test_ucx_accesses_gpu_memory(self):
        """With a UCX that says so, nothing is copied through host memory, unless the user wants it: the stand-in ends a
        process that sends other memory."""
        ucx = next(iter(glob.glob(os.path.join(harness.BIN, "..", "lib", "libTandemFakeUcx.*"))), None)
        if not ucx:
            self.skipTest("no stand-in for UCX")
        kinds = {"cuda": LIBRARIES, "hip": HIP_LIBRARIES} if runs_here("hip-peer") else {"cuda": LIBRARIES}
        for device, libraries in kinds.items():
            env = environment(TANDEM_FAKE_GPUS=4, TANDEM_UCX_LIBRARY=ucx, **dict.fromkeys(libraries, FAKE))
            for name, ranks in (("matmul-3", 3), ("gather-3", 3)):
                done = harness.tandem_run(program(name), "--channel=ucx", f"--device={device}", "--verify", "--repeat=3",
                                          env=env)
                self.assertVerified(done, ranks)
                self.assertNotIn("copied through it", done.err)
        env["TANDEM_UCX_GPU_DIRECT"] = "0"
        done = harness.tandem_run(program("matmul-3"), "--channel=ucx", f"--device={device}", "--verify", env=env)
        self.assertVerified(done, 3)
        self.assertIn("copied through it", done.err)

    def test_puts_have_another_channel(self):
        """Peers cannot access staged memory: a program with puts takes the next channel, or says what is missing."""
        env = environment(TANDEM_FAKE_GPUS=4, **dict.fromkeys(LIBRARIES, FAKE))
        done = harness.tandem_run(program("push-2"), "--channel=ucx,peer", "--device=cuda", "--verify", env=env)
        self.assertVerified(done, 2)
        done = harness.tandem_run(program("push-2"), "--channel=ucx", "--device=cuda", env=env)
        self.assertEqual(done.code, 1, str(done))
        self.assertRegex(done.out + done.err, r"needs one_sided, this context has ucx \(two_sided\)")


def wait_for(test, condition, seconds=30):
    deadline = time.monotonic() + seconds * harness.SLOWER
    while not condition():
        test.assertLess(time.monotonic(), deadline, "it does not come to that")
        time.sleep(0.02)


def running(test, job):
    """The processes of the ranks, once these run."""
    ranks = {}

    def communicate():
        nonlocal ranks
        if job.poll() is not None:
            test.fail("the ranks do not run: " + str(finish(job)))
        ranks = harness.children(job.pid)
        return len(ranks) > 1 and all(harness.switches(pid) > 300 for pid in ranks.values())

    wait_for(test, communicate)
    return ranks


def busy(test, job, channel):
    """Waits until the ranks run; the processes of the ranks, if they are such."""
    if channel in PROCESSES:
        return running(test, job)
    wait_for(test, lambda: job.poll() is not None or harness.switches(job.pid) > 1000)
    return {}


def quick_delays(whole):
    """When a rank is killed, in seconds from its first sight: a start takes about 0.2 s."""
    return [delay * harness.SLOWER for delay in ([i * 0.02 for i in range(20)] if whole else [0, 0.05, 0.12])]


class Injection(harness.CombinationTest, Matrix):
    """One row and channel of the table in docs/operations.md."""

    def check(self):
        getattr(self, self.combination.fault)(self.combination.channel)
        self.assertUsable(self.combination.channel)

    def ends(self, job, expected, code=1, limit=40):
        """Within `limit` seconds, with a message as expected: of rank, command and cause. Nothing stays behind."""
        done = self.assertEnds(job, expected, code, limit)
        self.assertGone(job)
        return done

    def assertEnds(self, job, expected, code=1, limit=40):
        done = finish(job)
        self.assertEqual(done.code, code, str(done))
        self.assertLess(done.seconds, limit * harness.SLOWER, str(done))
        self.assertRegex(done.out + done.err, expected, str(done))
        return done

    def run_for_long(self, channel, *more, **variables):
        options, long, _, _ = CHANNELS[channel]
        job = self.launch(channel, program(long), "--repeat=100000", *options, *more, **variables)
        return job, busy(self, job, channel)

    def killed(self, channel):
        """In a run. The others name the rank and the command in which they were."""
        job, ranks = self.run_for_long(channel)
        os.kill(ranks[1], signal.SIGKILL)
        self.ends(job, r"rank 0[:,] (.*(command \d+ \(|exchange \d+).*rank 1(: its process has ended|.*closed)"
                       r"|(@\w+: )?lost rank 1: its process has ended)",  # between two commands, or before them
                  code=128 + signal.SIGKILL, limit=10)

    def killed_at_any_time(self, channel):
        """While it connects, prepares, runs, verifies, and leaves."""
        options, _, _, quick = CHANNELS[channel]
        for delay in quick_delays(self.combination.whole):
            job = self.launch(channel, program(quick), *options, timeout(30), "--repeat=50",
                              *(["--verify"] if channel == "ucx" else []))
            found = []
            wait_for(self, lambda: job.poll() is not None or found.append(harness.children(job.pid).get(1)) or found[-1])
            time.sleep(delay)
            try:
                os.kill(found[-1], signal.SIGKILL)
            except (ProcessLookupError, TypeError):
                pass # it was through
            done = finish(job)
            self.assertIn(done.code, (0, 128 + signal.SIGKILL), f"delay {delay}: {done}")
            self.assertLess(done.seconds, 15 * harness.SLOWER, f"delay {delay}: {done}")
            self.assertGone(job)

    def stalled(self, channel):
        """A stopped rank: the others end after the timeout, and the launcher kills it."""
        # HIP's stand-in waits in kernels, so a run takes longer.
        job, ranks = self.run_for_long(channel, timeout(10 if channel == "hip-peer" else 2))
        os.kill(ranks[1], signal.SIGSTOP)
        self.ends(job, r"rank 0: .*command \d+ \((.|\n)*rank 1 did not end by itself and was killed", limit=60)

    def no_signal(self, channel):
        """The message or signal that rank 0 waits for does not come. On GPUs rank 1 may give up first: a GPU reports progress
        only at commands that wait, so rank 1 seems to stand still, too."""
        options, _, late, _ = CHANNELS[channel]
        job = self.launch(channel, program(late), timeout(1), *options, "--no-graph")
        gave_up = rf"no end after {1000 * harness.SLOWER:g} ms: .*command"
        sender = "" if channel in ("local", "ucx") else rf"|rank 1: {gave_up} \d+ \((group: send to rank 0|signal)"
        self.ends(job, rf"rank 0: .*({gave_up} 1 \((group: recv from rank 1|wait_signal slot 0){sender})")

    def other_program(self, channel):
        options, _, _, quick = CHANNELS[channel]
        self.differ(channel, "rank [01] loaded another program: its id is ", [[program(quick), *options],
                                                        [program("wrong-push-2" if channel.endswith("peer") else "late-2"), *options]])

    def other_version(self, channel):
        """The file of rank 1 is of another version of the format."""
        options, _, _, quick = CHANNELS[channel]
        other = self.path("other.tsp")
        with open(program(quick), "rb") as file:
            data = bytearray(file.read())
        data[8:12] = (99).to_bytes(4, "little")
        with open(other, "wb") as file:
            file.write(data)
        self.differ(channel, "rank 1: .*other.tsp: .*header field version: found 99, expected [0-9]+",
                    [[program(quick), *options], [other, *options]], kept=["other.tsp"])

    def other_option(self, channel):
        options, _, _, quick = CHANNELS[channel]
        self.differ(channel, "ranks have different options: --repeat",
                    [[program(quick), *options, f"--repeat={r + 1}"] for r in range(2)])

    def other_secret(self, channel):
        options, _, _, quick = CHANNELS[channel]
        self.differ(channel, "it belongs to another job, or has another TANDEM_SECRET",
                    [[program(quick), *options, timeout(4)]] * 2, [{"TANDEM_SECRET": f"secret {r}"} for r in range(2)])

    def differ(self, channel, expected, arguments, more=({}, {}), kept=()):
        port, shared = str(harness.free_port()), self.path("shared")
        os.mkdir(shared)
        jobs = []
        for r in range(2):
            jobs.append(self.launch(channel, *arguments[r], RANK=str(r), WORLD_SIZE="2", LOCAL_RANK=str(r), LOCAL_WORLD_SIZE="2",
                                    MASTER_ADDR="localhost", MASTER_PORT=port, UCX_POSIX_DIR=shared, **more[r]))
            harness.wait_until_listening(jobs[0], port) # rank 1 may have little time
        for job in jobs:
            self.assertEnds(job, expected)
        os.rmdir(shared) # it is empty
        for name in kept:
            os.unlink(self.path(name))
        for job in jobs:
            self.assertGone(job)

    def memory(self, channel):
        """Of the GPU: of the host, launch_faults_test.py."""
        options, _, _, quick = CHANNELS[channel]
        job = self.launch(channel, program(quick), *options, TANDEM_FAKE_MEMORY="16")
        self.ends(job, r"rank 0: .*cannot allocate \d+ bytes: (.|\n)*rank 1: .*cannot allocate \d+ bytes: ")

    def device_error(self, channel):
        """The GPU of rank 1 fails in the middle of a run."""
        options, long, _, _ = CHANNELS[channel]
        job = self.launch(channel, program(long), "--repeat=100000", "--no-graph", *options, TANDEM_FAKE_FAIL_ON="2",
                          TANDEM_FAKE_FAIL_AFTER="500" if channel.endswith("peer") else "12")
        done = self.ends(job, r"rank 1: .*command \d+ \(.*: the fake driver refuses \(FAKE\)")
        self.assertRegex(done.out, "FAILED .*rank 0: ")

    def interrupted(self, channel):
        for number in (signal.SIGINT, signal.SIGTERM):
            job, ranks = self.run_for_long(channel)
            os.kill(job.pid, number)
            self.ends(job, "^", code=-number, limit=10)
            self.assertTrue(all(harness.gone(pid) for pid in ranks.values()))


@dataclasses.dataclass(frozen=True)
class Row:
    fault: str
    channel: str
    whole: bool

    @property
    def name(self):
        return f"{self.fault}/{self.channel}"


#: Fault -> channels, those in the quick set first; a star ends the quick ones.
ROWS = {
    "killed": "peer hip-peer * ucx",
    "killed_at_any_time": "ucx * peer hip-peer",
    "stalled": "* ucx peer hip-peer",
    "no_signal": "* local ucx ccl peer hip-ccl hip-peer",
    "other_program": "peer * ucx hip-peer",
    "other_version": "ucx * peer",
    "other_option": "peer * ucx",
    "other_secret": "* ucx peer",
    "memory": "peer * ccl hip-ccl hip-peer",
    "device_error": "ccl hip-ccl * peer hip-peer",
    "interrupted": "local * ucx ccl peer hip-ccl hip-peer",
}


def rows(options):
    for fault, channels in ROWS.items():
        quick, _, rest = channels.partition("*")
        for channel in (quick + rest if options.all else quick if "*" in channels else channels).split():
            if runs_here(channel):
                yield Row(fault, channel, options.all)


if __name__ == "__main__":
    harness.main(__doc__, HangReport, Staged, combined=[(Injection, rows)])
