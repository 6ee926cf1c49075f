#!/usr/bin/env python3
# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the pictures and tables of docs/performance.md from measurements.

  performance.py [--docs=FOLDER]                        from docs/measured/*.json, into docs/performance.md and docs/images
  performance.py --check                                only names what is stale; exit status 1 if anything is
  performance.py --add=NAME [options] REPORT.json...    first makes docs/measured/NAME.json from reports of
                                                        `python -m tandem.bench --json`. If the page cannot be made of it,
                                                        nothing is written

In the page, `<!-- measured NAME WHAT ... -->` begins a part that is written anew, up to `<!-- end measured -->`. WHAT:

  about               what ran, the date, the commit
  summary             speed-ups and shares of the limit by number of tokens
  plot GROUP FILE TOKENS...
                      bars for each case; TOKENS: a column for each
  sorted FILE         a point for each case, by speed-up over the baseline and over torch
  table GROUP         a row for each case; columns without a number are left out
  commands            how to measure it again
  notes               what the reader must know of numbers that are not those of a report

GROUP: `layer` (whole layers of known models), `rank` (their matmuls as one rank of eight computes them), `other`, `all`.
"""

import argparse
import datetime
import glob
import importlib.util
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap

from drawing import COMMUNICATION, GRID, INK, MUTED, TANDEM, TORCH, Drawing

_spec = importlib.util.spec_from_file_location("shapes", os.path.join(os.path.dirname(os.path.abspath(__file__)), *(
    "..", "lib", "Bindings", "Python", "tandem", "bench", "shapes.py")))
shapes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(shapes)
OPS = {"ag": "All-gather, then matmul", "rs": "Matmul, then reduce-scatter", "ar": "Matmul, then all-reduce"}
PARTS = ("sequence", "matmul", "communication", "auto", "torch fused", "torch sequence")
SHOWN_OF_TORCH = ("torch fused", "torch sequence")
MARK = re.compile(r"(<!-- measured (\S+) (.*?) -->\n)(.*?)(<!-- end measured -->)", re.S)


# --- cases of a file of measurements ---


def groups(case, ranks):
    if "group" in case:
        return {case["group"]}
    known, n, k = (shapes.GATHERS if case["op"] == "ag" else shapes.REDUCTIONS), case["n"], case["k"]
    of_eight = (n * 8 // ranks, k) if case["op"] == "ag" else (n, k * 8 // ranks)
    found = {name for name, shape in (("layer", (n, k)), ("rank", of_eight)) if shape in known}
    return found or {"other"}


def in_group(data, group):
    return [case for case in data["cases"] if group == "all" or group in groups(case, data["ranks"])]


def us(case, arm):
    return case["arms"].get(arm, {}).get("us")


def over_auto(case):
    """The time of torch's fused operator over that of `auto`."""
    torch = case["arms"].get("torch fused", {})
    if "over_auto" in torch:
        return torch["over_auto"]
    return torch["us"] / us(case, "auto") if "us" in torch and us(case, "auto") else None


def speedup(case, arm):
    """The time of the baseline over that of the arm."""
    found = case["arms"].get(arm, {})
    if arm == "sequence":
        return 1.0 if arm in case["arms"] else None
    if "to_sequence" in found:
        return found["to_sequence"]
    if found.get("same_as") == "sequence":
        return 1.0  # the same program, measured twice
    if us(case, "sequence") and "us" in found:
        return us(case, "sequence") / found["us"]
    if arm == "torch fused" and over_auto(case) and speedup(case, "auto"):
        return speedup(case, "auto") / over_auto(case)
    return None


def limit_us(case, data):
    """The longer of the matmul alone and the bytes that a rank must receive over the rate of the link."""
    if case.get("limit_us"):
        return case["limit_us"]
    rate, matmul = (data.get("link") or {}).get("bytes_per_second"), us(case, "matmul")
    if not rate or not matmul:
        return None
    received = shapes.Case(*key(case)).bytes_received(data["ranks"])
    return max(matmul, 1e6 * received / rate)


def limit_speedup(case, data):
    """The speed-up over the baseline of a schedule that takes no longer than the limit."""
    if case.get("limit") == "matmul":
        return speedup(case, "matmul")
    limit = limit_us(case, data)
    return us(case, "sequence") / limit if limit and us(case, "sequence") else None


def share(case, data):
    """Limit over time of `auto`: 1 is as fast as the limit."""
    limit, auto = limit_us(case, data), us(case, "auto")
    if limit and auto:
        return limit / auto
    limit, auto = limit_speedup(case, data), speedup(case, "auto")
    return auto / limit if limit and auto else None


def shape(case):
    return f"{case['n']} x {case['k']}"


def geometric(values):
    return math.exp(statistics.fmean(map(math.log, values)))


# --- reports ---


def refuse(message):
    sys.exit(f"performance.py: {message}")


def read_report(path):
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        if report["tandem_bench"] == 2:
            return report
    except (OSError, ValueError, KeyError, TypeError) as error:
        refuse(f"{path}: expected a report of tandem.bench --json: {error!r}")
    return refuse(f"{path}: expected version 2 of tandem_bench")


def merge(paths):
    """One report of several. Fields other than the cases are those of the first."""
    merged = None
    for path in paths:
        report = read_report(path)
        if merged is None:
            merged = report
            continue
        for name in ("ranks", "device", "channel", "gpu"):
            if report.get(name) != merged.get(name):
                refuse(f"{path}: {name} is {report.get(name)}, expected {merged.get(name)}")
        twice = {key(row) for row in report["rows"]} & {key(row) for row in merged["rows"]}
        if twice:
            refuse(f"{path}: {' '.join(map(str, min(twice)))} is in an earlier report, too")
        for part in ("rows", "not_measured"):
            merged[part] = merged[part] + report[part]
    there = {"{} {}x{}x{} {}".format(*key(row)) for row in merged["rows"]}  # what one had no time for may be in another
    merged["not_measured"] = [name for name in merged["not_measured"] if name not in there]
    return merged


def key(row):
    return tuple(row[name] for name in ("op", "m", "n", "k", "dtype"))


def measured(row):
    return [m for m in row["measurements"] if m.get("median_us") and not m.get("failure")]


def rounded(value):
    return float(f"{value:.5g}")


def arms_of(row):
    """By name, in graphs if `auto` was measured there; of torch's modes the faster one counts. Also the mode."""
    mode = next((mode for mode in ("graph", "eager") if any(m["what"] == "auto" and m["mode"] == mode for m in measured(row))), None)
    arms = {}
    for m in measured(row):
        is_torch, arm = m["what"].startswith("torch"), {"us": rounded(m["median_us"])}
        if not is_torch and m["mode"] != mode or is_torch and arms.get(m["what"], arm)["us"] < arm["us"]:
            continue
        for name, short in (("p10_us", "p10"), ("p90_us", "p90"), ("host_us", "host"), ("predicted_us", "predicted")):
            if isinstance(m.get(name), (int, float)) and not is_torch:
                arm[short] = rounded(m[name])
        if m.get("same_as"):
            arm["same_as"] = m["same_as"]
        if m["what"] in SHOWN_OF_TORCH or not is_torch:
            arms[m["what"]] = arm
    return arms, mode


def commands_of(report):
    """What measures these rows again."""
    return [f"python -m tandem.bench {report['command']}"]


def data_of(report, about="", gpu="", date="", commit=""):
    cases, modes = [], set()
    for row in report["rows"]:
        arms, mode = arms_of(row)
        if "auto" not in arms:
            continue
        modes.add(mode)
        case = dict(zip(("op", "m", "n", "k", "dtype"), key(row)))
        limit = (row.get("limit_us") or {}).get(mode)
        if limit:
            case["limit_us"] = rounded(limit)
        cases.append({**case, "arms": arms})
    if not cases:
        refuse("`auto` was measured in no case")
    torch = report["torch"]
    gpu = gpu or report["gpu"] or report["device"]
    how = "CUDA graphs" if modes == {"graph"} else "commands launched one by one" if modes == {"eager"} else "CUDA graphs where possible"
    ran = f"{report['ranks']} ranks, {gpu}, device {report['device']}, channel {report['channel']}"
    if torch:
        ran += f", torch {torch['torch']}, NCCL {torch['nccl']}"
    return {
        "about": f"{about or ran}; {how}; medians of up to {report['iterations']} interleaved rounds",
        "gpu": gpu, "ranks": report["ranks"], "date": date, "commit": commit,
        "commands": commands_of(report), "link": report["link"],
        "not_measured": report["not_measured"], "cases": cases}


def dump(data):
    """JSON with a line for each case."""
    head = {name: value for name, value in data.items() if name != "cases"}
    return json.dumps(head, indent=1)[:-2] + ',\n "cases": [\n  ' + ",\n  ".join(map(json.dumps, data["cases"])) + "\n ]\n}\n"


# --- parts of the page ---


def wrapped(text, begin=""):
    return textwrap.fill(begin + text, 120, subsequent_indent=" " * len(begin), break_long_words=False, break_on_hyphens=False) + "\n"


def about(data):
    recovered = " Recovered from an earlier state of this page: see the notes." if data.get("recovered") else ""
    return wrapped(f"{data['about']}. {data['date']}, commit `{data['commit']}`.{recovered}")


def spread(values, form, percent=False):
    """median (least to most)"""
    if not values:
        return "-"
    factor = 100 if percent else 1
    return f"{form(statistics.median(values) * factor)} ({form(min(values) * factor)} to {form(max(values) * factor)})"


def two(value):
    return f"{value:.2f}"


def whole(value):
    return f"{value:.0f}"


def loss(case):
    """By how much the best other schedule is faster than `auto`; None if there is no other."""
    auto = speedup(case, "auto")
    others = [value for value in (speedup(case, arm) for arm in case["arms"] if arm not in PARTS or arm == "sequence") if value]
    return max(others) / auto - 1 if auto and others else None


def predictions(data):
    errors = {}
    for case in data["cases"]:
        for name, arm in case["arms"].items():
            if "predicted" in arm:
                errors.setdefault(name, []).append(abs(arm["predicted"] / arm["us"] - 1))
    parts = [f"{100 * statistics.median(found):.2g} % for {'the baseline' if name == 'sequence' else f'`{name}`'}"
             for name, found in errors.items()]
    return wrapped(f"Median error of the predicted times: {', '.join(parts)}.", "- ") if parts else ""


def summary(data):
    rows = [[case, speedup(case, "auto"), over_auto(case)] for case in data["cases"]]
    known = data.get("summary") or {}
    gains = [gain for case, gain, _ in rows if gain]
    torch = [ratio for _, _, ratio in rows if ratio]
    behind = [ratio for ratio in torch if ratio < 1]
    text = ""
    overlapped = [gain for case, gain, _ in rows if gain and case["op"] != "ar"]
    if overlapped:
        text += f"- `auto` is {known.get('geomean') or geometric(overlapped):.4g} times as fast as the baseline on gathers and " \
                "reduce-scatters (geometric mean).\n"
    if gains:
        least = f"{known.get('least', min(gains)):.3g}"
        text += f"- The worst case of `auto` is {least if '.' in least else least + '.00'} times the speed of the baseline " \
                f"({known.get('cases', len(gains))} shapes).\n"
    if torch:
        faster = known.get("torch_faster", len(behind))
        text += f"- Torch's fused operators are faster than `auto` in {faster} of {known.get('torch_cases', len(torch))} cases"
        if faster:
            text += f": by {known.get('torch_most') or 100 * (1 / min(torch) - 1):.2g} % at most"
        text += f". Their median time is {known.get('torch_median') or statistics.median(torch):.3g} of `auto`'s.\n"
    lost = [value for value in map(loss, data["cases"]) if value is not None]
    ahead = [value for value in lost if value >= 0.01]
    if lost:
        text += f"- Another measured schedule is faster than `auto` by 1 % or more in {len(ahead)} of the {len(lost)} cases below"
        text += f", by {100 * max(lost):.0f} % at most.\n" if ahead else ".\n"
    text += predictions(data)
    text += "\nThe cases below, by number of tokens; median (least to most):\n\n"
    text += "| cases | tokens | number | baseline / `auto` | share of the limit, % | torch / `auto` |\n|---|---|---|---|---|---|\n"
    names = {"rank": "matmuls of a rank of eight", "layer": "whole layers", "other": "other shapes"}
    for group, name in names.items():
        for tokens in sorted({case["m"] for case in in_group(data, group)}, reverse=True):
            cases = [case for case in in_group(data, group) if case["m"] == tokens and speedup(case, "auto")]
            if not cases:
                continue
            shares = [value for value in (share(case, data) for case in cases) if value]
            ratios = [value for value in map(over_auto, cases) if value]
            text += f"| {name} | {tokens} | {len(cases)} | {spread([speedup(case, 'auto') for case in cases], two)} | " \
                    f"{spread(shares, whole, percent=True)} | {spread(ratios, two)} |\n"
    return text


def ms(value):
    return None if value is None else f"{value / 1000:.3f}"


def ratio(value):
    return None if value is None else two(value)


def table(data, group):
    cases = in_group(data, group)
    others = list(dict.fromkeys(arm for case in cases for arm in case["arms"] if arm not in PARTS))
    columns = [("op", lambda c: c["op"]), ("tokens", lambda c: str(c["m"])), ("N x K", shape),
               ("dtype", lambda c: c["dtype"] if c["dtype"] != "bf16" else None),
               ("matmul", lambda c: ms(us(c, "matmul"))), ("NCCL", lambda c: ms(us(c, "communication"))),
               ("limit", lambda c: ms(limit_us(c, data))), ("baseline", lambda c: ms(us(c, "sequence"))),
               ("`auto`", lambda c: ms(us(c, "auto"))), ("torch fused", lambda c: ms(us(c, "torch fused"))),
               ("baseline / matmul", lambda c: ratio(speedup(c, "matmul")) if not us(c, "matmul") else None),
               ("**baseline / `auto`**", lambda c: f"**{two(speedup(c, 'auto'))}**" if speedup(c, "auto") else None),
               ("share of the limit", lambda c: f"{100 * share(c, data):.0f} %" if share(c, data) else None),
               ("torch / `auto`", lambda c: ratio(over_auto(c)))]
    columns += [(f"baseline / `{arm}`" if arm != "best push" else "baseline / best push", lambda c, arm=arm: ratio(speedup(c, arm)))
                for arm in others]
    columns = [(name, cell) for name, cell in columns if any(cell(case) is not None for case in cases)]
    lines = ["| " + " | ".join(name for name, _ in columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(case) or "" for _, cell in columns) + " |" for case in cases]
    return "\n".join(lines) + "\n"


def commands(data):
    return "```sh\n" + "\n".join(data["commands"]) + "\n```\n"


def notes(data):
    text = "".join(wrapped(note, "- ") for note in data.get("recovered", ()))
    if data.get("not_measured"):
        text += wrapped(f"Not measured, time was up: {', '.join(data['not_measured'])}.", "- ")
    return text or "- All numbers are those of the reports.\n"


def alt(data, cases):
    gains = [speedup(case, "auto") for case in cases if speedup(case, "auto")]
    torch = [value for value in (speedup(case, "torch fused") for case in cases) if value]
    text = f"speed-up over NCCL and cuBLASLt without overlap: {min(gains):.2f} to {max(gains):.2f}"
    return text + (f"; torch's fused operators reach {min(torch):.2f} to {max(torch):.2f}" if torch else "")


# --- pictures ---


def draw(data, group, tokens, path):
    """A row for each layer, a column for each number of tokens."""
    cases = {}
    for case in in_group(data, group):
        if case["m"] in tokens and speedup(case, "auto"):
            cases.setdefault((case["op"], shape(case)), {})[case["m"]] = case
    rows = [row for op in OPS for row in cases.items() if row[0][0] == op]
    shown = [case for _, row in rows for case in row.values()]
    if not shown:
        refuse(f"no case of group {group} with {tokens} tokens")
    reach = [value for case in shown for value in
             (speedup(case, "auto"), speedup(case, "torch fused"), limit_speedup(case, data)) if value]
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
    which = {"rank": "A rank's part among 8 of the layers of known models", "layer": "Whole layers of known models"}.get(group, "Cases")
    drawing = Drawing(int(bottom + 30), f"Speed-up over NCCL and cuBLASLt, {data['ranks']} {data['gpu']}")
    title = "Speed-up over NCCL and cuBLASLt without overlap"
    drawing.text(20, 26, title, weight="bold", size=16)
    with_tokens = f"{tokens[0]} tokens. " if len(tokens) == 1 else ""
    types = " and ".join(dict.fromkeys(case["dtype"] for case in shown))
    drawing.text(20, 46, f"{data['ranks']} {data['gpu']}, {types}, one run. {with_tokens}{which}: N x K of the matmul.", MUTED)
    drawing.rect(20, 58, 12, 12, TANDEM)
    drawing.text(38, 68, "Tandem, the compiler's choice")
    drawing.rect(262, 58, 12, 12, TORCH)
    drawing.text(280, 68, "torch's fused operators (async TP)")
    drawing.line(516, 56, 516, 72, INK, 2)
    drawing.text(524, 68, "limit: the longer of matmul and bytes / link rate")

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
        drawing.text(first, top - 8, "over torch" if len(tokens) == 1 else "/ torch", MUTED, "middle", size=size)
        drawing.text(second, top - 8, "share of the limit" if len(tokens) == 1 else "of limit", MUTED, "middle", size=size)
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
                for value, dy, height, color, who in ((speedup(case, "auto"), -9, 10, TANDEM, "Tandem"),
                                                      (speedup(case, "torch fused"), 2, 7, TORCH, "torch")):
                    if value:
                        drawing.rect(min(at(1), at(value)), y + dy, abs(at(value) - at(1)), height, color, f"{who} {value:.2f} x")
                limit = limit_speedup(case, data)
                if limit:
                    drawing.line(at(limit), y - 11, at(limit), y + 11, INK, 2)
                torch = over_auto(case)
                drawing.text(first, y + 4, f"{torch:.2f} x" if torch else "-", anchor="middle", size=size)
                part = share(case, data)
                drawing.text(second, y + 4, f"{100 * part:.0f} %" if part else "-", anchor="middle", size=size)
            y += line
    drawing.write(path)
    return alt(data, shown)


def draw_sorted(data, path):
    """Two panels: speed-ups of `auto` over the baseline and over torch's fused operators, each sorted; a point for each case."""
    panels = [("over the baseline", [(speedup(case, "auto"), case) for case in data["cases"]]),
              ("over torch's fused operators", [(over_auto(case), case) for case in data["cases"]])]
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


# --- the page ---


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def make(docs, images, added):
    """The page, and the description of each picture by its name. Pictures go to `images`. `added`: data by name, in place of
    files."""
    data, alts, shown = dict(added), {}, set()

    def part(match):
        begin, name, what, _, end = match.groups()
        path = os.path.join(docs, "measured", name + ".json")
        shown.add(name)
        if name not in data:
            if not os.path.isfile(path):
                refuse(f"performance.md: no file measured/{name}.json")
            data[name] = json.loads(read(path))
        kind, *words = what.split()
        if kind == "plot":
            group, file, *tokens = words
            alts[file] = draw(data[name], group, [int(count) for count in tokens], os.path.join(images, file))
            made = f"![{alts[file]}](images/{file})\n"
        elif kind == "sorted":
            alts[words[0]] = draw_sorted(data[name], os.path.join(images, words[0]))
            made = f"![{alts[words[0]]}](images/{words[0]})\n"
        elif kind == "table":
            made = table(data[name], *words)
        else:
            made = {"about": about, "summary": summary, "commands": commands, "notes": notes}[kind](data[name])
        return f"{begin}\n{made}\n{end}"

    page = MARK.sub(part, read(os.path.join(docs, "performance.md")))
    unused = ({os.path.basename(path)[:-5] for path in glob.glob(os.path.join(docs, "measured", "*.json"))} | set(added)) - shown
    unused -= {"trace-baseline", "trace-push"}  # of docs/pictures.py
    if unused:
        name = sorted(unused)[0]
        refuse(f"performance.md shows nothing of measured/{name}.json: begin a part with <!-- measured {name} table all -->, and "
               "end it with <!-- end measured -->")
    return page, alts


def described(text, alts):
    """Descriptions of the pictures in another page."""
    for file, words in alts.items():
        text = re.sub(r"!\[[^\]]*\]\(((?:docs/)?images/" + re.escape(file) + r")\)", lambda m, words=words: f"![{words}]({m.group(1)})", text)
    return text


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", metavar="REPORT")
    parser.add_argument("--add", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--docs", default=here, metavar="FOLDER", help="with performance.md, measured and images")
    parser.add_argument("--about", help="what ran: GPUs, links, versions; default: what the reports say")
    parser.add_argument("--gpu", help="its name in the pictures; default: what the report says")
    parser.add_argument("--date", default=str(datetime.date.today()))
    parser.add_argument("--commit", help="of the build that was measured; default: HEAD")
    arguments = parser.parse_args()
    if bool(arguments.add) != bool(arguments.reports):
        parser.error("--add: expected reports of tandem.bench")
    docs, added = arguments.docs, {}
    if arguments.add:
        if not re.fullmatch(r"[\w.-]+", arguments.add):
            parser.error(f"--add: expected a name, found {arguments.add}")
        if not arguments.commit:
            arguments.commit = subprocess.run(["git", "-C", here, "rev-parse", "--short=8", "HEAD"], check=True, capture_output=True,
                                              text=True).stdout.strip()
        data = data_of(merge(arguments.reports), arguments.about, arguments.gpu, arguments.date, arguments.commit)
        added[arguments.add] = json.loads(dump(data))
    readme = os.path.join(os.path.dirname(docs), "README.md")
    stale = []
    with tempfile.TemporaryDirectory() as scratch:
        page, alts = make(docs, scratch, added)
        wanted = {os.path.join(docs, "performance.md"): page}
        if os.path.isfile(readme):
            wanted[readme] = described(read(readme), alts)
        for file in alts:
            wanted[os.path.join(docs, "images", file)] = read(os.path.join(scratch, file))
    for name in added:
        wanted[os.path.join(docs, "measured", name + ".json")] = dump(data)
    for path, text in wanted.items():
        if not os.path.isfile(path) or read(path) != text:
            stale.append(os.path.relpath(path, os.path.dirname(docs)))
            if not arguments.check:
                write(path, text)
    if arguments.check and stale:
        sys.exit("".join(f"{path} differs from docs/measured: run docs/performance.py\n" for path in stale).rstrip())
    print("\n".join(f"{'stale' if arguments.check else 'written'}: {path}" for path in stale) or "nothing has changed")


if __name__ == "__main__":
    main()
