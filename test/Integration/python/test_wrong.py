# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is wrong in a call is named: no exception of the bindings or the parser, and no setting that is ignored."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tandem

tp = tandem.Mesh("tp", x=4)
open_mesh = tandem.Mesh("open", x=None)
TEXT = """
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @f(%x: tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "x"})
    -> tensor<?x16xf32, #fusion.axes<#tp, [-, -]>> {
  %r = fusion.reshard %x : tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<?x16xf32, #fusion.axes<#tp, [-, -]>>
  return %r : tensor<?x16xf32, #fusion.axes<#tp, [-, -]>>
}
"""


@tandem.fuse(x=tandem.TensorType("f32", (None, 4), tp["x", None]), results=tp[None, None])
def gather(x):
    return x


@tandem.fuse(x=tandem.TensorType("f32", (None, 4), open_mesh["x", None]), results=open_mesh[None, None])
def gather_open(x):
    return x


def text(**options):
    return tandem.compile(TEXT, **{"shapes": {"x": (8, 16)}, **options})


def traced(function, **options):
    return tandem.fuse(x=tandem.TensorType("f32", (4, 4), tp[None, None]), results=tp[None, None], **options)(function).compile()


@pytest.mark.parametrize("call, message", [
    # A mesh that contradicts, or that is none of the program's.
    (lambda: gather.compile(mesh={"x": 2}, shapes={"x": (8, 4)}), "gather: mesh: expected size 4 of x, as its mesh says, found 2"),
    (lambda: gather.compile(mesh={"tp.x": 2}, shapes={"x": (8, 4)}), "expected size 4 of tp.x, as its mesh says, found 2"),
    (lambda: gather.compile(mesh={"y": 2}, shapes={"x": (8, 4)}), "gather: mesh: expected a mesh axis of tp.x, found 'y'"),
    (lambda: gather.compile(mesh={"dp.x": 4}, shapes={"x": (8, 4)}), "expected a mesh axis of tp.x, found 'dp.x'"),
    (lambda: gather_open.compile(mesh={"x": 2, "z": 2}, shapes={"x": (8, 4)}), "expected a mesh axis of open.x, found 'z'"),
    (lambda: text(mesh={"x": 2}), "expected size 4 of axis \"x\""),
    (lambda: text(mesh={"y": 2}), "found 'y'"),
    (lambda: text(mesh={"x": "a"}), "mesh: size of x: expected a number of at least 1, found 'a'"),
    (lambda: text(mesh={"x": 2.5}), "mesh: size of x: expected a number of at least 1, found 2.5"),
    (lambda: text(mesh={"x": 1 << 70}), "mesh: size of x"),
    (lambda: text(mesh=3), "mesh: expected a dict by name, found 3"),
    (lambda: text(mesh={3: 3}), "mesh: expected a dict by name"),
    (lambda: text(shapes=[3]), "shapes: expected a dict by name"),
    (lambda: text(shapes={"x": 3}), "shapes: x: expected extents such as"),
    (lambda: text(shapes={"x": (None, 16)}), "shapes: x: expected a number of at least 0, found None"),
    (lambda: text(shapes={"y": (8, 16)}), "found 'y'"),
    (lambda: gather.compile(shapes={"x": (8.0, 4)}), "shapes: x: expected a number of at least 0, found 8.0"),
    (lambda: gather.compile(shapes={"x": ("a", 4)}), "shapes: x: expected a number of at least 0, found 'a'"),
    # Options.
    (lambda: traced(lambda x: x, options={"colour": 3}), "fuse: options: expected .*deterministic.*, found colour"),
    (lambda: text(target=3), "compile: target: expected a str or a path, found 3"),
    (lambda: text(workers=-1), "compile: workers: expected a number of at least 0, found -1"),
    (lambda: text(ranks="2"), "compile: ranks: expected a number of at least 0, found '2'"),
    (lambda: text(machine=3), "compile: machine: expected a str or a path, found 3"),
    (lambda: text(check="no"), "compile: check: expected True or False, found 'no'"),
    (lambda: text(name=3), "expected the text of a fusion"),
    (lambda: tandem.compile(b"module {}"), "expected the text of a fusion"),
    (lambda: traced(lambda x: x, options=3), "options: expected a dict by name, found 3"),
    (lambda: traced(3), "fuse: expected a function of Python, found 3"),
    # Types and values of traced functions.
    (lambda: tandem.TensorType("f32", 4, tp[None]), "shape: expected extents such as"),
    (lambda: tandem.TensorType("f32", (1 << 70,), tp[None]), "shape: expected a number of at least 0"),
    (lambda: tandem.Mesh("m", x=2, devices=["a"]), "mesh: devices: expected a number of at least 0, found 'a'"),
    (lambda: tandem.Mesh("m", x=2, devices=3), "mesh: devices: expected ranks such as"),
    (lambda: tp.axes(None, partial=3), "axes: partial: expected names of mesh axes, found 3"),
    (lambda: traced(lambda x: tandem.matmul(x, x, dtype="f31")), "matmul: expected a dtype of f32"),
    (lambda: traced(lambda x: tandem.matmul(x, x, gather="here")), "gather: expected before, after or cost, found 'here'"),
    (lambda: traced(lambda x: tandem.matmul(x, x, schedule='"')), "schedule: expected a name"),
    (lambda: traced(lambda x: x.reshard(3)), "reshard: expected axes such as"),
    (lambda: traced(lambda x: x.reshard(tp["x", None], schedule=3)), "schedule: expected a name"),
    (lambda: traced(lambda x: x.reshard(tp["x", None], by='"')), "schedule: expected a name"),
    (lambda: traced(lambda x: tandem.matmul(x, x, schedule={})), "schedule: expected a name"),
    (lambda: traced(lambda x: tandem.concat(3)), "concat: expected a list of traced tensors, found 3"),
    (lambda: traced(lambda x: tandem.maximum(3, 4)), "maximum: expected a traced tensor, found int"),
    (lambda: traced(lambda x: x + 10**400), "add: expected a number that fits f32"),
    *((lambda number=number, dtype=dtype: traced(lambda x: (x.astype(dtype) < number).astype("f32")),
       f"expected a whole number from {least} to .* beside {dtype}, found") for number, dtype, least in (
           (1.5, "i32", -1 << 31), (float("nan"), "i64", -1 << 63), (float("inf"), "i8", -128), (300, "i8", -128), (-129, "i8", -128),
           (1 << 40, "i32", -1 << 31), (2, "i1", 0), (0.5, "i1", 0), (float("nan"), "i1", 0))),
    (lambda: traced(lambda x: tandem.attention(x, x, x, scale="a")), "attention: scale: expected a number, found 'a'"),
    (lambda: traced(lambda x: tandem.attention(x, x, x, zigzag="a")), "attention: zigzag: expected a number"),
    (lambda: traced(lambda x: tandem.call("k", x, dims=3, results=("f32", (4, 4)))), "expected dims, config and effects as str"),
    (lambda: traced(lambda x: tandem.call("k", x, dims="a_ -> a_", results=("f32", ("a", 4)))), "result: shape: .* found 'a'"),
    (lambda: traced(lambda x: tandem.call("k", x, dims="a_ -> a_", results=3)), "call: expected results as"),
    (lambda: traced(lambda x: tandem.call("k", x, dims="a_ -> a_", results=("f32", (4, 4)), flops="a")), "flops and bytes as numbers"),
    # Contexts.
    (lambda: tandem.Context(rank=1), "rank: expected that of the launcher, 0, without a world, found 1"),
    (lambda: tandem.Context(world=tandem.World(2)), "world: expected a rank, too, found none"),
    (lambda: tandem.World(1 << 31), "at most 65536, found 2147483648"),
    (lambda: tandem.register_kernel(3, print, context=tandem.Context()), "register_kernel: expected a name, found 3"),
    (lambda: tandem.register_kernel("k", 3, context=tandem.Context()), "register_kernel: expected a function or an image"),
])
def test_is_named(call, message):
    with pytest.raises((tandem.ArgumentError, tandem.CompileError), match=message):
        call()


