# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A pass of torch.compile: collectives next to matmuls become operators that overlap them."""

import collections
import contextlib
import hashlib
import logging
import math
import operator
import os

import torch
import torch._inductor.config
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.pattern_matcher import stable_topological_sort

from . import _merging, _ops, _patterns, _scaled
from ._merging import call
from ._patterns import (
    FLOATS,
    aten,
    cast_like,
    factor,
    functional,
    gathered,
    is_cast,
    keeps_columns,
    multiplied,
    replayed,
    reshaped,
    scattered,
    simplify,
    sizes,
    summed,
    transposed,
    value,
    waits,
)

log = logging.getLogger("tandem.torch")


class _Kept(Exception):
    """Why a collective is left as it is."""


class CollectiveMatmulPass(CustomGraphPass):
    """Finds all-gather + matmul, matmul + reduce-scatter and matmul + all-reduce in the graphs of torch.compile, as
    DTensor and functional collectives write them, and replaces them by torch.ops.tandem. Each match, replaced or skipped,
    is logged with its reason (logger "tandem.torch", level INFO).

        step = torch.compile(model, options={"post_grad_custom_post_pass": tandem.torch.CollectiveMatmulPass()})

    before: another pass, or a function of a graph, that runs first. The texts of the last 1000 matches are in `replaced`
    and `skipped`.
    """

    def __init__(self, before=None):
        self.before = before
        self.replaced, self.skipped = (collections.deque(maxlen=1000) for _ in range(2))

    def uuid(self):
        """Of this package's files, which are all that a graph depends on; None, so that nothing is cached, if the pass
        before says so, or cannot say."""
        other = () if self.before is None else self.before.uuid() if hasattr(self.before, "uuid") else None
        if other is None:
            return None
        made, folder = hashlib.sha256(repr(other).encode()), os.path.dirname(__file__)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    made.update(file.read())
        return made.hexdigest()

    def __call__(self, graph):
        if self.before is not None:
            self.before(graph)
        simplify(graph)
        failed, found = [], [node for node in graph.nodes if node.target in _COLLECTIVES]
        for node in found:
            try:
                if _ops._is_alone(node.args[-1]):
                    raise _Kept("a group of one rank")
                with graph.inserting_before(node):
                    _COLLECTIVES[node.target][1](self, graph, node)
            except (_Kept, ValueError) as reason:
                failed.append((node, str(reason)))
        kept = [(_COLLECTIVES[node.target][0], node, reason) for node, reason in failed if not node._erased]
        for text in kept:
            self._say(True, *text)
        stable_topological_sort(graph)  # new nodes are in front of some of their inputs
        for text in _merging.merge(graph):
            self._say(False, *text)
        graph.eliminate_dead_code()
        graph.lint()
        if not any(str(node.target).startswith("tandem.") for node in graph.nodes) and \
                not all(_ops._is_alone(node.args[-1]) for _, node, _ in kept):
            log.warning("overlap_compiled: no collective of a graph is overlapped: %s",
                        "; ".join(f"{what} {node.name}: {reason}" for what, node, reason in kept))

    def _say(self, kept, what, node, reason=""):
        text = f"{what} {node.name}{': ' + reason if reason else ''}"
        (self.skipped if kept else self.replaced).append(text)
        log.info("%s %s", "skipped:" if kept else "overlapped:", text)

    def _gather(self, graph, node):
        shard, ranks, group = node.args
        wait = waits(node)
        if wait is None:
            raise _Kept("expected one wait")
        whole, dim, cast = gathered(wait, ranks)
        products, others, used, chain = multiplied(whole)
        if not products:
            kinds = sorted({str(user.target) for user in others})
            raise _Kept(f"feeds no matmul but {', '.join(kinds) or 'nothing'}")
        columns, last = [], value(whole).dim() - 1
        weights = [product.args[2 if product.target is aten.addmm.default else 1] for product, _ in products]
        if any(_merging.needs(weight, {whole}) for weight in weights):
            raise _Kept("a weight is computed from the gathered value")
        later = [(step.target, factor(step)[1]) for step in chain if factor(step)]  # ranks may have different ones
        if later and (value(used).dtype not in FLOATS or torch.float16 in (value(used).dtype, value(whole).dtype)):
            raise _Kept(f"scales {value(used).dtype}")  # a product that is scaled later may overflow f16
        for step in [*([cast] if cast else []), *chain]:  # on this rank's part
            if is_cast(step):
                shard = call(graph, step.target, shard, *step.args[1:], **step.kwargs)
        if last < 1:
            raise _Kept(f"gathers {last + 1}-D tensors")
        if any(product.target is aten._scaled_mm.default for product, _ in products):
            if any(value(_scaled_arguments(product)["self_scale"]).numel() != 1 and
                   any(step.target is aten.permute.default for step in (*chain, *path)) for product, path in products):
                raise _Kept("feeds a matmul of 8-bit floats whose rows are in another order, with scales of rows")
            fused, columns, extra = self._gather_scaled(graph, shard, wait, products, dim, group, ranks, bool(others))
        elif value(used).dtype not in FLOATS:
            raise _Kept(f"gathers {value(used).dtype}")
        elif dim == last:
            fused, columns, extra = self._gather_terms(graph, shard, weights, group, bool(others))
        else:
            fused = call(graph, _ops._gather_op, shard, weights, dim, group, None, bool(others))
            *columns, extra = [_item(graph, fused, index) for index in range(len(value(fused)))] + [None] * (not others)
        unused = {_scaled_arguments(product)["self_scale"] for product, _ in products if product.target is aten._scaled_mm.default}
        for (product, path), part in zip(products, columns):
            part = reshaped(graph, replayed(graph, part, (*[one for one in chain if keeps_columns(one)], *path)), value(product).shape)
            for target, scale in later:
                part = call(graph, target, part, scale)
            if product.target is aten.addmm.default:
                part = call(graph, aten.add.Tensor, part, product.args[0])
            product.replace_all_uses_with(cast_like(graph, part, product))
            graph.erase_node(product)
        if others:
            extra = replayed(graph, extra, [one for one in chain if keeps_columns(one)])
            for target, scale in later:
                extra = call(graph, target, extra, scale)
            used.replace_all_uses_with(extra)
        self._erase(graph, node)
        for scale in unused:  # gathered by the product now
            gather = None if scale._erased else _gather_of(scale)
            while gather and not gather._erased and not scale.users:
                scale, done = scale.args[0], scale
                graph.erase_node(done)
        self._say(False, "all-gather", fused, f"{len(products)} matmuls" + (", and the gathered value" if others else ""))

    @staticmethod
    def _gather_terms(graph, shard, weights, group, others):
        """Gathers the dimension that the matmul contracts: y^T = w^T @ all_gather(x^T), which is how the gradient of a weight is
        computed."""
        weight, *more = weights
        if others or more:
            raise _Kept("gathers the terms of a matmul, and is used by others")
        rows = value(shard).shape[:-1].numel()
        turned = transposed(graph, reshaped(graph, shard, (rows, value(shard).shape[-1])))
        like = call(graph, aten.new_empty.default, weight, sizes(graph, [rows, value(weight).shape[1]]))
        fused = call(graph, _ops._scatter_backward_op, weight, transposed(graph, like), turned, 0, group, False, True)
        part = transposed(graph, _item(graph, fused, 0))
        return fused, [reshaped(graph, part, (*value(shard).shape[:-1], value(weight).shape[1]))], None

    @staticmethod
    def _gather_scaled(graph, shard, wait, products, dim, group, ranks, others):
        """Products of 8-bit floats. Rows are gathered along the first dimension, and put in order afterwards."""
        given = [_scaled_arguments(product) for product, _ in products]
        shape, dtype = value(shard).shape, value(products[0][0]).dtype
        if any(one["self_scale"] is not given[0]["self_scale"] or value(product).dtype != dtype for one, (product, _) in zip(given, products)):
            raise _Kept("feeds matmuls of 8-bit floats with different scales or types of the result")
        if dim == len(shape) - 1:
            raise _Kept("gathers the terms of a matmul of 8-bit floats")
        scale, by_row, outer = given[0]["self_scale"], None, math.prod(shape[:dim])
        mine = _scale_shard(scale, group, shape[:-1].numel() if outer == 1 else 0)
        if mine is None:  # each rank has the scales of all rows
            mine, by_row = call(graph, aten.new_full.default, scale, [], 1.0), scale
        wide = by_row is not None or any(one["bias"] for one in given)
        results = [one["scale_result"] for one in given if one["scale_result"]]
        if results and (wide or len(results) < len(given)):
            raise _Kept("feeds matmuls of 8-bit floats with scales of the result, and with others")
        rows = reshaped(graph, shard, (shape[:-1].numel(), shape[-1]))
        fused = call(graph, _scaled._gather_op, rows, [one["mat2"] for one in given], mine,
                     [_flat_scale(graph, one["mat2_scale"]) for one in given], group, None, torch.float32 if wide else dtype,
                     [_flat_scale(graph, one) for one in results], others)
        made = []
        for index in range(len(value(fused))):
            part, whole = _item(graph, fused, index), list(shape)
            whole[dim] *= ranks
            if outer != 1:
                part = reshaped(graph, part, (ranks, outer, math.prod(shape[dim:-1]), value(part).shape[-1]))
                part = call(graph, aten.permute.default, part, [1, 0, 2, 3])
            if index < len(given) and by_row is not None:
                part = reshaped(graph, part, (math.prod(whole[:-1]), value(part).shape[-1]))
                part = call(graph, aten.mul.Tensor, part, by_row)
            if index < len(given) and given[index]["bias"]:
                part = call(graph, aten.add.Tensor, part, given[index]["bias"])
            made.append(reshaped(graph, part, (*whole[:-1], value(part).shape[-1])))
        return fused, made[:len(given)], made[-1]

    def _erase(self, graph, node):
        """Erases a collective and what is made of its result: nothing uses it any more. (Collectives are no dead code.)"""
        for user in list(node.users):
            self._erase(graph, user)
        graph.erase_node(node)

    def _reduce(self, graph, node):
        is_scatter = node.target is functional.reduce_scatter_tensor.default
        kind, group, wait = node.args[1], node.args[3 if is_scatter else 2], waits(node)
        reduced, dim = scattered(node) if is_scatter else (node.args[0], 0)
        products = summed(reduced)
        if isinstance(products, str):
            raise _Kept(f"reduces {products}")
        if kind not in ("sum", "avg"):
            raise _Kept(f"reduces by {kind}")
        if wait is None:
            raise _Kept("expected one wait")
        shape, dtype = value(reduced).shape, value(products[0][0]).dtype
        if dtype not in FLOATS:
            raise _Kept(f"reduces {dtype}")
        if dtype is torch.float16 and any(factors for _, _, factors in products):
            raise _Kept(f"scales {dtype}")  # a factor may be too large or too small for it
        is_last = is_scatter and dim == len(shape) - 1
        if products[0][0].target is aten._scaled_mm.default:
            fused = self._reduce_scaled(graph, products[0], shape, dim, group, is_scatter, is_last)
        else:
            rows, weights = [], []
            for product, path, factors in products:
                x, weight = product.args[:2]
                for target, scale in factors:
                    x = call(graph, target, x, scale)
                if is_scatter and len(shape) > 2 or any(one.target is aten.permute.default for one in path):
                    x = replayed(graph, x, path)
                if is_last:
                    x, weight = transposed(graph, weight), transposed(graph, reshaped(graph, x, (shape[:-1].numel(), value(x).shape[-1])))
                rows.append(x)
                weights.append(weight)
            op, rest = (_ops._scatter_op, [0 if is_last else dim]) if is_scatter else (_ops._reduce_op, [])
            fused = call(graph, op, rows, weights, *rest, group)
        made = fused
        if is_last:
            made = call(graph, aten.clone.default, transposed(graph, fused), memory_format=torch.contiguous_format)
        made = cast_like(graph, reshaped(graph, made, value(wait).shape), wait)
        if kind == "avg":
            made = call(graph, aten.div.Tensor, made, _ops._ranks(group))
        wait.replace_all_uses_with(made)
        self._erase(graph, node)
        self._say(False, "reduce-scatter" if is_scatter else "all-reduce", fused, f"sum of {len(products)} matmuls" if len(products) > 1 else "")

    @staticmethod
    def _reduce_scaled(graph, product, shape, dim, group, is_scatter, is_last):
        """A product of 8-bit floats. The rows of each rank are put next to each other, where others are between them."""
        node, path, factors = product
        given = _scaled_arguments(node)
        if not is_scatter or factors or given["bias"] or given["scale_result"]:
            raise _Kept("reduces a matmul of 8-bit floats " + ("by all-reduce" if not is_scatter else "with a bias or other scales"))
        x, weight = given["self"], given["mat2"]
        scales = [_flat_scale(graph, given[f"{side}_scale"]) for side in ("self", "mat2")]
        if is_last and any(one.target is aten.permute.default for one in path):
            raise _Kept("scatters columns of a transposed matmul of 8-bit floats")
        if is_last:
            return call(graph, _scaled._scatter_op, transposed(graph, weight), transposed(graph, x), *scales[::-1], group, value(node).dtype)
        ranks, outer, inner = _ops._ranks(group), math.prod(shape[:dim]), math.prod(shape[dim + 1:-1])

        def ordered(rows):
            rows = replayed(graph, rows, path)
            columns = value(rows).shape[-1]
            if outer != 1:
                rows = reshaped(graph, rows, (outer, ranks, shape[dim] // ranks * inner, columns))
                rows = call(graph, aten.permute.default, rows, [1, 0, 2, 3])
            return reshaped(graph, rows, (math.prod(shape[:-1]), columns))
        if value(scales[0]).dim():
            by_row = ordered(call(graph, aten.unsqueeze.default, scales[0], 1))
            scales[0] = call(graph, aten.squeeze.dim, by_row, 1)
        return call(graph, _scaled._scatter_op, ordered(x), weight, *scales, group, value(node).dtype)


def _item(graph, node, index):
    part = graph.call_function(operator.getitem, (node, index))
    part.meta["val"] = value(node)[index]
    return part


def _scaled_arguments(node):
    names = ["self", "mat2", "self_scale", "mat2_scale", "bias", "scale_result"]
    return dict.fromkeys(names) | dict(zip(names, node.args)) | \
        {{"scale_a": "self_scale", "scale_b": "mat2_scale"}.get(name, name): one for name, one in node.kwargs.items()}


def _flat_scale(graph, scale):
    """Of `_scaled_mm`: one number, or one for each row or column."""
    if value(scale).dtype != torch.float32 or max(value(scale).shape, default=1) != value(scale).numel():
        raise _Kept(f"a scale of {value(scale).dtype} of shape {tuple(value(scale).shape)}")
    return reshaped(graph, scale, () if value(scale).numel() == 1 else (value(scale).numel(),))


def _scale_shard(scale, group, rows):
    """The scales of this rank's rows: a number for all, or those that are gathered as the rows are. None: neither."""
    if value(scale).numel() == 1:
        return _flat_scale(scale.graph, scale)
    gather = _gather_of(scale)
    if gather and gather.args[2] == group and value(gather.args[0]).numel() == rows:
        return _flat_scale(scale.graph, gather.args[0])
    return None


def _gather_of(scale):
    """The all-gather of which a node is the result, or a view of it; None if it is another value."""
    while scale.target in _patterns._VIEWS:
        scale = scale.args[0]
    found = scale.args[0] if scale.target is functional.wait_tensor.default else scale
    return found if found.target is functional.all_gather_into_tensor.default else None


_COLLECTIVES = {functional.all_gather_into_tensor.default: ("all-gather", CollectiveMatmulPass._gather),
                functional.reduce_scatter_tensor.default: ("reduce-scatter", CollectiveMatmulPass._reduce),
                functional.all_reduce.default: ("all-reduce", CollectiveMatmulPass._reduce)}


@contextlib.contextmanager
def overlap_compiled():
    """While it is entered, all that torch.compile compiles uses CollectiveMatmulPass, after the pass that is set already;
    yields the pass. A model's backward is compiled by its first call: enter it there too, or give the pass to
    torch.compile.

        with tandem.torch.overlap_compiled():
            step = torch.compile(model)
            step(x).sum().backward()
    """
    config = torch._inductor.config
    used = CollectiveMatmulPass(config.post_grad_custom_post_pass)
    with config.patch(post_grad_custom_post_pass=used):
        yield used
