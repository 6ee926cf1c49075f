# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pictures of docs/performance.md: speed-ups of the cases of one file of docs/measured."""

import math

from drawing import COMMUNICATION, GRID, INK, MUTED, TANDEM, TORCH, Drawing
from measurements import OPS, gain, geometric, in_group, over_torch, plain_us, refuse, roofline_us, shape, share, us


def over(case, time):
    """The speed-up of a program that takes `time` over the fastest one without overlap."""
    return plain_us(case) / time if time and plain_us(case) else None


def alt(cases):
    gains = [gain(case) for case in cases if gain(case)]
    torch = [value for value in (over(case, us(case, "torch fused")) for case in cases) if value]
    text = f"speed-up over the fastest program without overlap: {min(gains):.2f} to {max(gains):.2f}"
    return text + (f"; torch's fused operators reach {min(torch):.2f} to {max(torch):.2f}" if torch else "")


def draw(data, group, tokens, path):
    """A row for each layer, a column for each number of tokens."""
    cases = {}
    for case in in_group(data, group):
        if case["m"] in tokens and gain(case):
            cases.setdefault((case["op"], shape(case)), {})[case["m"]] = case
    rows = [row for op in OPS for row in sorted(cases.items(), key=lambda row: [-math.prod(map(int, row[0][1].split(" x ")))]) if row[0][0] == op]
    shown = [case for _, row in rows for case in row.values()]
    if not shown:
        refuse(f"no case of group {group} with {tokens} tokens")
    reach = [value for case in shown for value in
             (gain(case), over(case, us(case, "torch fused")), over(case, roofline_us(case, data))) if value]
    step = 0.2 if len(tokens) == 1 else 0.4
    while max(reach) - min(1, *reach) > 8 * step:
        step *= 2
    below = math.ceil((1 - min(1, *reach)) / step - 1e-9)
    above = max(1, math.ceil((max(reach) - 1) / step - 1e-9))
    low, high = 1 - below * step, 1 + above * step
    left, texts, gap = (230, 180, 20) if len(tokens) == 1 else (110, 84, 14)
    panel = (880 - left) / len(tokens)
    top, line = 118, 26 if len(tokens) == 1 else 24
    heads = len({op for (op, _), _ in rows})
    bottom = top + (len(rows) + heads) * line + 6
    which = {"rank": "TP=8 shard shapes of known models", "layer": "Whole layers of known models"}.get(group, "Cases")
    drawing = Drawing(int(bottom + 30), f"Speed-up over the fastest program without overlap, {data['ranks']} {data['gpu']}")
    title = "Speed-up over the fastest program without overlap"
    drawing.text(20, 26, title, weight="bold", size=16)
    with_tokens = f"{tokens[0]} tokens. " if len(tokens) == 1 else ""
    types = " and ".join(dict.fromkeys(case["dtype"] for case in shown))
    drawing.text(20, 46, f"{data['ranks']} {data['gpu']}, {types}, one run. {with_tokens}{which}: N x K of the matmul.", MUTED)
    drawing.rect(20, 58, 12, 12, TANDEM)
    drawing.text(38, 68, "Tandem, the compiler's choice")
    drawing.rect(262, 58, 12, 12, TORCH)
    drawing.text(280, 68, "torch's fused operators (async TP)")
    drawing.line(516, 56, 516, 72, INK, 2)
    drawing.text(524, 68, "roofline: the longer of matmul and bytes / link rate")

    for column, count in enumerate(tokens):
        start = left + column * panel
        end = start + panel - texts - gap

        def at(value):
            return start + (value - low) / (high - low) * (end - start)

        if len(tokens) > 1:
            drawing.text((start + end) / 2, top - 24, f"{count} tokens", anchor="middle", weight="bold")
        for mark in range(-below, above + 1):
            value = 1 + mark * step
            drawing.line(at(value), top - 12, at(value), bottom, INK if mark == 0 else GRID)
            drawing.text(at(value), bottom + 18, f"{value:.1f}" + (" x" if len(tokens) == 1 else ""), MUTED, "middle",
                         size=13 if len(tokens) == 1 else 11)
        first, second = end + texts * 0.3, end + texts * 0.82
        size = 13 if len(tokens) == 1 else 11
        drawing.text(first, top - 8, "over torch's best" if len(tokens) == 1 else "/ torch", MUTED, "middle", size=size)
        drawing.text(second, top - 8, "% of roofline" if len(tokens) == 1 else "roofline", MUTED, "middle", size=size)
        y, kind = top + 6, None
        for (op, name), row in rows:
            if op != kind:
                kind = op
                if column == 0:
                    drawing.text(20, y + 4, OPS[op], weight="bold")
                y += line
            if column == 0:
                drawing.text(left - 12, y + 4, name, anchor="end", size=13 if len(tokens) == 1 else 12)
            case = row.get(count)
            if case:
                for value, dy, height, color, who in ((gain(case), -9, 10, TANDEM, "Tandem"),
                                                      (over(case, us(case, "torch fused")), 2, 7, TORCH, "torch")):
                    if value:
                        drawing.rect(min(at(1), at(value)), y + dy, abs(at(value) - at(1)), height, color, f"{who} {value:.2f} x")
                limit = over(case, roofline_us(case, data))
                if limit:
                    drawing.line(at(limit), y - 11, at(limit), y + 11, INK, 2)
                torch = over_torch(case)
                drawing.text(first, y + 4, f"{torch:.2f} x" if torch else "-", anchor="middle", size=size)
                part = share(case, data)
                drawing.text(second, y + 4, f"{100 * part:.0f} %" if part else "-", anchor="middle", size=size)
            y += line
    drawing.write(path)
    return alt(shown)


