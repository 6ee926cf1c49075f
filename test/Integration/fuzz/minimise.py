# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A smaller program that fails in the same way."""

import dataclasses
import time

from program import Axes, Program


def with_ops(program, ops, **more):
    return dataclasses.replace(program, ops=tuple(ops), **more).live()


def smaller(program: Program):
    """Programs that are a step smaller, those that leave out most first."""
    if len(program.results) > 1:
        for name in program.results:
            yield dataclasses.replace(program, results=(name,)).live()
    # An earlier value becomes the only result; an op becomes an argument.
    for op in program.ops[:-1]:
        if (op.result.name,) != program.results:
            yield dataclasses.replace(program, results=(op.result.name,)).live()
    used = set(program.results).union(*(op.operands for op in program.ops))
    for i, op in enumerate(program.ops):
        if op.result.name not in used:
            yield dataclasses.replace(program, ops=program.ops[:i] + program.ops[i + 1:])
    if any(argument.name not in used for argument in program.arguments):
        yield dataclasses.replace(program, arguments=tuple(a for a in program.arguments if a.name in used))
    for i in reversed(range(len(program.ops))):
        result = program.ops[i].result
        if not result.shape or result.dtype == "i1":
            continue
        axes = result.axes or Axes(program.meshes[0], ((),) * len(result.shape))
        names = [a.name for a in program.arguments]
        argument = dataclasses.replace(result, axes=axes)
        if result.name not in names:
            yield with_ops(program, program.ops[:i] + program.ops[i + 1:], arguments=program.arguments + (argument,))
    for i, op in enumerate(program.ops):
        for word, nothing in (("schedule", None), ("words", {})):
            if not op.attributes.get(word):
                continue
            plain = dataclasses.replace(op, attributes={**op.attributes, word: nothing})
            yield dataclasses.replace(program, ops=program.ops[:i] + (plain,) + program.ops[i + 1:])
    if program.unknown:
        yield dataclasses.replace(program, unknown={})
    if program.bound:
        yield dataclasses.replace(program, bound=0, varying={}, extents=())
        yield dataclasses.replace(program, extents=program.extents[-1:])
    for field, value in (("workers", 4), ("gather", "before"), ("machine", ""), ("target", "cpu-local"),
                         ("disabled", ()), ("deterministic", "")):
        if getattr(program, field) != value:
            yield dataclasses.replace(program, **{field: value})
    for mesh in program.meshes:
        if mesh.devices or mesh.is_open:
            yield replace_mesh(program, mesh, dataclasses.replace(mesh, devices=(), is_open=False))
    # Digits and partial axes that do not matter.
    axes = {v.axes for v in program.arguments} | {op.result.axes for op in program.ops}
    for old in sorted(filter(None, axes), key=str):
        for d, dim in enumerate(old.dims):
            for k in range(len(dim)):
                dims = old.dims[:d] + (dim[:k] + dim[k + 1:],) + old.dims[d + 1:]
                yield replace_axes(program, old, dataclasses.replace(old, dims=dims))
        if old.partial:
            yield replace_axes(program, old, dataclasses.replace(old, partial=(), kind="sum"))


def map_values(program, change):
    return dataclasses.replace(
        program, arguments=tuple(map(change, program.arguments)),
        ops=tuple(dataclasses.replace(op, result=change(op.result)) for op in program.ops))


def replace_axes(program, old, new):
    return map_values(program, lambda v: dataclasses.replace(v, axes=new) if v.axes == old else v)


def replace_mesh(program, old, new):
    change = lambda v: (dataclasses.replace(v, axes=dataclasses.replace(v.axes, mesh=new))
                        if v.axes and v.axes.mesh == old else v)
    meshes = tuple(new if mesh == old else mesh for mesh in program.meshes)
    return dataclasses.replace(map_values(program, change), meshes=meshes)


def minimise(program, fails, seconds=30):
    """The smallest found within `seconds` for which `fails` still holds."""
    deadline = time.monotonic() + seconds
    again = True
    while again:
        again = False
        for candidate in smaller(program):
            if time.monotonic() > deadline:
                return program
            if candidate != program and candidate.ops and fails(candidate):
                program, again = candidate, True
                break
    return program
