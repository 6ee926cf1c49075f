# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A pass of torch.compile: collectives next to matmuls become operators that overlap them."""

import collections
import contextlib
import hashlib
import logging
import operator
import os

import torch
import torch._inductor.config
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.pattern_matcher import stable_topological_sort

from . import _merging, _ops

log = logging.getLogger("tandem.torch")
_functional = torch.ops._c10d_functional
_aten = torch.ops.aten
_views = (_aten.view.default, _aten.reshape.default)


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
                self._reduce(graph, node, node.args[3], "reduce-scatter", _ops._scatter_op, 0)
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

    def _gather(self, graph, node):
        shard, _, group = node.args
        if _ops._is_alone(group):
            return self._say(True, "all-gather", node, "a group of one rank")
        waits = self._waits(node)
        if len(waits) != 1 or len(node.users) != 1:
            return self._say(True, "all-gather", node, "expected one wait")
        (wait,) = waits
        products, others = [], []
        for user in wait.users:
            is_product = user.target is _aten.mm.default and user.args[0] is wait and user.args[1] is not wait
            is_product |= (user.target is _aten.addmm.default and user.args[1] is wait and not user.kwargs and
                           wait not in (user.args[0], user.args[2]))
            (products if is_product else others).append(user)
        if not products:
            kinds = sorted({str(user.target) for user in others})
            return self._say(True, "all-gather", node, f"feeds no matmul but {', '.join(kinds) or 'nothing'}")
        if shard.meta["val"].dim() != 2 or shard.meta["val"].dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return self._say(True, "all-gather", node, f"gathers {shard.meta['val'].dtype}, {shard.meta['val'].dim()}-D")
        weights = [product.args[2 if product.target is _aten.addmm.default else 1] for product in products]
        if any(_merging.needs(weight, {wait}) for weight in weights):
            return self._say(True, "all-gather", node, "a weight is computed from the gathered value")
        with graph.inserting_before(node):
            fused = graph.call_function(_ops._gather_op, (shard, weights, 0, group, None, bool(others)))
        values = [product.meta["val"].new_empty(product.meta["val"].shape) for product in products]
        fused.meta["val"] = values + ([wait.meta["val"]] if others else [])
        at = fused
        for index, product in enumerate([*products, *([wait] if others else [])]):
            with graph.inserting_after(at):
                part = at = graph.call_function(operator.getitem, (fused, index))
            part.meta["val"] = fused.meta["val"][index]
            if product.target is _aten.addmm.default:
                with graph.inserting_before(product):
                    total = graph.call_function(_aten.add.Tensor, (part, product.args[0]))
                total.meta["val"] = product.meta["val"]
                part = total
            product.replace_all_uses_with(part)
        for product in products:
            graph.erase_node(product)
        graph.erase_node(wait)
        graph.erase_node(node)
        self._say(False, "all-gather", fused, f"{len(products)} matmuls" + (", and the gathered value" if others else ""))

    @staticmethod
    def _products(value):
        """The matmuls of one shape and type whose sum is `value`; nothing else uses them. None if it is something else."""
        found, stack = [], [value]
        while stack:
            one = stack.pop()
            if not isinstance(one, torch.fx.Node) or len(one.users) != 1:
                return None
            if one.target is _aten.mm.default:
                found.append(one)
            elif one.target is _aten.add.Tensor and not one.kwargs:
                stack.extend(reversed(one.args))
            else:
                return None
        kinds = [(one.meta["val"].shape, one.meta["val"].dtype) for one in found]
        return found if all(kind == kinds[0] for kind in kinds) else None

    def _reduce(self, graph, node, group, what, op, *dim):
        product, kind = node.args[0], node.args[1]
        if _ops._is_alone(group):
            return self._say(True, what, node, "a group of one rank")
        waits = self._waits(node)
        chain = []
        while product.target in _views and len(product.users) == 1:
            chain.append(product)
            product = product.args[0]
        if product.target not in (_aten.mm.default, _aten.add.Tensor):
            return self._say(True, what, node, f"reduces {product.target}, not a matmul")
        if kind != "sum":
            return self._say(True, what, node, f"reduces by {kind}")
        products = self._products(product)
        if len(waits) != 1 or len(node.users) != 1 or products is None:
            return self._say(True, what, node, "reduces more than matmuls of one type, or their products have other uses")
        if chain and what == "reduce-scatter":
            shape = node.args[0].meta["val"].shape
            if shape[0] != product.meta["val"].shape[0]:
                return self._say(True, what, node, "the rows of the product are reshaped")
        if product.meta["val"].dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return self._say(True, what, node, f"reduces {product.meta['val'].dtype}")
        (wait,) = waits
        with graph.inserting_before(node):
            operands = ([one.args[index] for one in products] for index in (0, 1))
            fused = graph.call_function(op, (*operands, *dim, group))
        shape = wait.meta["val"].shape
        fused.meta["val"] = product.meta["val"].new_empty((*shape[:1], *product.meta["val"].shape[1:])
                                                          if what == "reduce-scatter" else product.meta["val"].shape)
        made = fused
        if chain:
            with graph.inserting_after(fused):
                made = graph.call_function(_aten.view.default, (fused, list(shape)))
            made.meta["val"] = wait.meta["val"]
        wait.replace_all_uses_with(made)
        for old in (wait, node, *chain):
            graph.erase_node(old)  # the products are dead code now
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
