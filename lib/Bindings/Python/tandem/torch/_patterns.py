# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What lies between a collective and a matmul in graphs of torch.compile: waits, views, transposes, casts, scales, and the
splits and cats that DTensor needs to gather and scatter along another dimension than the first."""

import contextlib
import operator

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from ._merging import call

aten = torch.ops.aten
functional = torch.ops._c10d_functional
_VIEWS = (aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.unsqueeze.default, aten.squeeze.dim)
_CASTS = (torch.ops.prims.convert_element_type.default, aten._to_copy.default, aten.view.dtype)
_SCALES = (aten.mul.Tensor, aten.div.Tensor, aten.mul.Scalar, aten.div.Scalar)
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def value(node):
    return node.meta["val"]


def keeps_columns(node):
    """Does it move, merge or split only dimensions in front of the last one?"""
    if node.target is aten.permute.default:
        dims = [dim % len(node.args[1]) for dim in node.args[1]]
        return dims[-1] == len(dims) - 1
    if node.target is aten.clone.default:
        return True
    return node.target in _VIEWS and value(node).dim() > 0 and value(node).shape[-1:] == value(node.args[0]).shape[-1:]


def is_cast(node):
    """Another type of the same values, or the same bits (of 8-bit floats)."""
    if node.target is aten.view.dtype:
        return value(node).dtype.itemsize == value(node.args[0]).dtype.itemsize == 1
    return node.target in _CASTS and node.kwargs.keys() <= {"dtype", "device", "memory_format", "layout"} and \
        value(node).device == value(node.args[0]).device and value(node).is_floating_point() and value(node.args[0]).is_floating_point()


def factor(node, scaled=None):
    """(the tensor that is scaled, the number or tensor of one number) of a multiplication or division; None if it is another
    operation. scaled: that tensor, if it is known."""
    if node.target not in _SCALES or node.kwargs:
        return None
    for one, other in (node.args, node.args[::-1]) if "mul" in str(node.target) else (node.args,):
        is_number = isinstance(other, (int, float)) or isinstance(other, torch.fx.Node) and \
            (not isinstance(value(other), torch.Tensor) or value(other).dim() == 0)
        if is_number and isinstance(one, torch.fx.Node) and one is not other and scaled in (None, one):
            return one, other
    return None


def alike(node, other):
    return (node.target, node.args, node.kwargs) == (other.target, other.args, other.kwargs)


def waits(node):
    """The wait of a collective; equal ones become one. None if something else uses it."""
    found = [user for user in node.users if user.target is functional.wait_tensor.default]
    for other in found[1:]:
        other.replace_all_uses_with(found[0])
        other.graph.erase_node(other)
    return found[0] if found and len(node.users) == 1 else None


def _split(node):
    return (node.args[1], node.args[2] if len(node.args) > 2 else 0) if node.target is aten.split.Tensor else (None, None)


def _pieces(split, extents, dim):
    """The pieces of a split along a dimension, of one extent, in their order; None if it is another one, or not all are used
    once."""
    size, along = _split(split)
    size = value(size) if isinstance(size, torch.fx.Node) else size
    if size is None or along % len(extents) != dim:
        return None
    parts = sorted(split.users, key=lambda user: user.args[1])
    is_whole = [part.args[1] for part in parts] == list(range(len(parts))) and statically_known_true(len(parts) * size == extents[dim])
    return parts if is_whole and all(len(part.users) == 1 for part in parts) else None


def gathered(wait, ranks):
    """(the gathered value, the dimension along which it is gathered, a cast of its pieces or None). Along another dimension
    than the first, the pieces of the wait's result are put next to each other."""
    shape = value(wait).shape
    split = next(iter(wait.users), None)
    parts = _pieces(split, shape, 0) if len(wait.users) == 1 else None
    cast = next(iter(parts[0].users)) if parts and len(parts) == ranks else None
    if parts and cast is not None and is_cast(cast):
        parts = [next(iter(part.users)) for part in parts]
        if any((part.target, part.args[1:], part.kwargs) != (cast.target, cast.args[1:], cast.kwargs) or len(part.users) != 1 for part in parts):
            return wait, 0, None
    else:
        cast = None
    joined = next(iter(parts[0].users)) if parts and len(parts) == ranks else None
    if joined is None or joined.target is not aten.cat.default or list(joined.args[0]) != parts:
        return wait, 0, None
    return joined, (joined.args[1] if len(joined.args) > 1 else 0) % len(shape), cast


def scattered(node):
    """(the value that a reduce-scatter adds up, the dimension along which it is scattered), as `gathered`."""
    joined = node.args[0]
    if joined.target is aten.cat.default and (joined.args[1] if len(joined.args) > 1 else 0) == 0 and len(joined.users) == 1:
        split = joined.args[0][0].args[0] if joined.args[0][0].target is operator.getitem else None
        dim = _split(split)[1] if split is not None else None
        if split is not None and dim is not None:
            shape = value(split.args[0]).shape
            if len(joined.args[0]) == node.args[2] and _pieces(split, shape, dim % len(shape)) == list(joined.args[0]):
                return split.args[0], dim % len(shape)
    return joined, 0


