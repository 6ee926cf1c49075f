# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The overlapped programs that other projects document, in the sizes that they document.

  documents.py [--all] [-v] [PATTERN...]     (see harness.py)

`ring`: all-gather and matmul by neighbours (NKI). `chunks`: by puts in chunks of 256 rows (Triton-distributed).
`both`, `split`: both ways round a ring, whole and half shards, gathered along K (TT-Metal). `nodes`: an all-gather over
nodes and inside of them (MORI).

1. The stream program has the number of messages, matmuls and waits that the document says.
2. The checker accepts it for 2 to 64 ranks.
3. Run by processes on the CPU, it agrees with its unsharded reference; what only moves data agrees in every bit. By
   default this is done up to 20 GFLOP; with --all, everything.
"""

import dataclasses
import re
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


def over_nodes(elements, dtype):
    """`elements` of each rank, gathered over nodes and their devices."""
    def text(p):
        return module('"node" = ?, "gpu" = ?', {"x": (f"{p * elements}x{dtype}", '[didx("node") * didx("gpu")]'),
                                                "y": (f"{p * elements}x{dtype}", '[stream("node") * stream("gpu")]')},
                      {"x": "x"}, "  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical>} : !x -> !y\n"
                      "  return %0 : !y\n", "y")
    return text


def chunks(p):
    """Of 256 rows, in the shard of a rank."""
    return 8192 // p // 256


#: Nodes and devices of each, by the number of ranks.
NODES = {4: "node=2,gpu=2", 6: "node=3,gpu=2", 8: "node=2,gpu=4", 16: "node=2,gpu=8"}

PROGRAMS = [
    Program("ring", gathered_rows(lambda p: 128 * p, 2048, lambda p: 512 * p, "bf16", "ring"),
            lambda p: {"send": p - 1, "recv": p - 1, "matmul": p}, (4, 8, 16),
            gflop=lambda p: 2 * 128 * p * 2048 * 512 * p * 2e-9),
    Program("chunks", gathered_rows(lambda p: 8192, 4096, lambda p: 11008, "f16", "push",
                                    lambda p: f'stream("x") * stream({chunks(p)})' if chunks(p) > 1 else 'stream("x")'),
            lambda p: {"put": (p - 1) * chunks(p), "signal": (p - 1) * chunks(p),
                       "wait_signal": (p - 1) * chunks(p), "matmul": p * chunks(p)},
            (8,), checked=(2, 4, 8, 16, 32), gflop=lambda p: 2 * 8192 * 4096 * 11008 * 2e-9),
    *(Program(f"{name}-{m}x{k}{'-bias' if bias else ''}", gathered_depth(m, k, n, f"ring, {option}", slices, bias),
              lambda p, pieces=pieces: {"send": (p - 1) * pieces(p), "recv": (p - 1) * pieces(p)}, (4, 8),
              checked=(2, 4, 8, 16, 32, 64) if n % 64 == 0 and k % 64 == 0 else (2, 4, 8, 16, 32),
              gflop=lambda p, m=m, k=k, n=n: 2 * m * k * n * 2e-9)
      for name, option, slices, pieces in (("both", "directions = 2", 'stream("x")', lambda p: 1),
                                             ("split", 'split = "yes"', 'stream("x") * stream(2)', lambda p: 2))
      for m, k, n, bias in ((32, 512, 1024, False), (128, 4096, 1024, False), (1024, 32768, 1024, False),
                            (32, 16384, 1024, False), (4096, 2560, 960, True))),
    *(Program(f"nodes-{elements}-{dtype}", over_nodes(elements, dtype), lambda p: {}, (4, 6, 8, 16), checked=tuple(NODES),
              gflop=lambda p, elements=elements: p * p * elements * 1e-7, mesh=NODES.get)
      for elements, dtype in ((1, "bf16"), (7, "f16"), (1024, "f32"), (4099, "i32"), (1 << 20, "bf16"), (1 << 24, "f16"))),
]


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
        done = harness.run([harness.tool("tandem-compile"), source, *axes, "--target=cpu-local", "--check=false", "-o",
                            program], limit=120)
        self.assertEqual(done.code, 0, str(done))
        return program


class Checked(Document):
    def check(self):
        c, program = self.combination, self.compile()
        done = harness.run([harness.tool("tandem-compile"), "--dump", program, "--rank=0"])
        self.assertEqual(done.code, 0, str(done))
        for kind, count in c.program.counts(c.ranks).items():
            self.assertEqual(len(re.findall(rf"^ +\d+ s\d+ +{kind}\b", done.out, re.M)), count, kind)
        done = harness.run([harness.tool("tandem-check"), program], limit=300)
        self.assertEqual(done.code, 0, str(done))


class Run(Document):
    def check(self):
        c = self.combination
        done = harness.tandem_run(self.compile(), "-n", c.ranks, "--channel=local", "--verify", "--timeout=300",
                                  limit=600)
        self.assertVerified(done, c.ranks)
        if c.program.name.startswith("nodes"):
            self.assertIn("max relative error 0.0e+00", done.out)


def checked(options):
    return [Combination(program, ranks) for program in PROGRAMS for ranks in program.checked]


def run(options):
    return [Combination(program, ranks) for program in PROGRAMS for ranks in program.ranks
            if options.all or program.gflop(ranks) <= 20]


if __name__ == "__main__":
    harness.main(__doc__, combined=[(Checked, checked), (Run, run)])
