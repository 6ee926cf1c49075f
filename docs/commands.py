#!/usr/bin/env python3
# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints docs/reference/StreamCommands.md: the kinds of commands, from include/tandem/Program/Commands.def and the comments of
lib/Program/stream_program.fbs.

  commands.py
"""

import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROW = re.compile(r"^TANDEM_COMMAND\((.*)\)$", re.M)
NEEDS = {"None": "", "OneSided": "one_sided", "TwoSided": "two_sided", "Collectives": "collectives"}
SYNC = {"None": "", "Record": "streams", "Wait": "streams"}
ENGINES = {"None": "none", "Copy": "copy engine", "Sm": "SMs", "Wait": "SMs, waiting", "Channel": "library's kernels", "Fused": "one kernel"}
#: Engines whose work ends only when other ranks have done theirs; a message has its group's.
WAIT = ("Wait", "Channel", "Fused")
PARTS = {"None": "", "Gated": "gated_matmul", "Exchange": "fused_exchange", "Both": "gated_matmul, fused_exchange", "Group": "group"}
HEAD = """<!-- Made by docs/commands.py; edit include/tandem/Program/Commands.def or lib/Program/stream_program.fbs. -->
# Commands

The kinds of commands of a [stream program](../architecture.md#the-hostir-dialect), from `include/tandem/Program/Commands.def`. Verifier, printer,
checker, simulator, timeline and runtime read the same table. [Add a kind of command](../contribute.md#add-a-kind-of-command)
says how to extend it.

| column | says |
|---|---|
| operands | `w` is written, `r` read, `u` both, `p` written in the memory of the peer; a capital letter may be missing; `*` is a list |
| channel | the capability that its channel needs |
| orders | streams of its rank, by events, or ranks |
| waits | whether it may wait for other ranks |
| computes | whether it makes new values on this rank |
| runs on | what runs it on a GPU |
| cost | the line of a [machine file](../simulator.md#machine-files) with its fixed costs |
| part of | the commands that it may be a part of |

| command | operands | channel | orders | waits | computes | runs on | cost | part of |
|---|---|---|---|---|---|---|---|---|"""


def read(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


def yes(condition):
    return "yes" if condition else ""


def meanings():
    """The schema's comment of each kind. Kinds without one share that of the next ones above."""
    found, comment = {}, []
    body = re.search(r"enum CommandKind : ubyte \{(.*?)\n\}", read("lib/Program/stream_program.fbs"), re.S)[1]
    last = ""
    for line in body.strip().splitlines():
        line = line.strip()
        if line.startswith("//"):
            comment.append(line[2:].strip())
            continue
        last, comment = "\n".join(comment) or last, []
        found[re.match(r"\w+", line)[0]] = last
    return found


def main():
    rows = [[cell.strip().strip('"') for cell in row.split(",", 11)] for row in ROW.findall(read("include/tandem/Program/Commands.def"))]
    print(HEAD)
    for _, name, operands, _, needs, sync, _, computes, engine, cost, part, _ in rows:
        orders = SYNC.get(sync, "ranks")
        cells = (f"[`{name}`](#{name})", operands and f"`{operands}`", NEEDS[needs], orders, yes(engine in WAIT or part == "Group"),
                 yes(computes == "true"), ENGINES[engine], cost, PARTS[part])
        print("|", " | ".join(cells), "|")
    meaning = meanings()
    for _, name, *_, text in rows:
        print(f"\n## {name}\n\n```text\n{meaning[name]}\n```\n\nPrinted as `{name}{text}`.")


main()
