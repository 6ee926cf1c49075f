# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that are written in Python: tandem.call, tandem.register_kernel."""

import numpy as np
import pytest

import tandem
from conftest import error, rows

tp = tandem.Mesh("tp", x=4)


@tandem.fuse(x=tandem.TensorType("f32", (None, 16), tp["x", None]), results=(tp["x", None], tp["x"]))
def normalize(x):
    return tandem.call("norm_of_rows", x, dims="s_ -> s_, s", results=[("f32", x.shape), ("f32", x.shape[:1])])


def normalize_rows(call):
    x, y, norms = (np.asarray(part) for part in [*call.inputs, *call.results])
    norms[:] = np.linalg.norm(x, axis=1)
    y[:] = x / norms[:, None]


def test_two_results(world, random):
    x = random(24, 16)

    def body(context):
        tandem.register_kernel("norm_of_rows", normalize_rows)
        return normalize(rows(x, context))

    parts = world.run(body)
    norms = np.linalg.norm(x, axis=1)
    assert error(np.concatenate([y for y, _ in parts]), x / norms[:, None]) < 1e-5
    assert error(np.concatenate([found for _, found in parts]), norms) < 1e-5


def test_slices_and_places(world, random):
    """Between a gather and a product, slice by slice; a kernel knows which rows it gets."""
    x, w = random(32, 16), random(16, 8)

    @tandem.fuse(x=tandem.TensorType("f32", (32, 16), tp["x", None]), w=tandem.TensorType("f32", (16, 8), tp[None, None]),
                 results=(tp[tandem.loop("x"), None], tp[tandem.loop("x")]))
    def scaled(x, w):
        y, places = tandem.call("scale", x.reshard(tp[tandem.loop("x"), None]), dims="s_ -> s_, s", config="3",
                                results=[("float32", x.shape), (np.int32, x.shape[:1])])
        return y @ w, places

    def scale(call):
        source, y, places = (np.asarray(part) for part in [*call.inputs, *call.results])
        assert call.inputs[0].extent == (32, 16) and call.name == "scale"
        y[:] = source * float(call.config)
        places[:] = np.arange(len(places)) + call.results[1].offset[0]

    def body(context):
        tandem.register_kernel("scale", scale)
        return scaled(rows(x, context), w)

    for y, places in world.run(body):
        assert error(y, 3 * x @ w) < 1e-5
        assert (places == np.arange(32)).all()


@pytest.mark.parametrize("dtype, seen", [
    ("f64", "f8"), ("f32", "f4"), ("f16", "f2"), ("bf16", "u2"), ("f8E4M3FN", "u1"), ("f8E5M2", "u1"), ("i64", "i8"), ("i32", "i4"),
    ("i16", "i2"), ("i8", "i1"), ("i1", "b1")])
def test_operand_as_an_array(dtype, seen):
    memory = np.zeros(64, "u1")
    view = np.asarray(tandem.KernelOperand(memory.ctypes.data, dtype, (2, 3), (4, 1), (0, 0), (2, 4), True))
    assert view.dtype == np.dtype(seen) and view.shape == (2, 3) and view.strides == (4 * view.itemsize, view.itemsize)


def test_effects(random):
    """Calls that write run in order, once for each run, on the whole part, and equal ones do not become one."""
    x = random(8, 16)
    made = []

    def draw(call):
        made.append(call.results[0].shape)
        np.asarray(call.results[0])[:] = len(made)

    one = tandem.Mesh("one", x=1)

    @tandem.fuse(x=tandem.TensorType("f32", (8, 16), one["x", None]), results=(one["x", None], one["x", None]))
    def alone(x):
        return tuple(tandem.call("draw", x, dims="s_ -> s_", results=("f32", x.shape), effects="writes")
                     for _ in range(2))

    with tandem.Context() as context:
        tandem.register_kernel("draw", draw)
        for run in range(3):
            first, second = alone(x)
            assert (first == 2 * run + 1).all() and (second == 2 * run + 2).all()
    context.close()
    assert made == [(8, 16)] * 6
    assert 'effects = "writes"' in alone.trace()


def test_exceptions(random):
    one = tandem.Mesh("one", x=1)

    @tandem.fuse(x=tandem.TensorType("f32", (8,), one["x"]), results=one["x"])
    def fails(x):
        return tandem.call("raises", x, dims="s -> s", results=("f32", x.shape))

    def raises(call):
        raise KeyError(call.name)

    with tandem.Context() as context:
        with pytest.raises(tandem.Error, match='kernel "raises": expected it to be registered'):
            fails(random(8))
    context.close()
    with tandem.Context() as context:
        tandem.register_kernel("raises", raises)
        with pytest.raises(KeyError, match="raises"):
            fails(random(8))
    context.close()


def test_errors():
    def build(**options):
        @tandem.fuse(x=tandem.TensorType("f32", (8, 16), tp["x", None]), results=tp["x", None])
        def traced(x):
            return tandem.call("k", x, **{"dims": "s_ -> s_", "results": ("f32", x.shape), **options})

        return traced.compile()

    with pytest.raises(tandem.ArgumentError, match="expected a dtype"):
        build(results=("f31", (8, 16)))
    with pytest.raises(tandem.CompileError, match='expected effects "reads" or "writes", found "all"') as caught:
        build(effects="all")
    assert caught.value.diagnostics[0].file == __file__
    with pytest.raises(tandem.CompileError, match="expected dims of 1 operands and a result"):
        build(dims="s_, _ -> s_")
    with pytest.raises(tandem.ArgumentError, match="expected a function or an image"):
        with tandem.Context():
            tandem.register_kernel("k")
