# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Faults of a rank, or of its link, at exact stages of a job: each of its exchanges with rank 0 is one. Rank 1 reaches
rank 0 through a relay of the test, which knows the frames of the bootstrap (runtime/lib/Bootstrap/Wire.h). Points of a
run are calls of a kernel of the embedder between its commands, which injects the fault (test/Kernels).

  fault_stages_test.py [--all] [-v] [PATTERN...]     (see harness.py)

--all: every exchange, not a choice of them.
"""

import dataclasses
import glob
import os
import signal
import socket
import struct
import threading
import time

import harness
import fault_injection_test
from harness import program
from fault_injection_test import CHANNELS, PROCESSES, runs_here, timeout

CHALLENGE, HELLO, HEADER = 24, 72, struct.Struct("<IIQQ")
MAGIC = 0x6d646e74
PART, ALIVE, BYE = 2, 6, 7
RANKS = 3
#: A job below has more exchanges than these: for options, places, channels, commands, results.
EXCHANGES = 40


class Relay:
    """Between a rank and rank 0. `stages`: what the rank has sent so far: "connect", "hello", "exchange 1", ..., and
    perhaps "bye". When it comes to `until`, `fault(root)` is called with the connection to rank 0. What the rank has sent
    is not passed on before that returns, and not at all if it returns False."""

    def __init__(self, root_port, until=None, fault=None):
        self.root_port, self.until, self.fault = root_port, until, fault
        self.stages, self.reached = [], threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = [self.listener]
        threading.Thread(target=self.serve, daemon=True).start()

    def close(self):
        for each in self.sockets:
            each.close()

    def serve(self):
        try:
            while True:
                client, _ = self.listener.accept()
                self.sockets.append(client)
                threading.Thread(target=self.connect, args=(client,), daemon=True).start()
        except OSError:
            pass # closed

    def connect(self, client):
        try:
            root = socket.create_connection(("127.0.0.1", self.root_port))
        except OSError:
            client.close() # rank 0 does not listen yet, and the rank comes again
            return
        self.sockets.append(root)
        threading.Thread(target=self.answer, args=(root, client), daemon=True).start()
        try:
            self.send(client, root)
        except (OSError, EOFError):
            pass
        shut(client, root)

    def answer(self, root, client):
        try:
            while data := root.recv(65536):
                client.sendall(data)
        except OSError:
            pass
        shut(client, root)

    def send(self, client, root):
        if not self.passes("connect", root):
            return
        hello = receive(client, HELLO)
        if not self.passes("hello", root):
            return
        root.sendall(hello)
        while True:
            header = receive(client, HEADER.size)
            magic, kind, sequence, size = HEADER.unpack(header)
            assert magic == MAGIC, header
            if kind in (PART, BYE) and not self.passes(
                    f"exchange {sequence}" if kind == PART else "bye", root):
                return
            root.sendall(header + receive(client, size))

    def passes(self, stage, root):
        if stage not in self.stages: # it may connect several times
            self.stages.append(stage)
        if stage != self.until:
            return True
        self.reached.set()
        return self.fault(root)


def receive(sock, size):
    data = b""
    while len(data) < size:
        more = sock.recv(min(65536, size - len(data)))
        if not more:
            raise EOFError
        data += more
    return data


def shut(*sockets):
    for each in sockets:
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        each.close()


class Job:
    """Three ranks, as if started by hand; rank 1 behind a relay. It is killed at `until`, unless there is a `fault`.
    `timeout`: of all waits, in seconds; `launch`: of the wait until all have come, instead."""

    def __init__(self, test, until=None, fault=None, timeout=20, more=("--repeat=3", "--verify"), launch=None):
        port = harness.free_port()
        self.started = threading.Event()
        self.relay = Relay(port, until, fault or self.kill)
        test.addCleanup(self.relay.close)
        environments = [{"RANK": rank, "WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1", "TANDEM_SECRET": "of the test",
                         "MASTER_PORT": self.relay.port if rank == 1 else port} for rank in range(RANKS)]
        if launch:
            for environment in environments:
                environment["TANDEM_LAUNCH_TIMEOUT"] = round(launch * harness.SLOWER)
        self.ranks = harness.start_ranks(environments, harness.program("matmul-3"), *more,
                                         f"--timeout={timeout * harness.SLOWER:g}")
        self.started.set()
        for rank in self.ranks:
            test.addCleanup(lambda rank=rank: rank.poll() is None and os.killpg(rank.pid, signal.SIGKILL))

    def kill(self, _):
        """Rank 1, and nothing of it is under way any more."""
        self.started.wait()
        self.ranks[1].kill()
        while not harness.gone(self.ranks[1].pid):
            time.sleep(0.001)
        return False

    def finish(self):
        return [harness.finish(rank) for rank in self.ranks]


class StageTest(harness.CombinationTest):
    def check(self):
        stage = self.combination.stage
        job = Job(self, stage, timeout=4, launch=20 if stage.startswith("exchange") else None)
        done = job.finish()
        self.assertTrue(job.relay.reached.is_set(), job.relay.stages)
        self.assertEqual(done[1].code, -signal.SIGKILL, str(done[1]))
        for rank in (0, 2):
            text = done[rank].out + done[rank].err
            self.assertLess(done[rank].seconds, 30 * harness.SLOWER, str(done[rank]))
            self.assertEqual(done[rank].code, 1, str(done[rank]))
            # A slow rank 2 may be one of those that have not connected, too.
            self.assertRegex(text, "rank 1|ranks 1, 2", str(done[rank]))
        self.assertEqual(os.listdir(self.folder), [])


@dataclasses.dataclass(frozen=True)
class Stage:
    stage: str

    @property
    def name(self):
        return f"killed/{self.stage.replace(' ', '-')}"


class Whole(harness.Test):
    def test_without_a_fault(self):
        """Behind the relay a job runs as ever, with all its stages."""
        job = Job(self)
        done = job.finish()
        self.assertEqual([each.code for each in done], [0] * RANKS, "\n".join(map(str, done)))
        self.assertVerified(done[0], RANKS)
        # Rank 0 may be gone before this one says goodbye.
        found = [stage for stage in job.relay.stages if stage != "bye"]
        self.assertGreaterEqual(len(found), 2 + EXCHANGES)
        self.assertEqual(found, ["connect", "hello", *(f"exchange {i}" for i in range(1, len(found) - 1))])


class Link(harness.Test):
    """The connection to rank 0 itself: of a host that is cut off, and over a slow line."""

    def test_that_stops(self):
        """Nothing passes any more, and no connection is closed."""
        held = threading.Event()
        self.addCleanup(held.set)

        def cut(_):
            held.wait()
            return False

        job = Job(self, "exchange 4", cut, timeout=2, launch=20)
        self.assertTrue(job.relay.reached.wait(30 * harness.SLOWER))
        done = job.finish()
        for rank in range(RANKS):
            self.assertEqual(done[rank].code, 1, str(done[rank]))
            self.assertLess(done[rank].seconds, 40 * harness.SLOWER)
        for rank in (0, 2):
            self.assertRegex(done[rank].out + done[rank].err, r"waited [\d.]+ s for rank 1 ")

    def test_that_is_late(self):
        """A rank that lives is waited for, longer than the timeout: its signs of life pass."""
        def delay(root):
            end = time.monotonic() + 7 * harness.SLOWER
            while time.monotonic() < end:
                root.sendall(HEADER.pack(MAGIC, ALIVE, 0, 0))
                time.sleep(0.1)
            return True

        job = Job(self, "exchange 4", delay, timeout=3, launch=20)
        done = job.finish()
        self.assertTrue(job.relay.reached.is_set(), "\n".join(map(str, done)))
        self.assertVerified(done[0], RANKS)


class LeaveTest(harness.CombinationTest):
    """Rank 1 has sent its last word in an exchange, or goodbye. Then it is killed or stopped, before its channels or its
    connection have ended."""

    def check(self):
        clean = Job(self)
        self.assertEqual([each.code for each in clean.finish()], [0] * RANKS)
        last = [stage for stage in clean.relay.stages if stage != "bye"][-1]

        def fault(_):
            job.started.wait()
            os.kill(job.ranks[1].pid, self.combination.signal)
            return True # the others have heard it

        job = Job(self, last, fault, timeout=4, launch=20)
        done = [harness.finish(job.ranks[rank]) for rank in (0, 2)]
        os.kill(job.ranks[1].pid, signal.SIGKILL)
        self.assertEqual(harness.finish(job.ranks[1]).code, -signal.SIGKILL)
        for each in done:
            self.assertLess(each.seconds, 30 * harness.SLOWER, str(each))
            if each.code: # it heard of the end before it was through
                self.assertEqual(each.code, 1, str(each))
                self.assertRegex(each.out + each.err, "rank 1", str(each))
        self.assertEqual(os.listdir(self.folder), [])


@dataclasses.dataclass(frozen=True)
class Leaving:
    signal: int

    @property
    def name(self):
        return "leaving/" + ("killed" if self.signal == signal.SIGKILL else "stopped")


def leavings(options):
    yield Leaving(signal.SIGKILL)
    if options.all: # channels wait for a stopped rank
        yield Leaving(signal.SIGSTOP)


class RunTest(harness.CombinationTest, fault_injection_test.Matrix):
    """A fault at a point of the second run, and the next job on the channel."""

    def check(self):
        point = self.combination
        options, _, _, quick = CHANNELS[point.channel]
        # After the point a stopped or slow rank lets the others wait for longer than this.
        seconds = {"kill": 20, "fail": 20, "stop": 2, "sleep": 1}[point.action]
        action = f"sleep:{3 * harness.SLOWER:g}" if point.action == "sleep" else point.action
        call = 1 if point.stage == "exit" else 2
        begin = time.monotonic()
        job = self.launch(point.channel, program(point.program), *options, f"--kernels={harness.KERNELS}", "--repeat=4",
                          "--no-graph", timeout(seconds), TANDEM_TEST_FAULT=f"{action} {call} 1 {point.stage}")
        done = harness.finish(job)
        text = done.out + done.err
        command = r"command \d+ \((group|wait_signal|put|signal|call|copy)"
        if point.stage == "exit": # all is done
            self.assertEqual(done.code, 128 + signal.SIGKILL, str(done))
            self.assertEqual("rank 1 did not end by itself and was killed" in text, point.action == "stop", str(done))
        elif point.action == "kill":
            self.assertEqual(done.code, 128 + signal.SIGKILL, str(done))
            self.assertRegex(text, rf"rank 0[:,] (.*({command}|exchange \d+).*rank 1|(@\w+: )?lost rank 1: its process has ended)",
                             str(done))
        elif point.action == "stop":
            self.assertEqual(done.code, 1, str(done))
            self.assertRegex(text, "rank 1 did not end by itself and was killed", str(done))
            self.assertRegex(text, rf"rank 0[:,] .*({command}|exchange \d+ .*rank 1)", str(done))
        elif point.action == "fail":
            self.assertEqual(done.code, 1, str(done))
            self.assertRegex(text, r"rank 1: .*command \d+ \(call.*fault_point.*7", str(done))
        else:
            self.assertEqual(done.code, 1, str(done))
            self.assertRegex(text, rf"rank \d: .*no end after .*{command}", str(done))
        self.assertLess(time.monotonic() - begin, 30 * harness.SLOWER, str(done))
        self.assertGone(job)
        done = harness.finish(self.launch(point.channel, program(quick), *options))
        self.assertEqual(done.code, 0, str(done))


@dataclasses.dataclass(frozen=True)
class Point:
    action: str
    channel: str
    program: str
    stage: str

    @property
    def name(self):
        return f"{self.action}/{self.channel}/{self.program}/{self.stage}"


#: Program -> the stages at which it calls fault_point.
POINTS = {"points-2": ("start", "between", "end", "exit"), "points-push-2": ("start", "put", "signalled", "end", "exit")}
#: Channel -> programs.
PROGRAMS = {"local": ("points-2", "points-push-2"), "ucx": ("points-2", "points-push-2"), "ccl": ("points-2",),
            "peer": ("points-push-2",), "hip-ccl": ("points-2",), "hip-peer": ("points-push-2",)}
QUICK = ("kill/ucx/points-2/between", "kill/ucx/points-2/exit", "kill/ucx/points-push-2/put", "kill/peer/points-push-2/put",
         "fail/local/points-2/between", "fail/ccl/points-2/between",
         "sleep/local/points-push-2/put")


def points(options):
    """Ranks that are threads cannot be killed: there, the kernel fails or sleeps."""
    for channel, programs in PROGRAMS.items():
        actions = ("kill", "stop", "fail") if channel in PROCESSES else ("fail", "sleep")
        for action in actions:
            for name in programs:
                for stage in POINTS[name]:
                    point = Point(action, channel, name, stage)
                    possible = stage != "exit" or action in ("kill", "stop")
                    if possible and runs_here(channel) and (options.all or point.name in QUICK):
                        yield point


class EndTest(harness.CombinationTest, fault_injection_test.Matrix):
    """A fault of rank 1 within the calls by which its channels and its device end, after the runs, and the next job."""

    def check(self):
        fault = self.combination
        options, _, _, quick = CHANNELS[fault.channel]
        variables = {f"TANDEM_FAKE_{fault.kind}_{fault.call}".upper(): 2} # from 1
        if fault.channel == "ucx":
            if not FAKE_UCX:
                self.skipTest("libTandemFakeUcx is missing: UCX's headers were not found")
            variables = {"TANDEM_UCX_LIBRARY": FAKE_UCX, "TANDEM_UCX_GPU_DIRECT": 0, "TANDEM_FAKE_UCX_DESTROY": f"{fault.kind} 1"}
        # What a channel does not give back is left to its thread. The rank itself is given up if its device does not end.
        isDevice = fault.call == "host"
        seconds = 2 if isDevice or fault.kind != "hang" else 20
        job = self.launch(fault.channel, program(quick), *options, "--verify", timeout(seconds), **{name: str(value) for name, value in variables.items()})
        done = harness.finish(job)
        text = done.out + done.err
        if fault.kind == "kill":
            self.assertEqual(done.code, 128 + signal.SIGKILL, str(done))
            self.assertRegex(text, r"rank 0[:,] .*(rank 1 .*: the connection was closed|lost rank 1: its process has ended)", str(done))
        elif fault.kind == "stop":
            self.assertEqual(done.code, 1, str(done))
            self.assertRegex(text, "rank 1 did not end by itself and was killed", str(done))
            self.assertRegex(text, r"rank 0[:,] .*exchange \d+ .*rank 1", str(done))
        elif isDevice:
            self.assertEqual(done.code, 1, str(done))
            self.assertRegex(text, r"rank 1: .*has not ended after \d+ ms", str(done))
        else: # the run is over, and nothing waits for this
            self.assertVerified(done, 2)
            self.assertRegex(text, WARNINGS[fault.channel.split("-")[-1]], str(done))
        self.assertLess(done.seconds, 40 * harness.SLOWER, str(done))
        self.assertGone(job)
        self.assertEqual(harness.finish(self.launch(fault.channel, program(quick), *options)).code, 0)


WARNINGS = {"ccl": r"channel ccl: rank 1: ncclCommDestroy: ",
            "ucx": r"channel ucx: rank 1: a call of UCX has not returned after \d+ ms",
            "peer": r"channel peer: rank 1: to unmap memory of other ranks: "}
FAKE_UCX = next(iter(glob.glob(os.path.join(harness.BIN, "..", "lib", "libTandemFakeUcx.*"))), None)


@dataclasses.dataclass(frozen=True)
class End:
    kind: str
    channel: str
    call: str

    @property
    def name(self):
        return f"end/{self.kind}/{self.channel}/{self.call}"


QUICK_ENDS = ("end/kill/ucx/destroy", "end/hang/ucx/destroy", "end/fail/hip-peer/unmap", "end/hang/ccl/host")


def ends(options):
    every = {"ucx": ("destroy",), "ccl": ("root", "child", "host"), "hip-ccl": ("root",), "peer": ("unmap", "host"),
             "hip-peer": ("unmap",)}
    for channel, calls in every.items():
        if not runs_here(channel):
            continue
        kinds = ("kill", "stop", "hang") if channel in PROCESSES else ("hang",)
        for kind in kinds if channel == "ucx" else (*kinds, "fail"):
            for call in calls:
                end = End(kind, channel, call)
                if (call != "host" or kind == "hang") and (options.all or end.name in QUICK_ENDS):
                    yield end


class MakeTest(harness.CombinationTest, fault_injection_test.Matrix):
    """A fault of rank 1 in NCCL while its communicator is made. The ranks are processes, which the stand-in cannot connect:
    rank 0 would wait in NCCL. No run is in flight."""

    def check(self):
        fault, channel = self.combination.fault, self.combination.channel
        job = self.launch(channel, program("matmul-2"), "--channel=ccl", f"--device={DEVICES[channel]}", timeout(2),
                          **{f"TANDEM_FAKE_{fault}_INIT".upper(): "2"}) # from 1
        done = harness.finish(job)
        reason = {"kill": "its process has ended", "stop": r"it has sent no heartbeat for \d+ s"}[fault]
        self.assertRegex(done.out + done.err,
                         rf'rank 0: @\w+: channel c\d+ ".*": ncclCommInitRankConfig: lost rank 1: {reason}', str(done))
        self.assertEqual(done.code, 128 + signal.SIGKILL if fault == "kill" else 1, str(done))
        # A killed rank is noticed at once, a stopped one after 10 s; then the launcher gives it 5 s to end.
        self.assertLess(done.seconds, (20 if fault == "kill" else 30) * harness.SLOWER, str(done))
        self.assertGone(job)
        self.assertUsable(channel)


DEVICES = {"ccl": "cuda", "hip-ccl": "hip"}


@dataclasses.dataclass(frozen=True)
class Make:
    fault: str
    channel: str

    @property
    def name(self):
        return f"make/{self.fault}/{self.channel}"


def makes(options):
    for channel in DEVICES:
        if runs_here(channel):
            for fault in ("kill", "stop") if options.all else ("kill",):
                yield Make(fault, channel)


class LinkTest(harness.CombinationTest, fault_injection_test.Matrix):
    """A link that stops within a run, or crawls: the watchdog ends the job, with the commands in flight."""

    def check(self):
        channel, name, link = self.combination.channel, self.combination.program, self.combination.link
        kernels = f"--kernels={harness.KERNELS}"
        job = self.launch(channel, program(name), f"--channel={channel}", kernels, "--repeat=2", f"--link={link}", timeout(1))
        done = harness.finish(job)
        self.assertEqual(done.code, 1, str(done))
        self.assertLess(done.seconds, 30 * harness.SLOWER, str(done))
        self.assertRegex(done.out + done.err, r"rank \d: .*no end after .*command \d+ \((group|put|signal|wait_signal)", str(done))
        self.assertGone(job)
        done = harness.finish(self.launch(channel, program(name), f"--channel={channel}", kernels, "--link=1GB/s,1us"))
        self.assertEqual(done.code, 0, str(done))


@dataclasses.dataclass(frozen=True)
class Shape:
    kind: str
    channel: str
    program: str
    link: str

    @property
    def name(self):
        return f"{self.kind}/{self.channel}/{self.program}"


def shapes(options):
    """A message has 16 kB. A link of 1 kB/s takes 16 s for it."""
    for kind, link in (("stops", "1GB/s,1us,stop=40kB"), ("crawls", "1kB/s,1us")):
        for channel in ("local", "ucx"):
            for name in ("points-2", "points-push-2"):
                if options.all or (kind, channel, name) in (("stops", "ucx", "points-2"), ("crawls", "local", "points-push-2")):
                    yield Shape(kind, channel, name, link)


def stages(options):
    """The same for every job of this kind: the whole list is checked by Whole."""
    exchanges = range(1, EXCHANGES + 1) if options.all else (1, 4, EXCHANGES // 2, EXCHANGES)
    for stage in ["connect", "hello", *(f"exchange {i}" for i in exchanges)]:
        yield Stage(stage)


if __name__ == "__main__":
    harness.main(__doc__, Whole, Link, combined=[(StageTest, stages), (LeaveTest, leavings), (RunTest, points), (MakeTest, makes), (EndTest, ends), (LinkTest, shapes)])
