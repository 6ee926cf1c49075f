# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A pass of torch.compile: collectives next to matmuls become operators that overlap them."""

import contextlib
import hashlib
import logging
import operator

import torch
import torch._inductor.config
from torch._inductor.custom_graph_pass import CustomGraphPass

from . import _merging, _ops

log = logging.getLogger("tandem.torch")
_functional = torch.ops._c10d_functional
_aten = torch.ops.aten
_views = (_aten.view.default, _aten.reshape.default)


class CollectiveMatmulPass(CustomGraphPass):
    """Finds all-gather + matmul, matmul + reduce-scatter and matmul + all-reduce in the graphs of torch.compile, as
    DTensor and functional collectives write them, and replaces them by torch.ops.tandem. Each match, replaced or left,
    is logged with its reason (logger "tandem.torch", level INFO)."""

    def __init__(self):
        self.replaced, self.left = [], []  # what the last graphs had: texts

    def uuid(self):
        made = hashlib.sha256()
        for name in (__file__, _merging.__file__):
            with open(name, "rb") as file:
                made.update(file.read())
        return made.hexdigest()

    def __call__(self, graph):
        for node in list(graph.nodes):
            if node.target is _functional.all_gather_into_tensor.default:
                self._gather(graph, node)
            elif node.target is _functional.reduce_scatter_tensor.default:
                self._reduce(graph, node, node.args[3], "reduce-scatter", torch.ops.tandem.matmul_reduce_scatter.default,
                             lambda x, weight, group: (x, weight, 0, group))
            elif node.target is _functional.all_reduce.default:
                self._reduce(graph, node, node.args[2], "all-reduce", torch.ops.tandem.matmul_all_reduce.default,
                             lambda x, weight, group: ([x], [weight], group))
        for text in _merging.merge(graph):
            self._say(False, *text)
        graph.eliminate_dead_code()
        graph.lint()

    def _say(self, kept, what, node, reason=""):
        text = f"{what} {node.name}{': ' + reason if reason else ''}"
        (self.left if kept else self.replaced).append(text)
        log.info("%s %s", "left:" if kept else "overlapped:", text)

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
            is_product |= user.target is _aten.addmm.default and user.args[1] is wait and not user.kwargs
            (products if is_product else others).append(user)
        if not products:
            kinds = sorted({str(user.target) for user in others})
            return self._say(True, "all-gather", node, f"feeds no matmul but {', '.join(kinds) or 'nothing'}")
        if shard.meta["val"].dim() != 2 or shard.meta["val"].dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return self._say(True, "all-gather", node, f"gathers {shard.meta['val'].dtype}, {shard.meta['val'].dim()}-D")
        # Behind all weights: a graph is in order.
        weights = [product.args[2 if product.target is _aten.addmm.default else 1] for product in products]
        order = {one: index for index, one in enumerate(graph.nodes)}
        first = min(order[user] for user in wait.users)
        last = max(order[weight] for weight in weights)
        if last > first:
            return self._say(True, "all-gather", node, "a weight is computed after the first use of the gathered value")
        position = max([shard, *weights], key=order.get)
        with graph.inserting_after(max([position, node], key=order.get)):
            fused = graph.call_function(torch.ops.tandem.all_gather_matmul.default,
                                        (shard, weights, 0, group, None, bool(others)))
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

    def _reduce(self, graph, node, group, what, op, arguments):
        product, kind = node.args[0], node.args[1]
        if _ops._is_alone(group):
            return self._say(True, what, node, "a group of one rank")
        waits = self._waits(node)
        chain = []
        while product.target in _views and len(product.users) == 1:
            chain.append(product)
            product = product.args[0]
        if product.target is not _aten.mm.default:
            return self._say(True, what, node, f"reduces {product.target}, not a matmul")
        if kind != "sum":
            return self._say(True, what, node, f"reduces by {kind}")
        if len(product.users) != 1 or len(waits) != 1 or len(node.users) != 1:
            return self._say(True, what, node, "the product or the reduction has other uses")
        if chain and what == "reduce-scatter":
            shape = node.args[0].meta["val"].shape
            if shape[0] != product.meta["val"].shape[0]:
                return self._say(True, what, node, "the rows of the product are reshaped")
        if product.meta["val"].dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return self._say(True, what, node, f"reduces {product.meta['val'].dtype}")
        (wait,) = waits
        with graph.inserting_before(node):
            fused = graph.call_function(op, arguments(*product.args, group))
        shape = wait.meta["val"].shape
        fused.meta["val"] = product.meta["val"].new_empty((*shape[:1], *product.meta["val"].shape[1:])
                                                          if what == "reduce-scatter" else product.meta["val"].shape)
        made = fused
        if chain:
            with graph.inserting_after(fused):
                made = graph.call_function(_aten.view.default, (fused, list(shape)))
            made.meta["val"] = wait.meta["val"]
        wait.replace_all_uses_with(made)
        for old in (wait, node, *chain, product):
            graph.erase_node(old)
        self._say(False, what, fused)

@contextlib.contextmanager
def overlap_compiled():
    """While it is entered, torch.compile uses CollectiveMatmulPass; yields the pass.

        with tandem.torch.overlap_compiled():
            step = torch.compile(model)
            step(x).sum().backward()            # compiled by the first call and the first backward
    """
    config, used = torch._inductor.config, CollectiveMatmulPass()
    before = config.post_grad_custom_post_pass
    if before is not None:
        raise RuntimeError("overlap_compiled: expected no post_grad_custom_post_pass, found one")
    config.post_grad_custom_post_pass = used
    try:
        yield used
    finally:
        config.post_grad_custom_post_pass = before
