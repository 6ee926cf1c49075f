# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One program serves every number of tokens up to its bound (docs/families.md).

  families.py [--all] [-v] [PATTERN...]     (see harness.py)

Each function of families.mlir is compiled for a bound and runs with many extents one after another, also with fewer tokens
than ranks, 1 and none. Results are compared with NumPy, and with the unsharded reference of the program (--verify).
"""

import dataclasses
import os

import numpy as np

import harness

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "families.mlir")


def softmax(scores):
    if scores.shape[-1] == 0:
        return scores
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def attention(q, k, v, causal=False, scale=None):
    scores = q @ k.swapaxes(-1, -2) * (scale or 1 / np.sqrt(q.shape[-1]))
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    return softmax(scores) @ v


#: Results by name, of inputs in f64.
REFERENCES = {
    "mlp": lambda x, a, b: {"y": np.exp(x @ a) @ b},
    "weight_gradient": lambda x, d: {"y": np.exp(x).T @ np.exp(d)},
    "reductions": lambda x: {"sum": np.exp(x).sum(0), "max": (-np.exp(x)).max(0, initial=-np.inf),
                             "min": np.exp(x).min(0, initial=np.inf)},
    "attention": lambda q, k, v: {"y": attention(q, k, np.exp(v))},
    "causal": lambda q, k, v: {"y": attention(q, k, v, causal=True)},
    "pairs": lambda s, x: {"y": np.exp(s) @ x, "e": np.exp(s)},
    "norm": lambda x, g, w: {"y": x * g / np.sqrt((x ** 2).mean(-1, keepdims=True) + 0.1) @ w},
    "from_end_slices": lambda x, w: {"y": x * np.arange(len(x), 0, -1)[:, None] @ w},
    "keys": lambda q, k, v: {"y": attention(q, k, np.exp(v))},
    "keys_bf16": lambda q, k, v: {"y": attention(q, k, v)},
    "far": lambda q, k, v: {"y": attention(q - 4e4, np.exp(np.exp(k)), np.exp(v), scale=1e-6)},
    "elsewhere": lambda x, w: {"e": np.exp(x), "y": np.exp(w)},
    "handed_out": lambda x, w: {"y": x @ w},
    "reshaped": lambda x, w: {"y": x.swapaxes(0, 1) @ w},
}


#: Of those that are not f32.
DTYPES = {"keys_bf16": "bf16", "far": "f16"}


@dataclasses.dataclass(frozen=True)
class Case:
    function: str
    ranks: int
    bound: int
    channel: str

    @property
    def name(self):
        return f"{self.function}/{self.ranks}/{self.bound}/{self.channel}"


def cases(options):
    yield from (Case("reshaped", 2, bound, "local") for bound in (1, 2, 4))
    for n, function in enumerate(REFERENCES):
        if options.all:
            yield from (Case(function, p, b, c) for p in (1, 2, 3, 4, 8) for b in (10, 48) for c in harness.CHANNELS)
        else:
            if function != "norm":  # to save time: its kernels are in embedder_kernels.py
                yield Case(function, 4, 48, harness.CHANNELS[n % 2])
            if function != "from_end_slices":
                yield Case(function, (3, 8)[n % 2], 10, "local")


class EveryExtent(harness.CombinationTest):
    def assertSame(self, found, wanted, name):
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(found[~finite], wanted[~finite].astype(found.dtype), err_msg=name)
        self.assertClose(found[finite], wanted[finite], self.tolerance, name)

    def check(self):
        c = self.combination
        self.tolerance = harness.TOLERANCE[DTYPES.get(c.function, "f32")]
        program = self.path("p.tsp")
        done = harness.run([harness.tool("tandem-compile"), SOURCE, f"--entry={c.function}", f"--mesh=x={c.ranks}",
                            f"--bound={c.bound}", f"--target=cpu-{c.channel}", "-o", program])
        self.assertEqual(done.code, 0, str(done))
        extents = sorted({0, 1, c.ranks - 1, c.ranks, c.ranks + 1, c.bound // 2 + 1, c.bound - 1, c.bound})
        for extent in (e for e in extents if e <= c.bound):
            # First others on the same instance, more and fewer: what they leave behind must not matter.
            dump = self.path(f"dump{extent}")
            done = harness.tandem_run(program, "-n", c.ranks, f"--channel={c.channel}", "--verify",
                                      f"--extent={c.bound},{c.bound // 3},{extent}", "--repeat=3", f"--dump-npy={dump}",
                                      f"--kernels={harness.KERNELS}")
            self.assertVerified(done, c.ranks)
            tensors = harness.read_dump(dump)
            inputs = {name: t.astype(np.float64) for name, t in tensors.items()}
            reference = REFERENCES[c.function]
            names = reference.__code__.co_varnames[:reference.__code__.co_argcount]
            wanted = reference(*(inputs[name] for name in names))
            for name, value in wanted.items():
                self.assertEqual(tensors[name].shape, value.shape, f"{name} with {extent}")
                self.assertSame(tensors[name], value, f"{name} with {extent}")


if __name__ == "__main__":
    harness.main(__doc__, combined=[(EveryExtent, cases)])
