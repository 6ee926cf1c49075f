# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks what tandem-sim and tandem-run draw: the trace against the trace event format, the picture as XML and the exposed
time in it against the trace, the report's keys.

  check_timeline.py trace.json picture.svg [report.json] --ranks=N --location=TEXT
"""

import argparse
import json
import re
import xml.etree.ElementTree as ET


def expect(condition, what):
    if not condition:
        raise SystemExit(f"check_timeline: {what}")


def check_trace(path, ranks, location):
    with open(path) as file:
        trace = json.load(file)
    head = trace["tandem"]
    expect(head["version"] == 1 and head["ranks"] == ranks and head["seconds"] > 0, f"head is {head}")
    slices, starts, finishes, named = {}, {}, {}, set()
    for event in trace["traceEvents"]:
        expect(event["ph"] in "MXsf", f"unknown phase in {event}")
        expect(0 <= event["pid"] < ranks, f"no such rank: {event}")
        if event["ph"] == "M":
            named.add((event["name"], event["pid"]))
            continue
        expect(event["ts"] >= 0 and isinstance(event["tid"], int), f"no time or track: {event}")
        if event["ph"] == "X":
            expect(event["dur"] >= 0 and event["cat"] in ("compute", "communication", "waiting"), f"bad slice: {event}")
            expect(location in event["args"]["location"], f"does not lead back to the IR: {event}")
            expect(event["ts"] + event["dur"] <= head["seconds"] * 1e6 * 1.001 + 1, f"after the end: {event}")
            slices.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
        else:
            (starts if event["ph"] == "s" else finishes)[event["id"]] = event
    expect(all(("process_name", rank) in named for rank in range(ranks)), "a rank has no name")
    for track in slices.values():
        track.sort()
        for (begin, length), (after, _) in zip(track, track[1:]):
            expect(begin + length <= after + 0.01, f"commands of a stream overlap: {begin} + {length} > {after}")
    expect(starts.keys() == finishes.keys(), "an arrow without an end")
    for number, start in starts.items():
        for event in (start, finishes[number]):
            inside = any(
                begin - 0.01 <= event["ts"] <= begin + length + 0.01
                for begin, length in slices[event["pid"], event["tid"]]
            )
            expect(inside, f"an arrow that binds to no slice: {event}")
    return trace


def covered(slices, category):
    """The times, as disjoint intervals in order, that the slices of a category cover."""
    intervals = []
    # To wait for a signal is part of a message.
    categories = [("communication" if s["args"]["kind"] == "wait_signal" else s["cat"], s) for s in slices]
    for begin, end in sorted((s["ts"], s["ts"] + s["dur"]) for found, s in categories if found == category):
        if intervals and begin <= intervals[-1][1]:
            intervals[-1][1] = max(intervals[-1][1], end)
        else:
            intervals.append([begin, end])
    return intervals


def exposed(slices):
    """Microseconds in which there is communication and no computation, and their number."""
    compute = covered(slices, "compute")
    total, pieces = 0.0, 0
    for begin, end in covered(slices, "communication"):
        hidden = [(max(begin, a), min(end, b)) for a, b in compute if a < end and b > begin]
        total += end - begin - sum(b - a for a, b in hidden)
        pieces += len(hidden) + 1
    return total, pieces


def check_exposed(trace, path, ranks):
    """What is underlined in the picture, which draws all ranks, is what the trace says."""
    root = ET.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    colour = next(t.get("fill") for t in root.iter(space + "text") if (t.text or "").endswith("% exposed"))
    lines = [float(box.get("width")) for box in root.iter(space + "rect")
             if box.get("fill") == colour and box.get("height") == "2.5"]
    texts = [int(t.text.split()[0]) for t in root.iter(space + "text") if re.fullmatch(r"\d+ % exposed", t.text or "")]
    seconds, plot = trace["tandem"]["seconds"], 960
    wanted, pieces = 0.0, 0
    for rank in range(ranks):
        slices = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == rank]
        time, count = exposed(slices)
        wanted, pieces = wanted + time, pieces + count
        end = max((s["ts"] + s["dur"] for s in slices), default=0) # 0: of a rank without commands
        part = 100 * time / end if end else 0
        expect(abs(texts[rank] - part) <= 1.5, f"rank {rank}: {texts[rank]} % of {time} in {end} us")
    wanted *= plot / (seconds * 1e6)
    # Pieces under a tenth of a unit are not drawn, and the trace is rounded to nanoseconds.
    expect(abs(sum(lines) - wanted) <= 0.15 * pieces + 0.01 * wanted, f"underlined {sum(lines)}, exposed {wanted}")
    expect(wanted < 1 or lines, "nothing is underlined")


def check_svg(path, ranks):
    root = ET.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    expect(root.tag == space + "svg", f"root is {root.tag}")
    width, height = float(root.get("width")), float(root.get("height"))
    texts = [text.text for text in root.iter(space + "text")]
    for rank in range(ranks):
        expect(f"rank {rank}" in texts, f"rank {rank} is not in the picture")
    for legend in ("compute", "communication", "exposed communication"):
        expect(legend in texts, f"no legend for {legend}")
    expect(any(text and text.startswith("time, ") for text in texts), "the axis has no unit")
    for box in root.iter(space + "rect"):
        x, y = float(box.get("x", 0)), float(box.get("y", 0))
        expect(x >= 0 and x + float(box.get("width")) <= width + 1, "a shape lies outside")
        expect(y >= 0 and y + float(box.get("height")) <= height, "a shape lies outside")


def check_report(path, ranks):
    with open(path) as file:
        report = json.load(file)
    keys = ("program", "machine", "ranks", "commands", "seconds", "sequential_seconds", "speedup", "slowest_rank",
            "exposed_seconds", "utilisation", "critical_path", "per_rank")
    for key in keys:
        expect(key in report, f"the report lacks {key}")
    expect(len(report["per_rank"]) == ranks, "a rank is missing in the report")
    for rank in report["per_rank"]:
        expect(abs(sum(rank["path"].values()) - rank["seconds"]) < 1e-9, f"the path is not the whole time: {rank}")
    steps = report["critical_path"]
    expect(steps and all(a["end"] <= b["begin"] + 1e-12 for a, b in zip(steps, steps[1:])), "the path is not in order")
    expect(all(0 <= engine["average"] <= engine["most"] + 1e-9 <= 1 + 1e-6 for engine in report["utilisation"]),
           "an engine is used more than wholly")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("svg")
    parser.add_argument("report", nargs="?")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--location", required=True)
    args = parser.parse_args()
    trace = check_trace(args.trace, args.ranks, args.location)
    check_svg(args.svg, args.ranks)
    check_exposed(trace, args.svg, args.ranks)
    if args.report:
        check_report(args.report, args.ranks)


if __name__ == "__main__":
    main()