def multiplies(user, left):
    """Is it `left` times a weight?"""
    if user.target is aten.addmm.default:
        return user.args[1] is left and not user.kwargs and left not in (user.args[0], user.args[2])
    return user.target in (aten.mm.default, aten._scaled_mm.default) and user.args[0] is left and left not in user.args[1:]


def multiplied(whole):
    """(the matmuls that a gathered value feeds, each with the views between, other users, the value that they use, the casts
    and scales by which it is made of the gathered one). One cast follows another while nothing else uses what it casts."""
    chain = []
    while True:
        products, others = [], []
        seen: list[tuple] = [(whole, ())]
        for one, path in seen:
            for user in one.users:
                if multiplies(user, one):
                    products.append((user, path))
                elif keeps_columns(user) and user.users:
                    seen.append((user, (*path, user)))
                elif (user, one) not in others:
                    others.append((user, one))
        if products or not others:
            break
        step = others[0][0]
        if not (is_cast(step) or factor(step, others[0][1])) or not all(alike(user, step) for user, _ in others):
            break
        for other, _ in others[1:]:
            other.replace_all_uses_with(step)
            other.graph.erase_node(other)
        (path,) = (path for one, path in seen if one is others[0][1])
        chain += [*path, step]
        whole = step
    return products, [user for user, _ in others], whole, chain


def summed(node):
    """[(matmul, the views between it and a reduction, factors)], the matmuls of one type whose sum the reduction of `node`
    adds up; nothing else uses them. Or what is reduced instead."""
    found = []
    stack: list[tuple] = [(node, (), ())]
    while stack:
        one, path, factors = stack.pop()
        if not isinstance(one, torch.fx.Node) or one.target not in (*_VIEWS, aten.mm.default, aten._scaled_mm.default, aten.add.Tensor,
                                                                    aten.permute.default, aten.clone.default, *_CASTS, *_SCALES):
            return str(getattr(one, "target", one)) + ", not a matmul"
        if len(one.users) != 1:
            return "products that have other uses"
        if one.target in (aten.mm.default, aten._scaled_mm.default):
            found.append((one, path, factors))
        elif keeps_columns(one):
            stack.append((one.args[0], (one, *path), factors))
        elif one.target is aten.add.Tensor and not one.kwargs:
            if any(not isinstance(other, torch.fx.Node) or value(other).shape != value(one).shape for other in one.args):
                return "a sum with repeated dimensions"
            stack.extend((other, path, factors) for other in reversed(one.args))
        elif is_cast(one) and one.target is not aten.view.dtype:
            stack.append((one.args[0], path, factors))
        elif pair := factor(one):
            stack.append((pair[0], path, ((one.target, pair[1]), *factors)))
        else:
            return str(one.target) + ", not a matmul"
    kinds = [(value(one).shape, value(one).dtype, one.target) for one, _, _ in found]
    if any(kind != kinds[0] for kind in kinds) or kinds[0][2] is aten._scaled_mm.default and len(kinds) > 1:
        return "more than matmuls of one type"
    return found


def sizes(graph, shape):
    """A shape as arguments of a node: numbers, and nodes that compute what depends on the graph's inputs."""
    return [_extent(graph, one) if isinstance(one, torch.SymInt) and one.node.expr.free_symbols else int(one) for one in shape]


def _extent(graph, extent):
    inputs = {node.meta["val"].node.expr: node for node in graph.nodes if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.SymInt)}
    if extent.node.expr in inputs:
        return inputs[extent.node.expr]
    if not extent.node.expr.free_symbols <= inputs.keys():
        raise ValueError(f"a shape is computed from {extent}, which is no input")
    before = set(graph.nodes)
    tracer = torch.fx.proxy.GraphAppendingTracer(graph)
    made = sympy_interp(PythonReferenceAnalysis, {symbol: torch.fx.Proxy(node, tracer) for symbol, node in inputs.items()}, extent.node.expr)
    for node in graph.nodes:
        if node not in before:
            node.meta["val"] = node.target(*torch.fx.map_arg(node.args, value), **node.kwargs)
    return made.node


def simplify(graph):
    """Sizes of values are computed from the graph's inputs, so that they do not use collectives; aliases are what they alias."""
    for node in list(graph.nodes):
        if node.target in (aten.detach.default, aten.alias.default):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        if node.target is aten.sym_size.int and isinstance(value(node), torch.SymInt) and value(node).node.expr.free_symbols:
            with contextlib.suppress(ValueError), graph.inserting_before(node):
                node.replace_all_uses_with(_extent(graph, value(node)))
                graph.erase_node(node)


def reshaped(graph, node, shape):
    """The node with a shape. Raises ValueError if its numbers are unknown."""
    return node if tuple(value(node).shape) == tuple(shape) else call(graph, aten.reshape.default, node, sizes(graph, shape))


def replayed(graph, node, path):
    """The node after the views of a path, which were of a value with other columns."""
    for view in path:
        if view.target is aten.permute.default:
            node = call(graph, aten.permute.default, node, view.args[1])
        elif view.target is not aten.clone.default:
            node = reshaped(graph, node, (*value(view).shape[:-1], value(node).shape[-1]))
    return node


def transposed(graph, node):
    return call(graph, aten.permute.default, node, [1, 0])


def cast_like(graph, node, like):
    if value(node).dtype == value(like).dtype:
        return node
    return call(graph, torch.ops.prims.convert_element_type.default, node, value(like).dtype)
