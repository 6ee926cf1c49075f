# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traced functions against NumPy."""

import math

import numpy as np
import pytest
from conftest import error, rows

import tandem
from tandem import TensorType, loop

tp = tandem.Mesh("tp", x=4)
ROWS, WHOLE = tp["x", None], tp[None, None]
_erf = np.vectorize(math.erf)


def line():
    import sys
    return sys._getframe(1).f_lineno


@tandem.fuse(x=TensorType("f32", (None, 16), ROWS), w=TensorType("f32", (16, 12), WHOLE), results=tp[loop("x"), None])
def gather_matmul(x, w):
    """Rows of x times w."""
    return x @ w


def test_call(world, random):
    """Compiled once per shape; the extent is that of all ranks."""
    w = random(16, 12)
    for count in (32, 8, 32):
        x = random(count, 16)
        for y in world.run(lambda context: gather_matmul(rows(x, context), w)):
            assert y.shape == (count, 12) and error(y, x @ w) < 1e-5
    assert gather_matmul.num_programs == 2
    assert gather_matmul.__doc__ == "Rows of x times w."


def test_programs_are_forgotten(world, random):
    """Each rank keeps the programs that it used last; all ranks prepare those that are needed again."""
    w = random(16, 12)

    @tandem.fuse(tandem.TensorType("f32", (None, 16), tp["x", None]), tandem.TensorType("f32", (16, 12), tp[None, None]),
                 results=tp[tandem.loop("x"), None])
    def forgetful(x, w):
        return x @ w

    forgetful.most_programs = 2
    for count in (8, 16, 8, 24, 8, 16, 24):
        x = random(count, 16)
        for y in world.run(lambda context: forgetful(rows(x, context), w)):
            assert y.shape == (count, 12) and error(y, x @ w) < 1e-5
        assert forgetful.num_programs <= 2


def test_compile(world, random):
    x, w = random(16, 16), random(16, 12)
    program = gather_matmul.compile(shapes={"x": (16, 16)})
    assert all(error(y, x @ w) < 1e-5 for y in world.run(lambda context: program(rows(x, context), w)))


def test_mlp(world, random):
    """Column-parallel, row-parallel, with a reduce-scatter and a residual; two results."""
    columns, split = tp[None, "x"], tp["x"]

    @tandem.fuse(TensorType("f32", (32, 16), ROWS), TensorType("f32", (16, 24), columns), TensorType("f32", (24,), split),
                 TensorType("f32", (24, 16), ROWS), results=(ROWS, tp["x"]))
    def mlp(x, w1, b1, w2):
        hidden = tandem.gelu(x @ w1 + b1)
        y = hidden @ w2 + x
        return y, y.sum(axis=1)

    x, w1, b1, w2 = random(32, 16), random(16, 24), random(24), random(24, 16)
    h = x @ w1 + b1
    expected = (h * 0.5 * (1 + _erf(h / math.sqrt(2)))) @ w2 + x
    parts = world.run(lambda c: mlp(rows(x, c), np.ascontiguousarray(np.split(w1, 4, 1)[c.rank]), rows(b1, c),
                                    rows(w2, c)))
    assert error(np.concatenate([y for y, _ in parts]), expected) < 1e-5
    assert error(np.concatenate([total for _, total in parts]), expected.sum(1)) < 1e-5


