# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports: the JSON of a run, its table, and the goals for its numbers (docs/benchmarking.md)."""

import json
import math
import os
import statistics

from .shapes import OPS, Case, Usage

_VERSION = 2
PARTS = ("matmul", "communication")


def quantiles(values):
    """Median, p10 and p90."""
    values = sorted(values)

    def at(part):
        place = part * (len(values) - 1)
        below = int(place)
        return values[below] + (values[min(below + 1, len(values) - 1)] - values[below]) * (place - below)

    return at(.5), at(.1), at(.9)


def entry_of(arm):
    """A measurement of an arm."""
    entry = {"what": arm.what, "role": arm.role, "mode": arm.mode}
    if not arm.seconds:
        return {**entry, "refused": arm.refused, **({"failure": arm.failure} if arm.failure else {})}
    times = [seconds * 1e6 for seconds in arm.seconds]
    entry["median_us"], entry["p10_us"], entry["p90_us"] = quantiles(times)
    return {**entry, "times_us": times, "host_us": quantiles(arm.host)[0] * 1e6, "hosts_us": [s * 1e6 for s in arm.host],
            "late_us": arm.late * 1e6, "verified": arm.is_verified, "failure": arm.failure,
            "max_relative_error": arm.error if arm.error is not None and math.isfinite(arm.error) else None}


def row_of(case, ranks, link, arms, predict):
    """A case with what was measured. `link`: bytes a second or None; `predict(arm)`: (seconds or None, why not)."""
    row = {**case._asdict(), "flops": case.flops, "bytes": case.bytes_received(ranks), "limit_us": {},
           "measurements": [entry_of(arm) for arm in arms]}
    for arm, entry in zip(arms, row["measurements"]):
        if "median_us" not in entry or arm.what.startswith("torch"):
            continue
        seconds, why = predict(arm)
        if seconds:
            entry.update(predicted_us=seconds * 1e6, prediction_error=seconds * 1e6 / entry["median_us"] - 1)
        elif why:
            entry["unpredicted"] = why
    for mode in dict.fromkeys(entry["mode"] for entry in row["measurements"]):
        mine = {entry["what"]: entry for entry in row["measurements"] if entry["mode"] == mode and "median_us" in entry}
        matmul, sequence = (mine.get(what, {}).get("median_us") for what in ("matmul", "sequence"))
        row["limit_us"][mode] = limit = max(matmul, row["bytes"] / link * 1e6) if link and matmul else None
        for entry in mine.values():
            entry["ratio_to_sequence"] = sequence / entry["median_us"] if sequence else None
            entry["ratio_to_limit"] = entry["median_us"] / limit if limit else None
        if "predicted_us" in mine.get("auto", {}):  # a program is simulated alike, to the last bit
            same = [what for what, entry in mine.items() if what not in ("auto", *PARTS)
                    and entry.get("predicted_us") == mine["auto"]["predicted_us"]]
            if same:
                mine["auto"]["same_as"] = same[0]
    return row


def is_measured(entry):
    return bool(entry.get("median_us")) and not entry.get("failure")


def arms_of(row):
    """Measurements by name, in graphs if `auto` was measured there, and that mode. Of torch's modes the faster one counts."""
    found = [entry for entry in row["measurements"] if is_measured(entry)]
    mode = next((mode for mode in ("graph", "eager") if any((e["what"], e["mode"]) == ("auto", mode) for e in found)), None)
    arms = {}
    for entry in sorted(found, key=lambda one: one["median_us"]):
        if entry["mode"] == mode or entry["what"].startswith("torch"):
            arms.setdefault(entry["what"], entry)
    return arms, mode


def pooled_auto(arms):
    """Median and prediction error of `auto`. Where it is the program of another arm, of the times of both."""
    auto, same = arms["auto"], arms.get(arms["auto"].get("same_as"))
    us = statistics.median(auto["times_us"] + same["times_us"]) if same else auto["median_us"]
    return us, auto["predicted_us"] / us - 1 if "predicted_us" in auto else None


# --- the table ---


def ms(us):
    value = us / 1e3
    return f"{value:.{3 if value < 10 else 2 if value < 100 else 1}f}"


def ratio(value):
    return "-" if value is None else f"{value:.2f}"