def draw_sorted(data, path):
    """Two panels: speed-ups of `auto` over the fastest program without overlap and over torch's best, each sorted; a point for each
    case."""
    panels = [("over the fastest without overlap", [(gain(case), case) for case in data["cases"]]),
              ("over torch's best", [(over_torch(case), case) for case in data["cases"]])]
    panels = [(name, sorted(((v, c) for v, c in points if v), key=lambda point: point[0])) for name, points in panels]
    panels = [panel for panel in panels if panel[1]]
    if not panels:
        refuse("`auto` has a speed-up in no case")
    colors = {"ag": TANDEM, "rs": COMMUNICATION, "ar": MUTED}
    values = [value for _, points in panels for value, _ in points]
    step = 0.1 if max(values) - min(values) < 1 else 0.2
    low, high = step * math.floor(min(1, *values) / step + 1e-9), step * math.ceil(max(1, *values) / step - 1e-9)
    top, bottom, left, gap = 96, 376, 60, 50
    width = (860 - left - gap * (len(panels) - 1)) / len(panels)
    drawing = Drawing(bottom + 54, f"Speed-up of the compiler's choice in {len(data['cases'])} cases, {data['ranks']} {data['gpu']}")
    drawing.text(20, 26, f"Speed-up of the compiler's choice in {len(data['cases'])} cases", weight="bold", size=16)
    drawing.text(20, 46, f"{data['ranks']} {data['gpu']}. A point for each case, sorted.", MUTED)
    for at, (op, color) in enumerate(colors.items()):
        drawing.rect(330 + 190 * at, 37, 9, 9, color)
        drawing.text(344 + 190 * at, 46, OPS[op], MUTED, size=12)

    def height(value):
        return bottom - (value - low) / (high - low) * (bottom - top)

    for number, (name, points) in enumerate(panels):
        start = left + number * (width + gap)
        drawing.text(start + width / 2, top - 16, f"{name}: {geometric([v for v, _ in points]):.2f} x (geometric mean)", anchor="middle",
                     weight="bold")
        for mark in range(round((high - low) / step) + 1):
            value = low + mark * step
            drawing.line(start, height(value), start + width, height(value), INK if abs(value - 1) < 1e-9 else GRID)
            drawing.text(start - 8, height(value) + 4, f"{value:.1f}", MUTED, "end", size=11)
        for at, (value, case) in enumerate(points):
            x = start + (at + 0.5) / len(points) * width
            drawing.rect(x - 2, height(value) - 2, 4, 4, colors[case["op"]],
                         f"{case['op']} {case['m']} tokens, {shape(case)}: {value:.2f} x")
        drawing.text(start + width / 2, bottom + 24, f"{len(points)} cases, {sum(v < 0.99 for v, _ in points)} below 0.99", MUTED, "middle")
    drawing.write(path)
    return f"speed-up of the compiler's choice in {len(data['cases'])} cases: " + "; ".join(
        f"{name} {points[0][0]:.2f} to {points[-1][0]:.2f}" for name, points in panels)
