# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The schedule `hierarchical` between two nodes that share nothing but a shaped link (namespaces.py; needs root).

  network.py [-v] [PATTERN...]          tests (see harness.py): results, and what crosses the link
  network.py --measure [--rate 200mbit] [--rounds N] [--trace FILE]
                                        measures the overlap, next to the simulator's prediction

Nothing that the tests ask for depends on how busy the machine is; the times of --measure do.
"""

import argparse
import dataclasses
import json
import os
import re
import statistics
import sys
import tempfile

import harness
from namespaces import Nodes, Unavailable

PER_NODE = 2
RANKS = 2 * PER_NODE
MESH = ["--mesh=node=2", f"--mesh=gpu={PER_NODE}"]
MACHINE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "machines", "cpu2.json")


@dataclasses.dataclass(frozen=True)
class Layer:
    """rows x depth, rows over all ranks, times depth x columns, which every rank holds."""

    rows: int = 1024
    depth: int = 2048
    columns: int = 1024

    @property
    def shard_bytes(self):
        return self.rows // RANKS * self.depth * 4

    def text(self, reshard, computes, schedule=None):
        """A gather over the nodes, a matmul on slices of the rows, or one after the other."""
        owners, slices = 'didx("node") * didx("gpu")', 'stream("node") * stream("gpu")'
        if reshard and not schedule:
            slices = "-"
        annotation = f" {{schedule = #fusion.schedule<{schedule}>}}" if schedule else ""

        def tensor(rows, columns, digits):
            return f"tensor<{rows}x{columns}xf32, #fusion.axes<#pod, [{digits}, -]>>"

        x = tensor(self.rows, self.depth, owners if reshard else slices)
        g, w = tensor(self.rows, self.depth, slices), tensor(self.depth, self.columns, "-")
        y = tensor(self.rows, self.columns, slices) if computes else g
        lines = [f"  %g = fusion.reshard %x{annotation} : {x} -> {g}"] if reshard else []
        if computes:
            lines.append(f"  %y = fusion.matmul {'%g' if reshard else '%x'}, %w : {g}, {w} -> {y}")
        weight = f', %w: {w} {{fusion.name = "w"}}' if computes else ""
        return "\n".join(['#pod = #tandem.mesh<"pod", ["node" = ?, "gpu" = ?]>',
                          f'func.func @layer(%x: {x} {{fusion.name = "x"}}{weight}) -> ({y} {{fusion.name = "y"}}) {{',
                          *lines, f"  return {'%y' if computes else '%g'} : {y}", "}", ""])

    def programs(self):
        puts, messages = "hierarchical", 'hierarchical, spread = "send"'
        return {"matmul": self.text(False, True), "gather": self.text(True, False, messages),
                "gather-puts": self.text(True, False, puts), "baseline": self.text(True, True),
                "hierarchical": self.text(True, True, messages), "hierarchical-puts": self.text(True, True, puts)}


def compile_programs(folder, programs):
    """name -> stream program."""
    compiled = {}
    for name, text in programs.items():
        source, compiled[name] = os.path.join(folder, name + ".mlir"), os.path.join(folder, name + ".tsp")
        with open(source, "w") as file:
            file.write(text)
        done = harness.run([harness.tool("tandem-compile"), source, *MESH, "--target=cpu-ucx", "-o", compiled[name]])
        if done.code:
            raise AssertionError(str(done))
    return compiled


class Network(harness.Test):
    def nodes(self, rate):
        context = Nodes(rate)
        try:
            nodes = context.__enter__()
        except Unavailable as error:
            self.skipTest(f"no network namespaces here: {error}")
        self.addCleanup(context.__exit__)
        return nodes

    def test_gather(self):
        """The program of test/Programs."""
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Programs", "hierarchical-gather.mlir")
        with open(path) as file:
            program = compile_programs(self.folder, {"gather": file.read()})["gather"]
        done = self.nodes("1gbit").tandem_run(PER_NODE, program, "--channel=ucx", "--verify")
        self.assertVerified(done[0], RANKS)
        self.assertEqual([d.code for d in done], [0, 0])

    def test_each_slice_crosses_once(self):
        """Each slice crosses the link once, not once per rank of the other node; and it is being sent while the ranks
        compute: nothing that a matmul on own slices reads or waits for comes over the link."""
        layer = Layer(rows=512, depth=1024, columns=64)
        compiled = compile_programs(self.folder, layer.programs())
        nodes = self.nodes("1gbit")
        for name in ("gather", "gather-puts", "hierarchical", "hierarchical-puts"):
            with self.subTest(name=name):
                sent = []
                for runs in (1, 9):
                    before = [nodes.sent(node) for node in range(2)]
                    done = nodes.tandem_run(PER_NODE, compiled[name], "--channel=ucx", "--verify", f"--repeat={runs}")
                    self.assertVerified(done[0], RANKS)
                    self.assertEqual([d.code for d in done], [0, 0])
                    sent.append([nodes.sent(node) - before[node] for node in range(2)])
                # What starting and comparing send is in both.
                for one, nine in zip(*sent):
                    slices = (nine - one) / (8 * layer.shard_bytes)
                    self.assertGreater(slices, 0.95 * PER_NODE, name)
                    self.assertLess(slices, 1.3 * PER_NODE, name)
                if name.startswith("hierarchical"):
                    self.check_streams(compiled[name])

    def check_streams(self, program):
        """On every rank, the hop over the link is issued before any matmul and on another stream, and no wait stands
        between the start of the compute stream and the matmul on the rank's own slice."""
        for rank in range(RANKS):
            done = harness.run([harness.tool("tandem-compile"), "--dump", program, f"--rank={rank}"])
            commands = re.findall(r"^ +\d+ (s\d+) +(\w+)(.*)$", done.out, re.M)
            kinds = [kind for _, kind, _ in commands]
            first = kinds.index("matmul")
            self.assertIn("group", kinds[:first])
            compute = commands[first][0]
            self.assertNotEqual(commands[kinds.index("group")][0], compute)
            self.assertNotIn((compute, "wait"), [(stream, kind) for stream, kind, _ in commands[:first]])
            self.assertNotIn((compute, "wait_signal"), [(stream, kind) for stream, kind, _ in commands[:first]])

    def test_prediction_overlaps(self):
        """What --measure compares with: by the model the schedule hides the shorter of its two parts but for one step."""
        layer = Layer()
        compiled = compile_programs(self.folder, layer.programs())
        machine = self.path("machine.json")
        # One core of 50 GFLOP/s for each node; the link takes half as long as the matmuls.
        matmul = 2 * layer.rows * layer.depth * layer.columns * PER_NODE / 50e9
        write_machine(machine, layer, matmul, 2 * layer.shard_bytes * PER_NODE / matmul)
        times = {name: simulate(program, machine) for name, program in compiled.items()}
        self.assertAlmostEqual(times["matmul"], matmul, delta=0.02 * matmul)
        self.assertGreater(times["gather"], 0.45 * matmul)
        for name in ("hierarchical", "hierarchical-puts"):
            self.assertLess(times[name], 1.1 * matmul, name)
        self.assertGreater(times["baseline"], 1.4 * matmul)


