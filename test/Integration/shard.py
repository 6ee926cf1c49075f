# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules that upstream's mlir-opt partitioned (shard/partitioned), compiled, run, and compared with the unsharded
reference and with NumPy. Their sources are in shard/; while mlir-opt is installed, its output must be what is committed.

  shard.py [--all] [-v] [PATTERN...]     (see harness.py)
"""

import dataclasses
import itertools
import os
import re
import shutil
import unittest

import numpy as np

import harness
from harness import CHANNELS, NUMPY, TOLERANCE, each_once

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shard")
PARTITION = "builtin.module(func.func(sharding-propagation,shard-partition))"
MLIR_OPT = shutil.which("mlir-opt-22") or shutil.which("mlir-opt", path="/usr/lib/llvm-22/bin")


def attention(t):
    e = np.exp(np.einsum("thd,uhd->htu", t["q"], t["k"]))
    return np.einsum("htu,uhd->thd", e / e.sum(-1, keepdims=True), t["v"])


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    #: The result, of the logical inputs in f64.
    reference: callable
    #: The shape of the grid for each number of ranks.
    grids: dict
    dtypes: tuple = ("f32", "bf16")
    result: str = "y"
    #: Partial sums travel rounded: twice the tolerance.
    reduced_wire: bool = False

    def file(self, ranks):
        return os.path.join(FOLDER, "partitioned", f"{self.name}-{ranks}.mlir")


LINE = {2: "2", 4: "4"}
CASES = [
    Case("mlp", lambda t: np.maximum(t["x"] @ t["w1"] + t["b1"], 0) @ t["w2"], LINE, reduced_wire=True),
    Case("sequence-mlp", lambda t: np.tanh(t["x"] @ t["w1"]) @ t["w2"] + t["x"], LINE, reduced_wire=True),
    Case("ulysses", attention, LINE, dtypes=("f32", "f16")),
    Case("experts", lambda t: np.tanh(t["x"] @ t["w"]) @ t["v"], LINE),
    Case("gradient", lambda t: t["sum"] + t["x"].T @ t["dy"], {2: "2x1", 4: "2x2"}, result="dw", reduced_wire=True),
]


def with_reduce_scatter(text):
    """An all_reduce of which all_slice takes a part, as one reduce_scatter: upstream has it, but never writes it."""
    return re.sub(r"( *)%all_reduce = shard.all_reduce (%\w+) on (@\w+ grid_axes = \[\d+\]) : (\S+) -> \S+\n"
                  r" *(%all_slice = )shard.all_slice %all_reduce on \3 slice_axis = (\d+) : \S+ -> (\S+)\n",
                  r"\1\5shard.reduce_scatter \2 on \3 scatter_axis = \6 : \4 -> \7\n", text)


def simplified(text, path):
    """Behind upstream's canonicalize and cse, as in a pipeline of a framework."""
    with open(path, "w") as file:
        file.write(text)
    done = harness.run([harness.tool("tandem-opt"), "--canonicalize", "--cse", path])
    assert done.code == 0, str(done)
    return done.out