def test_the_context_of_a_call():
    program = gather_open.compile(mesh={"x": 1}, shapes={"x": (4, 4)})
    with pytest.raises(tandem.ArgumentError, match="context: expected a Context, found 3"):
        program(np.ones((4, 4), np.float32), context=3)


def test_a_value_of_another_function():
    kept = []
    traced(lambda x: kept.append(x) or x)
    with pytest.raises(tandem.ArgumentError, match="expected values of this function, found argument x of another"):
        traced(lambda x: x + kept[0])


def test_names_that_only_python_has():
    def größe(länge):
        return länge + 1

    tandem.fuse(tandem.TensorType("f32", (4, 4), tp[None, None]), results=tp[None, None])(größe).compile()
    traced(lambda x: x)


@pytest.mark.parametrize("given, message", [
    ({"TANDEM_RANK": "1"}, "environment variable TANDEM_RANK=1: expected TANDEM_WORLD_SIZE, too"),
    ({"TANDEM_WORLD_SIZE": "2"}, "environment variable TANDEM_WORLD_SIZE=2: expected TANDEM_RANK, too"),
    ({"RANK": "1", "WORLD_SIZE": "1"}, "environment variables RANK=1, WORLD_SIZE=1: expected MASTER_ADDR and MASTER_PORT, too, found neither"),
])
def test_half_of_a_job(given, message):
    text = "import tandem\ntry: tandem.Context()\nexcept tandem.ArgumentError as error: print(error)"
    found = subprocess.run([sys.executable, "-c", text], env={**os.environ, **given}, capture_output=True, text=True, timeout=50)
    assert (found.stdout, found.stderr) == (message + "\n", "")


def test_names_with_control_characters():
    program = tandem.compile(TEXT.replace("@f(", '@"a\\1B[2J\\0Ab"('), shapes={"x": (8, 16)})
    with pytest.raises(tandem.Error, match=r"a\\x1b\[2J\\x0ab") as caught:
        program(1, 2, context=tandem.Context())
    assert str(caught.value).isprintable()
    program = tandem.compile(TEXT.replace("@f(", '@"\\9B2J\\FF"('), shapes={"x": (8, 16)})  # no UTF-8
    assert str(program.explain()) and str(program.check())
    with pytest.raises(tandem.Error, match=r"\\x9b2J\\xff") as caught:
        program(1, 2, context=tandem.Context())
    with pytest.raises(tandem.Error, match="unknown device") as caught:
        tandem.Context(device="\x1b[2J\x07")
    assert str(caught.value).isprintable()
    with pytest.raises(tandem.CompileError) as caught:
        tandem.compile('"\x1b[2J"')
    assert "\x1b" not in str(caught.value)
