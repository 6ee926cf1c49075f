# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a lowered program may look like: how many loops it has, and how much it communicates.

Both are upper bounds that follow from the axes alone, by the definitions of docs/fusion.md and nothing of the compiler.
"""

import glob
import math
import os
import re

import numpy as np

MESH = r'#tandem\.mesh<"\w*", \[(?P<axes>[^\]]*)\](?:, devices = \[(?P<devices>[^\]]*)\])?>'
TYPE = rf'tensor<(?P<shape>(?:\d+x)*)(?P<dtype>\w+), #fusion\.axes<{MESH}, \[(?P<dims>[^\]]*)\](?P<partial>, partial = [^>]*)?>>'

WORK = re.compile(r"\bhostir\.(copy|collective|group|send|recv|matmul|accumulate|reduce|launch)\b")


def snapshot(folder, name):
    """The text after a pass, of the last run of it."""
    paths = sorted(glob.glob(os.path.join(folder, f"*-{name}.mlir")))
    with open(paths[-1]) as file:
        return file.read()


def entry(text):
    """The lines of the function that is not the reference."""
    lines, inside = [], False
    for line in text.splitlines():
        if re.match(r" *(func\.func|hostir\.program) ", line):
            inside = "__reference" not in line
        if inside:
            lines.append(line)
    return lines


def loops(folder):
    """Stream loops: those that have commands on worker streams. (There are loops of syncs around them, too.)"""
    count, within, works, workers = 0, None, False, False
    for line in entry(snapshot(folder, "convert-fusion-to-hostir")):
        indent = len(line) - len(line.lstrip())
        if within is not None:
            works, workers = works or bool(WORK.search(line)), workers or "hostir.worker_stream" in line
            if indent == within and line.strip().startswith("}"):
                count, within = count + (works and workers), None
        elif re.search(r"\bscf\.for\b", line):
            within, works, workers = indent, False, False
    return count


def parts(program):
    """How many sets of ops of a program have no value in common but arguments (and the values of constants)."""
    ops = [op for op in program.ops if op.kind != "constant"]
    leader = {op.result.name: op.result.name for op in ops}

    def find(name):
        while leader[name] != name:
            name = leader[name]
        return name

    for op in ops:
        for name in op.operands:
            if name in leader:
                leader[find(name)] = find(op.result.name)
    return len({find(op.result.name) for op in ops})


def held(match):
    """rank -> which elements it holds or needs (booleans of the logical shape), of a match of TYPE."""
    shape = [int(n) for n in match["shape"].split("x") if n]
    axes = re.findall(r'"(\w+)" = (\d+)', match["axes"])
    sizes = [int(size) for _, size in axes]
    ranks = [int(r) for r in match["devices"].split(",")] if match["devices"] else range(math.prod(sizes))
    # Per dimension: (mesh axis, weight) of its device digits.
    digits = []
    for extent, dim in zip(shape, match["dims"].split(",") if shape else []):
        weight, found = extent, []
        for word in filter(lambda w: w.strip() != "-", dim.split("*")):
            kind, what = re.match(r'\s*(\w+)(?:\("?(\w+)"?\))?\s*$', word).groups()
            if kind == "didx":
                size = sizes[[name for name, _ in axes].index(what)]
                weight //= size
                found.append((what, weight, size))
            else:
                weight = -(-weight // int(what)) if what else 1
        digits.append(found)
    result = {}
    for rank, coordinates in zip(ranks, np.ndindex(*sizes)):
        place = dict(zip((name for name, _ in axes), coordinates))
        mask = np.ones(shape, bool)
        for d, found in enumerate(digits):
            for axis, weight, size in found:
                index = np.arange(shape[d]).reshape([-1 if i == d else 1 for i in range(len(shape))])
                mask = mask & (index // weight % size == place[axis])
        result[rank] = mask
    return result


def needed(line):
    """How many elements all ranks together may receive for a reshard, at most."""
    source, target = re.finditer(TYPE, line)
    before, after = held(source), held(target)
    if source["partial"] and source["partial"] != target["partial"]:
        terms = np.sum(list(before.values()), axis=0).max(initial=1)
        return int(2 * terms * sum(mask.sum() for mask in (before | after).values()) + terms * len(before))
    nothing = np.zeros_like(next(iter(before.values())))
    count = int(sum((mask & ~before.get(rank, nothing)).sum() for rank, mask in after.items()))
    # To one device or from it, pieces go through a tree.
    return count * len(before | after).bit_length() if 1 in (len(before), len(after)) else count


def received(dump):
    """Elements that all ranks receive, and the number of commands that communicate."""
    elements = commands = 0
    for rank in dump.split("\nprogram ")[1:]:
        if " reference of " in rank.splitlines()[0]:
            continue
        commands += len(re.findall(r" (?:recv|send|collective) c\d+ ", rank))
        for shape in re.findall(r"\brecv c\d+ \S+?:\w+\[([\d,]*)\]", rank):
            elements += math.prod(int(n) for n in shape.split(",") if n)
    return elements, commands


def slice_bytes(match):
    """What a device needs for one slice of a value (a match of TYPE) that is one loop's, and the number of slices."""
    sizes = {name: int(size) for name, size in re.findall(r'"(\w+)" = (\d+)', match["axes"])}
    shape = [int(n) for n in match["shape"].split("x") if n]
    elements, count = 1, 1
    for extent, dim in zip(shape, match["dims"].split(",") if shape else []):
        outside = 1
        for word in filter(lambda w: w.strip() != "-", dim.split("*")):
            kind, what = re.match(r'\s*(\w+)(?:\("?(\w+)"?\))?\s*$', word).groups()
            if kind == "didx":
                extent //= sizes[what]
            elif kind == "serial":
                outside *= int(what)
            else:
                count = int(what) if what else extent // outside
                extent = outside * -(-(extent // outside) // count)
        elements *= extent
    return elements * {"f16": 2, "bf16": 2, "i1": 1, "f8E4M3FN": 1, "f8E5M2": 1}.get(match["dtype"], 4), count


def slices_in_flight(program, lines):
    """Bytes of the arena of a program of one loop, at most: every value as many times as there are workers at work.
    `lines`: its ops, with the parts of reshards that are several rows."""
    total = 0
    for line in lines:
        if " = " in line and "arith.constant" not in line:
            types = list(re.finditer(TYPE, line))
            size, count = slice_bytes(types[-1])
            # Messages in place of an all-reduce may gather all terms.
            if program.target == "cpu-ucx" and " = fusion.reshard " in line and types[0]["partial"]:
                size *= 1 + len(held(types[0]))
            total += -(-size // 64) * 64 * min(count, program.workers)
    return total


def wrong(program, folder, dump):
    """What is wrong with a program's structure, or None."""
    lines = entry(snapshot(folder, "fusion-select-schedule"))
    found = loops(folder)
    # (An exchange has a loop over the own slices and one over the others, a push a third one of puts or waits. A gather
    # with gated matmuls has loops of puts, own copies, copies to a result, and two for each matmul.)
    streamed = sum(1 + ("schedule<exchange" in line) + 2 * ("schedule<push" in line) + 4 * ("<gated" in line) for line in lines
                   if re.search(r"\bstream\b", line) and " = " in line)
    # (A value that is two results is copied.)
    if program.one_loop:
        returned = re.findall(r"%\w+", lines[-2].split(" : ")[0])
        expected = parts(program) + len(returned) - len(set(returned))
        if found > expected:
            return f"{found} loops, expected {expected}"
        arena = max(map(int, re.findall(r" arena (\d+),", dump[:dump.index(" reference of ")])))
        needs = slices_in_flight(program, lines)
        if arena > needs:
            return f"an arena of {arena} bytes, {needs} for the slices in flight"
    if found > streamed:
        return f"{found} loops of {streamed} ops with stream digits"
    bound = sum(needed(line) for line in lines if " = fusion.reshard " in line)
    elements, commands = received(dump)
    if commands and not bound:
        return f"{commands} commands communicate, none is needed"
    if elements > bound:
        return f"{elements} elements are received, {bound} are needed"
    return None
