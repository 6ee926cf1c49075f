# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of the embedder (test/Kernels): the programs of test/Programs/Call, run with tandem-run --kernels, compared
with the unsharded reference, which runs the same kernels, and with NumPy.

  embedder_kernels.py [--all] [-v] [PATTERN...]     (see harness.py)
"""

import dataclasses
import itertools
import os
import re

import numpy as np

import harness
from harness import CHANNELS, KERNELS

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Programs", "Call", "kernels.mlir")


def norm_qkv(t):
    x = t["x"]
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 0.1) * t["g"] @ t["w"]


def mix(x):
    """A hash of 32-bit numbers."""
    x, mask = np.asarray(x, np.uint64), np.uint64(0xffffffff)
    for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b)):
        x = (x ^ x >> np.uint64(shift)) * np.uint64(factor) & mask
    return x ^ x >> np.uint64(16)


def kept(x, seed):
    places = np.arange(x.size, dtype=np.uint64).reshape(x.shape)
    return mix(places ^ mix(int(seed) & 0xffffffff)) >= np.uint64(2**30)


def dropout(x, seed):
    """A quarter of the elements of a whole tensor is dropped."""
    return np.where(kept(x, seed), x / 0.75, 0)


def scores(t, causal=False):
    s = np.einsum("bmd,bnd->bmn", t["q"], t["k"]) / np.sqrt(t["q"].shape[-1])
    if causal:
        tokens = np.arange(s.shape[-1])
        s = np.where(tokens[None, :] <= tokens[:, None], s, -np.inf)
    return s


def attention(t, causal=False):
    s = scores(t, causal)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ t["v"]


REFERENCES = {
    "norm_qkv": norm_qkv,
    "dropout_slices": lambda t: dropout(t["x"] @ t["w"], t["seed"]),
    "dropout_columns": lambda t: dropout(t["x"], t["seed"]),
    "dropout_cyclic": lambda t: dropout(t["x"], t["seed"]),
    "heads": attention,
    "causal": lambda t: attention(t, causal=True),
    "heads_sums": lambda t: {"y": attention(t), "sums": np.log(np.exp(scores(t)).sum(-1))},
    "dropout_mask_slices": lambda t: {"y": dropout(t["x"], t["seed"]) @ t["w"], "mask": kept(t["x"], t["seed"])},
    "embedding": lambda t: t["table"][t["ids"] % 10],
}


@dataclasses.dataclass(frozen=True)
class Combination:
    entry: str
    ranks: int
    channel: str

    @property
    def name(self):
        return f"{self.entry}/{self.ranks}/{self.channel}"


def combinations(options):
    factors = (sorted(REFERENCES), (2, 3, 4), CHANNELS)
    choose = itertools.product if options.all else harness.pairwise
    for row in choose(*factors):
        yield Combination(*row)


def run(test, combination, *options, source=SOURCE):
    c, program = combination, test.path("program.tsp")
    done = harness.run([harness.tool("tandem-compile"), source, f"--entry={c.entry}", f"--mesh=x={c.ranks}", f"--target=cpu-{c.channel}",
                        "-o", program])
    test.assertEqual(done.code, 0, str(done))
    return harness.tandem_run(program, f"--channel={c.channel}", *options, limit=120)


class CallTest(harness.CombinationTest):
    def check(self):
        c = self.combination
        dump = self.path("dump")
        done = run(self, c, "--verify", "--repeat=3", f"--kernels={KERNELS}", f"--dump-npy={dump}")
        self.assertVerified(done, c.ranks)
        tensors = harness.read_dump(dump)
        wide = {name: array.astype(np.float64 if array.dtype == np.float32 else np.int64)
                for name, array in tensors.items()}
        reference = REFERENCES[c.entry](wide)
        for name, expected in (reference if isinstance(reference, dict) else {"y": reference}).items():
            self.assertGreater(np.linalg.norm(expected), 0.1, "nothing to compare")
            self.assertClose(tensors[name], expected, 1e-5)


class Registration(harness.Test):
    def test_every_function_has_a_reference(self):
        with open(SOURCE) as file:
            self.assertEqual(set(re.findall(r"^func\.func @(\w+)", file.read(), re.M)), set(REFERENCES))

    def refuse(self, text, *options):
        for channel in CHANNELS:
            done = run(self, Combination("heads", 2, channel), *options)
            self.assertNotEqual(done.code, 0, str(done))
            self.assertIn(text, done.out + done.err, str(done))
        return done

    def test_unknown_kernel(self):
        self.refuse('kernel "attention": expected it to be registered with this context')

    def test_no_library(self):
        self.refuse('cannot load "/nowhere.so"', "--kernels=/nowhere.so")

    def test_library_without_kernels(self):
        self.refuse("expected the function tandem_kernels, found none", "--kernels=libm.so.6")

    def test_failing_kernel(self):
        """The error of a kernel ends the run on all ranks and names it."""
        source = self.path("fails.mlir")
        with open(SOURCE) as file:
            text = file.read().replace("@attention", "@fails")
        with open(source, "w") as file:
            file.write(text)
        done = run(self, Combination("heads", 2, "local"), f"--kernels={KERNELS}", source=source)
        self.assertNotEqual(done.code, 0, str(done))
        self.assertIn('kernel "fails" returned 7', done.out + done.err, str(done))


if __name__ == "__main__":
    harness.main(__doc__, Registration, combined=[(CallTest, combinations)])
