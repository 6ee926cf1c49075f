# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every program of test/Programs: compiled, run on real ranks, compared with its reference (tandem-run --verify) and with
a NumPy reference that knows nothing of the compiler.

  programs.py [--all] [-v] [PATTERN...]     (see harness.py)

Ranks, channel and way of compiling are combined pairwise: every two values of two of them meet at least once per program,
and every dtype occurs. A variant of another program runs half of the values; the next variant runs the others. With --all,
every combination runs.

A new program is a row of PROGRAMS.
"""

import dataclasses
import functools
import itertools
import math
import os
import re
import unittest

import numpy as np

import harness
from harness import CHANNELS, DTYPES, FLOATS, FP8, MOVED, NUMPY, TOLERANCE, each_once, pairwise, round_fp8

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Programs")


@dataclasses.dataclass(frozen=True)
class Program:
    """One row: a function of a file in test/Programs. `reference` takes the number of ranks and the logical inputs by
    name, as f64 or i32, and gives the logical outputs by name; `shapes` gives the shapes that inputs and outputs must
    have."""

    name: str  # of the function, with dashes
    dtypes: tuple
    shapes: callable
    reference: callable
    ranks: tuple = (2, 3, 4, 8)
    #: Only moves data: compared to the last bit.
    exact: bool = False
    #: Partial sums travel rounded: twice the tolerance.
    reduced_wire: bool = False
    #: The dtype that stands for the asked one in the file.
    written: str = "f32"
    #: The tensors of that dtype, if others are in f32.
    narrow: tuple = ()
    #: Tensors of another dtype: (name, dtype) pairs.
    others: tuple = ()
    #: Of the file, without ".mlir"; "": that of the row.
    file: str = ""
    #: The sizes of the mesh's axes for a number of ranks, as the tools take them; None: one axis "x" of that size.
    mesh: callable = None
    #: A variant of another row: without --all, half of the values, not every pair.
    variant: bool = False
    #: All launches run inside matmuls, on a GPU.
    inside: bool = False

    @property
    def entry(self):
        return self.name.replace("-", "_")

    @property
    def source(self):
        return (self.file or self.name) + ".mlir"



def gelu(h):
    """The tanh form, and its derivative."""
    c = np.sqrt(2 / np.pi)
    t = np.tanh(c * (h + 0.044715 * h**3))
    return h * (1 + t) / 2, (1 + t) / 2 + h * (1 - t**2) * c * (1 + 3 * 0.044715 * h**2) / 2


def grouped(x, w, ends):
    """The product of each row with the matrix of its group. Ends are clamped to the previous one and to the rows."""
    y = np.zeros((*x.shape[:-1], w.shape[-1]))
    for batch in np.ndindex(*ends.shape[:-1]):
        begin = 0
        for group, end in enumerate(ends[batch]):
            end = int(min(max(end, begin), x.shape[-2]))
            y[batch][begin:end] = x[batch][begin:end] @ w[group]
            begin = end
    return y


def experts_of_groups(t):
    h = grouped(t["x"], t["w"], t["ends"])
    return {"y": grouped(h / (1 + np.exp(-h)), t["v"], t["ends"])}


def experts_of_squares(t):
    h = grouped(t["x"], t["w"], t["ends"])
    return {"y": grouped(h * h, t["v"], t["ends"])}


def erf_gelu(h):
    return h * (1 + np.vectorize(math.erf)(h * np.sqrt(0.5))) / 2


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def choose(s, u):
    return {"p": np.where(s > 0, np.maximum(s, s * u), -s), "q": s * s * u}


def mlp(p, t):
    h = t["x"] @ t["w1"]
    a, derivative = gelu(h)
    dh = t["dy"] @ t["w2"].T * derivative
    return {"y": a @ t["w2"], "dx": dh @ t["w1"].T, "dw1": t["x"].T @ dh, "dw2": a.T @ t["dy"]}


def gated_layer(t):
    a = np.tanh(t["x"] @ t["w"] + t["b"])
    return {"y": a + t["r"], "dw": t["x"].T @ a}


#: Of the layers: 48 tokens, 16 features outside and 24 inside.
LAYER = {"x": (48, 16), "w1": (16, 24), "w2": (24, 16), "dy": (48, 16), "y": (48, 16), "dx": (48, 16),
         "dw1": (16, 24), "dw2": (24, 16)}


def attention(t, scale=None, causal=False, zigzag=0):
    s = np.einsum("...md,...nd->...mn", t["q"], t["k"]) * (scale or t["q"].shape[-1] ** -0.5)
    if causal:
        tokens = np.arange(s.shape[-1])
        if zigzag:
            chunks = tokens.reshape(2 * zigzag, -1)
            tokens = np.stack([chunks[:zigzag], chunks[:zigzag - 1:-1]], 1).reshape(-1)
        s = np.where(tokens[None, :] <= tokens[:, None], s, -np.inf)
    return {"y": softmax(s) @ t["v"]}


def layer(name, file, operands, results, reference, dtypes=FLOATS, **more):
    """A row of a tensor-parallel layer: shapes as in `operands` and `results`, "x 48 16, w 16 24"."""
    shapes = {}
    for part in (operands + ", " + results).split(", "):
        key, *extents = part.split()
        shapes[key] = tuple(map(int, extents))
    return Program(name, dtypes, lambda p: shapes, lambda p, t: reference(t), file=file, **more)


#: Nodes of devices, by the number of ranks.
NODES = {4: "node=1,gpu=4", 6: "node=3,gpu=2", 8: "node=2,gpu=4", 16: "node=2,gpu=8"}

#: Numbers of ranks that do not divide 10.
EXTENTS = (3, 4)

#: Factors of two bytes, everything else in f32.
WIDE = {"dtypes": ("f16", "bf16"), "written": "bf16", "narrow": ("x", "w", "dy")}

#: Factors of 8 bits, results in f32.
NARROW = {"dtypes": FP8, "written": "f8E4M3FN", "narrow": ("x", "w")}


def quantized(c, t):
    """x in 8 bits, in steps of the dtype that is asked for."""
    q = round_fp8(c, np.clip(t["x"] * 512, -448, 448))
    return {"y": q @ t["w"].T / 512, "q": q}


def experts(t):
    """Two grouped products; the second one of what the first one was rounded to."""
    h = np.tanh(t["x"] @ t["w"].transpose(0, 2, 1) * t["sx"][..., None] * t["sw"][:, None, None])
    # A sum next to the middle of two numbers may go either way.
    step = np.abs(t["q"] - h * 448) / np.maximum(np.abs(h * 448), 2.0**-6)
    assert step.max() < 0.0626, step.max()
    return {"y": t["q"] @ t["v"].transpose(0, 2, 1) / 448 * t["sv"][:, None]}


def scaled_groups(t):
    """As `experts`, with experts of different sizes."""
    h = np.tanh(grouped(t["x"], t["w"].swapaxes(1, 2), t["ends"]) * t["sx"][..., None] * t["sw"])
    step = np.abs(t["q"] - h * 448) / np.maximum(np.abs(h * 448), 2.0**-6)
    assert step.max() < 0.0626, step.max()
    return {"y": grouped(t["q"], t["v"].swapaxes(1, 2), t["ends"]) / 448 * t["sv"]}


#: Of grouped matmuls.
ENDS = (("ends", "i32"),)

PROGRAMS = [
    Program("allgather", MOVED, lambda p: {"t0": (4, p, 8), "t1": (4, p, 8)}, lambda p, t: {"t1": t["t0"]},
            exact=True),
    Program("allgather-p2p", DTYPES, lambda p: {"t0": (p, 24), "t1": (p, 24)}, lambda p, t: {"t1": t["t0"]},
            exact=True),
    Program("allgather-matmul", FLOATS,
            lambda p: {"t0": (8, p, 4, 32), "t1": (32, 16), "t2": (8, p, 4, 16)},
            lambda p, t: {"t2": np.einsum("sdmk,kn->sdmn", t["t0"], t["t1"])}),
    Program("allgather-matmul-p2p", FLOATS,
            lambda p: {"t0": (p, 16, 32), "t1": (32, 16), "t2": (p, 16, 16)},
            lambda p, t: {"t2": np.einsum("dmk,kn->dmn", t["t0"], t["t1"])}),
    Program("allreduce", DTYPES, lambda p: {"t0": (4, p, 8), "t1": (4, 8)}, lambda p, t: {"t1": t["t0"].sum(1)},
            reduced_wire=True),
    Program("reduce-scatter", DTYPES, lambda p: {"t0": (4, p, p, 8), "t1": (4, p, 8)},
            lambda p, t: {"t1": t["t0"].sum(1)}, reduced_wire=True),
    Program("matmul-allreduce", FLOATS,
            lambda p: {"t0": (8, p, 4, 16), "t1": (p, 16, 12), "t3": (8, 4, 12)},
            lambda p, t: {"t3": np.einsum("sdmk,dkn->smn", t["t0"], t["t1"])}, reduced_wire=True),
    Program("matmul-reduce-scatter", FLOATS,
            lambda p: {"t0": (8, p, p, 4, 16), "t1": (p, 16, 12), "t4": (8, p, 4, 12)},
            lambda p, t: {"t4": np.einsum("sdemk,dkn->semn", t["t0"], t["t1"])}, reduced_wire=True),
    # Partial values that meet what needs their sum.
    layer("terms-before-rows", "partial-uses", "x 48 24, w 24 24, v 24 16", "y 48 16",
          lambda t: {"y": np.tanh(t["x"] @ t["w"]) @ t["v"]}, reduced_wire=True, variant=True),
    layer("terms-and-residuals", "partial-uses", "x 48 24, w 24 24, r 48 24, s 24 48", "y 48 24, z 48 24",
          lambda t: {"y": t["x"] @ t["w"] + t["r"], "z": t["s"].T - t["x"] @ t["w"]}, reduced_wire=True, variant=True),
    layer("softmax", "partial-uses", "x 48 24", "y 48 24", lambda t: {"y": softmax(t["x"])}, variant=True),
    # One-sided copies.
    layer("allgather-matmul-push", "", "x 48 16, w 16 24", "y 48 24", lambda t: {"y": t["x"] @ t["w"]}),
    layer("allgather-matmul-push-chunks", "allgather-matmul-push", "x 48 16, w 16 24", "y 48 24",
          lambda t: {"y": t["x"] @ t["w"]}, variant=True),
    layer("allgather-matmul-push-kept", "allgather-matmul-push", "x 48 16, w 16 24", "y 48 24, g 48 16",
          lambda t: {"y": t["x"] @ t["w"], "g": t["x"]}, variant=True),
    layer("allgather-matmul-gated", "", "x 48 16, w 16 24", "y 48 24", lambda t: {"y": t["x"] @ t["w"]}, variant=True),
    layer("allgather-gated-chunks", "allgather-matmul-gated", "x 48 16, v 16 24, w 24 16", "all 48 16, y 48 24, z 48 24",
          lambda t: {"all": t["x"], "y": t["x"] @ t["v"], "z": t["x"] @ t["w"].T}, variant=True),
    layer("gated-layer", "gated-more", "x 48 16, w 16 24, b 24, r 48 24", "y 48 24, dw 16 24", gated_layer, variant=True),
    *(layer(name, "gated-more", f"x {rows} 16, w 16 24", f"y {rows} 24", lambda t: {"y": t["x"] @ t["w"]}, variant=True)
      for name, rows in (("gated-rows", "24 2"), ("gated-batches", "2 24"))),
    layer("gated-sum", "gated-more", "x 48 16, v 16 24, w 16 24", "y 48 24",
          lambda t: {"y": np.tanh(t["x"]) @ t["v"] + t["x"] @ t["w"]}, variant=True),
    # Matmuls with epilogues.
    layer("epilogue-residual", "epilogues", "x 48 16, w 16 24, b 24, r 48 24", "y 48 24",
          lambda t: {"y": np.maximum(t["x"] @ t["w"] + t["b"] - t["r"] / 2, 0)}, ranks=(2, 4), inside=True),
    layer("epilogue-gated", "epilogues", "x 48 16, w 16 24, b 24, v 24 24", "y 48 24",
          lambda t: {"y": silu(t["x"] @ t["w"] + t["b"]) @ t["v"]}, ranks=(2, 4), variant=True),
    layer("epilogue-gelu", "epilogues", "x 24 16, w 24 16, b 24", "y 24 24",
          lambda t: {"y": gelu(t["x"] @ t["w"].T + t["b"])[0]}, ranks=(2, 4), variant=True, inside=True),
    layer("push-two-gathers", "", "x 48 16, r 48 24, w 16 24", "y 48 24", lambda t: {"y": t["x"] @ t["w"] + t["r"]}),
    *(layer(name, "push-copies", "x 48 16, w 16 24", "y 48 24", lambda t: {"y": t["x"] @ t["w"]}, variant=True)
      for name in ("gather-copies", "many-copies")),
    *(layer(name, "push-sms", "x 48 16, w 16 24", "y 48 24", lambda t: {"y": t["x"] @ t["w"]}, variant=True)
      for name in ("gather-sms", "gather-sms-gated", "gather-sms-columns")),
    layer("reduce-copies", "push-copies", "x 48 24, w 24 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]},
          reduced_wire=True, variant=True),
    layer("matmul-reduce-scatter-push", "", "x 48 24, w 24 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]},
          reduced_wire=True),
    layer("matmul-reduce-scatter-push-chunks", "matmul-reduce-scatter-push", "x 48 24, w 24 16", "y 48 16",
          lambda t: {"y": t["x"] @ t["w"]}, reduced_wire=True, variant=True),
    *(layer("reduce-scatter-epilogue" + more, "push-epilogue", f"x {rows} 24, w 24 16", f"y {rows} 16",
            lambda t: {"y": t["x"] @ t["w"]}, reduced_wire=True, variant=True, ranks=ranks)
      for more, rows, ranks in (("", 48, (2, 3, 4, 8)), ("-ragged", 46, EXTENTS))),
    layer("reduce-scatter-epilogue-transposed", "push-epilogue", "x 48 24, w 16 24", "y 48 16",
          lambda t: {"y": t["x"] @ t["w"].T}, reduced_wire=True, variant=True),
    *(layer("reduce-scatter-sum" + more, "push-sum", "x 48 24, w 24 16", "y 48 16", reference, reduced_wire=True, variant=True,
            ranks=(2,)) for more, reference in (("", lambda t: {"y": t["x"] @ t["w"]}),
                                                ("-epilogue", lambda t: {"y": t["x"] @ t["w"]}),
                                                ("-columns", lambda t: {"y": np.tanh(t["x"] @ t["w"])}))),
    layer("all-reduce-sum", "push-sum", "x 48 24, w 24 16, r 48 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"] + t["r"]},
          reduced_wire=True, variant=True, ranks=(2,)),
    # Sums of products before a reduction.
    layer("sum-of-three", "push-sum", "x0 48 24, w0 24 16, x1 48 24, w1 24 16, x2 48 24, w2 24 16", "y 48 16",
          lambda t: {"y": sum(t[f"x{i}"] @ t[f"w{i}"] for i in range(3))}, reduced_wire=True, variant=True, ranks=(2,)),
    *(layer(name, file, "x0 48 24, w0 24 16, x1 48 24, w1 24 16", "y 48 16",
            lambda t: {"y": t["x0"] @ t["w0"] + t["x1"] @ t["w1"]}, dtypes, reduced_wire=True, variant=True, ranks=ranks)
      for name, file, ranks, dtypes in (("sum-pushed", "summed-products", (2, 3, 4), FLOATS),
                                        ("sum-in-ring", "summed-products", (2, 3, 4), ("f32",)),
                                        ("sum-reduced", "push-sum", (2,), FLOATS))),
    layer("sum-not-of-products", "summed-products", "x0 48 24, w0 24 16, x1 48 24, w1 24 16", "y 48 16",
          lambda t: {"y": 2 * t["x0"] @ t["w0"] + t["x1"] @ t["w1"]}, reduced_wire=True, variant=True, ranks=(2, 4)),
    layer("all-reduce-epilogue", "push-epilogue", "x 48 24, w 24 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]},
          reduced_wire=True, variant=True),
    layer("all-reduce-epilogue-layer", "push-epilogue", "x 48 24, w 24 16, r 48 16, v 16 12", "z 48 12",
          lambda t: {"z": np.tanh(t["x"] @ t["w"] + t["r"]) @ t["v"]}, reduced_wire=True, variant=True),
    layer("mlp-push", "", "x 48 16, w1 16 24, w2 24 16", "y 48 16", lambda t: {"y": np.tanh(t["x"] @ t["w1"]) @ t["w2"]},
          reduced_wire=True, variant=True),
    layer("allreduce-push", "mlp-push", "x 48 24, w 24 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]},
          reduced_wire=True, variant=True),
    layer("matmul-allreduce-push", "", "x 48 24, w 24 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]},
          reduced_wire=True),
    layer("allreduce-then-matmul-push", "matmul-allreduce-push", "x 48 24, w 24 16, v 16 12, r 48 16", "z 48 12",
          lambda t: {"z": np.tanh(t["x"] @ t["w"] + t["r"]) @ t["v"]}, reduced_wire=True, variant=True),
    # All-reduces by one kernel.
    *(layer(name, "direct", "x 48 24, w 24 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]}, ranks=(2, 4, 8),
            reduced_wire=True, variant=True) for name in ("matmul-allreduce-direct", "direct-two-shots")),
    layer("direct-layer", "direct", "x 48 24, w 24 16, v 16 12", "z 48 12",
          lambda t: {"z": np.tanh(t["x"] @ t["w"]) @ t["v"]}, ranks=(2, 4, 8), reduced_wire=True, variant=True),
    layer("direct-token", "direct", "x 1 24, w 24 16", "y 1 16, z 1 16", lambda t: {"y": t["x"] @ t["w"], "z": t["x"] @ t["w"]},
          ranks=(2, 4, 8), reduced_wire=True, variant=True),
    layer("direct-signals", "direct", "x 48 24, t 1 24, w 24 16", "y 48 16, z 1 16, u 1 16",
          lambda t: {"y": t["x"] @ t["w"], "z": t["t"] @ t["w"], "u": t["t"] @ t["w"]},
          ranks=(2, 4, 8), reduced_wire=True, variant=True),
    layer("direct-gather", "direct", "x 48 24, w 24 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]}, ranks=(2, 4, 8), variant=True),
    layer("direct-scatter", "direct", "x 48 24, w 24 16", "y 48 16, z 48 16",
          lambda t: {"y": t["x"] @ t["w"], "z": t["x"] @ t["w"]}, ranks=(2, 4, 8), reduced_wire=True, variant=True),
    layer("direct-returns", "direct", "x 48 24, v 48 24, w 24 16", "g 48 24, y 48 16",
          lambda t: {"g": t["x"], "y": t["v"] @ t["w"]}, ranks=(2, 4, 8), reduced_wire=True, variant=True),
    Program("direct-between", FLOATS, lambda p: {"a": (4, 24, 8), "b": (24, 8)}, lambda p, t: {"b": t["a"].sum(0)},
            file="direct-axes", ranks=(8,), mesh=lambda p: "x=4,y=2", reduced_wire=True, variant=True),
    Program("direct-alone", FLOATS, lambda p: {"a": (p, 256, 16), "b": (256, 16)}, lambda p, t: {"b": t["a"].sum(0)},
            file="direct", ranks=(2, 4, 8), reduced_wire=True, variant=True),
    layer("matmul-reduce-scatter-exchange", "", "x 48 24, w 24 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]},
          reduced_wire=True),
    layer("reduce-scatter-exchange-chunks", "matmul-reduce-scatter-exchange", "x 48 24, w 24 16", "y 48 16",
          lambda t: {"y": -(t["x"] @ t["w"])}, reduced_wire=True, variant=True),
    layer("gather-xor", "push-merged", "x 48 16, w 16 24", "y 48 24", lambda t: {"y": t["x"] @ t["w"]}, ranks=(8,),
          variant=True),
    layer("gather-rotated", "push-merged", "x 48 16, w 16 24", "y 48 24", lambda t: {"y": t["x"] @ t["w"]}, ranks=(4,),
          variant=True),
    layer("reduce-xor", "push-merged", "x 48 24, w 24 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]}, ranks=(8,),
          reduced_wire=True, variant=True),
    layer("reduce-rotated", "push-merged", "x 48 24, w 24 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]}, ranks=(4,),
          reduced_wire=True, variant=True),
    layer("gather-pod", "push-pod", "x 48 16, w 16 24", "y 48 24", lambda t: {"y": t["x"] @ t["w"]}, ranks=(6,),
          mesh=lambda p: "node=2,gpu=3", variant=True),
    layer("reduce-pod", "push-pod", "x 48 24, w 24 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]}, ranks=(6,),
          mesh=lambda p: "node=2,gpu=3", reduced_wire=True, variant=True),
    layer("exchange-pod", "push-pod", "x 48 16, w 16 24", "y 48 24", lambda t: {"y": t["x"] @ t["w"]}, ranks=(6,),
          mesh=lambda p: "node=2,gpu=3", variant=True),
    # Tokens to their experts and back.
    *(layer("dispatch-" + name, "all-to-all", "x 24 48 16, w 24 16 8", "y 24 48 8", lambda t: {"y": t["x"] @ t["w"]},
            variant=True) for name in ("exchange", "push", "halves")),
    layer("dispatch-kept", "all-to-all", "x 24 48 16, w 24 16 8", "z 24 48 16, y 24 48 8",
          lambda t: {"z": t["x"], "y": t["x"] @ t["w"]}, variant=True),
    *(layer("combine-" + name, "all-to-all", "x 24 48 16, w 24 16 8", "y 24 48 8", lambda t: {"y": t["x"] @ t["w"]},
            variant=True) for name in ("exchange", "push", "halves")),
    layer("blocks", "all-to-all", "x 48 24 16, w 48 16 8", "y 48 24 8", lambda t: {"y": t["x"] @ t["w"]},
          variant=True),
    layer("experts", "all-to-all", "x 24 48 16, w 24 16 8, v 24 8 16, gates 24 48 16", "y 24 48 16",
          lambda t: {"y": np.tanh(t["x"] @ t["w"]) @ t["v"] * t["gates"]}),
    layer("experts-backward", "all-to-all", "dy 24 48 16, h 24 48 8, w 24 16 8, v 24 8 16", "dx 24 48 16, dv 24 8 16",
          lambda t: {"dx": t["dy"] @ t["v"].swapaxes(1, 2) @ t["w"].swapaxes(1, 2),
                     "dv": t["h"].swapaxes(1, 2) @ t["dy"]}),
    # Experts with groups of different sizes. Ends are random: some descend, are negative, or leave rows without a group.
    layer("grouped-gather", "grouped", "x 24 12 16, w 6 16 24, ends 24 6", "y 24 12 24",
          lambda t: {"y": grouped(t["x"], t["w"], t["ends"])}, others=ENDS),
    Program("grouped-gather-push", FLOATS,
            lambda p: {"x": (p, 12, 16), "w": (6, 16, 24), "ends": (p, 6), "y": (p, 12, 24)},
            lambda p, t: {"y": grouped(t["x"], t["w"], t["ends"])}, file="grouped", others=ENDS, variant=True),
    layer("grouped-gather-ring", "grouped", "x 24 12 16, w 6 24 16, ends 24 6", "y 24 12 24",
          lambda t: {"y": grouped(t["x"], t["w"].swapaxes(1, 2), t["ends"])}, others=ENDS, variant=True),
    *(layer("grouped-scatter" + schedule, "grouped", "x 24 12 24, w 6 24 16, ends 24 6", "y 24 12 16",
            lambda t: {"y": grouped(t["x"], t["w"], t["ends"])}, others=ENDS, reduced_wire=True, variant=True)
      for schedule in ("", "-push", "-ring")),
    layer("experts-of-groups", "grouped", "x 24 12 16, w 6 16 24, v 6 24 16, ends 24 6", "y 24 12 16",
          experts_of_groups, others=ENDS, reduced_wire=True),
    layer("experts-of-groups-push", "grouped", "x 24 12 16, w 6 16 24, v 6 24 16, ends 24 6", "y 24 12 16",
          experts_of_squares, others=ENDS, reduced_wire=True, variant=True),
    layer("grouped-slices-of-k", "grouped", "x 24 12 24, w 6 24 16, ends 24 6", "y 24 12 16",
          lambda t: {"y": grouped(t["x"], t["w"], t["ends"])}, others=ENDS, reduced_wire=True, variant=True),
    layer("grouped-columns", "grouped", "x 48 16, w 6 16 24, ends 6", "y 48 24",
          lambda t: {"y": grouped(t["x"], t["w"], t["ends"])}, others=ENDS, variant=True),
    layer("ulysses", "all-to-all", "q 48 24 16, w 16 8", "y 48 24 8", lambda t: {"y": t["q"] @ t["w"]}, variant=True),
    # From neighbour to neighbour.
    *(layer(name, "ring", "x 96 16, w 16 24" + bias, "y 96 24", lambda t: {"y": t["x"] @ t["w"] + t.get("b", 0)},
            ranks=(2, 3, 4, 8, 16), variant=True)
      for name, bias in (("allgather-matmul-ring", ""), ("allgather-matmul-both", ", b 24"),
                         ("allgather-matmul-buffers", ""), ("allgather-matmul-split", ""), ("allgather-chunks-both", ""))),
    layer("gather-k-both", "ring", "x 16 96, w 96 48", "y 16 48", lambda t: {"y": t["x"] @ t["w"]}, variant=True),
    Program("ring-document", ("bf16",),
            lambda p: {"x": (192, 256), "w": (256, 96), "y": (192, 96)},
            lambda p, t: {"y": t["x"] @ t["w"]}, ranks=(4, 8, 16), file="ring", variant=True),
    layer("rows-4d-both", "ring", "x 1 1 96 16, w 16 24, b 24", "y 1 1 96 24", lambda t: {"y": t["x"] @ t["w"] + t["b"]},
          variant=True),
    layer("columns-4d-both", "ring", "x 1 1 16 96, w 96 48", "y 1 1 16 48", lambda t: {"y": t["x"] @ t["w"]}, variant=True),
    *(layer(name, "ring", "x 96 48, w 48 16", "y 96 16", lambda t: {"y": t["x"] @ t["w"]}, reduced_wire=True,
            variant=True) for name in ("matmul-reduce-scatter-ring", "matmul-reduce-scatter-both")),
    layer("matmul-reduce-scatter-adds", "ring", "x 96 48, w 48 16", "y 96 16", lambda t: {"y": t["x"] @ t["w"]},
          dtypes=("f32",), variant=True),
    # A ring across nodes, puts inside of each.
    *(layer(name, "hierarchical", "x 48 16, w 16 24", "y 48 24", lambda t: {"y": t["x"] @ t["w"]}, ranks=tuple(NODES),
            mesh=NODES.get, variant=True) for name in ("gather-nodes", "gather-halves", "gather-sent")),
    *(layer(name, "hierarchical", "x 48 48, w 48 48", "y 48 48", lambda t: {"y": t["x"] @ t["w"]},
            ranks=tuple(NODES), mesh=NODES.get, variant=True) for name in ("gather-merged", "gather-sent-merged")),
    layer("gather-only", "hierarchical-gather", "x 48 16", "y 48 16", lambda t: {"y": t["x"]}, DTYPES, ranks=tuple(NODES),
          mesh=NODES.get, exact=True, variant=True),
    *(Program("gather-list" + put, DTYPES, lambda p: {"x": (48, 16), **{f"y{i}": (12, 16) for i in range(4)}},
              lambda p, t: {f"y{i}": t["x"][12 * i:12 * i + 12] for i in range(4)}, ranks=tuple(NODES), mesh=NODES.get,
              file="hierarchical-layouts", exact=True, variant=True) for put in ("", "-put")),
    layer("gather-list-again", "hierarchical-layouts", "x 48 16", "y 12 16, y0 12 16, y1 12 16, y2 12 16, y3 12 16",
          lambda t: {"y": t["x"][12:24], **{f"y{i}": t["x"][12 * i:12 * i + 12] for i in range(4)}}, ("f32",),
          ranks=tuple(NODES), mesh=NODES.get, exact=True, variant=True),
    layer("gather-list-twice", "hierarchical-layouts", "x 48 16", ", ".join(f"{n}{i} 12 16" for n in "yz" for i in range(4)),
          lambda t: {f"{n}{i}": t["x"][12 * i:12 * i + 12] for n in "yz" for i in range(4)}, ("f32",), ranks=tuple(NODES),
          mesh=NODES.get, exact=True, variant=True),
    layer("gather-parameters", "hierarchical-layouts", "x 48 16", "a 240, b 528",
          lambda t: {"a": t["x"][:, :5].reshape(-1), "b": t["x"][:, 5:].reshape(-1)}, DTYPES, ranks=tuple(NODES),
          mesh=NODES.get, exact=True, variant=True),
    layer("gather-flat", "hierarchical-layouts", "x 48 16", "y 768",
          lambda t: {"y": np.concatenate([t["x"][:, :5].reshape(-1), t["x"][:, 5:].reshape(-1)])}, DTYPES,
          ranks=tuple(NODES), mesh=NODES.get, exact=True, variant=True),
    *(layer(name, "hierarchical", "x 48 48, w 48 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]}, ranks=tuple(NODES),
            mesh=NODES.get, reduced_wire=True, variant=True) for name in ("reduce-nodes", "reduce-halves")),
    layer("gather-nodes", "hierarchical", "x 48 16, w 16 24", "y 48 24", lambda t: {"y": t["x"] @ t["w"]}, ranks=(4,),
          mesh=lambda p: "node=4,gpu=1", variant=True),
    layer("reduce-nodes", "hierarchical", "x 48 48, w 48 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"]}, ranks=(4,),
          mesh=lambda p: "node=4,gpu=1", reduced_wire=True, variant=True),
    # Tensor-parallel layers.
    layer("column-parallel", "", "x 48 16, w 16 24, b 24", "y 48 24", lambda t: {"y": t["x"] @ t["w"] + t["b"]}),
    layer("column-parallel-nt", "column-parallel", "x 48 16, w 24 16", "y 48 24",
          lambda t: {"y": t["x"] @ t["w"].T}, variant=True),
    layer("column-parallel-tn", "column-parallel", "x 16 48, w 16 24", "y 48 24",
          lambda t: {"y": t["x"].T @ t["w"]}, variant=True),
    layer("column-parallel-dx", "column-parallel-backward", "dy 48 24, w 16 24", "dx 48 16",
          lambda t: {"dx": t["dy"] @ t["w"].T}, reduced_wire=True),
    layer("column-parallel-dx-nn", "column-parallel-backward", "dy 48 24, w 24 16", "dx 48 16",
          lambda t: {"dx": t["dy"] @ t["w"]}, reduced_wire=True, variant=True),
    layer("column-parallel-dw", "column-parallel-backward", "x 48 16, dy 48 24", "dw 16 24",
          lambda t: {"dw": t["x"].T @ t["dy"]}, variant=True),
    layer("weight-gradient", "", "x 48 48, dy 48 16", "dw 48 16", lambda t: {"dw": t["x"].T @ t["dy"]},
          **WIDE),
    layer("weight-gradient-allreduce", "weight-gradient", "x 48 48, dy 48 16", "dw 48 16",
          lambda t: {"dw": t["x"].T @ t["dy"]}, variant=True, **WIDE),
    layer("projection-wide", "weight-gradient", "x 48 24, w 24 16, b 16", "y 48 16",
          lambda t: {"y": t["x"] @ t["w"] + t["b"]}, variant=True, **WIDE),
    layer("projection-wide-local", "weight-gradient", "x 48 24, w 24 16, b 16", "y 48 16",
          lambda t: {"y": t["x"] @ t["w"] + t["b"]}, variant=True, **WIDE),
    layer("scaled-gather", "fp8", "x 48 32, sx 48, w 24 32, sw 24", "y 48 24",
          lambda t: {"y": t["x"] @ t["w"].T * t["sx"][:, None] * t["sw"]}, **NARROW),
    layer("scaled-scatter", "fp8", "x 48 32, sx 48, w 32 24, sw 24", "y 48 24",
          lambda t: {"y": t["x"] @ t["w"] * t["sx"][:, None] * t["sw"]}, variant=True, **NARROW),
    layer("scaled-bias", "fp8", "x 48 32, sx, w 32 24, sw, b 24", "y 48 24",
          lambda t: {"y": t["x"] @ t["w"] * t["sx"] * t["sw"] + t["b"]}, variant=True,
          others=(("w", "f8E5M2"), ("y", "bf16")), **NARROW),
    layer("scaled", "fp8-scaled", "x 48 32, sx 48, w 24 32, sw 24", "y 48 24",
          lambda t: {"y": t["x"] @ t["w"].T * t["sx"][:, None] * t["sw"]}, variant=True, others=(("y", "bf16"),), **NARROW),
    *(layer(name, "fp8-scaled", "x 48 32, sx 48, w 24 32, sw 24", "y 48 24",
            lambda t: {"y": t["x"] @ t["w"].T * t["sx"][:, None] * t["sw"]}, variant=True, others=(("y", "bf16"),), **NARROW)
      for name in ("scaled-direct", "scaled-together")),
    layer("contracted", "fp8-scaled", "x 48 32, w 24 32, s", "z 48 24", lambda t: {"z": t["x"] @ t["w"].T * t["s"]},
          ranks=(2, 4, 8), variant=True, others=(("z", "bf16"),), **NARROW),
    *(layer("quantized-gather", "fp8", "x 48 32, w 24 32", "y 48 24, q 48 32", functools.partial(quantized, dtype),
            dtypes=(dtype,), written="f8E4M3FN", narrow=("w", "q"), variant=True) for dtype in FP8),
    layer("scaled-experts", "fp8-experts", "x 24 48 32, sx 24 48, w 24 16 32, sw 24, v 24 32 16, sv 24 32",
          "y 24 48 32, q 24 48 16", experts, others=(("y", "bf16"),),
          dtypes=("f8E4M3FN",), written="f8E4M3FN", narrow=("x", "w", "v", "q")),
    layer("scaled-experts-tensor", "fp8-experts", "x 24 48 32, sx, w 24 16 32, sw", "y 24 48 16",
          lambda t: {"y": t["x"] @ t["w"].transpose(0, 2, 1) * t["sx"] * t["sw"]}, variant=True,
          others=(("y", "bf16"),), dtypes=FP8, written="f8E4M3FN", narrow=("x", "w")),
    layer("scaled-groups", "fp8-groups", "x 24 12 32, sx 24 12, w 6 24 32, sw, v 6 32 24, sv, ends 24 6", "y 24 12 32, q 24 12 24",
          scaled_groups, others=ENDS + (("y", "bf16"),), dtypes=("f8E4M3FN",), written="f8E4M3FN", narrow=("x", "w", "v", "q")),
    layer("scaled-groups-push", "fp8-groups", "x 24 12 32, sx 24 12, w 6 24 32, sw, ends 24 6", "y 24 12 24",
          lambda t: {"y": grouped(t["x"], t["w"].swapaxes(1, 2), t["ends"]) * t["sx"][..., None] * t["sw"]}, variant=True,
          others=ENDS + (("x", "f8E5M2"), ("y", "bf16")), **NARROW),
    layer("scaled-groups-scatter", "fp8-groups", "x 24 12 24, w 6 32 24, s, ends 24 6", "y 24 12 32",
          lambda t: {"y": grouped(t["x"], t["w"].swapaxes(1, 2), t["ends"]) * t["s"]}, variant=True,
          others=ENDS + (("y", "bf16"),), **NARROW),
    layer("scaled-groups-slices", "fp8-groups", "x 4 12 24, w 6 32 24, ends 4 6", "y 4 12 32",
          lambda t: {"y": grouped(t["x"], t["w"].swapaxes(1, 2), t["ends"])}, variant=True,
          others=ENDS + (("y", "bf16"),), **NARROW),
    layer("layer-3d", "", "x 2 24 16, w 16 24, dy 2 24 24", "y 2 24 24, dw 16 24",
          lambda t: {"y": t["x"] @ t["w"], "dw": np.einsum("bsk,bsn->kn", t["x"], t["dy"])}),
    layer("layer-3d-permuted", "layer-3d", "x 2 24 16, w 16 24, dy 24 2 24", "y 2 24 24, dw 16 24",
          lambda t: {"y": t["x"] @ t["w"], "dw": np.einsum("bsk,sbn->kn", t["x"], t["dy"])}, variant=True),
    layer("row-parallel", "", "x 48 24, w 24 16, b 16", "y 48 16", lambda t: {"y": t["x"] @ t["w"] + t["b"]},
          reduced_wire=True),
    layer("row-parallel-nt", "row-parallel", "x 48 24, w 16 24", "y 48 16", lambda t: {"y": t["x"] @ t["w"].T},
          reduced_wire=True, variant=True),
    layer("row-parallel-tn", "row-parallel", "x 24 48, w 24 16", "y 48 16", lambda t: {"y": t["x"].T @ t["w"]},
          reduced_wire=True, variant=True),
    layer("row-parallel-backward", "", "x 48 24, w 24 16, dy 48 16", "dx 48 24, dw 24 16",
          lambda t: {"dx": t["dy"] @ t["w"].T, "dw": t["x"].T @ t["dy"]}),
    layer("row-parallel-backward-whole", "row-parallel-backward", "x 48 24, w 24 16, dy 48 16", "dx 48 24, dw 24 16",
          lambda t: {"dx": t["dy"] @ t["w"].T, "dw": t["x"].T @ t["dy"]}, variant=True),
    layer("qkv", "", "x 48 16, wq 16 72, wk 16 24, wv 16 24", "q 48 72, k 48 24, v 48 24",
          lambda t: {"q": t["x"] @ t["wq"], "k": t["x"] @ t["wk"], "v": t["x"] @ t["wv"]}),
    layer("gate-up", "", "x 48 16, wg 16 24, wu 16 24", "y 48 24",
          lambda t: {"y": (g := t["x"] @ t["wg"]) / (1 + np.exp(-g)) * (t["x"] @ t["wu"])}, variant=True),
    # Elementwise kernels.
    layer("bias-gelu", "elementwise", "x 48 16, w1 16 24, b1 24, w2 24 16, b2 16, r 48 16", "y 48 16",
          lambda t: {"y": erf_gelu(t["x"] @ t["w1"] + t["b1"]) @ t["w2"] + t["b2"] + t["r"]}, reduced_wire=True),
    layer("choose", "elementwise", "x 48 16, w 16 24, u 24 48", "p 48 24, q 48 24",
          lambda t: choose(t["x"] @ t["w"], t["u"].T), variant=True),
    layer("gelu-open", "elementwise", "x 48 8, b 8", "y 48 8", lambda t: {"y": erf_gelu(t["x"] + t["b"])}, variant=True),
    # Vectors.
    layer("rows-times-vector", "vectors", "x 48 16, v 16", "y 48", lambda t: {"y": t["x"] @ t["v"]}),
    layer("columns-times-vector", "vectors", "x 24 48, v 24", "y 48", lambda t: {"y": t["x"].T @ t["v"]},
          reduced_wire=True),
    layer("vector-in-slices", "vectors", "v 48, w 48 24, b 24", "y 24", lambda t: {"y": t["v"] @ t["w"] + t["b"]}),
    layer("vector-times-columns", "vectors", "v 16, w 24 16", "y 24", lambda t: {"y": t["v"] @ t["w"].T}, variant=True),
    Program("vector-batch", FLOATS,
            lambda p: {"x": (4, 48, 8), "w": (4, 8, 6), "v": (8,), "y": (4, 48), "z": (4, 6), "dot": ()},
            lambda p, t: {"y": t["x"] @ t["v"], "z": t["v"] @ t["w"], "dot": t["v"] @ t["v"]}, file="vectors",
            variant=True),
    layer("softmax-of-columns", "vectors", "x 48 24", "y 48 24", lambda t: {"y": softmax(t["x"])}, reduced_wire=True,
          variant=True),
    layer("kept", "vectors", "x 48 24", "rows 48 1, columns 1 24, sum 1 1",
          lambda t: {"rows": t["x"].sum(1, keepdims=True), "columns": t["x"].max(0, keepdims=True),
                     "sum": t["x"].sum(keepdims=True)}, reduced_wire=True, variant=True),
    # Scalar arguments.
    layer("residual", "scalars", "x 48 16, w 16 24, r 48 24, s", "y 48 24, squared",
          lambda t: {"y": t["s"] * (t["x"] @ t["w"]) + t["s"] ** 2 * t["r"], "squared": t["s"] ** 2}, variant=True),
    layer("larger", "scalars", "x 48 16, y 48 16, a, b", "z 48 16",
          lambda t: {"z": t["x"] if t["a"] > t["b"] else t["y"]}, variant=True),
    # The bits of f16.
    Program("signs", ("f16",), lambda p: {"x": (48, 16), "bits": (48, 16), "y": (48, 16)},
            lambda p, t: {"bits": t["x"].astype(np.float16).view(np.int16).astype(np.float64), "y": -abs(t["x"])},
            written="f16", exact=True, others=(("bits", "i16"),), file="bits", variant=True),
    # Extents that the devices do not divide.
    *(layer(f"extents-gather{how}", "extents", "x 10 16, w 16 14", "y 10 14", lambda t: {"y": t["x"] @ t["w"]},
            ranks=EXTENTS, variant=True) for how in ("", "-ring", "-push")),
    *(layer(f"extents-{how}", "extents", "x 10 14, w 14 9", "y 10 9", lambda t: {"y": t["x"] @ t["w"]},
            ranks=EXTENTS, reduced_wire=True, variant=True) for how in ("reduce", "reduce-exchange", "all-reduce")),
    layer("extents-all-to-all", "extents", "x 10 14", "y 10 14", lambda t: {"y": t["x"]}, ranks=EXTENTS, exact=True,
          variant=True),
    layer("extents-layer", "extents", "x 10 16, w 16 14, v 14 16, dy 10 16", "y 10 16, dv 14 16",
          lambda t: {"y": (a := silu(t["x"] @ t["w"])) @ t["v"] + t["x"], "dv": a.T @ t["dy"]}, ranks=EXTENTS,
          reduced_wire=True, variant=True),
    layer("extents-sums", "extents", "x 10 16, y 10 9", "z 16 9, sum 16, most 16",
          lambda t: {"z": np.exp(t["x"]).T @ np.exp(t["y"]), "sum": np.exp(t["x"]).sum(0),
                     "most": -np.exp(t["x"]).min(0)}, ranks=EXTENTS, reduced_wire=True, variant=True),
    layer("extents-shapes", "extents", "x 10 16, y 6 16", "cut 2 5 16, both 16 16, heads 10 4 4",
          lambda t: {"cut": t["x"].reshape(2, 5, 16), "both": np.concatenate([t["x"], t["y"]]),
                     "heads": t["x"].reshape(10, 4, 4)}, ranks=EXTENTS, exact=True, variant=True),
    layer("extents-blocks", "extents", "x 10 16, w 16 14", "y 10 14, all 10 16, turned 10 14",
          lambda t: {"y": (y := t["x"] @ t["w"]), "all": t["x"], "turned": y}, ranks=EXTENTS, variant=True),
    layer("extents-few", "extents", "x 2 16, w 16 14", "y 2 14", lambda t: {"y": t["x"] @ t["w"]}, ranks=EXTENTS,
          variant=True),
    layer("extents-attention", "extents", "q 10 8, k 14 8, v 14 12", "y 10 12", attention, ranks=EXTENTS,
          reduced_wire=True, variant=True),
    layer("extents-causal", "extents", "q 10 8, k 10 8, v 10 12", "y 10 12", functools.partial(attention, causal=True),
          ranks=EXTENTS, reduced_wire=True, variant=True),
    # Stream loops.
    *(layer(name, "attention", "q 2 48 8, k 2 48 8, v 2 48 12", "y 2 48 12", functools.partial(attention, **how),
            reduced_wire=True, variant=True)
      for name, how in (("attention", {}), ("attention-ring", {"scale": 0.5}), ("attention-buffers", {"scale": 0.5}), ("attention-push", {}),
                        *((f"causal{end}", {"causal": True}) for end in ("", "-exchange", "-pipeline")),
                        ("cyclic", {"causal": True}),
                        *((f"zigzag-{end}", {"causal": True, "zigzag": 12}) for end in ("ring", "both", "push")))),
    layer("heads", "attention", "q 24 20 8, k 24 20 8, v 24 20 12", "y 24 20 12",
          functools.partial(attention, causal=True), reduced_wire=True, variant=True),
    layer("two-scales", "attention", "q 24 20 8, k 24 20 8, v 24 20 12", "y 24 20 12, z 24 20 12",
          lambda t: {"y": attention(t, 0.701)["y"], "z": attention(t, 0.704)["y"]}, dtypes=("f32",), variant=True),
    layer("zigzag-ragged", "attention", "q 2 120 8, k 2 120 8, v 2 120 12", "y 2 120 12",
          functools.partial(attention, causal=True, zigzag=15), reduced_wire=True, variant=True),
    layer("cross-attention", "attention", "q 24 8, k 48 8, v 48 12", "y 24 12", attention, reduced_wire=True, variant=True),
    layer("layer", "deterministic", "x 72 96, w1 96 144, w2 144 96", "y 72 96",
          lambda t: {"y": np.tanh(t["x"] @ t["w1"]) @ t["w2"]}, variant=True),
    layer("sums", "deterministic", "x 48 96, i 96", "sum 48, max 48, count",
          lambda t: {"sum": t["x"].sum(1), "max": t["x"].max(1), "count": t["i"].sum()},
          others=(("i", "i32"), ("count", "i32")), variant=True),
    layer("gather-k", "stream-contracted", "x 16 48, w 48 24, b 24", "y 16 24", lambda t: {"y": t["x"] @ t["w"] + t["b"]}),
    layer("gather-k-chunks", "stream-contracted", "x 16 48, w 48 24", "y 16 24", lambda t: {"y": t["x"] @ t["w"]},
          variant=True),
    layer("weight-gradients", "stream-contracted", "x 48 16, dq 48 24, dk 48 24", "dwq 16 24, dwk 16 24",
          lambda t: {"dwq": t["x"].T @ t["dq"], "dwk": t["x"].T @ t["dk"]}, variant=True),
    layer("gather-m-and-k", "stream-contracted", "x 16 48, w 48 24", "y 16 24", lambda t: {"y": t["x"] @ t["w"]},
          variant=True),
    layer("reductions", "stream-contracted", "x 48 21", "max 48, min 48, sum 48",
          lambda t: {"max": (-t["x"]).max(1), "min": (-t["x"]).min(1), "sum": (-t["x"]).sum(1)}, variant=True),
    layer("rows-inside", "stream-places", "x 120 16, w 16 12", "y 120 12", lambda t: {"y": t["x"] @ t["w"]}, variant=True),
    layer("rows-of-owners", "stream-places", "x 120 16, w 16 12", "y 120 12", lambda t: {"y": t["x"] @ t["w"]},
          variant=True),
    layer("rows-merged", "stream-places", "x 4 24 16, w 16 12", "y 96 12",
          lambda t: {"y": t["x"].reshape(96, 16) @ t["w"]}, variant=True),
    layer("rows-split", "stream-places", "x 24 48, w 48 12", "y 24 12", lambda t: {"y": t["x"] @ t["w"]},
          reduced_wire=True, variant=True),
    layer("columns-ragged", "stream-places", "x 12 48, w 48 22", "y 12 22", lambda t: {"y": t["x"] @ t["w"]},
          reduced_wire=True, variant=True),
    layer("columns-split", "stream-places", "x 48 24, w 24 20, b 20", "y 48 20",
          lambda t: {"y": t["x"] @ t["w"] + t["b"]}, reduced_wire=True, variant=True),
    layer("block", "stream-groups", "x 48 16, w1 16 24, b 24, r 48 24, w2 24 16", "y 48 16",
          lambda t: {"y": np.tanh(t["x"] @ t["w1"] + t["b"] + t["r"]) @ t["w2"]}, reduced_wire=True, variant=True),
    layer("loops-apart", "stream-groups", "x 16 24, w 24 12", "t 16 12, y 16 16",
          lambda t: {"t": np.tanh(a := t["x"] @ t["w"]), "y": a @ np.tanh(a).T}, variant=True),
    layer("several-results", "stream-groups", "x 16 24, w 24 12", "y 16 12, max 16, sum 12",
          lambda t: {"y": (a := t["x"] @ t["w"]), "max": a.max(1), "sum": a.sum(0)}, variant=True),
    Program("batch-and-rows", FLOATS, lambda p: {"x": (4, 48, 8), "w": (4, 8, 6), "y": (4, 48, 6)},
            lambda p, t: {"y": t["x"] @ t["w"]}, file="stream-places", variant=True),
    # Digits that are not the loop's.
    layer("rows-then-columns", "stream-digits", "x 48 16, w 16 12", "y 48 12",
          lambda t: {"y": np.tanh(t["x"] @ t["w"])}, variant=True),
    layer("digits-merged", "stream-digits", "x 4 12 24, w 24 12", "y 48 12",
          lambda t: {"y": t["x"].reshape(48, 24) @ t["w"]}, variant=True),
    layer("digits-split", "stream-digits", "x 24 48", "y 4 12 24",
          lambda t: {"y": np.tanh(t["x"].T.reshape(4, 12, 24))}, variant=True),
    # Slices that do not line up with what they are made of.
    layer("rows-across-devices", "stream-uneven", "x 24 16, w 16 12", "y 24 12", lambda t: {"y": t["x"] @ t["w"]},
          variant=True),
    layer("blocks-across-slices", "stream-uneven", "x 72 16, w 16 12", "y 72 12", lambda t: {"y": t["x"] @ t["w"]},
          variant=True),
    layer("concat-of-uneven", "stream-uneven", "a 7 16, b 24 16, c 5 16, w 16 12", "y 36 12, z 36 16",
          lambda t: {"y": (a := np.concatenate([t["a"], t["b"], t["c"]])) @ t["w"], "z": -a}, variant=True),
    layer("reshape-of-transposed", "stream-uneven", "x 24 4 16, w 64 12", "y 24 12",
          lambda t: {"y": t["x"].transpose(0, 2, 1).reshape(24, 64) @ t["w"]}, variant=True),
    layer("empty-batch", "", "x 0 16, w1 16 24, w2 24 16, g 16 24, other 48 16",
          "y 0 16, dw1 16 24, all 48 16", lambda t: {"y": t["x"], "dw1": t["g"], "all": t["other"]}, variant=True),
    Program("mlp", FLOATS, lambda p: LAYER, mlp, reduced_wire=True),
    Program("mlp-data-parallel", FLOATS, lambda p: LAYER, mlp, reduced_wire=True,
            mesh=lambda p: {2: "dp=1,tp=2", 3: "dp=3,tp=1", 4: "dp=2,tp=2", 8: "dp=2,tp=4"}[p]),
]

@dataclasses.dataclass(frozen=True)
class Combination:
    program: Program
    ranks: int
    channel: str
    dtype: str

    @property
    def name(self):
        return f"{self.program.name}/{self.ranks}/{self.channel}/{self.dtype}"


def combinations(options):
    for n, program in enumerate(PROGRAMS):
        factors = (program.ranks, CHANNELS, program.dtypes)
        if options.all:
            rows = itertools.product(*factors)
        elif program.variant:
            # Both channels, with two numbers of ranks or the two others.
            rows = each_once(*factors)
            if len(rows) > 3:
                rows = [row for i, row in enumerate(rows) if (i % 4 in (0, 3)) == (n % 2 == 0)]
        else:
            pairs = pairwise(program.ranks, CHANNELS)
            rows = [(*pairs[i % len(pairs)], program.dtypes[i % len(program.dtypes)])
                    for i in range(max(len(pairs), len(program.dtypes)))]
        for ranks, channel, dtype in rows:
            yield Combination(program, ranks, channel, dtype)


class ProgramTest(harness.CombinationTest):
    def source(self):
        """The program in the dtype that is asked for; most files are written in f32."""
        with open(os.path.join(SOURCES, self.combination.program.source)) as file:
            text = file.read()
        text = "".join(line for line in text.splitlines(True) if not line.startswith("//"))
        written = self.combination.program.written
        self.assertRegex(text, rf"\bx?{written}\b|x{written}", f"the file is not written in {written}")
        path = self.path(self.combination.program.source)
        with open(path, "w") as file:
            file.write(re.sub(rf"(?<=x){written}\b|\b{written}\b", self.combination.dtype, text))
        return path

    def launch(self, *arguments):
        """Runs a program on all its ranks. What rank 0 says."""
        return harness.tandem_run("-n", self.combination.ranks, *arguments, limit=120)

    def run_program(self, dump):
        c = self.combination
        options = [f"--channel={c.channel}", "--verify", "--repeat=3", f"--dump-npy={dump}"]
        compiled = self.path("program.tsp")
        mesh = c.program.mesh(c.ranks) if c.program.mesh else f"x={c.ranks}"
        done = harness.run([harness.tool("tandem-compile"), self.source(), f"--entry={c.program.entry}", "--mesh",
                            mesh, f"--target=cpu-{c.channel}", "-o", compiled])
        self.assertEqual(done.code, 0, str(done))
        return self.launch(compiled, *options)

    def check(self):
        c = self.combination
        dump = self.path("dump")
        done = self.run_program(dump)
        self.assertVerified(done, c.ranks)
        tensors = harness.read_dump(dump)
        shapes = c.program.shapes(c.ranks)
        self.assertEqual({name: array.shape for name, array in tensors.items()}, shapes)
        exact = c.program.exact or c.dtype in ("i32", "i8")
        wide = np.int64 if c.dtype in ("i32", "i8") else np.float64
        outputs = c.program.reference(c.ranks, {name: array.astype(wide) for name, array in tensors.items()})
        self.assertTrue(outputs)
        dtypes = {name: "f32" if c.program.narrow and name not in c.program.narrow else c.dtype for name in tensors}
        dtypes.update(c.program.others)
        for name, array in tensors.items():
            self.assertEqual(array.dtype, NUMPY[dtypes[name]], name)
        for name, reference in outputs.items():
            if reference.size:
                self.assertGreater(np.linalg.norm(reference), 0.1, f"{name}: nothing to compare")
            tolerance = 0 if exact else TOLERANCE[dtypes[name]] * (2 if c.program.reduced_wire else 1)
            self.assertClose(tensors[name], reference, tolerance, name)


class Harness(unittest.TestCase):
    """The harness itself."""

    def test_pairwise(self):
        factors = ((2, 3, 4, 8), ("ucx", "local"), DTYPES, ("tsp", "mlir"))
        rows = pairwise(*factors)
        for (i, a), (j, b) in itertools.combinations(list(enumerate(factors)), 2):
            self.assertEqual({(row[i], row[j]) for row in rows}, set(itertools.product(a, b)))
        # The two longest factors need all their pairs; a few rows more may be needed for the rest.
        longest = sorted(len(factor) for factor in factors)[-2:]
        self.assertLess(len(rows), longest[0] * longest[1] + 5)

    def test_every_program_has_a_row(self):
        files = {name for name in os.listdir(SOURCES) if name.endswith(".mlir")}
        self.assertEqual(files, {program.source for program in PROGRAMS})


if __name__ == "__main__":
    harness.main(__doc__, Harness, combined=[(ProgramTest, combinations)])
