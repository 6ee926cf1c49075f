# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of a benchmark: an operator, M, N and K of all ranks together, a dtype. Uses the standard library only: pages of the
documentation import it without the package."""

import math
import random
from collections import namedtuple

#: The layers of known models: N, K of all ranks. The one table of the project.
GATHERS = ((11008, 4096), (14336, 4096), (28672, 8192), (57344, 8192), (10240, 8192), (53248, 16384), (49152, 12288))
REDUCTIONS = ((4096, 11008), (4096, 14336), (8192, 28672), (8192, 8192), (16384, 53248), (12288, 49152))
OPS = {"ag": "all-gather, matmul", "rs": "matmul, reduce-scatter", "ar": "matmul, all-reduce"}
TOKENS = (1024, 2048, 8192)
MAX_EXTENT = 1 << 24

#: Of a factor and of the result: names and bytes. `-rows`: a scale per row of x and column of w, else one per tensor.
DTypes = namedtuple("DTypes", "factor result factor_bytes result_bytes tolerance")
DTYPES = {"f32": DTypes("f32", "f32", 4, 4, 1e-5), "f16": DTypes("f16", "f16", 2, 2, 1e-3),
          "bf16": DTypes("bf16", "bf16", 2, 2, 8e-3), "f8E4M3FN": DTypes("f8E4M3FN", "bf16", 1, 2, 8e-3),
          "f8E4M3FN-rows": DTypes("f8E4M3FN", "bf16", 1, 2, 8e-3)}


class Usage(Exception):
    """A command line or a file that cannot be used: exit status 2."""


class Case(namedtuple("Case", "op m n k dtype")):
    """`op`: ag, rs or ar."""

    __slots__ = ()

    def __str__(self):
        return f"{self.op} {self.m}x{self.n}x{self.k} {self.dtype}"

    @property
    def types(self):
        return DTYPES[self.dtype]

    @property
    def is_scaled(self):
        return self.dtype.startswith("f8")

    @property
    def flops(self):
        return 2.0 * self.m * self.n * self.k

    def bytes_received(self, ranks):
        """By a rank, at least."""
        factor, result = self.types.factor_bytes, self.types.result_bytes
        size = factor * self.k if self.op == "ag" else result * self.n
        return (ranks - 1) / ranks * self.m * size * (2 if self.op == "ar" else 1)

    def local_matmul(self, ranks):
        """M, N, K of a rank's product."""
        return (self.m, self.n // ranks, self.k) if self.op == "ag" else (self.m, self.n, self.k // ranks)

    def problem(self, ranks):
        """Why torch cannot split it among the ranks; "" if it can."""
        for name, extent in {"ag": (("M", self.m), ("N", self.n)), "rs": (("M", self.m), ("K", self.k)),
                             "ar": (("K", self.k),)}[self.op]:
            if extent % ranks:
                return f"{name} = {extent} is no multiple of {ranks} ranks"
        return ""


def extent(option, text):
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_EXTENT):
        raise Usage(f'{option}: expected a number from 1 to {MAX_EXTENT}, found "{text}"')
    return int(text)


def known_layers(tokens):
    found = []
    for m in tokens:
        found += [("ag", m, n, k) for n, k in GATHERS]
        found += [(op, m, n, k) for op in ("rs", "ar") for n, k in REDUCTIONS]
    return found


def many(ranks):
    """Some 200 cases: the layers of known models as a rank of eight computes them, and 50 random shapes by a fixed seed, with N
    and K from 1,024 to 32,768 and 1 to 16,384 tokens, with each operator. In an order in which each part has all kinds."""
    found = [(op, m, n * ranks // 8, k) if op == "ag" else (op, m, n, k * ranks // 8)
             for op, m, n, k in known_layers((8192, 2048, 640))]
    source = random.Random(16)

    def one(low, high, step):
        return step * round(math.exp(source.uniform(math.log(low), math.log(high))) / step)

    for _ in range(50):
        n, k = (one(1024, 32768, 8 * ranks) for _ in "nk")  # rows of 16 bytes, also of a rank's part
        m = one(1, 16384, 1)
        found += [(op, m, n, k) for op in OPS]
    found = list(dict.fromkeys(found))
    source.shuffle(found)
    return found


def parse(shapes, tokens, dtypes, ranks, part=None):
    """Cases of the options --shapes, --tokens, --dtypes and --part."""
    rows = [extent("--tokens", text) for text in tokens.split(",")] if tokens else list(TOKENS)
    untyped: list = []
    for text in shapes.split(",") if shapes else ["layers"]:
        op, _, extents = text.partition(":")
        if text == "layers":
            untyped += known_layers(rows)
        elif text == "many":
            untyped += many(ranks)
        elif op not in OPS:
            raise Usage(f'--shapes: expected layers, many, or one of {", ".join(OPS)}, found "{op}"')
        else:
            numbers = [extent("--shapes", number) for number in extents.split("x")] if extents else []
            if len(numbers) not in (2, 3):
                raise Usage(f'--shapes: expected OP:MxNxK or OP:NxK, found "{text}"')
            untyped += [(op, *numbers)] if len(numbers) == 3 else [(op, m, *numbers) for m in rows]
    cases = []
    for dtype in (dtypes or "bf16").split(","):
        if dtype not in DTYPES:
            raise Usage(f'--dtypes: expected one of {", ".join(DTYPES)}, found "{dtype}"')
        cases += [Case(op, m, n, k, dtype) for op, m, n, k in untyped]
    if part:
        number, _, parts = part.partition("/")
        if not (number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
            raise Usage(f'--part: expected I/P with I from 1 to P, found "{part}"')
        cases = cases[int(number) - 1::int(parts)]
    return list(dict.fromkeys(cases))
