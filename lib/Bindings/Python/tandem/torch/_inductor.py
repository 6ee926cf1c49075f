# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A pass of torch.compile: collectives next to matmuls become operators that overlap them."""

import collections
import contextlib
import hashlib
import logging
import operator
import os
from typing import Any

import torch
import torch._inductor.config
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.pattern_matcher import stable_topological_sort

from . import _merging, _ops

log = logging.getLogger("tandem.torch")
_functional = torch.ops._c10d_functional
_aten = torch.ops.aten
_views = (_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default)


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
        for node in list(graph.nodes):
            if node.target is _functional.all_gather_into_tensor.default:
                self._gather(graph, node)
            elif node.target is _functional.reduce_scatter_tensor.default:
                self._reduce(graph, node, node.args[3], "reduce-scatter", _ops._scatter_op)
            elif node.target is _functional.all_reduce.default:
                self._reduce(graph, node, node.args[2], "all-reduce", _ops._reduce_op)
        stable_topological_sort(graph)  # new nodes are in front of some of their inputs
        for text in _merging.merge(graph):
            self._say(False, *text)
        graph.eliminate_dead_code()
        graph.lint()

    def _say(self, kept, what, node, reason=""):
        text = f"{what} {node.name}{': ' + reason if reason else ''}"
        (self.skipped if kept else self.replaced).append(text)
        log.info("%s %s", "skipped:" if kept else "overlapped:", text)

    @staticmethod
    def _waits(node):
        return [user for user in node.users if user.target is _functional.wait_tensor.default]

    @staticmethod
    def _pieces(split, extents, dim):
        """The pieces of a split along a dimension, of one extent, in their order; None if it is another one, or not all are used
        once."""
        if split.target is not _aten.split.Tensor or (split.args[2] if len(split.args) > 2 else 0) != dim:
            return None
        parts = sorted(split.users, key=lambda user: user.args[1])
        is_whole = [part.args[1] for part in parts] == list(range(len(parts))) and len(parts) * split.args[1] == extents[dim]
        return parts if is_whole and all(len(part.users) == 1 for part in parts) else None

    def _gathered(self, wait, shard):
        """(the gathered value, the dimension along which it is gathered). Along another one than the first, DTensor puts the
        pieces of the wait's result next to each other."""
        shape = wait.meta["val"].shape
        split: Any = next(iter(wait.users), None)
        parts = self._pieces(split, shape, 0) if len(wait.users) == 1 else None
        joined = next(iter(parts[0].users)) if parts and split.args[1] == shard.meta["val"].shape[0] else None
        if joined is None or joined.target is not _aten.cat.default or list(joined.args[0]) != parts:
            return wait, 0
        dim = (joined.args[1] if len(joined.args) > 1 else 0) % len(shape)
        return (joined, dim) if dim < len(shape) - 1 else (wait, 0)

    @staticmethod
    def _is_rows(view):
        """Does it merge or split dimensions in front of the last one?"""
        return view.target in _views and view.meta["val"].shape[-1:] == view.args[0].meta["val"].shape[-1:]

    def _gather(self, graph, node):
        shard, _, group = node.args
        if _ops._is_alone(group):
            return self._say(True, "all-gather", node, "a group of one rank")
        waits = self._waits(node)
        if len(waits) != 1 or len(node.users) != 1:
            return self._say(True, "all-gather", node, "expected one wait")
        whole, dim = self._gathered(waits[0], shard)
        products, others, seen = [], [], [whole]
        for one in seen:  # the value, and views of its rows
            for user in one.users:
                if self._multiplies(user, one):
                    products.append(user)
                elif self._is_rows(user) and user.users:
                    seen.append(user)
                else:
                    others.append(user)
        if not products:
            kinds = sorted({str(user.target) for user in others})
            return self._say(True, "all-gather", node, f"feeds no matmul but {', '.join(kinds) or 'nothing'}")
        if shard.meta["val"].dim() < 2 or shard.meta["val"].dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return self._say(True, "all-gather", node, f"gathers {shard.meta['val'].dtype}, {shard.meta['val'].dim()}-D")
        weights = [product.args[2 if product.target is _aten.addmm.default else 1] for product in products]
        if any(_merging.needs(weight, {whole}) for weight in weights):
            return self._say(True, "all-gather", node, "a weight is computed from the gathered value")
        with graph.inserting_before(node):
            fused = graph.call_function(_ops._gather_op, (shard, weights, dim, group, None, bool(others)))
        value = whole.meta["val"]
        fused.meta["val"] = [value.new_empty((*value.shape[:-1], product.meta["val"].shape[-1])) for product in products]
        fused.meta["val"] += [value] if others else []
        at = fused
        for index, product in enumerate([*products, *([whole] if others else [])]):
            with graph.inserting_after(at):
                part = at = graph.call_function(operator.getitem, (fused, index))
            part.meta["val"] = fused.meta["val"][index]
            if index < len(products) and value.dim() > 2:
                part = at = self._reshaped(graph, part, product.meta["val"])
            if product.target is _aten.addmm.default:
                with graph.inserting_before(product):
                    total = graph.call_function(_aten.add.Tensor, (part, product.args[0]))
                total.meta["val"] = product.meta["val"]
                part = total
            product.replace_all_uses_with(part)
        self._erase(graph, node)
        self._say(False, "all-gather", fused, f"{len(products)} matmuls" + (", and the gathered value" if others else ""))

    def _erase(self, graph, node):
        """Erases a collective and what is made of its result: nothing uses it any more. (Collectives are no dead code.)"""
        for user in list(node.users):
            self._erase(graph, user)
        graph.erase_node(node)

    @staticmethod
    def _multiplies(user, left):
        """Is it `left` times a weight?"""
        if user.target is _aten.addmm.default:
            return user.args[1] is left and not user.kwargs and left not in (user.args[0], user.args[2])
        return user.target is _aten.mm.default and user.args[0] is left and user.args[1] is not left

    @staticmethod
    def _reshaped(graph, node, like):
        """The node with the shape of a value, after it in the graph."""
        with graph.inserting_after(node):
            made = graph.call_function(_aten.reshape.default, (node, list(like.shape)))
        made.meta["val"] = node.meta["val"].new_empty(like.shape)
        return made

    def _products(self, value):
        """The matmuls of one shape and type whose sum is `value`; nothing else uses them. None if it is something else."""
        found, stack = [], [value]
        while stack:
            one = stack.pop()
            if not isinstance(one, torch.fx.Node) or len(one.users) != 1:
                return None
            if one.target is _aten.mm.default:
                found.append(one)
            elif self._is_rows(one):
                stack.append(one.args[0])
            elif one.target is _aten.add.Tensor and not one.kwargs:
                stack.extend(reversed(one.args))
            else:
                return None
        kinds = [(one.meta["val"].shape, one.meta["val"].dtype) for one in found]
        return found if all(kind == kinds[0] for kind in kinds) else None

    def _scattered(self, node):
        """(the value that a reduce-scatter adds up, the dimension along which it is scattered), as `_gathered`."""
        joined = node.args[0]
        if joined.target is _aten.cat.default and (joined.args[1] if len(joined.args) > 1 else 0) == 0 and len(joined.users) == 1:
            split = joined.args[0][0].args[0] if joined.args[0][0].target is operator.getitem else None
            dim = split.args[2] if split is not None and len(split.args) > 2 else 0
            if split is not None and self._pieces(split, split.args[0].meta["val"].shape, dim) == list(joined.args[0]):
                return split.args[0], dim
        return joined, 0

    def _reduce(self, graph, node, group, what, op):
        kind, waits = node.args[1], self._waits(node)
        if _ops._is_alone(group):
            return self._say(True, what, node, "a group of one rank")
        value, dim = self._scattered(node) if what == "reduce-scatter" else (node.args[0], 0)
        seen = value
        while seen.target in _views and len(seen.users) == 1:
            seen = seen.args[0]
        if seen.target not in (_aten.mm.default, _aten.add.Tensor):
            return self._say(True, what, node, f"reduces {seen.target}, not a matmul")
        if kind != "sum":
            return self._say(True, what, node, f"reduces by {kind}")
        products = self._products(value)
        if len(waits) != 1 or len(node.users) != 1 or products is None:
            return self._say(True, what, node, "reduces more than matmuls of one type, or their products have other uses")
        shape, dtype = value.meta["val"].shape, value.meta["val"].dtype
        if dim == len(shape) - 1:
            return self._say(True, what, node, "scatters columns, not rows, of the product")
        if dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return self._say(True, what, node, f"reduces {dtype}")
        (wait,) = waits
        rows = []
        for product in products:
            x = product.args[0]
            if what == "reduce-scatter" and len(shape) > 2:
                x = self._reshaped(graph, x, x.meta["val"].new_empty((*shape[:-1], x.meta["val"].shape[-1])))
            rows.append(x)
        with graph.inserting_before(node):
            fused = made = graph.call_function(op, (rows, [one.args[1] for one in products],
                                                    *([dim] if what == "reduce-scatter" else []), group))
        if what == "reduce-scatter":
            fused.meta["val"] = wait.meta["val"]
        else:
            fused.meta["val"] = products[0].meta["val"]
            if shape != fused.meta["val"].shape:
                made = self._reshaped(graph, fused, value.meta["val"])
        wait.replace_all_uses_with(made)
        self._erase(graph, node)
        self._say(False, what, fused, f"sum of {len(products)} matmuls" if len(products) > 1 else "")


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