#===------------------------------------------------------------------------------------------------------------------===#
# Measurements
#===------------------------------------------------------------------------------------------------------------------===#

def write_machine(path, layer, matmul_seconds, link_bytes_per_second):
    """machines/cpu2.json with a core and a link for each node. `matmul_seconds`: the layer's matmuls alone, on all ranks
    at once. `link_bytes_per_second`: of a node; its ranks have equal parts of it."""
    machine = harness.read_json(MACHINE)
    machine["name"] = "namespaces"
    machine["about"] = "Two network namespaces, one core each, with a shaped link."
    machine["sources"]["here"] = {"kind": "measured", "text": "test/Integration/network.py --measure"}
    machine["nodes"], machine["devices_per_node"] = 2, PER_NODE
    device = machine["device"]
    device["cores"] = [1, "1", "here"]
    del device["contention"]
    rate = 2 * layer.rows * layer.depth * layer.columns * PER_NODE / matmul_seconds / 1e9
    device["matmul"] = [{"dtypes": ["f32", "f16", "bf16"], "unit": "GFLOP/s", "source": "here",
                         "points": [[layer.rows // RANKS, layer.columns, layer.depth, rate]]}]
    machine["links"]["network"] = {"topology": "switch", "latency": [50, "us", "estimate"],
                                   "bandwidth": [link_bytes_per_second / PER_NODE / 1e9, "GB/s", "here"]}
    collectives = machine["transports"]["collectives"]
    collectives["network_step"] = [50, "us", "estimate"]
    collectives["network_bandwidth"] = [link_bytes_per_second / PER_NODE / 1e9, "GB/s", "here"]
    with open(path, "w") as file:
        json.dump(machine, file)


def simulate(program, machine, *more):
    """Seconds of a run by the model."""
    done = harness.run([harness.tool("tandem-sim"), program, f"--machine={machine}", "--json=-", *more])
    if done.code:
        raise AssertionError(str(done))
    return json.loads(done.out)["seconds"]


def to_bytes(rate):
    number, unit = re.fullmatch(r"(\d+)(mbit|gbit)", rate).groups()
    return int(number) * {"mbit": 1e6, "gbit": 1e9}[unit] / 8


def measure(options):
    layer = Layer(*options.shape)
    with tempfile.TemporaryDirectory(prefix="tandem-network-") as folder, Nodes(options.rate, pins=True) as nodes:
        compiled = compile_programs(folder, layer.programs())
        report = os.path.join(folder, "report.json")
        times = {name: [] for name in compiled}
        for _ in range(options.rounds):
            # Each in processes of its own: what a process ran before changes how fast its matmuls are.
            for name, program in compiled.items():
                done = nodes.tandem_run(PER_NODE, program, "--channel=ucx", "--warmup=1", "--repeat=5",
                                        f"--json={report}", limit=600)
                if any(d.code for d in done):
                    sys.exit("\n".join(map(str, done)))
                times[name] += harness.read_json(report)["times_ms"]
        if options.trace:
            nodes.tandem_run(PER_NODE, compiled["hierarchical"], "--channel=ucx", "--warmup=1", f"--trace={options.trace}")
        least = {name: min(all_) for name, all_ in times.items()}
        machine = os.path.join(folder, "machine.json")
        # TCP and Ethernet leave 1448 of 1514 bytes.
        write_machine(machine, layer, least["matmul"] / 1e3, to_bytes(options.rate) * 1448 / 1514)
        print(f"{layer.rows} x {layer.depth} x {layer.columns} f32, 2 nodes of {PER_NODE} ranks, {options.rate} each way; ms")
        print(f"{'program':18} {'least':>8} {'median':>8} {'predicted':>10}")
        for name, program in compiled.items():
            print(f"{name:18} {least[name]:8.1f} {statistics.median(times[name]):8.1f} "
                  f"{1e3 * simulate(program, machine):10.1f}")
        hidden = least["matmul"] + least["gather"] - least["hierarchical"]
        print(f"hierarchical hides {hidden:.1f} ms, {hidden / min(least['matmul'], least['gather']):.0%} of the shorter "
              f"part; {least['baseline'] / least['hierarchical']:.2f} times as fast as the baseline")


if __name__ == "__main__":
    if "--measure" in sys.argv:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--measure", action="store_true", required=True)
        parser.add_argument("--rate", default="200mbit", help="of the link, as tc takes it")
        parser.add_argument("--rounds", type=int, default=3)
        parser.add_argument("--shape", type=int, nargs=3, default=(1024, 2048, 1024), metavar=("M", "K", "N"))
        parser.add_argument("--trace", help="the trace of a run of the schedule")
        measure(parser.parse_args())
    else:
        harness.main(__doc__, Network)