def head(report):
    link = report["link"]
    rate = f"{link['bytes_per_second'] / 1e9:.2f} GB/s" if link["bytes_per_second"] else "not known"
    return (f"{report['ranks']} ranks, device {report['device']}, channel {report['channel']}; {report['description']}"
            f"{'; torch ' + report['torch']['torch'] if report['torch'] else ''}; {report['iterations']} rounds, {report['sets']} sets\n"
            f"link: {rate} ({link['source']})\nms, slowest rank; \"x seq\": the sequence's median over this one's (more is faster); "
            '"/ limit": over max(matmul, bytes / link)\n')


def table_row(row):
    form = "  {:<24} {:<6} {:>8} {:>8} {:>8} {:>7} {:>7} {:>8} {:>9} {:>6}  {}\n"
    case = Case(*(row[name] for name in Case._fields))
    text = f"\n{case} ({OPS[case.op]}, {row['flops'] / 1e9:.3g} GFLOP, {row['bytes'] / 1e6:.3g} MB to receive)\n"
    text += form.format("what", "mode", "median", "p10", "p90", "x seq", "/ limit", "host us", "predicted", "error", "result")
    for m in row["measurements"]:
        if "median_us" not in m:
            why = f"FAILED: {m['failure']}" if m.get("failure") else f"refused: {m['refused'][:90]}"
            text += f"  {m['what']:<24} {m['mode']:<6} {why}\n"
            continue
        result = f"WRONG: {m['failure']}" if m["failure"] else f"verified, {m['max_relative_error']:.1e}" if m["verified"] else "not verified"
        result += f", is {m['same_as']}" if "same_as" in m else ""
        error = f"{100 * m['prediction_error']:+.0f} %" if "prediction_error" in m else "-"
        text += form.format(m["what"], m["mode"], ms(m["median_us"]), ms(m["p10_us"]), ms(m["p90_us"]), ratio(m.get("ratio_to_sequence")),
                            ratio(m.get("ratio_to_limit")), f"{m['host_us']:.1f}",
                            ms(m["predicted_us"]) if "predicted_us" in m else "-", error, result)
    return text


def name(row):
    return str(Case(*(row[field] for field in Case._fields)))


def wrong(report):
    return [f"{name(row)}, {m['what']}, {m['mode']}: {m['failure']}" for row in report["rows"] for m in row["measurements"] if m.get("failure")]


def slower(report, percent):
    """Cases in which `auto` is slower than the baseline by more, and those that cannot be compared."""
    found, lacking = [], []
    for row in report["rows"]:
        arms, mode = arms_of(row)
        if "auto" not in arms or "sequence" not in arms:
            lacking.append(name(row))
        elif arms["auto"].get("same_as") != "sequence":
            by = 100 * (arms["auto"]["median_us"] / arms["sequence"]["median_us"] - 1)
            found += [f"{name(row)}, {mode}: {by:.1f} %"] if by > percent else []
    return found, lacking


def end(report, percent):
    """The lines after the table, and the exit status. `percent`: of --fail-if-slower, or None."""
    errors = [abs(m["prediction_error"]) for row in report["rows"] for m in row["measurements"] if "prediction_error" in m]
    report["median_prediction_error"] = statistics.median(errors) if errors else None
    lines = [f"predictions on {report['machine']}: median error {100 * statistics.median(errors):.1f} %"] if errors else []
    found, lacking = slower(report, 2 if percent is None else percent)
    lines += [f"slower than the sequence: auto, {line}" for line in found]
    lines += [f"not compared with the sequence: auto, {line}" for line in lacking] if percent is not None else []
    bad = wrong(report)
    lines += [f"WRONG: {line}" for line in bad]
    nothing = bool(report["rows"]) and not any("median_us" in m for row in report["rows"] for m in row["measurements"])
    lines += ["nothing could be run: all programs were refused"] if nothing else []
    lines += [f"not measured: {line}" for line in report["not_measured"]]
    lines += [f"FAILED: {report['failure']}"] if report["failure"] else []
    status = 1 if bad or nothing or report["failure"] else 4 if report["not_measured"] else 0
    return "\n".join(lines), 3 if status == 0 and percent is not None and (found or lacking) else status


