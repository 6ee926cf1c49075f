# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measurements in docs/measured: cases of reports of `python -m tandem.bench --json`, and ratios of their times.

In a case `arms` has a time for each program: `sequence` (the collective, then the matmul, by Tandem), `torch sequence` (the same
by torch), `torch fused` (torch's fused operators), `auto` (the compiler's choice), and others by schedule. A ratio is the time
that another program takes, over that of `auto`: above 1, `auto` is faster."""

import importlib.util
import json
import math
import os
import statistics
import sys

_spec = importlib.util.spec_from_file_location("shapes", os.path.join(os.path.dirname(os.path.abspath(__file__)), *(
    "..", "lib", "Bindings", "Python", "tandem", "bench", "shapes.py")))
shapes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(shapes)
OPS = {"ag": "All-gather, then matmul", "rs": "Matmul, then reduce-scatter", "ar": "Matmul, then all-reduce"}
PARTS = ("sequence", "matmul", "communication", "auto", "torch fused", "torch sequence")
SHOWN_OF_TORCH = ("torch fused", "torch sequence")


# --- cases of a file of measurements ---


def groups(case, ranks):
    known, n, k = (shapes.GATHERS if case["op"] == "ag" else shapes.REDUCTIONS), case["n"], case["k"]
    of_eight = (n * 8 // ranks, k) if case["op"] == "ag" else (n, k * 8 // ranks)
    found = {name for name, shape in (("layer", (n, k)), ("rank", of_eight)) if shape in known}
    return found or {"other"}


def in_group(data, group):
    return [case for case in data["cases"] if group == "all" or group in groups(case, data["ranks"])]


def us(case, arm):
    """The median time. A program that is the same one as the baseline, measured twice, has the baseline's time."""
    found = case["arms"].get(arm, {})
    if found.get("same_as") == "sequence" and "us" in case["arms"].get("sequence", {}):
        found = case["arms"]["sequence"]
    return found.get("us")


def least(case, *arms):
    """The time of the fastest of these programs; None if none was measured."""
    return min((time for time in (us(case, arm) for arm in arms) if time), default=None)


def plain_us(case):
    """The fastest program without overlap."""
    return least(case, "sequence", "torch sequence")


def torch_us(case):
    return least(case, *SHOWN_OF_TORCH)


def over(time, case):
    """`time` over that of `auto`; None without one of them."""
    auto = us(case, "auto")
    return time / auto if time and auto else None


def gain(case):
    return over(plain_us(case), case)


def over_torch(case):
    return over(torch_us(case), case)


def over_fused(case):
    return over(us(case, "torch fused"), case)


def speedup(case, arm):
    """The time of Tandem's baseline over that of the arm."""
    return us(case, "sequence") / us(case, arm) if us(case, "sequence") and us(case, arm) else None


def roofline_us(case, data):
    """The longer of the matmul alone and the bytes that a rank must receive over the rate of the link."""
    if case.get("limit_us"):
        return case["limit_us"]
    rate, matmul = (data.get("link") or {}).get("bytes_per_second"), us(case, "matmul")
    if not rate or not matmul:
        return None
    return max(matmul, 1e6 * shapes.Case(*key(case)).bytes_received(data["ranks"]) / rate)


def share(case, data):
    """Of the roofline: 1 is as fast as it allows."""
    return over(roofline_us(case, data), case)


def shape(case):
    return f"{case['n']} x {case['k']}"


def geometric(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def errors(data, arm="auto"):
    """Of the predicted times."""
    return [abs(found["predicted"] / found["us"] - 1) for found in (case["arms"].get(arm, {}) for case in data["cases"]) if "predicted" in found]


def repeats(data):
    """By how much two measurements of one program differ, where `auto` is the baseline."""
    return [abs(case["arms"]["auto"]["us"] / case["arms"]["sequence"]["us"] - 1) for case in data["cases"]
            if case["arms"].get("auto", {}).get("same_as") == "sequence" and us(case, "sequence")]


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
