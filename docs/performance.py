#!/usr/bin/env python3
# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes measured numbers into the pages: every number comes from a file in docs/measured.

  performance.py [--docs=FOLDER]                        writes docs/measured/*.md, the pictures, and the blocks below
  performance.py --check                                only names what is stale; exit status 1 if anything is
  performance.py --add=NAME [options] REPORT.json...    first makes docs/measured/NAME.json from reports of
                                                        `python -m tandem.bench --json`. If the pages cannot be made of it,
                                                        nothing is written

Each docs/measured/NAME.json becomes a page docs/measured/NAME.md. In README.md and docs/*.md, `<!-- generated: WHAT ... -->` begins
a part that is written anew, up to `<!-- end -->`. WHAT:

  results TOKENS NAME...   ratios of known layers by run, op and number of tokens (TOKENS: 8192,2048)
  stress NAME...           for each run: how many cases are faster and slower than other programs, and the error of predictions
  accuracy NAME...         median errors of predicted times
  losses NAME...           the cases that are more than 1 % slower than the fastest program without overlap
  plot NAME GROUP FILE TOKENS...
                           bars for each case; TOKENS: a column for each
  sorted NAME FILE         a point for each case, by speed-up
  about NAME...            what ran, the date, the commit
  commands NAME            how to measure it again
  table NAME N             the N-th table of a file with tables, and its commands
  value NAME KEY           one number, within a sentence; `value` without a known key lists them
  index                    links to the pages of all runs

GROUP: `layer` (whole layers of known models), `rank` (their matmuls as one rank of eight computes them), `other`, `all`.
A file has either `cases` (docs/measurements.py) or `tables`: a list of {title, text, commands, header, rows, notes}.
"""

import argparse
import datetime
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap

from measurements import (OPS, PARTS, data_of, dump, errors, gain, geometric, in_group, merge, over_fused, over_torch, plain_us,
                          refuse, repeats, roofline_us, shape, share, speedup, us)
from plots import draw, draw_sorted

MARK = re.compile(r"(<!-- generated: (.*?) -->)(.*?)(<!-- end -->)", re.S)
SHORT_OPS = {"ag": "all-gather, matmul", "rs": "matmul, reduce-scatter", "ar": "matmul, all-reduce"}
NOT_RUNS = {"trace-baseline", "trace-push"}  # of docs/pictures.py
NOT_OURS = {"choices.md"}  # of docs/choices.py


# --- parts of pages ---


def wrapped(text, begin=""):
    return textwrap.fill(begin + text, 120, subsequent_indent=" " * len(begin), break_long_words=False, break_on_hyphens=False) + "\n"


def rows_of(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def about(data):
    date = f" {data['date']}" + (f", commit `{data['commit']}`" if data.get("commit") else "") + "." if data.get("date") else ""
    return wrapped(f"{data['about']}.{date}")


def commands(data):
    return "```sh\n" + "\n".join(data["commands"]) + "\n```\n" if data.get("commands") else ""


def notes(data):
    text = "".join(wrapped(note, "- ") for note in data.get("notes", ()))
    if data.get("not_measured"):
        text += wrapped(f"Not measured, time was up: {', '.join(data['not_measured'])}.", "- ")
    return text


def spread(values, form="{:.2f}", factor=1):
    """median (least to most)"""
    values = [factor * value for value in values if value]
    if not values:
        return "-"
    return f"{form.format(statistics.median(values))} ({form.format(min(values))} to {form.format(max(values))})"


def hardware(data):
    return f"{data['ranks']} {data['gpu']}"


def ratios(cases, data):
    return [str(len(cases)), spread(map(gain, cases)), spread(map(over_torch, cases)),
            spread([share(case, data) for case in cases], "{:.0f}", 100)]


RATIOS = ["cases", "over the fastest plain program", "over the best of torch", "% of roofline"]


def results(data, tokens, group="rank"):
    """A row for each op and number of tokens, as `(tokens, row)`."""
    found = []
    for count in tokens:
        for op, name in SHORT_OPS.items():
            cases = [case for case in in_group(data, group) if case["op"] == op and case["m"] == count and gain(case)]
            if cases:
                found.append([hardware(data), name, str(count), *ratios(cases, data)])
    return found


def results_of(runs, tokens):
    return rows_of(["hardware", "op", "tokens", *RATIOS], [row for data in runs for row in results(data, tokens)])


def stress(runs):
    rows = []
    for data in runs:
        for group, name in (("rank", "layers of known models"), ("other", "random shapes")):
            cases = [case for case in in_group(data, group) if gain(case)]
            if not cases:
                continue
            gains, torch = list(map(gain, cases)), [value for value in map(over_torch, cases) if value]
            rows.append([hardware(data), name, str(len(cases)), f"{geometric(gains):.2f}", str(sum(value > 1.01 for value in gains)),
                         str(sum(value < 0.99 for value in gains)), f"{min(gains):.2f}", f"{sum(value < 0.99 for value in torch)} of {len(torch)}",
                         f"{100 * statistics.median(errors({'cases': cases})):.1f} %" if errors({"cases": cases}) else "-"])
    return rows_of(["hardware", "cases", "number", "mean speed-up", "faster by over 1 %", "slower by over 1 %", "worst",
                    "slower than the best of torch by over 1 %", "error of predictions"], rows)


def losses(runs):
    rows = []
    for data in runs:
        for case in sorted((case for case in data["cases"] if (gain(case) or 1) < 0.99), key=gain):
            same = case["arms"]["auto"].get("same_as") == "sequence"
            rows.append([hardware(data), case["op"], f"{case['m']} x {shape(case)}", f"{us(case, 'auto'):.0f}", f"{plain_us(case):.0f}",
                         f"{gain(case):.2f}", "Tandem's baseline" if same else "an overlapped program"])
    return rows_of(["hardware", "op", "M x N x K", "`auto`, us", "fastest plain, us", "ratio", "`auto` is"], rows)


def accuracy(runs):
    arms = (("`auto`", "auto"), ("baseline", "sequence"), ("matmul alone", "matmul"), ("collective alone", "communication"))
    cells = [[f"{100 * statistics.median(errors(data, arm)):.1f} %" if errors(data, arm) else "-" for _, arm in arms] for data in runs]
    return rows_of(["hardware", "cases", *(name for name, _ in arms)],
                   [[hardware(data), str(len(data["cases"])), *row] for data, row in zip(runs, cells)])


def ms(value):
    return f"{value / 1000:.3f}" if value else None


def two(value):
    return f"{value:.2f}" if value else None


def percent(value):
    return f"{100 * value:.0f} %" if value else None


def percentiles(case):
    arm = case["arms"].get("auto", {})
    return f"{ms(arm['p10'])} to {ms(arm['p90'])}" if "p10" in arm and "p90" in arm else None


def table(data):
    """A row for each case; columns without a number are left out."""
    others = list(dict.fromkeys(arm for case in data["cases"] for arm in case["arms"] if arm not in PARTS))
    columns = [("op", lambda c: c["op"]), ("tokens", lambda c: str(c["m"])), ("N x K", shape),
               ("dtype", lambda c: c["dtype"] if c["dtype"] != "bf16" else None),
               ("matmul", lambda c: ms(us(c, "matmul"))), ("communication", lambda c: ms(us(c, "communication"))),
               ("roofline", lambda c: ms(roofline_us(c, data))), ("baseline", lambda c: ms(us(c, "sequence"))),
               ("torch plain", lambda c: ms(us(c, "torch sequence"))), ("torch fused", lambda c: ms(us(c, "torch fused"))),
               ("`auto`", lambda c: ms(us(c, "auto"))), ("`auto`, p10 to p90", percentiles),
               ("plain / `auto`", lambda c: two(gain(c))), ("torch / `auto`", lambda c: two(over_torch(c))),
               ("% of roofline", lambda c: percent(share(c, data)))]
    columns += [(f"baseline / `{arm}`", lambda c, arm=arm: two(speedup(c, arm))) for arm in others]
    columns = [(name, cell) for name, cell in columns if any(cell(case) is not None for case in data["cases"])]
    cases = sorted(data["cases"], key=lambda case: (list(OPS).index(case["op"]), -case["m"], case["n"], case["k"], case["dtype"]))
    return rows_of([name for name, _ in columns], [[cell(case) or "" for _, cell in columns] for case in cases])


def tables(data, numbers=None):
    """Those of a file that has no cases."""
    text = ""
    for number, found in enumerate(data["tables"]):
        if numbers is not None and number not in numbers:
            continue
        parts = [f"## {found['title']}\n" if numbers is None else "", wrapped(found["text"]) if found.get("text") else "", commands(found),
                 rows_of(found["header"], found["rows"]), notes(found)]
        text += "\n".join(part for part in parts if part) + "\n"
    return text.rstrip("\n") + "\n"


def values(data):
    """Numbers of one run, for sentences."""
    if "cases" not in data:
        return {}
    known, gains, torch, fused = in_group(data, "rank"), list(filter(None, map(gain, data["cases"]))), \
        list(filter(None, map(over_torch, data["cases"]))), list(filter(None, map(over_fused, data["cases"])))
    found = {"cases": len(gains), "known": len(known), "slower": sum(value < 0.99 for value in gains), "torch-cases": len(torch),
             "torch-faster": sum(value < 0.99 for value in torch), "fused-cases": len(fused), "fused-faster": sum(value < 1 for value in fused)}
    if known:
        found["known-worst"] = two(min(filter(None, map(gain, known))))
        found["known-slower"] = sum(value < 0.99 for value in map(gain, known) if value)
        found["known-torch-slower"] = sum(value < 0.99 for value in map(over_torch, known) if value)
    if gains:
        found["worst"] = two(min(gains))
    for name, ratio in (("gain", gain), ("torch", over_torch)):
        by_tokens = [ratio(case) for case in known if case["m"] == 8192 and case["op"] != "ar" and ratio(case)]
        if by_tokens:
            found[f"{name}-8192"] = two(statistics.median(by_tokens))
    if fused:
        found["fused"] = two(statistics.median(fused))
    if errors(data):
        found["error"] = f"{100 * statistics.median(errors(data)):.1f} %"
    if repeats(data):
        found["repeats"], found["noise"] = len(repeats(data)), f"{100 * statistics.median(repeats(data)):.1f} %"
        found["noise-most"] = f"{100 * max(repeats(data)):.0f} %"
    plain = [us(case, "torch sequence") / us(case, "sequence") for case in data["cases"] if us(case, "torch sequence") and us(case, "sequence")]
    if plain:
        found["plain-cases"], found["torch-plain-faster"] = len(plain), sum(value < 0.9 for value in plain)
        found["torch-plain"] = two(statistics.median(plain))
    return {name: str(value) for name, value in found.items()}


def title(data):
    return data.get("title") or f"{len(data['cases'])} cases on {hardware(data)}"


def page_of(name, data):
    """docs/measured/NAME.md"""
    text = f"# {title(data)}\n\nGenerated from [{name}.json]({name}.json) by `docs/performance.py`. "
    text += "[Performance](../performance.md) says what the columns mean.\n\n"
    if "tables" in data:
        return text + (about(data) + "\n" if data.get("about") else "") + tables(data)
    tokens = sorted({case["m"] for case in in_group(data, "rank")}, reverse=True)
    parts = [about(data), commands(data)]
    rows = results(data, tokens)
    parts.append("## Layers of known models\n\nMedian (least to most):\n\n" + rows_of(["hardware", "op", "tokens", *RATIOS], rows) if rows else "")
    parts.append("## All cases\n\nTimes in ms; N and K are those of all ranks.\n\n" + table(data))
    parts.append("## Notes\n\n" + notes(data) if notes(data) else "")
    return text + "\n".join(part for part in parts if part)


# --- pages ---


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Pages:
    """What should be in the files, by path. Pictures are drawn into `images`. `data`: that of each run."""

    def __init__(self, docs, images, data):
        self.docs, self.images, self.data, self.wanted = docs, images, data, {}

    def run(self, page, name):
        if name not in self.data:
            refuse(f"{page}: no file measured/{name}.json")
        return self.data[name]

    def part(self, page, what):
        root = "" if page != "README.md" else "docs/"
        kind, *words = what.split()
        if kind == "results":
            tokens, *names = words
            return results_of([self.run(page, name) for name in names], [int(count) for count in tokens.split(",")])
        if kind == "about":
            return "".join(wrapped(about(self.run(page, name)).replace("\n", " ").rstrip(), "- ") for name in words)
        if kind in ("stress", "losses", "accuracy"):
            return {"stress": stress, "losses": losses, "accuracy": accuracy}[kind]([self.run(page, name) for name in words])
        if kind == "index":
            return "".join(f"- [{title(data)}]({root}measured/{name}.md)" + (f", {data['date']}" if data.get("date") else "") + "\n"
                           for name, data in sorted(self.data.items()))
        data = self.run(page, words[0])
        if kind in ("plot", "sorted"):
            file = words[-1] if kind == "sorted" else words[2]
            path = os.path.join(self.images, file)
            alt = draw_sorted(data, path) if kind == "sorted" else draw(data, words[1], [int(count) for count in words[3:]], path)
            self.wanted[os.path.join(self.docs, "images", file)] = read(path)
            return f"![{alt}]({root}images/{file})\n"
        if kind == "value":
            found = values(data)
            if words[-1] not in found:
                refuse(f"{page}: value {words[0]}: expected one of {' '.join(found)}, found {words[-1]}")
            return found[words[-1]]
        if kind == "table":
            return (about(data) + "\n" if data.get("about") else "") + tables(data, [int(words[1])])
        if kind == "commands":
            return commands(data)
        return refuse(f"{page}: generated: {what}: no such part")

    def fill(self, page, text):
        def replace(match):
            begin, what, old, end = match.groups()
            made = self.part(page, what)
            return begin + (f"\n\n{made}\n" if old.startswith("\n") else made) + end
        return MARK.sub(replace, text)

    def make(self):
        pages = sorted(glob.glob("*.md", root_dir=self.docs))
        readme = os.path.join(os.path.dirname(self.docs), "README.md")
        for name in pages:
            self.wanted[os.path.join(self.docs, name)] = self.fill(name, read(os.path.join(self.docs, name)))
        if os.path.isfile(readme):
            self.wanted[readme] = self.fill("README.md", read(readme))
        for name, data in self.data.items():
            self.wanted[os.path.join(self.docs, "measured", name + ".md")] = page_of(name, data)
        return self.wanted


def load(docs, added):
    data = {os.path.basename(path)[:-len(".json")]: path for path in glob.glob(os.path.join(docs, "measured", "*.json"))}
    return {**{name: json.loads(read(path)) for name, path in sorted(data.items()) if name not in NOT_RUNS}, **added}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", metavar="REPORT")
    parser.add_argument("--add", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--docs", default=here, metavar="FOLDER", help="with pages, measured and images")
    parser.add_argument("--about", help="what ran: GPUs, links, versions; default: what the reports say")
    parser.add_argument("--gpu", help="its name in the pictures; default: what the report says")
    parser.add_argument("--date", default=str(datetime.date.today()))
    parser.add_argument("--commit", help="of the build that was measured; default: HEAD")
    arguments = parser.parse_args()
    if bool(arguments.add) != bool(arguments.reports):
        parser.error("--add: expected reports of tandem.bench")
    docs, added = arguments.docs.rstrip("/"), {}
    if arguments.add:
        if not re.fullmatch(r"[\w.-]+", arguments.add):
            parser.error(f"--add: expected a name, found {arguments.add}")
        if not arguments.commit:
            arguments.commit = subprocess.run(["git", "-C", here, "rev-parse", "--short=8", "HEAD"], check=True, capture_output=True,
                                              text=True).stdout.strip()
        data = data_of(merge(arguments.reports), arguments.about, arguments.gpu, arguments.date, arguments.commit)
        added[arguments.add] = json.loads(dump(data))
    with tempfile.TemporaryDirectory() as scratch:
        data = load(docs, added)
        wanted = Pages(docs, scratch, data).make()
    for name in added:
        wanted[os.path.join(docs, "measured", name + ".json")] = dump(added[name])
    stale = []
    for path, text in wanted.items():
        if not os.path.isfile(path) or read(path) != text:
            stale.append(os.path.relpath(path, os.path.dirname(docs)))
            if not arguments.check:
                write(path, text)
    for path in glob.glob(os.path.join(docs, "measured", "*.md")):
        if path not in wanted and os.path.basename(path) not in NOT_OURS:
            stale.append(os.path.relpath(path, os.path.dirname(docs)))
            if not arguments.check:
                os.remove(path)
    if arguments.check and stale:
        sys.exit("".join(f"{path} differs from docs/measured: run docs/performance.py\n" for path in stale).rstrip())
    print("\n".join(f"{'stale' if arguments.check else 'written'}: {path}" for path in stale) or "nothing has changed")


if __name__ == "__main__":
    main()
