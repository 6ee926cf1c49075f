# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The overlapped programs that other projects document, in the sizes that they document.

  documented_overlaps.py [--all] [-v] [PATTERN...]     (see harness.py)
  documented_overlaps.py --print NAME                  prints the program of a test, for instance ring/8

`ring`: all-gather and matmul by neighbours (NKI). `chunks`: by puts in chunks of 256 rows (Triton-distributed).
`both`, `split`: both ways round a ring, whole and half shards, gathered along K (TT-Metal). `nodes`: an all-gather over
nodes and inside of them (MORI), `nodes-SHAPE-ELEMENTS-DTYPE-LAYOUT-SPREAD`: into one tensor (`whole`), a tensor per rank
(`list`), a tensor per parameter (`parameters`), or one tensor, parameter after parameter (`flat`).

1. The stream program has the number of messages, matmuls, waits and copies that the document says. A gather over nodes
   copies nothing but what each rank owns, or, spread by puts, each slice once.
2. The checker accepts it for 2 to 64 ranks.
3. Run by the ranks, it agrees with its unsharded reference; what only moves data agrees in every bit. By default this is
   done up to 20 GFLOP or 256 MiB of results, and for a choice of the gathers over nodes in which every two values
   meet; with --all, everything that the machine's memory holds.
"""

import dataclasses
import itertools
import re
import sys
import typing

import harness


@dataclasses.dataclass(frozen=True)
class Program:
    """`text` gives the module, `counts` the commands of a rank: kind -> number. Both take the number of ranks."""

    name: str
    text: typing.Callable
    counts: typing.Callable
    ranks: tuple  # that it is run with
    checked: tuple = (2, 4, 8, 16, 32, 64)
    gflop: typing.Callable = lambda p: 0
    mesh: typing.Callable = lambda p: f"x={p}"
    channel: str = "local"
    #: Bytes of all ranks together.
    memory: typing.Callable = lambda p: 0
    #: Only with --all.
    exhaustive: bool = False
    #: The most that the relative error may be; None: as tandem-run says. 0: equal to the last bit.
    tolerance: float = None


def module(mesh, types, arguments, body, result):
    axes = "".join(f'!{name} = tensor<{shape}, #fusion.axes<#mesh, {digits}>>\n' for name, (shape, digits) in types.items())
    inputs = ", ".join(f'%{name}: !{type_} {{fusion.name = "{name}"}}' for name, type_ in arguments.items())
    return f"""#mesh = #tandem.mesh<"mesh", [{mesh}]>
{axes}func.func @document({inputs}) -> (!{result} {{fusion.name = "y"}}) {{
{body}}}
"""


def gathered_rows(m, k, n, dtype, schedule, slices=lambda p: 'stream("x")'):
    """[m, k], rows over devices, times [k, n], columns over devices."""
    def text(p):
        rows, depth, columns = m(p), k, n(p)
        return module('"x" = ?', {"x": (f"{rows}x{depth}x{dtype}", '[didx("x"), -]'),
                                  "s": (f"{rows}x{depth}x{dtype}", f"[{slices(p)}, -]"),
                                  "w": (f"{depth}x{columns}x{dtype}", '[-, didx("x")]'),
                                  "y": (f"{rows}x{columns}x{dtype}", f'[{slices(p)}, didx("x")]')},
                      {"x": "x", "w": "w"},
                      f"  %0 = fusion.reshard %x {{schedule = #fusion.schedule<{schedule}>}} : !x -> !s\n"
                      "  %1 = fusion.matmul %0, %w : !s, !w -> !y\n  return %1 : !y\n", "y")
    return text


def gathered_depth(m, k, n, schedule, slices, bias):
    """[1, 1, m, k], K over devices, times [k, n], columns over devices: slices of K add up."""
    def text(p):
        types = {"x": (f"1x1x{m}x{k}xbf16", '[-, -, -, didx("x")]'), "s": (f"1x1x{m}x{k}xbf16", f"[-, -, -, {slices}]"),
                 "w": (f"{k}x{n}xbf16", '[-, didx("x")]'), "y": (f"1x1x{m}x{n}xbf16", '[-, -, -, didx("x")]')}
        arguments = {"x": "x", "w": "w"}
        if bias:
            types["b"] = (f"{n}xbf16", '[didx("x")]')
            arguments["b"] = "b"
        added, type_ = (" bias %b", ", !b") if bias else ("", "")
        return module('"x" = ?', types, arguments,
                      f"  %0 = fusion.reshard %x {{schedule = #fusion.schedule<{schedule}>}} : !x -> !s\n"
                      f"  %1 = fusion.matmul %0, %w{added} : !s, !w{type_} -> !y\n  return %1 : !y\n", "y")
    return text


#: (nodes, ranks of each), elements per rank, and how the gathered elements are given back.
NODES = ((1, 4), (2, 4), (2, 8), (3, 2), (4, 1))
ELEMENTS = (1, 7, 1024, 4099, 1 << 20, 1 << 24)
LAYOUTS = ("whole", "list", "parameters", "flat")
SPREADS = ("put", "send")
#: Meshes that are only checked: of 2 to 64 ranks.
CHECKED_NODES = ((1, 2), (2, 1), (2, 2), (4, 4), (2, 16), (8, 4), (8, 8), (16, 4), (4, 16))


def parameters(elements):
    """The parameters in a rank's shard: their elements of the rank. All but the first begin at any offset."""
    if elements < 3:
        return (elements,)
    first, second = max(1, elements // 7), max(1, elements // 3)
    return (first, second, elements - first - second)


def over_nodes(shape, elements, dtype, layout, spread):
    """`elements` of each rank, gathered over nodes and their devices."""
    ranks, parts = shape[0] * shape[1], parameters(elements)
    owners, slices = 'didx("node") * didx("gpu")', 'stream("node") * stream("gpu")'
    reshard = f"fusion.reshard %{{}} {{{{schedule = #fusion.schedule<hierarchical, spread = \"{spread}\">}}}}"

    def axes(extents, digits):
        return f"tensor<{'x'.join(map(str, extents))}x{dtype}, #fusion.axes<#mesh, [{digits}]>>"

    x, all_ = axes([ranks * elements], owners), axes([ranks * elements], "-")
    lines, results = [], []
    if layout in ("whole", "list"):
        streamed = axes([ranks * elements], slices)
        lines.append(f"%g = {reshard.format('x')} : {x} -> {streamed}")
        if layout == "whole":
            results.append(("%g", streamed))
        else:
            one = axes([elements], "-")
            for rank in range(ranks):
                lines.append(f"%y{rank} = fusion.slice %g offsets [{rank * elements}] steps [1] : {streamed} -> {one}")
                results.append((f"%y{rank}", one))
    else:
        rows = axes([ranks, elements], owners + ", -")
        lines.append(f"%rows = fusion.reshape %x : {x} -> {rows}")
        begin, pieces = 0, []
        for i, size in enumerate(parts):
            shard, streamed, flat = axes([ranks, size], owners + ", -"), axes([ranks, size], slices + ", -"), axes(
                [ranks * size], slices)
            lines += [f"%s{i} = fusion.slice %rows offsets [0, {begin}] steps [1, 1] : {rows} -> {shard}",
                      f"%g{i} = {reshard.format(f's{i}')} : {shard} -> {streamed}",
                      f"%p{i} = fusion.reshape %g{i} : {streamed} -> {flat}"]
            pieces.append((f"%p{i}", flat))
            begin += size
        if layout == "parameters" or len(pieces) == 1:
            results = pieces
        else:
            names, types = zip(*pieces)
            lines.append(f"%y = fusion.concat {', '.join(names)} dim 0 : ({', '.join(types)}) -> {all_}")
            results.append(("%y", all_))
    names, types = zip(*results)
    outputs = ", ".join(f'{type_} {{fusion.name = "y{i}"}}' for i, type_ in enumerate(types))
    body = "".join(f"  {line}\n" for line in lines)
    return f"""#mesh = #tandem.mesh<"mesh", ["node" = ?, "gpu" = ?]>
func.func @document(%x: {x} {{fusion.name = "x"}}) -> ({outputs}) {{
{body}  return {', '.join(names)} : {', '.join(types)}
}}
"""


def nodes(shape, elements, dtype, layout, spread, channel="local", run=True):
    """A gather over nodes: the hops, what is spread inside of a node, and no more copies than one per slice."""
    across, inside = shape
    ranks = across * inside
    pieces = len(parameters(elements)) if layout in ("parameters", "flat") else 1
    hops, spreads = (across - 1) * pieces, (inside - 1) * across * pieces
    puts = spread == "put" and inside > 1
    counts = {"send": hops + (0 if puts else spreads), "recv": hops + (0 if puts else spreads),
              "put": spreads if puts else 0, "copy": pieces * (ranks if puts else 1), "reduce": 0}
    gathered = ranks * ranks * elements * {"f32": 4, "i32": 4, "f16": 2, "bf16": 2}[dtype]
    return Program(f"nodes-{across}x{inside}-{elements}-{dtype}-{layout}-{spread}",
                   lambda p: over_nodes(shape, elements, dtype, layout, spread), lambda p: counts,
                   (ranks,) if run else (), checked=(ranks,), mesh=lambda p: f"node={across},gpu={inside}",
                   # Both halves of the symmetric memory hold what is gathered, too. Rank 0 also has it as inputs, the
                   # unsharded reference and the results of the ranks, two of these at a time.
                   memory=lambda p: gathered * ((3 if puts else 1) + 3 / ranks) * 1.05 + (1 << 29), channel=channel,
                   exhaustive=gathered > 1 << 28, tolerance=0)


def chunks(p):
    """Of 256 rows, in the shard of a rank. With 64 ranks a shard has 128 rows: one chunk."""
    return max(1, 8192 // p // 256)


PROGRAMS = [
    Program("ring", gathered_rows(lambda p: 128 * p, 2048, lambda p: 512 * p, "bf16", "ring"),
            lambda p: {"send": p - 1, "recv": p - 1, "matmul": p}, (4, 8, 16),
            gflop=lambda p: 2 * 128 * p * 2048 * 512 * p * 2e-9, tolerance=0.003),
    Program("chunks", gathered_rows(lambda p: 8192, 4096, lambda p: 11008, "f16", "push",
                                    lambda p: f'stream("x") * stream({chunks(p)})' if chunks(p) > 1 else 'stream("x")'),
            lambda p: {"put": (p - 1) * chunks(p), "signal": (p - 1) * chunks(p),
                       "wait_signal": (p - 1) * chunks(p), "matmul": (p - 1) * chunks(p) + 1},
            (8,), gflop=lambda p: 2 * 8192 * 4096 * 11008 * 2e-9),
    # The same chunks with fewer features, for every run of the tests.
    Program("chunks-reduced", gathered_rows(lambda p: 8192, 256, lambda p: 688, "f16", "push",
                                            lambda p: f'stream("x") * stream({chunks(p)})'),
            lambda p: {"put": (p - 1) * chunks(p), "signal": (p - 1) * chunks(p),
                       "wait_signal": (p - 1) * chunks(p), "matmul": (p - 1) * chunks(p) + 1},
            (8,), checked=(8,), gflop=lambda p: 2 * 8192 * 256 * 688 * 2e-9, channel="ucx"),
    *(Program(f"{name}-{m}x{k}{'-bias' if bias else ''}", gathered_depth(m, k, n, f"ring, {option}", slices, bias),
              lambda p, pieces=pieces: {"send": (p - 1) * pieces(p), "recv": (p - 1) * pieces(p)}, (4, 8),
              checked=(2, 4, 8, 16, 32, 64) if n % 64 == 0 and k % 64 == 0 else (2, 4, 8, 16, 32),
              gflop=lambda p, m=m, k=k, n=n: 2 * m * k * n * 2e-9)
      for name, option, slices, pieces in (("both", "directions = 2", 'stream("x")', lambda p: 1),
                                             ("split", 'split = "yes"', 'stream("x") * stream(2)', lambda p: 2))
      for m, k, n, bias in ((32, 512, 1024, False), (128, 4096, 1024, False), (1024, 32768, 1024, False),
                            (32, 16384, 1024, False), (4096, 2560, 960, True))),
    *(nodes(shape, 4099, "f16", layout, spread, run=False) for shape, (layout, spread) in
      zip(CHECKED_NODES, itertools.cycle(itertools.product(LAYOUTS, SPREADS)))),
]


def gathers(options):
    """Gathers over nodes: a choice in which every two values meet; with --all, also every shape with every number of
    elements and dtype."""
    document = (NODES, ELEMENTS, ("bf16", "f16", "f32", "i32"))
    forms = (LAYOUTS, SPREADS, harness.CHANNELS)
    rows = harness.pairwise(*document, *forms)
    if options.all:
        known = {row[:len(document)] for row in rows}
        more = [row for row in itertools.product(*document) if row not in known]
        form = list(itertools.product(*forms))
        rows += [row + form[(5 * i + i // 4) % len(form)] for i, row in enumerate(more)]
    return [nodes(*row) for row in rows]


@dataclasses.dataclass(frozen=True)
class Combination:
    program: Program
    ranks: int

    @property
    def name(self):
        return f"{self.program.name}/{self.ranks}"


class Document(harness.CombinationTest):
    def compile(self):
        c = self.combination
        source, program = self.path("document.mlir"), self.path("document.tsp")
        with open(source, "w") as file:
            file.write(c.program.text(c.ranks))
        axes = [f"--mesh={axis}" for axis in c.program.mesh(c.ranks).split(",")]
        done = harness.run([harness.tool("tandem-compile"), source, *axes, f"--target=cpu-{c.program.channel}",
                            "--check=false", "-o", program], limit=120)
        self.assertEqual(done.code, 0, str(done))
        return program


class Checked(Document):
    def check(self):
        c, program = self.combination, self.compile()
        done = harness.run([harness.tool("tandem-compile"), "--dump", program, "--rank=0"])
        self.assertEqual(done.code, 0, str(done))
        for kind, count in c.program.counts(c.ranks).items():
            self.assertEqual(len(re.findall(rf"^ +\d+ s\d+ +{kind}\b", done.out, re.M)), count, kind)
        if c.program.name.startswith("nodes"):
            # No memory in which something is put together.
            self.assertIn(" arena 0, ", done.out)
        done = harness.run([harness.tool("tandem-check"), program], limit=300)
        self.assertEqual(done.code, 0, str(done))


class Run(Document):
    def check(self):
        c = self.combination
        needed = c.program.memory(c.ranks)
        if needed > 1 << 28 and needed > free_memory():
            self.skipTest(f"needs {needed / 2**30:.0f} GiB of memory")
        done = harness.tandem_run(self.compile(), "-n", c.ranks, f"--channel={c.program.channel}", "--verify",
                                  "--timeout=300", limit=600)
        self.assertVerified(done, c.ranks)
        if c.program.tolerance is not None:
            error = float(re.search(r"max relative error (\S+),", done.out).group(1))
            self.assertLessEqual(error, c.program.tolerance)


def free_memory():
    with open("/proc/meminfo") as file:
        return 1024 * int(re.search(r"MemAvailable: +(\d+) kB", file.read()).group(1))


def checked(options):
    # The schedule of a gather depends on its size only in offsets: the small ones are enough.
    return [Combination(program, ranks) for program in PROGRAMS + gathers(options) for ranks in program.checked
            if not program.exhaustive]


def run(options):
    return [Combination(program, ranks) for program in PROGRAMS + gathers(options) for ranks in program.ranks
            if options.all or (program.gflop(ranks) <= 20 and not program.exhaustive)]


def print_program(name):
    class Everything:
        all = True

    for c in checked(Everything) + run(Everything):
        if c.name == name:
            print(c.program.text(c.ranks))
            return
    sys.exit(f"no test is called {name}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--print"]:
        print_program(*sys.argv[2:])
    else:
        harness.main(__doc__, combined=[(Checked, checked), (Run, run)])