OPERATIONS = {
    "arithmetic": (lambda x, y: (x + y) * 2 - x / (y + 3) - (1 - x), lambda x, y: (x + y) * 2 - x / (y + 3) - (1 - x)),
    "negation, powers": (lambda x, y: -x + y**2 + (x + 2)**1.5, lambda x, y: -x + y**2 + (x + 2)**1.5),
    "functions": (lambda x, y: tandem.exp(x) + tandem.log(y + 2) + tandem.sqrt(x + 2) * tandem.rsqrt(y + 2) +
                  tandem.tanh(x) + tandem.sin(x) + tandem.cos(y) + tandem.absolute(x) + tandem.erf(y),
                  lambda x, y: np.exp(x) + np.log(y + 2) + np.sqrt(x + 2) / np.sqrt(y + 2) + np.tanh(x) + np.sin(x) +
                  np.cos(y) + np.abs(x) + _erf(y)),
    "activations": (lambda x, y: tandem.relu(x) + tandem.silu(y) + tandem.sigmoid(x) + tandem.gelu(y),
                    lambda x, y: np.maximum(x, 0) + y / (1 + np.exp(-y)) + 1 / (1 + np.exp(-x)) +
                    y * 0.5 * (1 + _erf(y / math.sqrt(2)))),
    "gelu of tanh": (lambda x, y: tandem.gelu(x, approximate="tanh") + y, lambda x, y: x / 2 *
                     (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) + y),
    "softmax": (lambda x, y: tandem.softmax(x) + y, lambda x, y: np.exp(x) / np.exp(x).sum(1, keepdims=True) + y),
    "where": (lambda x, y: tandem.where(x < y, x, tandem.minimum(y, 0.5)),
              lambda x, y: np.where(x < y, x, np.minimum(y, 0.5))),
    "reductions": (lambda x, y: x - x.max(1, keepdims=True) + y.mean(-1, keepdims=True) + y.min(1, keepdims=True),
                   lambda x, y: x - x.max(1, keepdims=True) + y.mean(1, keepdims=True) + y.min(1, keepdims=True)),
    "transpose": (lambda x, y: (x.T @ y) @ y.T[:, :8], lambda x, y: (x.T @ y) @ y.T[:, :8]),
    "reshape": (lambda x, y: (x.reshape(8, 4, 4) + y.reshape(8, -1, 4)).permute(0, 2, 1).reshape(8, 16),
                lambda x, y: (x + y).reshape(8, 4, 4).transpose(0, 2, 1).reshape(8, 16)),
    "slices": (lambda x, y: tandem.concat([x[:, 8:], y[:, ::2]], axis=1) + x[0],
               lambda x, y: np.concatenate([x[:, 8:], y[:, ::2]], 1) + x[0]),
    "cast": (lambda x, y: x.astype("f16").astype("f32") + (y > 0).astype("f32"),
             lambda x, y: x.astype(np.float16).astype(np.float32) + (y > 0)),
    "equal": (lambda x, y: tandem.where(x == tandem.maximum(x, y), y, x), lambda x, y: np.where(x == np.maximum(x, y), y, x)),
    "not equal": (lambda x, y: tandem.where(x != tandem.maximum(x, y), y, x), lambda x, y: np.where(x != np.maximum(x, y), y, x)),
    "to truth": (lambda x, y: (x * 2).astype("i32").astype("i1").astype("f32") + x.astype("i1").astype("f32"),
                 lambda x, y: (x * 2).astype("i").astype(bool).astype("f") + x.astype(bool)),
    "integers divided": (lambda x, y: ((x * 9).astype("i32") / ((y * 9).astype("i32") * 2 + 1)).astype("f32"),
                         lambda x, y: ((x * 9).astype("i") / ((y * 9).astype("i") * 2 + 1)).astype("f")),
    "floor": (lambda x, y: ((x * 9).astype("i32") // ((y * 9).astype("i32") * 2 + 1)).astype("f32") + x // 0.3
              + (7 // ((y * 9).astype("i32") * 2 - 1)).astype("f32"),
              lambda x, y: (x * 9).astype("i") // ((y * 9).astype("i") * 2 + 1) + np.floor(x / np.float32(0.3))
              + 7 // ((y * 9).astype("i") * 2 - 1)),
    "equal integers": (lambda x, y: tandem.where((x * 2).astype("i32") == (y * 2).astype("i32"), x, 0.0)
                       + ((x * 2).astype("i32") != 1).astype("f32"),
                       lambda x, y: np.where((x * 2).astype("i") == (y * 2).astype("i"), x, 0) + ((x * 2).astype("i") != 1)),
    "truth values compared": (lambda x, y: ((x > 0) < (y > 0)).astype("f32") + 2 * ((x > 0) >= (y > 0)).astype("f32")
                              + 4 * ((x > y) > True).astype("f32") + 8 * (False <= (x > y)).astype("f32"),
                              lambda x, y: ((x > 0) < (y > 0)) + 2.0 * ((x > 0) >= (y > 0)) + 8.0),
    # 0 / 0, or infinity less infinity, is not a number: it differs from itself.
    "not a number": (lambda x, y: tandem.where((x - x) / (y - y) != (x - x) / (y - y), x, y),
                     lambda x, y: x),
    "infinity": (lambda x, y: tandem.exp(tandem.where(x > y, x, -math.inf)) + y,
                 lambda x, y: np.where(x > y, np.exp(x), 0) + y),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name, world, random):
    traced, reference = OPERATIONS[name]
    x, y = random(8, 16), random(8, 16)
    expected = reference(x, y)

    @tandem.fuse(TensorType("f32", (8, 16), tp[None, "x"]), TensorType("f32", (8, 16), WHOLE), results=WHOLE)
    def function(x, y):
        return traced(x, y)

    parts = world.run(lambda c: function(np.ascontiguousarray(np.split(x, 4, 1)[c.rank]), y))
    assert all(error(part, expected) < 1e-5 for part in parts)


@pytest.mark.parametrize("dtype, digits", [("f16", 10), ("bf16", 7), ("f8E4M3FN", 3), ("f8E5M2", 2)])
def test_wide_numbers_are_rounded_once(dtype, digits, world):
    """What is half way between two narrow numbers once it is rounded to f32, and is not."""
    @tandem.fuse(TensorType("f64", (16,), tp["x"]), results=tp["x"])
    def narrowed(x):
        return x.astype(dtype).astype("f32")

    unit, least = 2.0 ** -digits, 2.0 ** -40
    half = 1 + unit / 2
    x = np.array([half, half - least, half + least, half + unit, half + unit - least, half + unit + least] * 2 + [0, 1, 2, -half])
    expected = np.array([1, 1, 1 + unit, 1 + 2 * unit, 1 + unit, 1 + 2 * unit] * 2 + [0, 1, 2, -1], np.float32)
    parts = world.run(lambda c: narrowed(np.split(x, 4)[c.rank].copy()))
    assert np.array_equal(np.concatenate(parts), expected)


def test_attention_without_keys(world, random):
    """No key gives 0, not 0 / 0."""
    heads = tp["x", None, None]

    @tandem.fuse(TensorType("f32", (4, 3, 8), heads), TensorType("f32", (4, 0, 8), heads), TensorType("f32", (4, 0, 5), heads), results=heads)
    def attend(q, k, v):
        return tandem.attention(q, k, v)

    empty = lambda columns: np.zeros((1, 0, columns), np.float32)
    for y in world.run(lambda c: attend(random(1, 3, 8), empty(8), empty(5))):
        assert y.shape == (1, 3, 5) and not y.any()


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal, world, random):
    """Queries stay where they are; keys and values are gathered."""
    heads = tp[None, "x", None]

    @tandem.fuse(*[TensorType("f32", (2, 32, 8), heads)] * 3, results=heads)
    def attend(q, k, v):
        return tandem.attention(q, k, v, causal=causal)

    q, k, v = random(2, 32, 8), random(2, 32, 8), random(2, 32, 8)
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(8)
    scores = np.where(np.tri(32, dtype=bool), scores, -np.inf) if causal else scores
    weights = np.exp(scores)
    expected = weights / weights.sum(-1, keepdims=True) @ v
    parts = world.run(lambda c: attend(*(np.ascontiguousarray(np.split(t, 4, 1)[c.rank]) for t in (q, k, v))))
    assert error(np.concatenate(parts, 1), expected) < 1e-5


def test_grouped_matmul(world, random):
    """Each rank sorts its own tokens by expert; one expert has none, and some rows have no expert."""
    blocks, columns = tp["x", None, None], tp[None, None, "x"]

    @tandem.fuse(TensorType("f32", (4, 12, 8), blocks), TensorType("f32", (3, 8, 16), columns), TensorType("f32", (3, 8, 16), columns),
                 TensorType("i32", (4, 3), tp["x", None]), results=blocks)
    def experts(x, up, down, ends):
        h = tandem.silu(tandem.grouped_matmul(x, up, ends))
        return tandem.grouped_matmul(h, down, ends, transpose_b=True)

    x, up, down = random(4, 12, 8), random(3, 8, 16), random(3, 8, 16)
    ends = np.array([[5, 5, 9], [0, 12, 12], [3, 6, 10], [12, 12, 12]], np.int32)
    expected = np.zeros((4, 12, 8), np.float32)
    for block, mine in enumerate(ends):
        for expert, (begin, end) in enumerate(zip((0, *mine), mine)):
            h = x[block, begin:end] @ up[expert]
            expected[block, begin:end] = h / (1 + np.exp(-h)) @ down[expert].T

    split = ((x, 0), (up, 2), (down, 2), (ends, 0))
    parts = world.run(lambda c: experts(*(np.ascontiguousarray(np.split(t, 4, axis)[c.rank]) for t, axis in split)))
    assert error(np.concatenate(parts), expected) < 1e-5


def test_grouped_matmul_of_8_bits(world, random):
    """Tokens are rounded to 8 bits before they are gathered, with a scale each. These numbers need no rounding."""
    blocks, tokens = tp["x", None, None], tp["x", None]

    @tandem.fuse(TensorType("f32", (4, 12, 8), blocks), TensorType("f32", (4, 12), tokens), TensorType("f32", (3, 16, 8), tp[None, "x", None]),
                 TensorType("i32", (4, 3), tokens), results=tp[None, None, "x"])
    def experts(x, scales, w, ends):
        x, w = tandem.cast(x, "f8E5M2"), tandem.cast(w, "f8E4M3FN")
        assert tandem.grouped_matmul(x, w, ends, transpose_b=True, dtype="f16").dtype == "f16"
        product = tandem.grouped_matmul(x, w, ends, transpose_b=True)
        assert product.dtype == "f32"
        return product * tandem.reshard(scales, tp[None, None]).reshape(4, 12, 1)

    x, w = (np.clip(np.rint(3 * random(*shape)), -8, 8).astype(np.float32) for shape in ((4, 12, 8), (3, 16, 8)))
    scales, ends = random(4, 12), np.array([[5, 5, 9], [0, 12, 12], [3, 6, 10], [12, 12, 12]], np.int32)
    expected = np.zeros((4, 12, 16), np.float32)
    for block, mine in enumerate(ends):
        for expert, (begin, end) in enumerate(zip((0, *mine), mine)):
            expected[block, begin:end] = x[block, begin:end] @ w[expert].T * scales[block, begin:end, None]

    split = ((x, 0), (scales, 0), (w, 1), (ends, 0))
    parts = world.run(lambda c: experts(*(np.ascontiguousarray(np.split(t, 4, axis)[c.rank]) for t, axis in split)))
    assert error(np.concatenate(parts, 2), expected) < 1e-6


def test_grouped_matmul_errors():
    def make(x, w, ends, **options):
        @tandem.fuse(TensorType(*x, tp[(None,) * len(x[1])]), TensorType(*w, tp[(None,) * len(w[1])]),
                     TensorType(*ends, tp[(None,) * len(ends[1])]), results=tp[None, None, None])
        def product(x, w, ends):
            return tandem.grouped_matmul(x, w, ends, **options)
        return product.compile()

    x, w, ends = ("f32", (4, 12, 8)), ("f32", (3, 8, 16)), ("i32", (4, 3))
    for given, options, message in (
            ((x, ("f32", (3, 9, 16)), ends), {}, r"expected \[..., M, K\], \[G, K, N\] and \[..., G\]"),
            ((x, w, ends), {"transpose_b": True}, r"\[G, N, K\]"),
            ((x, w, ("i32", (3,))), {}, r"\[..., G\]"),
            ((x, w, ("i64", (4, 3))), {}, "ends of i32"),
            ((x, ("f16", (3, 8, 16)), ends), {}, "factors of one floating point type"),
            ((x, ("f8E4M3FN", (3, 8, 16)), ends), {}, "factors of one floating point type, or of 8 bits"),
            ((("f8E5M2", (4, 12, 8)), ("f8E4M3FN", (3, 8, 16)), ends), {"dtype": "f8E5M2"}, "f32, f16 or bf16 of factors of 8 bits"),
            ((x, w, ends), {"dtype": "f16"}, "a result of f32, found f16")):
        with pytest.raises(tandem.ArgumentError, match=message):
            make(*given, **options)


def test_matmul_options(world, random):
    """Transposed factors, a bias, a vector, batches, annotations."""

    @tandem.fuse(TensorType("f32", (16, 32), tp[None, "x"]), TensorType("f32", (12, 16), WHOLE), TensorType("f32", (12,), tp[None]),
                 results=(tp["x", None], tp["x"]))
    def products(x, w, b):
        y = tandem.matmul(x, w, bias=b, transpose_a=True, transpose_b=True, gather="after", schedule="exchange")
        batched = y.reshape(1, 32, 12) @ tandem.reshard(w, WHOLE).reshape(1, 12, 16)
        return batched.reshape(32, 16), y @ b

    x, w, b = random(16, 32), random(12, 16), random(12)
    y = x.T @ w.T + b
    parts = world.run(lambda c: products(np.ascontiguousarray(np.split(x, 4, 1)[c.rank]), w, b))
    assert error(np.concatenate([first for first, _ in parts]), y @ w) < 1e-5
    assert error(np.concatenate([second for _, second in parts]), y @ b) < 1e-5
    text = products.trace()
    assert 'transpose_a, transpose_b, fusion.gather = "after", fusion.schedule = #fusion.schedule<exchange>' in text


def test_undecided_between(random):
    """What the results and arguments leave open, the compiler decides: no reshard is traced."""
    text = gather_matmul.trace({"x": (32, 16)})
    assert "reshard" not in text and '-> tensor<32x12xf32, #fusion.axes<#tp, [stream("x"), -]>> loc(' in text

    @tandem.fuse(TensorType("f32", (8, 16), ROWS), TensorType("f32", (16, 16), WHOLE), results=WHOLE)
    def twice(x, w):
        return tandem.relu(tandem.relu(x @ w) @ w)

    text = twice.trace()
    assert "reshard" not in text and text.count("tensor<8x16xf32>") > 2


def test_reshard_with_schedule():
    @tandem.fuse(TensorType("f32", (32, 16), ROWS), TensorType("f32", (16, 16), WHOLE), results=tp[loop("x"), None])
    def ring(x, w):
        return tandem.reshard(x, tp[loop("x"), None], schedule="ring", directions=2) @ w

    assert "{schedule = #fusion.schedule<ring, directions = 2>}" in ring.trace()
    assert ring.compile().bytes != gather_matmul.compile(shapes={"x": (32, 16)}).bytes


def test_choices_in_place_of_names():
    """One schedule, however it is written, is one program."""
    def program(**schedule):
        @tandem.fuse(TensorType("f32", (32, 16), ROWS), TensorType("f32", (16, 16), WHOLE), results=tp[loop("x"), None])
        def gather(x, w):
            return tandem.reshard(x, tp[loop("x"), None], **schedule) @ w
        return gather

    chosen = program(by="messages")
    assert "{schedule = #fusion.schedule<by = messages>}" in chosen.trace()
    programs = [one.compile().bytes for one in (program(schedule="exchange"), chosen, program(schedule="push"), program(order="xor"))]
    assert programs[0] == programs[1] and len(set(programs)) == 3

    @tandem.fuse(TensorType("f32", (32, 16), ROWS), TensorType("f32", (16, 16), WHOLE), results=ROWS)
    def product(x, w):
        return tandem.matmul(x, w, schedule={"by": "collective", "streams": 2})

    assert "fusion.schedule = #fusion.schedule<by = collective, streams = 2>" in product.trace()


def test_error_names_the_python_line():
    @tandem.fuse(TensorType("f32", (32, 16), ROWS), TensorType("f32", (16, 16), WHOLE), results=WHOLE)
    def wrong(x, w):
        where.append(line() + 1)
        return tandem.reshard(x, WHOLE, schedule="nothing") @ w

    where = []
    with pytest.raises(tandem.CompileError, match="nothing") as info:
        wrong.compile()
    assert (info.value.file, info.value.line) == (__file__, where[0])
    assert info.value.column > 1


@pytest.mark.parametrize("function, message", [
    (lambda x, w: x @ x, r"matmul\(f32\[32, 16\], f32\[32, 16\]\): expected equal contracted extents, found 16 and 32"),
    (lambda x, w: x + w, r"add\(f32\[32, 16\], f32\[16, 16\]\): expected extents that are equal or 1"),
    (lambda x, w: x + x.astype("f16"), "of one dtype"),
    (lambda x, w: (x > 0) + (x > 1), "expected numbers, found truth values"),
    (lambda x, w: x if x > 0 else w, "tandem.where"),
    (lambda x, w: x.reshape(5, 5), "expected a result of 512 elements"),
    (lambda x, w: x[40], "expected a number below 32"),
    (lambda x, w: x.sum(3), "expected a dimension"),
    (lambda x, w: 1.0, "traced tensors as results"),
    (lambda x, w: (x, w), "expected 1 results, found 2"),
    (lambda x, w: x[0], "expected result axes of 1 dimensions"),
    (lambda x, w: tandem.exp(x > 0), "floating-point"),
])
def test_rejected_functions(function, message):
    @tandem.fuse(TensorType("f32", (32, 16), ROWS), TensorType("f32", (16, 16), WHOLE), results=WHOLE)
    def wrong(x, w):
        return function(x, w)

    with pytest.raises(tandem.ArgumentError, match=message):
        wrong.trace()


@pytest.mark.parametrize("make, message", [
    (lambda: tandem.Mesh("a b", x=4), "expected a name"),
    (lambda: tandem.Mesh("tp", x=0), "mesh axis x: expected a number of at least 1, found 0"),
    (lambda: tandem.Mesh("tp"), "at least one axis"),
    (lambda: tp["y", None], "expected an axis of"),
    (lambda: tp["x", "x"], "expected axis .x. to split one dimension, found it twice"),
    (lambda: tp[3, None], "expected None, the name"),
    (lambda: loop(0), "number above 0"),
    (lambda: TensorType("f31", (4,), tp["x"]), "expected a dtype"),
    (lambda: TensorType("f32", (4, 4), tp["x"]), "one entry per dimension"),
    (lambda: tandem.fuse(TensorType("f32", (4,), tp["x"]), results=tp["x"])(lambda x, y: x), "y: expected a tandem.TensorType"),
    (lambda: gather_matmul.trace({"x": (32, 17)}), r"expected shape \(None, 16\)"),
    (lambda: gather_matmul.trace(), "expected its shape"),
    (lambda: gather_matmul.trace({"z": (1,), "x": (32, 16)}), "no argument is named z"),
])
def test_rejected_types(make, message):
    with pytest.raises(tandem.ArgumentError, match=message):
        make()


def test_mesh_size_of_the_world(random):
    mesh = tandem.Mesh("any", x=None)

    @tandem.fuse(TensorType("f32", (None, 16), mesh["x", None]), TensorType("f32", (16, 12), mesh[None, None]),
                 results=mesh[loop("x"), None])
    def product(x, w):
        return x @ w

    x, w = random(12, 16), random(16, 12)
    for size in (2, 3):
        with tandem.local_world(size) as world:
            assert all(error(y, x @ w) < 1e-5 for y in world.run(lambda c: product(rows(x, c), w)))
    with pytest.raises(tandem.ArgumentError, match="expected the size of mesh axis x"):
        product.compile(shapes={"x": (12, 16)})


def test_a_mesh_made_twice():
    """As when a notebook's cell runs again."""
    again = tandem.Mesh("tp", x=4)
    assert again == tp and hash(again) == hash(tp) and again["x", None] == tp["x", None]
    assert again != tandem.Mesh("tp", x=2) and again != tandem.Mesh("tp", devices=[3, 2, 1, 0], x=4)

    @tandem.fuse(TensorType("f32", (32, 16), tp["x", None]), TensorType("f32", (16, 12), again[None, None]), results=again[None, None])
    def product(x, w):
        return x @ w

    assert product.trace().count("#tandem.mesh") == 1
    assert "func.func @product(" in product.trace()


def test_digits():
    assert repr(tp[tandem.didx("x") * loop(2), None]) == '#fusion.axes<#tp, [didx("x") * stream(2), -]>'
    assert repr(tp.axes(loop(), tandem.serial(2), partial="x", op="max")) == \
        '#fusion.axes<#tp, [stream, serial(2)], partial = max ["x"]>'


def test_truth_values():
    """NumPy's count, and numbers."""
    rows = tandem.Mesh("tp", x=1)[None, None]

    @tandem.fuse(x=tandem.TensorType("f32", (4, 4), rows), w=tandem.TensorType("f32", (8, 4), rows), results=tandem.Mesh("tp", x=1)[None])
    def product(x, w):
        return tandem.matmul(x, w, transpose_a=0, transpose_b=np.bool_(True)).sum(1, keepdims=0)

    x, w = np.ones((4, 4), np.float32), np.ones((8, 4), np.float32)
    with tandem.local_world(1) as world:
        assert np.array_equal(world.run(lambda context: product(x, w))[0], (x @ w.T).sum(1))


def test_dtypes_of_libraries():
    import ml_dtypes
    rows = tandem.Mesh("tp", x=1)["x"]

    class Torch:  # torch.bfloat16 has no name
        def __repr__(self):
            return "torch.bfloat16"

    given = ["bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), Torch(), np.float32, np.dtype("int8"), np.bool_, bool,
             ml_dtypes.float8_e4m3fn]
    found = [tandem.TensorType(dtype, (4,), rows).dtype for dtype in given]
    assert found == ["bf16"] * 4 + ["f32", "i8", "i1", "i1", "f8E4M3FN"]

    @tandem.fuse(x=tandem.TensorType(np.float32, (4,), rows), results=rows)
    def halves(x):
        return x.astype(np.float16)

    with tandem.local_world(1) as world:
        assert world.run(lambda context: halves(np.ones(4, np.float32)))[0].dtype == np.float16
    with pytest.raises(tandem.ArgumentError, match="found <class 'numpy.complex64'>"):
        tandem.TensorType(np.complex64, (4,), rows)
