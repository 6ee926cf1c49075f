# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs on NumPy's arrays, with ranks as threads."""

import os
import resource

import numpy as np
import pytest
from conftest import error, rows

import tandem

TEXT = """
#tp = #tandem.mesh<"tp", ["x" = ?]>
func.func @gather_matmul(
    %x: tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "x"},
    %w: tensor<16x12xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "w"})
    -> (tensor<?x12xf32, #fusion.axes<#tp, [stream("x"), -]>> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w
      : tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<16x12xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<?x12xf32, #fusion.axes<#tp, [stream("x"), -]>>
  return %y : tensor<?x12xf32, #fusion.axes<#tp, [stream("x"), -]>>
}
"""


@pytest.fixture(scope="module")
def program():
    return tandem.compile(TEXT, mesh={"x": 4}, shapes={"x": (32, 16)})


def test_text(program, world, random):
    x, w = random(32, 16), random(16, 12)
    for _ in range(3):
        for y in world.run(lambda context: program(rows(x, context), w)):
            assert y.dtype == np.float32 and error(y, x @ w) < 1e-5


def test_arguments(program, world):
    x, w, y = world.run(lambda context: program.arguments())[2]
    assert x == ("x", False, True, "f32", (32, 16), (8, 16))
    assert (w.local_shape, y.is_result, y.local_shape) == ((16, 12), True, (32, 12))


def test_out(program, world, random):
    x, w = random(32, 16), random(16, 12)

    def run(context):
        y = np.full((32, 12), np.nan, np.float32)
        assert program(rows(x, context), w, out=y) is y
        return y

    assert all(error(y, x @ w) < 1e-5 for y in world.run(run))


def test_saved(program, world, random, tmp_path):
    program.save(tmp_path / "p.tsp")
    loaded = tandem.load(tmp_path / "p.tsp")
    x, w = random(32, 16), random(16, 12)
    assert all(error(y, x @ w) < 1e-5 for y in world.run(lambda context: loaded(rows(x, context), w)))


def test_default_context(random):
    """A world of one rank needs no context."""
    program = tandem.compile(TEXT, mesh={"x": 1}, shapes={"x": (8, 16)})
    x, w = random(8, 16), random(16, 12)
    assert error(program(x, w), x @ w) < 1e-5


@pytest.mark.parametrize("change, message", [
    (lambda x, w: (x, w[:, :11].copy()), r'argument 1 "w": expected f32\[16, 12\], found f32\[16, 11\]'),
    (lambda x, w: (x.astype(np.float64), w), r'argument 0 "x": expected f32\[8, 16\], found f64\[8, 16\]'),
    (lambda x, w: (x,), "expected 2 tensors, found 1"),
    (lambda x, w: (x, w.T.copy().T), "expected a contiguous tensor"),
    (lambda x, w: (x, w.astype(np.complex64)), "expected elements of"),
    (lambda x, w: (x, "w"), "expected a tensor"),
])
def test_rejected_tensors(program, world, random, change, message):
    with pytest.raises(tandem.ArgumentError, match=message):
        world.run(lambda context: program(*change(rows(random(32, 16), context), random(16, 12))))


def test_rejected_out(program, world, random):
    fixed = np.zeros((32, 12), np.float32)
    fixed.flags.writeable = False
    for out, message in ((fixed, "can be written"), ((fixed, fixed), "expected 1 tensors, found 2")):
        with tandem.local_world(1) as one, pytest.raises(tandem.ArgumentError, match=message):
            single = tandem.compile(TEXT, mesh={"x": 1}, shapes={"x": (32, 16)})
            one.run(lambda context: single(random(32, 16), random(16, 12), out=out))


def test_compile_error():
    with pytest.raises(tandem.CompileError, match="custom op 'foo' is unknown") as info:
        tandem.compile("func.func @f() {\n  foo\n}", name="f.mlir")
    assert (info.value.file, info.value.line, info.value.column) == ("f.mlir", 2, 3)
    assert info.value.diagnostics[0].severity == "error"


def test_not_a_program(tmp_path):
    (tmp_path / "p.tsp").write_bytes(b"nothing")
    with pytest.raises(tandem.Error) as info, tandem.local_world(1) as world:
        world.run(lambda context: tandem.load(tmp_path / "p.tsp")())
    assert info.value.code == "invalid-program"


def test_no_native(random):
    """A context may refuse what has PTX next to the code for CPUs."""
    type = 'tensor<8x16xf32, #fusion.axes<#one, [-, -]>>'
    text = f'''#one = #tandem.mesh<"one", ["x" = 1]>
func.func @negative(%x: {type}) -> {type} {{
  %y = arith.negf %x : {type}
  return %y : {type}
}}'''
    x = random(8, 16)
    with tandem.Context(no_native=True):
        assert (tandem.compile(text, target="cpu-ucx")(x) == -x).all()
        with pytest.raises(tandem.Error, match=r"has native code \(ptx\), which this job refuses") as info:
            tandem.compile(text, target="cuda-peer")(x)
        assert info.value.code == "unsupported"
    with tandem.Context():
        assert (tandem.compile(text, target="cuda-peer")(x) == -x).all()


def test_failed_rank(program, random):
    """The error of the rank that failed reaches the caller, and the others do not hang."""
    with tandem.local_world(4, timeout=2) as world, pytest.raises(KeyError, match="rank 2"):
        def run(context):
            if context.rank == 2:
                raise KeyError("rank 2")
            return program(rows(random(32, 16), context), random(16, 12))
        world.run(run)


def test_closed_context(program, world, random):
    def run(context):
        context.close()
        with pytest.raises(tandem.ArgumentError, match="closed"):
            program(rows(random(32, 16), context), random(16, 12), context=context)

    world.run(run)


def test_documentation(tmp_path, random):
    """docs/embedding.md shows the lines between the markers."""
    path, x, w = tmp_path / "layer.tsp", random(8, 16), random(16, 12)
    tandem.compile(TEXT, mesh={"x": 1}, shapes={"x": (8, 16)}).save(path)
    # [docs: python]
    program = tandem.load(path)             # or tandem.compile(module, mesh={"x": 8}, shapes={"x": (8192, 16)})
    with tandem.Context("cpu") as context:  # this rank's device and connections; "cuda" on GPUs
        y = program(x, w)                   # a new tensor of the library of x
        program(x, w, out=y)                # into memory of the caller
        program.wait()                      # for all runs; raises the error of one that failed
    context.close()
    # [docs: end]
    assert error(y, x @ w) < 1e-5


def test_files(tmp_path):
    program = tandem.compile(TEXT, mesh={"x": 2}, shapes={"x": (32, 16)})
    pipe, path = tmp_path / "pipe", tmp_path / "p.tsp"
    os.mkfifo(pipe)
    for endless in ("/dev/zero", pipe):
        with pytest.raises(tandem.ArgumentError, match=f"{endless}: expected a regular file"):
            tandem.load(endless)
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large.*p.tsp"):
            program.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b"old" and sorted(os.listdir(tmp_path)) == ["p.tsp", "pipe"]
    program.save(path)
    assert tandem.load(path).bytes == program.bytes
    link = tmp_path / "link"
    with open(tmp_path / "open", "w+b") as file:  # keeps its name, and what it holds
        file.write(b"first")
        file.flush()
        link.symlink_to(f"/proc/self/fd/{file.fileno()}")
        program.save(link)
        assert (tmp_path / "open").read_bytes() == b"first" + program.bytes
