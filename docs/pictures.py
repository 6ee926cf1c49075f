#!/usr/bin/env python3
# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws the timelines of README.md, and the picture of axes in docs/learn.md.

  pictures.py FOLDER-OF-THE-TOOLS OUTPUT-FOLDER
  pictures.py --overlap BASELINE.json PUSH.json OUTPUT.svg

overlap.svg: the programs of docs/overlap.mlir on one time axis, rank 0 of each: docs/measured/trace-baseline.json and trace-push.json if
they are there, which are traces of tandem-run (docs/performance.md says how to make them); else simulated. The picture says
which. axes.svg: which rows of eight each of four devices handles, and when. (docs/performance.py draws results.)
"""

import json
import math
import os
import subprocess
import sys
import tempfile

import measurements
from drawing import COMMUNICATION, GRID, INK, MUTED, TANDEM, Drawing

DOCS = os.path.dirname(os.path.abspath(__file__))
ENTRIES = ("baseline", "push")
#: The case of docs/measured that has the sizes of docs/overlap.mlir.
CASE = ("ag", 8192, 3584, 8192, "bf16")
MEASURED = "h100x2"


def draw_axes(path):
    # For each form: what it is, and the iteration in which device d handles row r; None: it does not handle it.
    forms = (("[-, -]", "replicated", lambda d, r: 0),
             ('[didx("gpu"), -]', "split over devices", lambda d, r: 0 if r // 2 == d else None),
             ('[stream("gpu"), -]', "split over iterations", lambda d, r: r // 2),
             ('[didx("gpu") * stream(2), -]', "split over both", lambda d, r: r % 2 if r // 2 == d else None))
    shades = (TANDEM, COMMUNICATION, "#2da44e", "#8250df")
    cell, panel, top = 30, 200, 92
    drawing = Drawing(top + 8 * 24 + 22, "Rows of a tensor on four devices, by axes")
    drawing.text(20, 26, "Eight rows on four devices: who handles a row, and in which iteration", weight="bold", size=16)
    for column, (axes, about, iteration) in enumerate(forms):
        left = 58 + column * panel
        drawing.text(left, 54, axes, weight="bold")
        drawing.text(left, 70, about, MUTED)
        for device in range(4):
            drawing.text(left + device * cell + 14, top - 6, f"d{device}", MUTED, "middle", size=11)
            for row in range(8):
                x, y, when = left + device * cell, top + row * 24, iteration(device, row)
                drawing.rect(x, y, cell - 3, 21, GRID if when is None else shades[when],
                             f"device {device}, row {row}: " + ("not handled" if when is None else f"iteration {when}"))
                if when is not None:
                    drawing.text(x + 13, y + 15, str(when), "#ffffff", "middle", size=12)
    for row in range(8):
        drawing.text(48, top + row * 24 + 15, f"row {row}", MUTED, "end", size=11)
    drawing.text(58, top + 8 * 24 + 14, "Grey: the device does not handle this row. Numbers and colours: the iteration.", MUTED, size=12)
    drawing.write(path)


def simulated(tools, name, trace):
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "p.tsp")
        subprocess.run([os.path.join(tools, "tandem-compile"), os.path.join(DOCS, "overlap.mlir"), f"--entry={name}",
                        "--target=cuda-peer", "--no-reference", "-o", program], check=True)
        subprocess.run([os.path.join(tools, "tandem-sim"), program, "--machine=h100x2", f"--trace={trace}"], check=True,
                       stdout=subprocess.DEVNULL)


class Run:
    """The commands of rank 0 in a Chrome trace: start and end in us, kind and stream. The end is that of the slowest rank."""

    def __init__(self, path, entry):
        with open(path) as file:
            trace = json.load(file)
        about = trace["tandem"]
        if about["program"] != entry:
            sys.exit(f"pictures.py: {path}: expected a trace of @{entry}, found @{about['program']}")
        self.origin, self.ranks = about["origin"], about["ranks"]
        events = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == 0]
        self.commands = sorted((event["ts"], event["ts"] + event["dur"], event["args"]["kind"], event["tid"]) for event in events)
        self.measured = self.origin.startswith("measured")
        # A traced run's own time includes that its trace is read.
        ends = [event["ts"] + event["dur"] for event in trace["traceEvents"] if event["ph"] == "X"]
        self.end = max(ends) if self.measured else about["seconds"] * 1e6

    def of(self, *kinds):
        return [(start, end) for start, end, kind, _ in self.commands if kind in kinds]


def scale(longest):
    """A step for five to ten marks on the axis, in us."""
    step = 10 ** math.floor(math.log10(longest))
    return step if longest / step > 5 else step / 2 if longest / step > 2.5 else step / 5


def medians():
    """Times of untraced runs in ms, and the speed-up of push, as docs/measured/h100x2.md has them."""
    with open(os.path.join(DOCS, "measured", MEASURED + ".json"), encoding="utf-8") as file:
        data = json.load(file)
    case = next(case for case in data["cases"] if measurements.key(case) == CASE)
    gain = measurements.speedup(case, "push")
    return {"baseline": measurements.us(case, "sequence") / 1000, "push": measurements.us(case, "sequence") / 1000 / gain}, gain


def draw_overlap(traces, path, at_size=False):
    """`at_size`: the traces have the shape of CASE, so the medians of that case belong to them."""
    baseline, push = (Run(trace, entry) for trace, entry in zip(traces, ENTRIES))
    longest = max(baseline.end, push.end)
    left, right, lane, step = 150, 870, 34, scale(longest)
    word = "measured" if baseline.measured and push.measured else "predicted"
    if baseline.measured != push.measured or baseline.ranks != push.ranks:
        sys.exit(f"pictures.py: expected two runs of one kind, found {baseline.origin} on {baseline.ranks} ranks and "
                 f"{push.origin} on {push.ranks}")
    drawing = Drawing(312, f"An all-gather and a matmul, without overlap and with puts: {word} timelines")

    def at(us):
        return left + us / longest * (right - left)

    def block(start, end, y, color, label):
        drawing.rect(at(start), y, max(at(end) - at(start) - 1, 1), lane - 6, color, f"{label}: {end - start:.0f} us")
        if at(end) - at(start) > 7 * len(label):
            drawing.text(at((start + end) / 2), y + 19, label, "#ffffff", "middle", size=12)

    size = "8192 x 8192 gathered, then multiplied by 8192 x 1792, bf16" if at_size else "an all-gather, then a matmul"
    drawing.text(20, 26, f"Rank 0 of {baseline.ranks}: {size}", weight="bold", size=16)
    about = (f"Timelines: {baseline.origin}, one traced run each; tracing slows them. " if baseline.measured else
             f"Timelines: predicted, not measured ({baseline.origin}). ")
    drawing.text(20, 46, about + ("Medians: docs/measured/h100x2.md, untraced." if at_size else ""), MUTED)
    for mark in range(int(longest / step) + 1):
        drawing.line(at(mark * step), 88, at(mark * step), 282, GRID)
        drawing.text(at(mark * step), 300, f"{mark * step / 1000:g} ms", MUTED, "middle")
    times, gain = medians() if at_size else ({}, None)

    def total(name, run, label, y):
        drawing.text(20, y, label, weight="bold")
        text = f"{'traced' if run.measured else 'predicted'} {run.end / 1000:.2f} ms"
        drawing.text(right, y, text + (f", without tracing {times[name]:.2f} ms" if times else ""), MUTED, "end")

    total("baseline", baseline, "Without overlap: the whole gather, then the matmul", 82)
    drawing.text(20, 114, "stream")
    for start, end in baseline.of("collective", "group"):
        block(start, end, 94, COMMUNICATION, "all-gather")
    for start, end in baseline.of("matmul"):
        block(start, end, 94, TANDEM, "matmul")

    total("push", push, "Tandem, push: puts into the peers' memory, row blocks as they arrive", 168)
    drawing.text(20, 200, "compute")
    drawing.text(20, 200 + lane, "puts")
    # The order of docs/schedules.md, "push": rank 0 sends to the last rank first and computes the rows of ranks 0, 1, ...
    matmuls, puts = push.of("matmul"), push.of("put")
    if len(matmuls) != push.ranks or len(puts) != push.ranks - 1:
        sys.exit(f"pictures.py: expected {push.ranks} matmuls and {push.ranks - 1} puts, found {len(matmuls)} and {len(puts)}")
    for rank, (start, end) in enumerate(matmuls):
        block(start, end, 180, TANDEM, f"rows of rank {rank}" if rank else "own rows")
    for number, (start, end) in enumerate(puts):
        block(start, end, 180 + lane, COMMUNICATION, f"put to {push.ranks - 1 - number}")
    for run in (baseline, push):
        drawing.line(at(run.end), 172, at(run.end), 256, INK, 2)
    if gain:
        drawing.text((at(push.end) + at(baseline.end)) / 2, 238, f"without tracing {gain:.2f} x as fast", INK, "middle")
    drawing.write(path)


def main():
    arguments = sys.argv[1:]
    if len(arguments) == 4 and arguments[0] == "--overlap":
        draw_overlap(arguments[1:3], arguments[3])
        return
    if len(arguments) != 2 or arguments[0].startswith("-"):
        sys.exit(__doc__)
    tools, out = arguments
    os.makedirs(out, exist_ok=True)
    draw_axes(os.path.join(out, "axes.svg"))
    traces = [os.path.join(DOCS, "measured", f"trace-{name}.json") for name in ENTRIES]
    with tempfile.TemporaryDirectory() as scratch:
        if not all(map(os.path.isfile, traces)):
            traces = [os.path.join(scratch, name + ".json") for name in ENTRIES]
            for name, trace in zip(ENTRIES, traces):
                simulated(tools, name, trace)
        draw_overlap(traces, os.path.join(out, "overlap.svg"), at_size=True)


if __name__ == "__main__":
    main()