def stripped(text):
    """Without the white space at the ends of lines that upstream's printer leaves."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


WAYS = ("written", "simplified")


@dataclasses.dataclass(frozen=True)
class Combination:
    case: Case
    ranks: int
    channel: str
    dtype: str
    way: str

    @property
    def name(self):
        return f"{self.case.name}/{self.ranks}/{self.channel}/{self.dtype}/{self.way}"


def combinations(options):
    for case in CASES:
        ways = WAYS + (("scatter",) if case.name == "sequence-mlp" else ())
        factors = (tuple(case.grids), CHANNELS, case.dtypes, ways)
        for row in (itertools.product if options.all else each_once)(*factors):
            yield Combination(case, *row)


class ShardTest(harness.CombinationTest):
    def source(self):
        c = self.combination
        with open(c.case.file(c.ranks)) as file:
            text = re.sub(r"(?<=x)f32\b|\bf32\b", c.dtype, file.read())
        if c.way == "simplified":
            text = simplified(text, self.path("written.mlir"))
        elif c.way == "scatter":
            changed = with_reduce_scatter(text)
            self.assertIn("shard.reduce_scatter", changed)
            self.assertNotIn("shard.all_reduce", changed)
            text = changed
        path = self.path("program.mlir")
        with open(path, "w") as file:
            file.write(text)
        return path

    def check(self):
        c = self.combination
        compiled, dump = self.path("program.tsp"), self.path("dump")
        done = harness.run([harness.tool("tandem-compile"), self.source(), f"--target=cpu-{c.channel}", "-o", compiled])
        self.assertEqual(done.code, 0, str(done))
        done = harness.tandem_run(compiled, "-n", c.ranks, f"--channel={c.channel}", "--verify", "--repeat=3",
                                  f"--dump-npy={dump}", limit=120)
        self.assertVerified(done, c.ranks)
        tensors = harness.read_dump(dump)
        for name, array in tensors.items():
            self.assertEqual(array.dtype, NUMPY[c.dtype], name)
        reference = c.case.reference({name: array.astype(np.float64) for name, array in tensors.items()})
        self.assertGreater(np.linalg.norm(reference), 0.1, "nothing to compare")
        self.assertEqual(tensors[c.case.result].shape, reference.shape)
        self.assertClose(tensors[c.case.result], reference, TOLERANCE[c.dtype] * (2 if c.case.reduced_wire else 1))


class Dynamic(harness.Test):
    """shard/dynamic.mlir, whose number of tokens is given when it is compiled, or when it runs."""

    def test_dynamic(self):
        source, compiled, dump = os.path.join(FOLDER, "dynamic.mlir"), self.path("program.tsp"), self.path("dump")
        for options, extents in ((["--shape", "x=22x16"], []), (["--bound=24"], ["--extent=24,7,0,3"])):
            done = harness.run([harness.tool("tandem-compile"), source, "--target=cpu-ucx", *options, "-o", compiled])
            self.assertEqual(done.code, 0, str(done))
            done = harness.tandem_run(compiled, "-n", 4, "--channel=ucx", "--verify", *extents,
                                      *([] if extents else [f"--dump-npy={dump}"]), limit=120)
            self.assertVerified(done, 4)
        tensors = harness.read_dump(dump)
        x, w1, b1, w2 = (tensors[name].astype(np.float64) for name in ("x", "w1", "b1", "w2"))
        self.assertEqual(x.shape, (22, 16))
        self.assertClose(tensors["y"], 2 * np.maximum(x @ w1 + b1, 0) @ w2, 2 * TOLERANCE["f32"])
        refused = harness.run([harness.tool("tandem-compile"), source, "-o", compiled])
        self.assertNotEqual(refused.code, 0, str(refused))
        self.assertRegex(refused.err, r"dynamic\.mlir:\d+:\d+: error: expected a known extent in dimension 0 of argument 0")


    @unittest.skipUnless(MLIR_OPT, "mlir-opt of LLVM 22 is not installed")
    def test_open_grid(self):
        """What upstream makes of a grid of any size: it is given when the module is compiled, as the extents are."""
        source, compiled, dump = self.path("open.mlir"), self.path("program.tsp"), self.path("dump")
        with open(os.path.join(FOLDER, "mlp.mlir")) as file, open(self.path("mlp.mlir"), "w") as opened:
            opened.write(re.sub(r"shape = \d+", "shape = ?", file.read()))
        done = harness.run([MLIR_OPT, "--allow-unregistered-dialect", f"--pass-pipeline={PARTITION}", self.path("mlp.mlir"),
                            "-o", source])
        self.assertEqual(done.code, 0, str(done))
        shapes = "w1=16x24,b1=24,w2=24x16"
        done = harness.run([harness.tool("tandem-compile"), source, "--target=cpu-local", "--mesh=axis0=3", f"--shape={shapes}",
                            "-o", compiled])
        self.assertEqual(done.code, 0, str(done))
        done = harness.tandem_run(compiled, "-n", 3, "--channel=local", "--verify", f"--dump-npy={dump}", limit=120)
        self.assertVerified(done, 3)
        t = {name: array.astype(np.float64) for name, array in harness.read_dump(dump).items()}
        self.assertEqual(t["w1"].shape, (16, 24))
        self.assertClose(t["y"], CASES[0].reference(t), 2 * TOLERANCE["f32"])
        refused = harness.run([harness.tool("tandem-compile"), source, f"--shape={shapes}", "-o", compiled])
        self.assertNotEqual(refused.code, 0, str(refused))
        self.assertRegex(refused.err, r"open\.mlir:\d+:\d+: error: .*expected a known size of axis 0, found '\?' "
                                      r"\(name it with option 'mesh': axis0=4\)")


class Upstream(harness.Test):
    def source(self, case, ranks):
        with open(os.path.join(FOLDER, case.name + ".mlir")) as file:
            text, count = re.subn(r"^(shard\.grid @\w+\(shape = )\S+\)", rf"\g<1>{case.grids[ranks]})", file.read(),
                                  flags=re.M)
        self.assertEqual(count, 1)
        path = self.path(f"{case.name}-{ranks}.mlir")
        with open(path, "w") as file:
            file.write(text)
        return path

    @unittest.skipUnless(MLIR_OPT, "mlir-opt of LLVM 22 is not installed")
    def test_partitioned_as_committed(self):
        for case, ranks in ((one, ranks) for one in CASES for ranks in one.grids):
            done = harness.run([MLIR_OPT, "--allow-unregistered-dialect", f"--pass-pipeline={PARTITION}",
                                self.source(case, ranks)])
            self.assertEqual(done.code, 0, str(done))
            with open(case.file(ranks)) as file:
                self.assertEqual(stripped(done.out), stripped(file.read()), case.file(ranks))

    def test_every_file_has_a_case(self):
        self.assertEqual(set(os.listdir(os.path.join(FOLDER, "partitioned"))),
                         {os.path.basename(case.file(ranks)) for case in CASES for ranks in case.grids})

    def test_not_partitioned(self):
        """The source itself is refused at its first annotation."""
        done = harness.run([harness.tool("tandem-compile"), self.source(CASES[0], 2), "-o", self.path("a.tsp")])
        self.assertNotEqual(done.code, 0, str(done))
        self.assertRegex(done.err, r"mlp-2\.mlir:\d+:\d+: error: 'shard.shard' op expected a partitioned function")


if __name__ == "__main__":
    harness.main(__doc__, Upstream, Dynamic, combined=[(ShardTest, combinations)])
