#!/usr/bin/env python3
# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws the two pictures of README.md, and that of axes in docs/learn.md.

  pictures.py FOLDER-OF-THE-TOOLS OUTPUT-FOLDER

results.svg: the table "Matmuls of a rank among 8" of docs/performance.md. overlap.svg: the programs of
docs/overlap.mlir, simulated, on one time axis. axes.svg: which rows of eight each of four devices has, and when it handles them.
"""

import html
import json
import os
import subprocess
import sys
import tempfile

DOCS = os.path.dirname(os.path.abspath(__file__))
WIDTH = 900
INK, MUTED, GRID = "#1f2328", "#59636e", "#d8dee4"
TANDEM, TORCH, COMMUNICATION = "#0b6bcb", "#b8c2cc", "#e08a1e"


class Drawing:
    def __init__(self, height, title):
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="13">',
            f"<title>{html.escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        ]

    def rect(self, x, y, width, height, color, title=""):
        hover = f"<title>{html.escape(title)}</title>" if title else ""
        self.lines.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}">{hover}</rect>')

    def line(self, x1, y1, x2, y2, color, width=1):
        self.lines.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"/>')

    def text(self, x, y, text, color=INK, anchor="start", weight="normal", size=13):
        self.lines.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}" font-weight="{weight}" '
                          f'font-size="{size}">{html.escape(text)}</text>')

    def write(self, path):
        with open(path, "w") as file:
            file.write("\n".join(self.lines) + "\n</svg>\n")


def draw_axes(path):
    # For each form: what it is, and the iteration in which device d handles row r; None: it has not that row.
    forms = (("[-, -]", "replicated", lambda d, r: 0),
             ('[didx("x"), -]', "split over devices", lambda d, r: 0 if r // 2 == d else None),
             ('[stream("x"), -]', "split over iterations", lambda d, r: r // 2),
             ('[didx("x") * stream(2), -]', "split over both", lambda d, r: r % 2 if r // 2 == d else None))
    shades = (TANDEM, COMMUNICATION, "#2da44e", "#8250df")
    cell, panel, top = 30, 215, 92
    drawing = Drawing(top + 8 * 24 + 22, "Rows of a tensor on four devices, by axes")
    drawing.text(20, 26, "Eight rows on four devices: who has a row, and in which iteration it is handled", weight="bold", size=16)
    for column, (axes, about, iteration) in enumerate(forms):
        left = 58 + column * panel
        drawing.text(left, 54, axes, weight="bold")
        drawing.text(left, 70, about, MUTED)
        for device in range(4):
            drawing.text(left + device * cell + 14, top - 6, f"d{device}", MUTED, "middle", size=11)
            for row in range(8):
                x, y, when = left + device * cell, top + row * 24, iteration(device, row)
                drawing.rect(x, y, cell - 3, 21, GRID if when is None else shades[when],
                             f"device {device}, row {row}: " + ("not there" if when is None else f"iteration {when}"))
                if when is not None:
                    drawing.text(x + 13, y + 15, str(when), "#ffffff", "middle", size=12)
    for row in range(8):
        drawing.text(48, top + row * 24 + 15, f"row {row}", MUTED, "end", size=11)
    drawing.text(58, top + 8 * 24 + 14, "Grey: the device has not this row. Numbers and colours: the iteration.", MUTED, size=12)
    drawing.write(path)


def measured():
    """The rows of the table: name, speed-ups over the baseline of torch, `auto` and `push`, and their limit."""
    with open(os.path.join(DOCS, "performance.md")) as page:
        table = page.read().split("Matmuls of a rank among 8", 1)[1].split("| N, K |", 1)[1].split("\n\n", 1)[0]
    rows = []
    for line in table.split("\n")[2:]:
        name, _, _, sequence, _, auto, push, bound, _, torch, over = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append({"name": name, "sequence": float(sequence), "torch": float(sequence) / float(torch),
                     "auto": float(auto.strip("*")), "push": float(push.split("/")[0]), "limit": float(bound), "over torch": float(over)})
    return rows


def draw_results(path):
    rows = measured()
    left, right, top, step = 250, 620, 84, 26
    bottom = top + (len(rows) + 1) * step + 28
    drawing = Drawing(bottom + 44, "Speed-up over NCCL, then cuBLASLt, on 4 H200")

    def at(speedup):
        return left + (speedup - 1) / 0.8 * (right - left)

    drawing.text(20, 26, "Speed-up over NCCL, then cuBLASLt (no overlap)", weight="bold", size=16)
    drawing.text(20, 46, "4 H200, bf16, 8192 tokens, one run. Layers of known models, a rank's part among 8: N x K of the matmul.", MUTED)
    drawing.rect(20, 58, 12, 12, TANDEM)
    drawing.text(38, 68, "Tandem, schedule chosen by the compiler")
    drawing.rect(330, 58, 12, 12, TORCH)
    drawing.text(348, 68, "torch's fused operators (async TP)")
    drawing.line(604, 56, 604, 72, INK, 2)
    drawing.text(612, 68, "limit: the shorter part wholly hidden")
    for tenths in range(10, 19, 2):
        drawing.line(at(tenths / 10), top + 12, at(tenths / 10), bottom, INK if tenths == 10 else GRID)
        drawing.text(at(tenths / 10), bottom + 18, f"{tenths / 10:.1f} x", MUTED, "middle")
    drawing.text(right + 80, top + 18, "over torch", MUTED, "middle")
    drawing.text(right + 200, top + 18, "share of the limit", MUTED, "middle")
    y, kind = top + 20, None
    for row in rows:
        which, shape = row["name"].split(" ", 1)
        if which != kind:
            kind = which
            drawing.text(20, y + 4, {"ag": "All-gather, then matmul", "rs": "Matmul, then reduce-scatter"}[which], weight="bold")
            y += step
        drawing.text(left - 12, y + 4, shape.replace(", ", " x "), anchor="end")
        drawing.rect(at(1), y - 9, at(row["auto"]) - at(1), 10, TANDEM, f"Tandem {row['auto']:.2f} x")
        drawing.rect(at(1), y + 2, at(row["torch"]) - at(1), 7, TORCH, f"torch {row['torch']:.2f} x")
        drawing.line(at(row["limit"]), y - 11, at(row["limit"]), y + 11, INK, 2)
        drawing.text(right + 80, y + 4, f"{row['over torch']:.2f} x", anchor="middle")
        drawing.text(right + 200, y + 4, f"{100 * row['auto'] / row['limit']:.0f} %", anchor="middle")
        y += step
    drawing.write(path)


def simulated(tools, name):
    """The commands of rank 0: start and duration in us, kind and stream."""
    with tempfile.TemporaryDirectory() as scratch:
        program, trace = os.path.join(scratch, "p.tsp"), os.path.join(scratch, "p.json")
        subprocess.run([os.path.join(tools, "tandem-compile"), os.path.join(DOCS, "overlap.mlir"), f"--entry={name}",
                        "--target=cuda-peer", "--no-oracle", "-o", program], check=True)
        subprocess.run([os.path.join(tools, "tandem-sim"), program, "--machine=h200x4", f"--trace={trace}"], check=True,
                       stdout=subprocess.DEVNULL)
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
    return [(event["ts"], event["dur"], event["args"]["kind"], event["tid"])
            for event in events if event["ph"] == "X" and event["pid"] == 0]


def draw_overlap(tools, path):
    row = next(row for row in measured() if row["name"] == "ag 14336, 8192")
    times = {"baseline": row["sequence"], "push": row["sequence"] / row["push"]}
    runs = {name: simulated(tools, name) for name in times}
    end = {name: max(start + duration for start, duration, _, _ in run) for name, run in runs.items()}
    left, right, lane = 150, 870, 34
    drawing = Drawing(312, "An all-gather and a matmul on 4 H200, without overlap and with puts")

    def at(us):
        return left + us / 1100 * (right - left)

    def block(start, duration, y, color, label):
        drawing.rect(at(start), y, max(at(start + duration) - at(start) - 1, 1), lane - 6, color, f"{label}: {duration:.0f} us")
        if at(start + duration) - at(start) > 50:
            drawing.text(at(start + duration / 2), y + 19, label, "#ffffff", "middle", size=12)

    drawing.text(20, 26, "One GPU of 4: 8192 x 8192 gathered, then multiplied by 8192 x 14336, bf16", weight="bold", size=16)
    drawing.text(20, 46, "Timelines: predicted by the simulator for 4 H200. Measured times: medians of docs/performance.md.", MUTED)
    for us in range(0, 1101, 200):
        drawing.line(at(us), 88, at(us), 282, GRID)
        drawing.text(at(us), 300, f"{us / 1000:.1f} ms", MUTED, "middle")

    def total(name, label, y):
        drawing.text(20, y, label, weight="bold")
        drawing.text(at(end["baseline"]), y, f"predicted {end[name] / 1000:.2f} ms, measured {times[name]:.2f} ms", MUTED, "end")

    total("baseline", "Without overlap: NCCL, then cuBLASLt", 82)
    drawing.text(20, 114, "stream")
    for start, duration, kind, _ in runs["baseline"]:
        if kind in ("collective", "matmul"):
            block(start, duration, 94, COMMUNICATION if kind == "collective" else TANDEM, {"collective": "all-gather"}.get(kind, kind))

    total("push", "Tandem, push: copy engines write into the peers' memory", 168)
    drawing.text(20, 200, "compute")
    drawing.text(20, 200 + lane, "copy engines")
    # The order of docs/schedules.md, "push": rank 0 sends to ranks 3, 2, 1 and computes the rows of ranks 0, 1, 2, 3.
    matmuls = iter(("own rows", "rows of rank 1", "rows of rank 2", "rows of rank 3"))
    puts = iter(("put to 3", "put to 2", "put to 1"))
    for start, duration, kind, _ in sorted(runs["push"]):
        if kind == "matmul":
            block(start, duration, 180, TANDEM, next(matmuls))
        elif kind == "put":
            block(start, duration, 180 + lane, COMMUNICATION, next(puts))
    drawing.line(at(end["push"]), 172, at(end["push"]), 256, INK, 2)
    drawing.line(at(end["baseline"]), 172, at(end["baseline"]), 256, INK, 2)
    drawing.text((at(end["push"]) + at(end["baseline"])) / 2, 238, f"{row['push']:.2f} x as fast, measured", INK, "middle")
    drawing.write(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    os.makedirs(sys.argv[2], exist_ok=True)
    draw_results(os.path.join(sys.argv[2], "results.svg"))
    draw_axes(os.path.join(sys.argv[2], "axes.svg"))
    draw_overlap(sys.argv[1], os.path.join(sys.argv[2], "overlap.svg"))
