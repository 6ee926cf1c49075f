# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Faults of a rank, or of its link, at exact stages of a job: each of its exchanges with rank 0 is one. Rank 1 reaches
rank 0 through a relay of the test, which knows the frames of the bootstrap (runtime/lib/Bootstrap/Wire.h).

  stages_test.py [--all] [-v] [PATTERN...]     (see harness.py)

--all: every exchange, not a choice of them.
"""

import dataclasses
import os
import signal
import socket
import struct
import threading
import time

import harness

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
    """Three ranks, as if started by hand; rank 1 behind a relay. It is killed at `until`, unless there is a `fault`."""

    def __init__(self, test, until=None, fault=None, timeout=20, more=("--repeat=3", "--verify")):
        port = harness.free_port()
        self.started = threading.Event()
        self.relay = Relay(port, until, fault or self.kill)
        test.addCleanup(self.relay.close)
        environments = [{"RANK": rank, "WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1", "TANDEM_SECRET": "of the test",
                         "MASTER_PORT": self.relay.port if rank == 1 else port} for rank in range(RANKS)]
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
        job = Job(self, self.combination.stage, timeout=4)
        done = job.finish()
        self.assertTrue(job.relay.reached.is_set(), job.relay.stages)
        self.assertEqual(done[1].code, -signal.SIGKILL, str(done[1]))
        for rank in (0, 2):
            text = done[rank].out + done[rank].err
            self.assertLess(done[rank].seconds, 30 * harness.SLOWER, str(done[rank]))
            self.assertEqual(done[rank].code, 1, str(done[rank]))
            self.assertRegex(text, "rank 1", str(done[rank]))
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

        job = Job(self, "exchange 4", cut, timeout=2)
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
            end = time.monotonic() + 3 * harness.SLOWER
            while time.monotonic() < end:
                root.sendall(HEADER.pack(MAGIC, ALIVE, 0, 0))
                time.sleep(0.1)
            return True

        job = Job(self, "exchange 4", delay, timeout=1)
        done = job.finish()
        self.assertTrue(job.relay.reached.is_set())
        self.assertVerified(done[0], RANKS)


def stages(options):
    """The same for every job of this kind: the whole list is checked by Whole."""
    exchanges = range(1, EXCHANGES + 1) if options.all else (1, 4, EXCHANGES // 2, EXCHANGES)
    for stage in ["connect", "hello", *(f"exchange {i}" for i in exchanges)]:
        yield Stage(stage)


if __name__ == "__main__":
    harness.main(__doc__, Whole, Link, combined=[(StageTest, stages)])
