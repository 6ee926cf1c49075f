# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two nodes on one machine: network namespaces that share nothing but a shaped link. Needs root and Debian's iproute2."""

import os
import re
import subprocess
import time

import harness

#: What a shell of a node runs first, so that its ranks share no memory with those of other nodes.
OWN_MEMORY = "mount -t tmpfs tmpfs /dev/shm"


class Unavailable(Exception):
    """This machine does not let us make namespaces."""


def run(*command):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"{error} {getattr(error, 'stderr', '') or ''}".strip()) from error


class Nodes:
    """A context with the nodes 10.9.0.1 and 10.9.0.2, and a link of `rate` (as tc takes it) each way between them.
    With `pins`, the ranks of node n run on core n of the machine only."""

    def __init__(self, rate="1gbit", pins=False):
        self.names = [f"tandem{os.getpid()}{n}" for n in "ab"]
        self.rate, self.pins = rate, pins

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
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def command(self, node, shell):
        pin = ["taskset", "-c", str(node)] if self.pins else []
        return ["ip", "netns", "exec", self.names[node], "unshare", "--ipc", "--mount", *pin, "sh", "-c", shell]

    def connect(self):
        for node, name in enumerate(self.names):
            run("ip", "netns", "add", name)
            run(*self.command(node, OWN_MEMORY))
        run("ip", "link", "add", "eth1", "netns", self.names[0], "type", "veth", "peer", "name", "eth1", "netns",
            self.names[1])
        for node, name in enumerate(self.names):
            run("ip", "-n", name, "addr", "add", f"10.9.0.{node + 1}/24", "dev", "eth1")
            run("ip", "-n", name, "link", "set", "eth1", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("tc", "-n", name, "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", self.rate, "burst", "256kb",
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

    def tandem_run(self, per_node, *arguments, limit=120):
        """Runs tandem-run with `per_node` ranks on each node, as torchrun would. The nodes' results."""
        node = (f"{OWN_MEMORY} && l=0; while [ $l -lt {per_node} ]; do "
                f'RANK=$((NODE * {per_node} + l)) LOCAL_RANK=$l "$@" & ranks="$ranks $!"; l=$((l + 1)); done; '
                "for rank in $ranks; do wait $rank || exit; done")
        started = [harness.start([*self.command(n, node), "node", harness.tool("tandem-run"), *map(str, arguments)],
                                 harness.environment(NODE=n, WORLD_SIZE=2 * per_node, LOCAL_WORLD_SIZE=per_node,
                                                     MASTER_ADDR="10.9.0.1", MASTER_PORT=29400,
                                                     TORCHELASTIC_RUN_ID="namespaces"))
                   for n in range(2)]
        return [harness.finish(process, limit) for process in started]
