# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every collective, written in hostir and expanded into messages, on real ranks: every root, odd sizes, strided operands,
all reductions and dtypes, against NumPy.

  collectives.py [--all] [-v] [PATTERN...]     (see harness.py)

All collectives of one number of ranks and one dtype stand in one program, one after another on two worker streams, so
that messages of several are under way at once.
"""

import dataclasses
import itertools

import numpy as np

import harness
from harness import CHANNELS, DTYPES, TOLERANCE

RANKS = (1, 2, 3, 4, 5, 8)
GATHERED_INPUT = ("reduce_scatter", "all_to_all", "scatter")
GATHERED_OUTPUT = ("all_gather", "all_to_all", "gather")
ROOTED = ("broadcast", "reduce", "gather", "scatter")


@dataclasses.dataclass(frozen=True)
class Collective:
    kind: str
    slice: tuple
    root: int = None
    reduction: str = None
    #: Every second element of buffers with one dimension more.
    strided: bool = False

    @property
    def name(self):
        parts = [self.kind, "x".join(map(str, self.slice))]
        parts += [f"root{self.root}"] if self.root is not None else []
        parts += [self.reduction] if self.reduction else []
        return "_".join(parts + (["strided"] if self.strided else []))

    def input_shape(self, ranks):
        return ((ranks,) if self.kind in GATHERED_INPUT else ()) + self.slice

    def output_shape(self, ranks):
        return ((ranks,) if self.kind in GATHERED_OUTPUT else ()) + self.slice

    def reference(self, x):
        """x[rank]: inputs. Gives rank -> output; ranks whose output is not written are missing."""
        ranks = len(x)
        everyone, root = range(ranks), self.root
        reduce = {"max": np.max, "min": np.min}.get(self.reduction, np.sum)
        if self.kind == "all_gather":
            return dict.fromkeys(everyone, x)
        if self.kind == "gather":
            return {root: x}
        if self.kind == "all_reduce":
            return {r: reduce(x, axis=0) for r in everyone}
        if self.kind == "reduce":
            return {root: reduce(x, axis=0)}
        if self.kind == "reduce_scatter":
            return {r: reduce(x[:, r], axis=0) for r in everyone}
        if self.kind == "all_to_all":
            return {r: x[:, r] for r in everyone}
        if self.kind == "broadcast":
            return dict.fromkeys(everyone, x[root])
        return {r: x[root, r] for r in everyone}  # scatter

    @property
    def exact(self):
        return self.kind not in ("all_reduce", "reduce", "reduce_scatter") or self.reduction in ("max", "min")


def collectives(ranks):
    for kind in ("all_gather", "all_to_all", "reduce_scatter"):
        yield Collective(kind, (7,))
        yield Collective(kind, (3, 5), strided=True)
    for extents in ((1,), (4099,), (3, 5), (ranks, 3), (2 * ranks + 1,)):
        yield Collective("all_reduce", extents)
    yield Collective("all_reduce", (5, 2 * ranks), strided=True)
    for reduction in ("max", "min"):
        yield Collective("all_reduce", (13,), reduction=reduction)
        yield Collective("reduce_scatter", (13,), reduction=reduction)
        yield Collective("reduce", (13,), ranks - 1, reduction)
    for kind, root in itertools.product(ROOTED, range(ranks)):
        yield Collective(kind, (5,), root)
    for kind in ROOTED:
        yield Collective(kind, (2, 3), ranks // 2, strided=True)


def memref(shape, dtype):
    return f"memref<{''.join(f'{extent}x' for extent in shape)}{dtype}>"


def operand(argument, shape, dtype, strided):
    """The view of an argument [1, shape...] (and a last 2), and its type."""
    whole = (1, *shape, *((2,) if strided else ()))
    offsets = [0] * (len(whole) - 1) + [1 if strided else 0]
    sizes = [1, *shape] + ([1] if strided else [])
    strides, stride = [], 2 if strided else 1
    for extent in reversed(shape):
        strides.insert(0, stride)
        stride *= extent
    layout = f"strided<{strides}{', offset: 1' if strided else ''}>"
    view = f"{memref(shape, dtype)[:-1]}, {layout}>"
    text = f"memref.subview {argument}{offsets} {sizes} {[1] * len(whole)} : {memref(whole, dtype)} to {view}"
    return text, view


def program(ranks, dtype):
    arguments, body = [], []
    rows = list(collectives(ranks))
    for result, prefix in ((False, "x"), (True, "y")):
        for number, row in enumerate(rows):
            shape = row.output_shape(ranks) if result else row.input_shape(ranks)
            shape += (2,) if row.strided else ()
            axes = f"#fusion.axes<#tp, [didx(\"x\"){', -' * len(shape)}]>"
            logical = f"tensor<{ranks}x{''.join(f'{extent}x' for extent in shape)}{dtype}, {axes}>"
            arguments.append(f"%{prefix}{number}: {memref((1, *shape), dtype)} {{hostir.name = \"{prefix}{number}\", "
                             f"hostir.type = {logical}{', hostir.result' if result else ''}}}")
    for number, row in enumerate(rows):
        source, source_type = operand(f"%x{number}", row.input_shape(ranks), dtype, row.strided)
        target, target_type = operand(f"%y{number}", row.output_shape(ranks), dtype, row.strided)
        root = f"root %root{row.root} " if row.root is not None else ""
        reduction = f" {{reduction = #tandem<reduce_kind {row.reduction}>}}" if row.reduction else ""
        body += [f"%in{number} = {source}", f"%out{number} = {target}",
                 f"hostir.collective {row.kind} %in{number} to %out{number} {root}via %ch on %s{number % 2}{reduction}"
                 f" : {source_type} to {target_type}"]
    head = ["%main = hostir.main_stream", '%ch = hostir.channel "ch" over #tp ["x"] can [collectives]']
    head += [f"%root{root} = arith.constant {root} : index" for root in range(max(ranks, 2))]
    for worker in range(2):
        head += [f"%s{worker} = hostir.worker_stream %root{worker}", f"hostir.sync %s{worker} after %main"]
    tail = [f"hostir.sync %main after %s{worker}" for worker in range(2)]
    lines = "\n".join("  " + line for line in head + body + tail)
    return (f'#tp = #tandem.mesh<"tp", ["x" = {ranks}]>\n'
            f"hostir.program @collectives({', '.join(arguments)}) {{\n{lines}\n}}\n")


PASSES = ["--hostir-expand-collectives=channels-without-collectives=*", "--canonicalize", "--cse",
          "--hostir-insert-deallocs", "--hostir-plan-buffers", "--hostir-verify"]


@dataclasses.dataclass(frozen=True)
class Combination:
    ranks: int
    dtype: str
    channel: str

    @property
    def name(self):
        return f"{self.ranks}/{self.dtype}/{self.channel}"


class CollectivesTest(harness.CombinationTest):
    def check(self):
        ranks, dtype, channel = dataclasses.astuple(self.combination)
        source, planned, compiled, dump = map(self.path, ("p.mlir", "planned.mlir", "p.tsp", "dump"))
        with open(source, "w") as file:
            file.write(program(ranks, dtype))
        for command in ([harness.tool("tandem-opt"), source, *PASSES, "-o", planned],
                        # Ranks that are not the root leave results unwritten here, which the checker calls an error.
                        [harness.tool("tandem-compile"), planned, f"--target=cpu-{channel}", "-o", compiled,
                         "--check=false"]):
            done = harness.run(command)
            self.assertEqual(done.code, 0, str(done))
        done = harness.tandem_run(compiled, "-n", ranks, f"--channel={channel}", f"--dump-npy={dump}", limit=120)
        self.assertEqual(done.code, 0, str(done))
        tensors = harness.read_dump(dump)
        for number, row in enumerate(collectives(ranks)):
            with self.subTest(collective=row.name):
                self.check_row(row, dtype, tensors[f"x{number}"], tensors[f"y{number}"])

    def check_row(self, row, dtype, x, y):
        if row.strided:
            x, y = x[..., 1], y[..., 1]
        wide = x.astype(np.int64 if dtype in ("i32", "i8") else np.float64)
        for rank, wanted in row.reference(wide).items():
            # Twice the tolerance, as partial sums travel rounded; i32 is modulo 2^32.
            self.assertClose(y[rank], wanted, 0 if row.exact else 2 * TOLERANCE[dtype], f"rank {rank}")
        # Replicated values are the same bits on all ranks.
        if row.kind == "all_reduce":
            for rank in range(1, len(y)):
                np.testing.assert_array_equal(y[rank], y[0])


def combinations(options):
    for ranks, (number, dtype), channel in itertools.product(RANKS, enumerate(DTYPES), CHANNELS):
        # Else every pair of ranks and dtype over one channel, and every pair of channel and either.
        if options.all or CHANNELS[(RANKS.index(ranks) + number) % 2] == channel:
            yield Combination(ranks, dtype, channel)


if __name__ == "__main__":
    harness.main(__doc__, combined=[(CollectivesTest, combinations)])
