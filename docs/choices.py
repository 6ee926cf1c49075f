#!/usr/bin/env python3
# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/measured/choices.md: what the compiler chooses for 40 layers on four machines, and why.

  choices.py FOLDER-OF-THE-TOOLS OUTPUT
"""

import os
import re
import subprocess
import sys
import tempfile

#: Name, hidden size h, inner size f of the feed-forward layer.
MODELS = (("7B", 4096, 11008), ("8B", 4096, 14336), ("70B", 8192, 28672), ("175B", 12288, 49152), ("405B", 16384, 53248))
#: What it is, tokens, and for h and f the shape MxKxN; ag: tokens are gathered, then multiplied; rs: products are
#: reduced and scattered; ar: all-reduced; fsdp: weights are gathered.
LAYERS = (
    ("up, gather", "ag", lambda h, f: (8192, h, f)),
    ("down, reduce-scatter", "rs", lambda h, f: (8192, f, h)),
    ("down, all-reduce", "ar", lambda h, f: (8192, f, h)),
    ("QKV, gather", "ag", lambda h, f: (8192, h, 3 * h)),
    ("up, weights gathered", "fsdp", lambda h, f: (8192 * 8, h, f)),
    ("up, gather", "ag", lambda h, f: (1024, h, f)),
    ("down, reduce-scatter", "rs", lambda h, f: (1024, f, h)),
    ("down, all-reduce", "ar", lambda h, f: (64, f, h)),
)
#: The axes of x, w and y. DEVICES is the digits of all devices.
AXES = {
    "ag": ("[DEVICES, -]", "[-, DEVICES]", "[-, DEVICES]"),
    "rs": ("[-, DEVICES]", "[DEVICES, -]", "[DEVICES, -]"),
    "ar": ("[-, DEVICES]", "[DEVICES, -]", "[-, -]"),
    "fsdp": ("[DEVICES, -]", "[DEVICES, -]", "[DEVICES, -]"),
}
FLAT = ('["x" = 8]', 'didx("x")')
NODES = ('["node" = 2, "gpu" = 8]', 'didx("node") * didx("gpu")')
#: Machine, what it is for people, target, mesh and digits.
MACHINES = (
    ("h200x8", "8 H200", "cuda-peer", *FLAT),
    ("mi300x8", "8 MI300X", "cuda-peer", *FLAT),
    ("dgx-h100-pod", "2 nodes of 8 H100", "cuda-peer", *NODES),
    ("cpu-tcp", "8 hosts, TCP", "cpu-ucx", *FLAT),
)


def source(kind, shape, mesh, digits, dtype):
    m, k, n = shape
    x, w, y = (f"tensor<{rows}x{columns}x{dtype}, #fusion.axes<#m, {axes.replace('DEVICES', digits)}>>"
               for (rows, columns), axes in zip(((m, k), (k, n), (m, n)), AXES[kind]))
    return f"""#m = #tandem.mesh<"m", {mesh}>
func.func @f(%x: {x}, %w: {w}) -> {y} {{
  %y = fusion.matmul %x, %w : {x}, {w} -> {y}
  return %y : {y}
}}
"""


def explain(tools, kind, shape, machine):
    name, _, target, mesh, digits = machine
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "f.mlir")
        with open(path, "w") as file:
            file.write(source(kind, shape, mesh, digits, "f32" if target.startswith("cpu") else "bf16"))
        done = subprocess.run([os.path.join(tools, "tandem-compile"), path, "--explain", f"--target={target}",
                               f"--machine={name}", "--no-reference", "--check=false"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{kind} {shape} on {name}: {done.stderr}")
    return done.stdout


def short(what):
    """The schedule without its small print; the number of slices."""
    schedule, _, slices = what.partition(", slices = ")
    schedule = re.sub(r", (order = \w+|streams = \d+)", "", schedule)
    schedule = re.sub(r", merge = \[([\d, ]+)\]", lambda m: ", merged " + m[1].replace(", ", ","), schedule)
    count = re.match(r"\d+", slices)
    return f"`{schedule.split(',')[0]}`" + ", ".join(["", *schedule.split(", ")[1:]]) + (f", {count[0]} slices" if count else "")


def cell(text):
    """Choice, gain, reason."""
    loops = re.split(r"^  (?=\S)", text, flags=re.M)[1:]
    cells = []
    for loop in loops:
        candidates = [(float(time), what) for time, what in re.findall(r"^ +([\d.]+) us (.*)$", loop, re.M)]
        hidden = re.search(r"([\d.]+) us, (\d+) % of it overlapped with compute", loop)
        chosen, plain = candidates[0], candidates[1] if len(candidates) > 1 else candidates[0]
        others = [c for c in candidates[1:] if c[1] != chosen[1]]
        if "slices" not in chosen[1] and chosen[1] == "pipeline":
            best = min(others, default=None)
            reason = f"best other {chosen[0] / best[0]:.2f}" if best else "no other"
            cells.append(f"whole; {reason}")
        else:
            cells.append(f"{short(chosen[1])}: {plain[0] / chosen[0]:.2f}; {hidden[2]} % hidden")
    return "<br>".join(cells)


def main():
    tools, output = sys.argv[1:]
    with open(output, "w") as out:
        out.write("""# What is chosen

`tools/dev docs` writes this page with `tandem-compile --explain`. For each layer and machine it shows the choice, its
predicted gain over the unoverlapped baseline (all communication, then the matmul; 1.31 means 1.31 times as fast) and the
share of the communication that is overlapped with compute. *whole* is the baseline itself; then the number is that of the best
other candidate, which gains less than the model's error, or loses. Two lines in a cell are two loops: an all-reduce
that is split in two. Types are bf16 on GPUs and f32 on CPUs, on 8 devices (16 in two nodes). [Schedules](../schedules.md)
describes the schedules.

""")
        out.write("| model | layer | M x K x N | " + " | ".join(label for _, label, *_ in MACHINES) + " |\n")
        out.write("|---" * (3 + len(MACHINES)) + "|\n")
        for model, h, f in MODELS:
            for what, kind, shape in LAYERS:
                cells = [cell(explain(tools, kind, shape(h, f), machine)) for machine in MACHINES]
                out.write(f"| {model} | {what} | {' x '.join(map(str, shape(h, f)))} | {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()
