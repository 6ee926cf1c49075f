# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several hosts on one machine: network namespaces that share nothing but shaped links. Each has a host name, process
ids, System V memory and /dev/shm of its own. Needs root and Debian's iproute2."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import harness

PORT = 29400


class Unavailable(Exception):
    """This machine does not let us make namespaces."""


def run(*command):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"{error} {getattr(error, 'stderr', '') or ''}".strip()) from error


def block(nodes, per_node):
    """The node of each rank: 0, 0, 1, 1."""
    return [node for node in range(nodes) for _ in range(per_node)]


def cyclic(nodes, per_node):
    """The node of each rank: 0, 1, 0, 1."""
    return list(range(nodes)) * per_node


# What launchers tell a rank of its place. `where`: the node of each rank; `job`: a number that no other job has.

def _place(where, rank):
    return where[:rank].count(where[rank]), where.count(where[rank])


def by_hand(where, rank, job):
    return {"RANK": rank, "WORLD_SIZE": len(where), "MASTER_ADDR": "tandem0", "MASTER_PORT": PORT}


def torchrun(where, rank, job):
    local, size = _place(where, rank)
    return {**by_hand(where, rank, job), "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": size, "GROUP_RANK": where[rank],
            "TORCHELASTIC_RUN_ID": f"namespaces{job}"}


def mpirun(where, rank, job):
    local, size = _place(where, rank)
    return {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": len(where), "OMPI_COMM_WORLD_LOCAL_RANK": local,
            "OMPI_COMM_WORLD_LOCAL_SIZE": size, "PMIX_NAMESPACE": f"prterun-{job}@1",
            "TANDEM_MASTER_ADDR": "tandem0", "TANDEM_MASTER_PORT": PORT}


def srun(where, rank, job):
    nodes = max(where) + 1
    return {"SLURM_PROCID": rank, "SLURM_NTASKS": len(where), "SLURM_LOCALID": _place(where, rank)[0],
            "SLURM_NODEID": where[rank], "SLURM_TASKS_PER_NODE": ",".join(str(where.count(n)) for n in range(nodes)),
            "SLURM_JOB_NODELIST": f"tandem[0-{nodes - 1}]", "SLURM_JOB_ID": job, "SLURM_STEP_ID": 0}


class Nodes:
    """A context with `count` nodes tandem0, tandem1, ... at 10.9.0.1, 10.9.0.2, ..., each with a link of `rate` (as tc
    takes it) each way to a switch. With `pins`, the ranks of node n run on core n of the machine only."""

    made = jobs = 0

    def __init__(self, rate="1gbit", pins=False, count=2):
        Nodes.made += 1
        prefix = f"tandem{os.getpid()}x{Nodes.made}"
        self.switch, self.names = f"{prefix}s", [f"{prefix}n{n}" for n in range(count)]
        self.rate, self.pins = rate, pins
        self.folder, self.started = None, []

    def __enter__(self):
        try:
            self.connect()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        for process in self.started:
            if process.poll() is None:  # only if a test was interrupted
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for name in [*self.names, self.switch]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, node, shell):
        """A shell on a node, with "$0" and "$@" of what follows. Its processes end with it."""
        own = (f"mount -t tmpfs tmpfs /dev/shm && mount --bind {self.folder}/hosts /etc/hosts && "
               f"echo tandem{node} > /proc/sys/kernel/hostname && ")
        pin = ["taskset", "-c", str(node)] if self.pins else []
        return ["ip", "netns", "exec", self.names[node], "unshare", "--ipc", "--uts", "--mount", "--pid", "--fork",
                "--kill-child", "--mount-proc", *pin, "sh", "-c", own + shell]

    def connect(self):
        self.folder = tempfile.mkdtemp(prefix="tandem-nodes-")
        with open(os.path.join(self.folder, "hosts"), "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"10.9.0.{n + 1} tandem{n}\n" for n in range(len(self.names)))
        run("ip", "netns", "add", self.switch)
        run("ip", "-n", self.switch, "link", "add", "switch", "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "switch", "up")
        for node, name in enumerate(self.names):
            run("ip", "netns", "add", name)
            run(*self.command(node, "true"))
            run("ip", "link", "add", "eth1", "netns", name, "type", "veth", "peer", "name", f"port{node}", "netns",
                self.switch)
            run("ip", "-n", self.switch, "link", "set", f"port{node}", "master", "switch", "up")
            run("ip", "-n", name, "addr", "add", f"10.9.0.{node + 1}/24", "dev", "eth1")
            run("ip", "-n", name, "link", "set", "eth1", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            for place, device in ((name, "eth1"), (self.switch, f"port{node}")):
                run("tc", "-n", place, "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate, "burst", "256kb",
                    "latency", "200ms")
        # A link that is not up yet has no address for UCX.
        end = time.monotonic() + 10
        for name in self.names:
            while "state UP" not in run("ip", "-n", name, "link", "show", "eth1"):
                if time.monotonic() > end:
                    raise Unavailable("the link does not come up")
                time.sleep(0.01)

    def sent(self, node):
        """Bytes that a node has sent over the link, headers included."""
        text = run("ip", "-n", self.names[node], "-s", "link", "show", "eth1")
        return int(re.search(r"TX:.*\n\s*(\d+)", text).group(1))

    def cut(self, node, how):
        """The link of a node carries nothing any more: it is "down", or up but "off" the switch, so that every packet is
        lost."""
        if how == "down":
            run("ip", "-n", self.names[node], "link", "set", "eth1", "down")
        else:
            run("ip", "-n", self.switch, "link", "set", f"port{node}", "nomaster")

    def tandem_run(self, where, *arguments, launcher=torchrun, limit=120):
        """As start(); the nodes' results."""
        return [harness.finish(process, limit) for process in self.start(where, *arguments, launcher=launcher)]

    def start(self, where, *arguments, launcher=torchrun):
        """Runs tandem-run with a rank on node where[0], one on where[1], ..., started as `launcher` would. `where` as a
        number: so many ranks on each node, in order. A process for each node."""
        if isinstance(where, int):
            where = block(len(self.names), where)
        Nodes.jobs += 1
        started = []
        for node in range(len(self.names)):
            starts = ""
            for rank in (rank for rank, at in enumerate(where) if at == node):
                variables = launcher(where, rank, 1000000 * Nodes.jobs + os.getpid())
                starts += " ".join(f"{name}={value}" for name, value in variables.items()) + ' "$0" "$@" & ranks="$ranks $!"; '
            # Ranks end when the shell does: the last ones have something to say, too.
            shell = starts + "for rank in $ranks; do wait $rank || failed=${failed:-$?}; done; exit ${failed:-0}"
            started.append(harness.start([*self.command(node, shell), harness.tool("tandem-run"), *map(str, arguments)]))
            self.started.append(started[-1])
        return started

    def listeners(self, node):
        """The lines of the kernel's tables about TCP sockets that listen."""
        tables = run("ip", "netns", "exec", self.names[node], "cat", "/proc/net/tcp", "/proc/net/tcp6")
        return [line for line in tables.splitlines() if line.split()[3] == "0A"]


def ranks_of(jobs):
    """The processes of the ranks that Nodes.start has started: rank -> process id."""
    variables = (b"RANK", b"OMPI_COMM_WORLD_RANK", b"SLURM_PROCID")
    groups, found = {job.pid for job in jobs}, {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getpgid(int(entry)) not in groups:
                continue
            with open(f"/proc/{entry}/environ", "rb") as file:
                pairs = (pair.partition(b"=") for pair in file.read().split(b"\0"))
            found.update({int(value): int(entry) for name, _, value in pairs if name in variables})
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
