# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""With deterministic="tp" results have the same bits on 1, 2, 4 and 8 ranks, whatever the schedule and the number of tokens.

TANDEM_TEST_SHAPES: how many shapes of each block (8).
"""

import functools
import os
import random as python_random

import numpy as np
import pytest
from conftest import error

import tandem

RANKS = (1, 2, 4, 8)
HEADS = 8
SHAPES = int(os.environ.get("TANDEM_TEST_SHAPES", "8"))


def mlp(tp, tokens, width, hidden, dtype):
    """Forward and backward pass of two layers: (function, types, axes of the results)."""
    def block(x, dy, w1, w2):
        h = x @ w1
        s = tandem.sigmoid(h)
        a = h * s
        dh = (dy @ w2.T) * (s + a * (1 - s))
        return a @ w2, dh @ w1.T, x.T @ dh, a.T @ dy

    rows, columns, split = tp["x", None], tp[None, "x"], tp["x", None]
    types = {"x": ((tokens, width), rows), "dy": ((tokens, width), rows), "w1": ((width, hidden), columns), "w2": ((hidden, width), split)}
    return block, types, (rows, rows, columns, split)


def attention(tp, tokens, width, hidden, dtype):
    """Forward and backward pass of an attention block, with heads that are split over the ranks."""
    size = hidden // HEADS

    def heads(value):
        return value.reshape(tokens, HEADS, size).permute(1, 0, 2)

    def joined(value):
        return value.permute(1, 0, 2).reshape(tokens, hidden)

    def block(x, dy, wq, wk, wv, wo):
        q, k, v = (heads(x @ w) for w in (wq, wk, wv))
        scale = size ** -0.5
        p = tandem.softmax(q @ k.permute(0, 2, 1) * scale)
        o = joined(p @ v)
        do = heads(dy @ wo.T)
        dp = do @ v.permute(0, 2, 1)
        ds = p * (dp - (dp * p).sum(-1, keepdims=True).broadcast_to(HEADS, tokens, tokens)) * scale
        dq, dk, dv = joined(ds @ k), joined(ds.permute(0, 2, 1) @ q), joined(p.permute(0, 2, 1) @ do)
        dx = dq @ wq.T + dk @ wk.T + dv @ wv.T
        return o @ wo, dx, x.T @ dq, x.T @ dk, x.T @ dv, o.T @ dy

    rows, columns, split = tp["x", None], tp[None, "x"], tp["x", None]
    types = {"x": ((tokens, width), rows), "dy": ((tokens, width), rows),
             **dict.fromkeys(("wq", "wk", "wv"), ((width, hidden), columns)), "wo": ((hidden, width), split)}
    return block, types, (rows, rows, columns, columns, columns, split)


def split_dim(axes):
    return next(dim for dim, digits in enumerate(axes.digits) if str(digits) != "-")


def part(array, axes, context):
    dim = split_dim(axes)
    return np.ascontiguousarray(np.split(array, context.world_size, dim)[context.rank])


def run(make, ranks, shape, dtype, level, tokens=None, machine=None):
    """The whole results on so many ranks, and the arguments. tokens: only the first ones. machine: chooses the schedules."""
    tp = tandem.Mesh("tp", x=ranks)
    tokens = tokens or shape[0]
    block, types, results = make(tp, tokens, *shape[1:], dtype)
    fused = tandem.fuse(**{name: tandem.TensorType(dtype, extents, axes) for name, (extents, axes) in types.items()}, results=results,
                        options={"deterministic": level, **({"machine": machine} if machine else {})})(block)
    generator = np.random.default_rng(shape[0])
    arrays = []
    for name, (extents, _) in types.items():
        whole = generator.uniform(-1, 1, (shape[0], extents[1]) if name in ("x", "dy") else extents).astype(np.float32)
        arrays.append(whole[:extents[0]].astype(np.float16 if dtype == "f16" else np.float32))

    def one(context):
        return fused(*(part(array, axes, context) for array, (_, axes) in zip(arrays, types.values())), context=context)

    with tandem.local_world(ranks, timeout=60) as world:
        made = world.run(one)
    found = [np.concatenate([np.asarray(each[index]) for each in made], split_dim(axes)) for index, axes in enumerate(results)]
    return found, arrays


def shapes(kind):
    """(tokens, width, hidden): 8 divides what ranks add up."""
    chosen = python_random.Random(kind)
    return [(8 * chosen.randint(1, 6), chosen.choice((8, 24, 40, 64)), 64 * chosen.randint(1, 3)) for _ in range(SHAPES)]


def same(a, b):
    return [index for index, (one, other) in enumerate(zip(a, b)) if one.tobytes() != other.tobytes()]


CASES = [(make, shape, dtype) for make in (mlp, attention) for shape, dtype in zip(shapes(make.__name__), SHAPES * ("f32", "f16"))]


@pytest.mark.parametrize("make, shape, dtype", CASES, ids=[f"{make.__name__}-{shape}-{dtype}" for make, shape, dtype in CASES])
def test_number_of_ranks(make, shape, dtype):
    first, _ = run(make, 1, shape, dtype, "tp")
    for ranks in RANKS[1:]:
        assert not same(run(make, ranks, shape, dtype, "tp")[0], first), ranks


def test_values():
    """They are those of NumPy."""
    (y, dx, dw1, dw2), (x, dy, w1, w2) = run(mlp, 4, (16, 24, 64), "f32", "tp")
    x, dy, w1, w2 = (one.astype(np.float64) for one in (x, dy, w1, w2))
    h = x @ w1
    s = 1 / (1 + np.exp(-h))
    dh = dy @ w2.T * (s + h * s * (1 - s))
    for found, expected in ((y, h * s @ w2), (dx, dh @ w1.T), (dw1, x.T @ dh), (dw2, (h * s).T @ dy)):
        assert error(found, expected) < 1e-5


def test_other_levels_depend_on_it():
    """Else the test could not fail."""
    one, four = (run(mlp, ranks, (16, 24, 192), "f32", "batch")[0] for ranks in (1, 4))
    assert {0, 1} <= set(same(one, four))


@pytest.mark.parametrize("machine", ["cpu-tcp", "h200x8"])
def test_schedules_and_tokens(machine):
    whole, _ = run(mlp, 4, (32, 24, 192), "f32", "tp")
    assert not same(run(mlp, 4, (32, 24, 192), "f32", "tp", machine=machine)[0], whole)
    few, _ = run(mlp, 2, (32, 24, 192), "f32", "tp", tokens=8, machine=machine)
    for index in (0, 1):  # those of the tokens; a gradient of a weight adds tokens up
        assert few[index].tobytes() == whole[index][:8].tobytes()


@pytest.mark.parametrize("ranks, shape, message", [
    (3, (24, 24, 48), "expected 1, 2, 4 or 8 devices that add up, found 3"),
    (2, (16, 24, 60), "expected an extent that 8 divides"),
])
def test_refused(ranks, shape, message):
    with pytest.raises(tandem.CompileError, match=message):
        run(mlp, ranks, shape, "f32", "tp")


def test_ranks_of_a_sum_that_the_caller_has():
    tp = tandem.Mesh("tp", x=2)
    fused = tandem.fuse(x=tandem.TensorType("f32", (8, 8), tp.axes(None, None, partial="x")), results=tp["x", None],
                        options={"deterministic": "tp"})(lambda x: x.reshard(tp["x", None]))
    with tandem.local_world(2) as world, pytest.raises(tandem.CompileError, match="that the program adds up"):
        world.run(functools.partial(lambda context: fused(np.zeros((8, 8), np.float32), context=context)))
