# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a fusion means, in NumPy: every op on whole tensors in f64 (or integers), rounded to its dtype. Axes and reshards
mean nothing here."""

import math

import harness
import numpy as np

#: Floats of 8 bits are only made of what is exact.
TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "f16": 1e-3, "bf16": 8e-3, "i32": 0, "f8E4M3FN": 0, "f8E5M2": 0}
#: Ops that move elements and leave them as they are.
MOVEMENT = ("reshard", "permute", "reshape", "slice", "concat", "broadcast")


def rounded(array, dtype):
    if dtype == "i1":
        return np.asarray(array, bool)
    if dtype == "i32":
        return np.asarray(array).astype(np.int64).astype(np.int32).astype(np.int64)
    if dtype == "f64":
        return np.asarray(array, np.float64)
    if dtype in harness.FP8:
        return np.asarray(harness.round_fp8(dtype, np.asarray(array, np.float64)))
    wide = np.asarray(array, np.float64)
    if dtype != "bf16":
        return wide.astype(np.float16 if dtype == "f16" else np.float32).astype(np.float64)
    # Once: to 8 bits of an f64, or to multiples of the least bf16. What is too large is infinite.
    fraction, exponent = np.frexp(wide)
    unit = np.ldexp(1.0, np.maximum(exponent - 8, -133))
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.rint(wide / unit) * unit
    near = np.where(np.abs(near) >= 2.0 ** 128, np.copysign(np.inf, wide), near)
    return np.where(np.isfinite(wide), near, wide)


def divide(a, b):
    """Of integers, towards zero; 0 where b is 0."""
    nonzero = np.where(b == 0, 1, b)
    return np.where(b == 0, 0, np.sign(a) * np.sign(nonzero) * (np.abs(a) // np.abs(nonzero)))


ELEMENTWISE = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum, "arith.negf": np.negative, "math.absf": np.abs, "math.tanh": np.tanh,
    "math.exp": np.exp, "arith.extf": np.array, "arith.truncf": np.array, "arith.addi": np.add,
    "arith.subi": np.subtract, "arith.muli": np.multiply, "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.divf": np.divide, "arith.maxnumf": np.maximum, "arith.minnumf": np.minimum, "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor, "arith.shli": np.left_shift, "arith.select": np.where,
    "arith.shrsi": np.right_shift, "arith.extui": np.array, "arith.uitofp": np.array, "arith.sitofp": np.array,
    # Saturating; no number gives 0.
    "arith.fptosi": lambda x: np.trunc(np.clip(np.where(np.isnan(x), 0, x), -2.0**31, 2.0**31 - 1)),
    "math.erf": np.vectorize(math.erf, [float]), "math.sin": np.sin, "math.cos": np.cos,
    "math.sqrt": np.sqrt, "math.rsqrt": lambda x: 1 / np.sqrt(x), "math.log": np.log, "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc, "math.roundeven": np.rint, "math.expm1": np.expm1, "math.log1p": np.log1p,
    "math.round": lambda x: np.trunc(x + np.copysign(0.5, x)), "math.erfc": np.vectorize(math.erfc, [float]),
    "arith.divsi": divide, "arith.remsi": lambda a, b: np.where(b == 0, 0, a - divide(a, b) * b), "math.absi": np.abs,
}
#: By the last two letters of the predicate.
COMPARISON = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
              "ne": np.not_equal}
REDUCTION = {"sum": np.sum, "max": np.max, "min": np.min}


def identity(reduction, dtype):
    """What a reduction of no elements gives."""
    if reduction == "sum":
        return 0
    sign = -1 if reduction == "max" else 1
    return sign * np.inf if dtype != "i32" else -2**31 if sign < 0 else 2**31 - 1


def attention(attributes, q, k, v):
    if not k.shape[-2]:
        return np.zeros(q.shape[:-1] + v.shape[-1:])
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * attributes["scale"]
    if attributes["causal"]:
        tokens, pairs = np.arange(k.shape[-2]), attributes["zigzag"]
        if pairs:
            chunks = tokens.reshape(2 * pairs, -1)
            tokens = np.stack([chunks[:pairs], chunks[:pairs - 1:-1]], 1).reshape(-1)
        scores = np.where(tokens[None, :] <= tokens[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.matmul(weights / weights.sum(-1, keepdims=True), v)


def grouped_matmul(attributes, x, w, ends):
    """Rows from the end of the group before to that of their group are multiplied by its matrix, others are 0."""
    w = np.swapaxes(w, 1, 2) if attributes["transpose_b"] else w
    result = np.zeros((*x.shape[:-1], w.shape[-1]))
    for b in np.ndindex(*x.shape[:-2]):
        begin = 0
        for g, end in enumerate(ends[b]):
            end = max(begin, min(int(end), x.shape[-2]))
            result[b][begin:end] = x[b][begin:end] @ w[g]
            begin = end
    return result


def evaluate_op(op, operands):
    a = op.attributes
    if op.kind in ("arith.cmpf", "arith.cmpi"):
        return COMPARISON[a["predicate"][-2:]](*operands)
    if op.kind in ELEMENTWISE:
        return ELEMENTWISE[op.kind](*operands)
    if op.kind == "constant":
        return np.full(op.result.shape, float(a["number"]) if op.result.dtype != "i32" else int(a["number"]))
    if op.kind == "reshard":
        return operands[0]
    if op.kind == "matmul":
        lhs = np.swapaxes(operands[0], -1, -2) if a.get("transpose_a") else operands[0]
        rhs = np.swapaxes(operands[1], -1, -2) if a.get("transpose_b") else operands[1]
        product = np.matmul(lhs, rhs)
        return product + operands[2] if len(operands) == 3 else product
    if op.kind == "attention":
        return attention(a, *operands)
    if op.kind == "grouped_matmul":
        return grouped_matmul(a, *operands)
    if op.kind == "reduce":
        return REDUCTION[a["reduction"]](operands[0], axis=tuple(a["dims"]), keepdims=bool(a.get("keep_dims")),
                                         initial=identity(a["reduction"], op.result.dtype))
    if op.kind == "broadcast":
        shape = [1] * len(op.result.shape)
        for extent, dim in zip(operands[0].shape, a["dims"]):
            shape[dim] = extent
        return np.broadcast_to(operands[0].reshape(shape), op.result.shape)
    if op.kind == "permute":
        return np.transpose(operands[0], a["permutation"])
    if op.kind == "reshape":
        return operands[0].reshape(op.result.shape)
    if op.kind == "slice":
        return operands[0][tuple(slice(o, o + (n - 1) * s + 1 if n else o, s)
                                 for o, s, n in zip(a["offsets"], a["steps"], op.result.shape))]
    if op.kind == "concat":
        return np.concatenate(operands, a["dim"])
    raise ValueError(op.kind)


def evaluate(program, inputs):
    """`inputs`: arrays by argument name. Gives the results in order."""
    values = {a.name: rounded(inputs[a.name], a.dtype) for a in program.arguments}
    for op in program.ops:
        result = evaluate_op(op, [values[name] for name in op.operands])
        assert result.shape == op.result.shape, (program.seed, op, result.shape)
        values[op.result.name] = rounded(result, op.result.dtype)
    return [values[name] for name in program.results]


def compare(program, results, reference):
    """What is wrong with the results (by number), or None. Each rounding on the way may cost a unit of the tolerance."""
    dtypes = {v.dtype for v in program.arguments} | {op.result.dtype for op in program.ops} - {"i1"}
    tolerance = max(TOLERANCE[dtype] for dtype in dtypes)
    computing = [op for op in program.ops if op.kind not in MOVEMENT and op.kind != "constant"]
    # Partial arguments are multiples of 1/16: their sums are exact, and so is what is only moved.
    exact = not computing or dtypes == {"i32"}
    for i, (found, expected) in enumerate(zip(results, reference)):
        if found.shape != expected.shape:
            return f"result {i}: shape {found.shape}, expected {expected.shape}"
        if exact or program.value(program.results[i]).exact:
            if not np.array_equal(found.astype(np.float64), expected.astype(np.float64)):
                return f"result {i}: not equal to NumPy's"
            continue
        # The maximum of nothing is infinite, and what follows may be no number.
        finite = np.isfinite(expected)
        if not np.array_equal(found[~finite].astype(np.float64), expected[~finite], equal_nan=True):
            return f"result {i}: not as infinite as NumPy's"
        error = np.linalg.norm(found[finite].astype(np.float64) - expected[finite])
        norm = np.linalg.norm(expected[finite])
        limit = tolerance * (1 + len(computing)) * max(norm, np.sqrt(found.size) * 1e-2)
        if not error <= limit:
            return f"result {i}: {error / max(norm, 1e-30):.1e} off NumPy's"
    return None
