# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measuring what the compiler would choose by predicted time."""

from __future__ import annotations

import json
import os
import statistics
import struct
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _files, _tandem
from ._context import init
from ._errors import ArgumentError
from ._mesh import Mesh, Path, TensorType
from ._progress import progress
from ._program import Fusion, Program, _names_options, _Options, _target, compile, fuse
from ._tandem import Context
from ._trace import Value, reshard

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LEAST_GAIN = 0.01  # of the time: less is noise
_IN_A_ROW = 4  # runs that are timed together


@_names_options
def tune(source: str | Fusion, *tensors: Any, path: Path, machine: Path, repeats: int = 10, others: int = 4,
         context: Context | None = None, **options: Unpack[_Options]) -> Program:
    """Times the candidates of each loop of a program on this rank's tensors, and stores the fastest ones (docs/benchmarking.md).

    Collective: all ranks of the context make the same call. For each loop with a reshard the choice by predicted time and
    other candidates are run, interleaved: the unoverlapped baseline, then those of least predicted time. Another candidate
    than the choice is taken if it is at least 1 % faster on the slowest rank. A terminal shows a progress bar. Further options are those of `compile`, except `tuned`; a
    function's own `tuned` is ignored.

    Args:
        source: That of `compile`. The sizes that a traced function leaves open follow from the tensors.
        tensors: Those of a call of the program on this rank.
        path: The file, which `compile(tuned=path)` reads. Rank 0 writes it; what it knows of other loops stays.
        machine: A machine file, by whose costs candidates are predicted.
        repeats: Runs of each candidate.
        others: Most candidates of a loop besides the choice; the compiler lists at most five.
        context: Default: the current one.

    Returns:
        The program with these choices. CompileError as `compile`; ArgumentError if a tensor does not fit, `tuned` is given or
        the file is of another machine or target; and what a run raises.

    Example:
        program = tandem.tune(allgather_matmul, x, w, path="choices.json", machine="h200x8")
    """
    if not isinstance(repeats, int) or repeats < 1 or not isinstance(others, int) or others < 1:
        raise ArgumentError(f"tune: expected repeats and others of at least 1, found {repeats!r} and {others!r}")
    if "tuned" in options:
        raise ArgumentError(f"tune: expected path= alone, found tuned={dict(options)['tuned']!r} too; tune measures all loops anew")
    context = context or _tandem.current_context() or init()
    merged: dict[str, Any] = {"target": _target(context), "ranks": context.world_size, **options}
    if isinstance(source, Fusion):
        known, open_shapes = source._sizes([None if one is None else tuple(one.shape) for one in tensors], context)
        merged = {**merged, **source.options, **options, "mesh": {**known, **(options.get("mesh") or {})},
                  "shapes": {**open_shapes, **(options.get("shapes") or {})}}
        merged.pop("tuned", None)
    merged["machine"] = machine
    place = f"{context.world_size} x {context.description}"
    stored = _read(path, place, merged["target"])

    first = compile(source, **merged)
    loops = list({loop["signature"]: loop for loop in first._loops if loop["signature"] and loop["reshards"]}.values())
    variants: list[tuple] = [(None, None, first)]
    for loop in loops:
        texts = [one["schedule"] for one in loop["candidates"] if one["schedule"] != loop["schedule"]]
        for text in texts[:others]:
            chosen = [_loop(loop, text)]
            variants.append((loop["signature"], text, _with_choices(source, merged, place, chosen)))

    seconds = _measure([program for _, _, program in variants], tensors, repeats, context)
    seconds = _slowest(seconds, context)
    choices = []
    for loop in loops:
        best, text = seconds[0], loop["schedule"]
        for (signature, other, _), one in zip(variants, seconds):
            if signature == loop["signature"] and one < (1 - _LEAST_GAIN) * seconds[0] and one < best:
                best, text = one, other
        choices.append({**_loop(loop, text), "seconds": best, "plain": seconds[0]})
    if context.rank == 0:
        names = {one["signature"] for one in choices}
        kept = [one for one in stored if one["signature"] not in names]
        _write(path, place, merged["target"], kept + choices)
    return _with_choices(source, merged, place, choices)


def _loop(loop: dict[str, Any], text: str) -> dict[str, Any]:
    return {"signature": loop["signature"], "what": text, "program": loop["reshards"], "seconds": 0, "plain": 0}


def _read(path: Path, machine: str, target: str | None) -> list[dict[str, Any]]:
    if not os.path.exists(path):
        return []
    known = json.loads(_files.read(path))
    for key, mine in (("machine", machine), ("target", target)):
        if known.get(key) != mine:
            raise ArgumentError(f'tune: {path}: was measured on "{known.get(key)}", this is "{mine}"; name another file')
    return known["loops"]


def _write(path: Path, machine: str, target: str | None, loops: list[dict[str, Any]]) -> None:
    text = json.dumps({"tandem_tuned": 1, "machine": machine, "target": target, "loops": loops}, indent=1)
    _files.write(path, (text + "\n").encode())


def _with_choices(source: str | Fusion, options: dict[str, Any], machine: str, choices: list[dict[str, Any]]) -> Program:
    folder = tempfile.TemporaryDirectory(prefix="tandem-tune-")
    path = os.path.join(folder.name, "choices.json")
    _write(path, machine, options["target"], choices)
    program = compile(source, **options, tuned=path)
    program._choices = folder  # explain() compiles once more
    return program


def _measure(programs: Sequence[Program], tensors: Sequence[Any], repeats: int, context: Context) -> list[float]:
    """Seconds of a run of each program on this rank: medians of interleaved rounds."""
    results: list[Any] = []
    times: list[list[float]] = [[] for _ in programs]
    with progress("tuning") as shown:
        for round_ in range(repeats + 1):  # the first one prepares
            for number, program in enumerate(programs):
                if round_ == 0:
                    made = program(*tensors, context=context)
                    program.wait(context)
                    results.append(made)
                    continue
                start = time.perf_counter()
                for _ in range(_IN_A_ROW):
                    program(*tensors, out=results[number], context=context)
                program.wait(context)
                times[number].append((time.perf_counter() - start) / _IN_A_ROW)
                shown(((round_ - 1) * len(programs) + number + 1) / (repeats * len(programs)))
    return [statistics.median(one) for one in times]


def _slowest(seconds: Sequence[float], context: Context) -> list[float]:
    """The largest time of any rank, per program: equal on all ranks, so that they choose alike."""
    count, size = len(seconds), context.world_size
    ranks = Mesh("ranks", x=size)

    @fuse(TensorType("f32", (size, count), ranks["x", None]), results=ranks[None, None])
    def gather(mine: Value) -> Value:
        return reshard(mine, ranks[None, None])

    mine, found = (_tandem.new_array(context, "f32", (rows, count)) for rows in (1, size))
    mine.fill(context, struct.pack(f"={count}f", *seconds))
    program = gather.compile(target=_target(context), ranks=size)
    program(mine, out=found, context=context)
    program.wait(context)
    times = struct.unpack(f"={size * count}f", found.read(context))
    return [max(times[i::count]) for i in range(count)]
