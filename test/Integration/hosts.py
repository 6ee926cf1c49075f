# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The programs of test/Programs between 2, 3 and 4 hosts (namespaces.py; needs root): compared with their reference and
with NumPy, over UCX, with ranks in any order and started as by any launcher.

  hosts.py [--all] [-v] [PATTERN...]     (see harness.py)

--all: every program on 2, 3 and 4 hosts.
"""

import atexit
import dataclasses
import functools
import os
import signal
import time
import unittest

import harness
import namespaces
import programs
from namespaces import Nodes, Unavailable

RATE = "1gbit"

LAUNCHERS = (namespaces.torchrun, namespaces.mpirun, namespaces.srun, namespaces.by_hand)

#: By name: the node of each of `ranks` ranks on `nodes` nodes.
PLACEMENTS = {"block": lambda nodes, ranks: [rank * nodes // ranks for rank in range(ranks)],
              "cyclic": lambda nodes, ranks: [rank % nodes for rank in range(ranks)],
              "uneven": lambda nodes, ranks: [max(0, rank - (ranks - nodes)) for rank in range(ranks)]}

#: One-sided puts, and a whole layer: gathers and sums.
QUICK = ("allgather-matmul-push", "mlp")


@functools.lru_cache(maxsize=None)
def nodes_of(count):
    nodes = Nodes(RATE, count=count)
    try:
        nodes.__enter__()
    except Unavailable as error:
        raise unittest.SkipTest(f"no network namespaces here: {error}") from error
    atexit.register(nodes.__exit__)
    return nodes


@dataclasses.dataclass(frozen=True)
class Combination(programs.Combination):
    nodes: int = 2
    placement: str = "block"
    launcher: callable = namespaces.torchrun

    @property
    def name(self):
        return f"{super().name}/{self.nodes}-hosts/{self.placement}/{self.launcher.__name__}"


def combinations(options):
    """Of each program, on each number of hosts: the smallest number of ranks that occupies all. The other choices take
    turns."""
    turn = 0
    for program in programs.PROGRAMS:
        if not options.all and program.name not in QUICK:
            continue
        for nodes in (2, 3, 4):
            ranks = [n for n in program.ranks if n > nodes] or [n for n in program.ranks if n == nodes]
            if not ranks:
                continue
            # The numbers of hosts, placements and launchers do not meet always in the same way.
            placement, launcher = list(PLACEMENTS)[(turn + turn // 3) % 3], LAUNCHERS[(turn + turn // 12) % 4]
            turn += 1
            dtype = program.dtypes[nodes % len(program.dtypes)]
            yield Combination(program, min(ranks), "ucx", dtype, nodes, placement, launcher)


class HostsTest(programs.ProgramTest):
    def launch(self, *arguments):
        c = self.combination
        where = PLACEMENTS[c.placement](c.nodes, c.ranks)
        nodes = nodes_of(c.nodes)
        before = [nodes.sent(node) for node in range(c.nodes)]
        done = nodes.tandem_run(where, *arguments, launcher=c.launcher)
        self.assertEqual([each.code for each in done], [0] * c.nodes, "\n".join(map(str, done)))
        # Starting alone sends some KiB.
        for node in range(c.nodes):
            self.assertGreater(nodes.sent(node) - before[node], 1000, node)
        return done[0]


class Hosts(harness.Test):
    def test_nothing_is_shared(self):
        """A rank that looked for others in shared memory would find none."""
        nodes = nodes_of(2)
        namespaces_of_this = "readlink /proc/self/ns/ipc /proc/self/ns/pid /proc/self/ns/net"
        here = harness.run(["sh", "-c", namespaces_of_this]).out.split()
        for node in range(2):
            said = harness.run(nodes.command(node, "touch /dev/shm/here; ls /dev/shm; hostname; " + namespaces_of_this))
            self.assertEqual(said.out.split()[:2], ["here", f"tandem{node}"], str(said))
            self.assertFalse(set(said.out.split()) & set(here), str(said))

    def test_a_secret_that_is_none(self):
        """Rank 0 says once that the secret between hosts is a public name."""
        nodes = nodes_of(2)
        warning = "the job's secret is a public name"
        for launcher in LAUNCHERS:
            done = nodes.tandem_run(2, harness.program("matmul-4"), "--channel=ucx", launcher=launcher)
            self.assertEqual([each.err.count(warning) for each in done], [1, 0], "\n".join(map(str, done)))
        done = nodes.tandem_run(
            1, harness.program("matmul-2"), "--channel=ucx",
            launcher=lambda *place: {**namespaces.torchrun(*place), "TANDEM_SECRET": "hush"})
        self.assertEqual([each.err.count(warning) for each in done], [0, 0], "\n".join(map(str, done)))
        env = harness.environment(WORLD_SIZE=2, MASTER_ADDR="localhost", MASTER_PORT=harness.free_port())
        jobs = harness.start_ranks([{**env, "RANK": r, "TANDEM_NODE": r} for r in range(2)], harness.program("matmul-2"))
        for job in jobs:  # one host in two parts
            done = harness.finish(job)
            self.assertEqual(done.code, 0, str(done))
            self.assertNotIn(warning, done.err)

    def test_rows_of_the_mesh_are_nodes(self):
        """However ranks are dealt to nodes, each slice crosses the link once: the mesh has the nodes as rows."""
        with open(os.path.join(programs.SOURCES, "hierarchical-gather.mlir")) as file:
            text = file.read()
        nodes = nodes_of(2)
        sent = {}
        for where, launcher in zip(([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]), LAUNCHERS):
            rows = f'["node" = 2, "gpu" = 2], devices = {sorted(range(4), key=where.__getitem__)}'
            source, program, total = self.write("program.mlir", text.replace('["node" = ?, "gpu" = ?]', rows)), self.path("p.tsp"), []
            self.assertEqual(harness.run([harness.tool("tandem-compile"), source, "-o", program]).code, 0)
            for runs in (1, 101):
                before = nodes.sent(0)
                done = nodes.tandem_run(where, program, "--channel=ucx", "--verify", f"--repeat={runs}",
                                        launcher=launcher)
                self.assertVerified(done[0], 4)
                self.assertEqual([each.code for each in done], [0, 0])
                total.append(nodes.sent(0) - before)
            sent[(launcher.__name__, *where)] = (total[1] - total[0]) / 100
        # Two slices of 12 x 16 f32 in a packet each; the sum of all slices would be twice as much.
        for case, each in sent.items():
            self.assertLess(each, 1.3 * min(sent.values()), (case, sent))

    def test_addresses_by_name_of_ipv6_only(self):
        """A host on which localhost is ::1 and nothing else."""
        hosts = self.path("hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.write("::1 localhost\n")
        shell = (f"mount --bind {hosts} /etc/hosts && "
                 'for r in 0 1 2; do RANK=$r "$0" "$@" & ranks="$ranks $!"; done; '
                 "for rank in $ranks; do wait $rank || exit; done")
        command = ["unshare", "--mount", "sh", "-c", shell, harness.tool("tandem-run"), harness.program("matmul-3"),
                   "--verify"]
        env = harness.environment(WORLD_SIZE=3, MASTER_ADDR="localhost", MASTER_PORT=harness.free_port())
        nodes_of(2)  # or this may not be done here
        self.assertVerified(harness.run(command, env), 3)


class Links(harness.Test):
    """A link between hosts stops, or crawls."""

    def nodes(self, rate):
        context = Nodes(rate)
        try:
            nodes = context.__enter__()
        except Unavailable as error:
            self.skipTest(f"no network namespaces here: {error}")
        self.addCleanup(context.__exit__)
        return nodes

    def stops(self, how):
        """In a run, ranks 0 and 1 are cut off from rank 2. Each ends soon, with its command and the cause."""
        nodes = self.nodes("1gbit")
        jobs = nodes.start([0, 0, 1], harness.program("long-3"), "--channel=ucx", "--repeat=100000",
                           f"--timeout={5 * harness.SLOWER:g}")  # also for connecting
        for job in jobs:
            self.addCleanup(lambda job=job: job.poll() is None and os.killpg(job.pid, signal.SIGKILL))
        # Starting sends some KiB, a run 1.5 GB.
        end = time.monotonic() + 60 * harness.SLOWER
        while nodes.sent(1) < 20e6:
            for job in jobs:
                self.assertIsNone(job.poll(), job.poll() is not None and str(harness.finish(job)))
            self.assertLess(time.monotonic(), end, "the ranks do not run")
            time.sleep(0.05)
        nodes.cut(1, how)
        for job, ranks in zip(jobs, ("01", "2")):
            done = harness.finish(job)
            self.assertEqual(done.code, 1, str(done))
            self.assertLess(done.seconds, 30 * harness.SLOWER)
            for rank in ranks:
                self.assertRegex(done.out + done.err, rf"rank {rank}: .*command \d+ \(group", str(done))
                self.assertRegex(done.out + done.err, "no end after|lost rank|rank . ended the run", str(done))

    def test_that_is_down(self):
        self.stops("down")

    def test_that_loses_everything(self):
        self.stops("off")

    def crawls(self, name):
        """A message takes longer than the timeout, but its pieces do not."""
        nodes = self.nodes(f"{40 / harness.SLOWER:g}mbit")
        done = nodes.tandem_run(1, harness.program(name), "--channel=ucx", f"--timeout={3 * harness.SLOWER:g}",
                                f"--json={self.path('report.json')}")
        self.assertEqual([each.code for each in done], [0, 0], "\n".join(map(str, done)))
        times = harness.read_json(self.path("report.json"))["times_ms"]
        self.assertGreater(min(times), 3200 * harness.SLOWER)

    def test_that_crawls(self):
        self.crawls("crawl-2")

    def test_that_crawls_below_puts(self):
        self.crawls("crawl-push-2")


@dataclasses.dataclass(frozen=True)
class Fault:
    number: signal.Signals
    rank: int
    launcher: callable

    @property
    def name(self):
        return f"Ranks.{self.number.name}/rank-{self.rank}/{self.launcher.__name__}"


def faults(options):
    """Each signal to each of three ranks."""
    numbers = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
    for turn, (number, rank) in enumerate((number, rank) for number in numbers for rank in (0, 1, 2)):
        # One of each signal is quick; rank 0 is among them.
        if options.all or turn in (0, 5, 7):
            yield Fault(number, rank, LAUNCHERS[turn % len(LAUNCHERS)])


class Ranks(harness.CombinationTest):
    """A rank on each of three hosts. One gets a signal in a run. The others end in time, and nothing stays behind."""

    def check(self):
        fault, nodes = self.combination, nodes_of(3)
        before = [nodes.sent(node) for node in range(3)]
        jobs = nodes.start([0, 1, 2], harness.program("long-3"), "--channel=ucx", "--repeat=100000",
                           f"--timeout={5 * harness.SLOWER:g}", launcher=fault.launcher)  # also for connecting
        for job in jobs:
            self.addCleanup(lambda job=job: job.poll() is None and os.killpg(job.pid, signal.SIGKILL))
        ranks = self.running(nodes, jobs, before)
        begin = time.monotonic()
        os.kill(ranks[fault.rank], fault.number)
        for rank in {0, 1, 2} - {fault.rank}:
            done = harness.finish(jobs[rank])
            self.assertEqual(done.code, 1, str(done))
            self.assertRegex(done.out + done.err, rf"rank {rank}: {self.expected()}", str(done))
        # A rank that sends no heartbeat is lost after 10 s, one that has ended at once.
        limit = 30 if fault.number == signal.SIGSTOP else 10
        self.assertLess(time.monotonic() - begin, limit * harness.SLOWER)
        self.ends(jobs[fault.rank], ranks[fault.rank])
        for rank, job in enumerate(jobs):
            self.assertTrue(harness.gone(ranks[rank]))
            self.assertEqual(harness.left_of(job), [])
            self.assertEqual(nodes.listeners(rank), [])
        done = nodes.tandem_run([0, 1, 2], harness.program("matmul-3"), "--channel=ucx", "--verify",
                                launcher=fault.launcher)
        self.assertVerified(done[0], 3)
        self.assertEqual([each.code for each in done], [0] * 3)

    def expected(self):
        """Of the message of another rank. A rank between two commands, or before a run, names none."""
        lost = rf"lost rank {self.combination.rank}"
        if self.combination.number == signal.SIGSTOP:
            return rf".*(command \d+ \((.|\n)*(no end after|{lost}|rank {self.combination.rank} has sent no heartbeat)|{lost})"
        return rf".*(command \d+ \(.*(rank {self.combination.rank}|closed)|{lost})"

    def ends(self, job, pid):
        """The rank that got the signal: by this signal, or with an error, once it goes on."""
        if self.combination.number != signal.SIGSTOP:
            self.assertEqual(harness.finish(job).code, 128 + self.combination.number)
            return
        self.assertFalse(harness.gone(pid))
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(harness.finish(job).code, 1)

    def running(self, nodes, jobs, before):
        """The processes of the ranks, once these send data: starting sends some KiB, a run 1.5 GB."""
        end = time.monotonic() + 60 * harness.SLOWER
        while min(nodes.sent(node) - before[node] for node in range(3)) < 5e6:
            for job in jobs:
                self.assertIsNone(job.poll(), job.poll() is not None and str(harness.finish(job)))
            self.assertLess(time.monotonic(), end, "the ranks do not run")
            time.sleep(0.05)
        ranks = namespaces.ranks_of(jobs)
        self.assertEqual(sorted(ranks), [0, 1, 2])
        return ranks


if __name__ == "__main__":
    harness.main(__doc__, Hosts, Links, combined=[(HostsTest, combinations), (Ranks, faults)])