# --- goals ---


def geometric(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def judge(reports, most_loss=3.0, most_error=5.0, of_baseline=0.99, of_torch=1.0):
    """A line for each case, then the counts; whether all goals are met: `auto` loses at most `most_loss` % to the best measured schedule,
    is predicted with a median error of at most `most_error` %, and is at least so many times as fast as the baseline and torch."""
    lines, losses, errors, gains, torch, lacking = [], [], [], [], [], 0
    for row in (row for report in reports for row in report["rows"]):
        arms, mode = arms_of(row)
        others = {what: arm["median_us"] for what, arm in arms.items() if what not in ("auto", *PARTS) and not what.startswith("torch")}
        if "auto" not in arms or not others:
            lacking += 1
            continue
        us, error = pooled_auto(arms)
        same = arms["auto"].get("same_as")
        if same in others:
            others[same] = us
        best = min(others, key=lambda one: others[one])
        losses.append(100 * (us / others[best] - 1))
        line = f"{name(row)}: auto {us:.1f} us{f' (is {same})' if same else ''}, best {best} {others[best]:.1f} us, loss {losses[-1]:+.1f} %"
        behind = []
        if "sequence" in others:
            gains.append(others["sequence"] / us)
            line += f", {gains[-1]:.2f} x sequence"
            behind += ["sequence"] if gains[-1] < of_baseline else []
        limit = row["limit_us"].get(mode)
        line += f", {us / limit:.2f} of the limit" if limit else ""
        if "torch fused" in arms:
            torch.append(arms["torch fused"]["median_us"] / us)
            line += f", {torch[-1]:.2f} x torch fused"
            behind += ["torch fused"] if torch[-1] < of_torch else []
        if error is not None:
            errors.append(100 * abs(error))
            line += f", predicted {100 * error:+.1f} %"
        lines.append(line + "".join(f", BEHIND {one}" for one in behind))
    if not losses:
        return ["auto was not measured next to another schedule in any case"], False
    slow = sum(loss > most_loss for loss in losses)
    lines.append(f"{len(losses)} cases: {slow} lose more than {most_loss:g} %, the most {max(losses):+.1f} %"
                 + (f"; median prediction error {statistics.median(errors):.1f} %" if errors else ""))
    for what, values, least in (("sequence", gains, of_baseline), ("torch fused", torch, of_torch)):
        if values:
            lines.append(f"auto over {what}: {len(values)} cases, {geometric(values):.3f} x (geometric mean), least {min(values):.3f}, "
                         f"below {least:.2f} in {sum(value < least for value in values)}")
    left = sum(len(report["not_measured"]) for report in reports)
    lines += [f"without a time of auto or of another schedule: {lacking} cases"] if lacking else []
    lines += [f"not measured: {left} cases"] if left else []
    good = slow == 0 and not lacking and not left and (not errors or statistics.median(errors) <= most_error)
    return lines, good and all(g >= of_baseline for g in gains) and all(t >= of_torch for t in torch)


# --- files ---


def read(path):
    """A report. Raises Usage."""
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        if report["tandem_bench"] != _VERSION or not isinstance(report["rows"], list):
            raise ValueError(f"tandem_bench: expected version {_VERSION}")
        return report
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Usage(f"{path}: expected a report of tandem.bench --json: {error!r}") from None


def write(path, text):
    """Replaces the file atomically."""
    with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.{os.getpid()}", path)


def new(ranks, options, context, clocks, torch):
    """A report without rows. `clocks`: of the GPUs of all ranks, before the run."""
    return {"tandem_bench": _VERSION, "ranks": ranks.size, "device": context.device.split(":")[0], "channel": context.channels,
            "target": options.target, "machine": options.machine, "description": context.description, "versions": options.versions,
            "torch": torch.versions if torch else None, "gpu": torch.versions["gpu"] if torch else "", "clocks": {"before": clocks},
            **{key: getattr(options, key) for key in ("iterations", "warmup", "sets", "batch", "seed", "command")}, "gap_ms": options.gap,
            "order": "turns_of(round, arms that were not refused, sets)", "link": {"bytes_per_second": None, "source": "nothing was measured"},
            "rows": [], "median_prediction_error": None, "not_measured": [], "failure": ""}
