# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Merges operators of tandem in graphs of torch.compile that can share a collective. Linear layers with one input (q, k,
v; gate, up) are separate operators in the graph: without this, each would gather the input for itself, and in the backward
pass add up its own gradient of the input over the ranks.

| found | becomes |
|---|---|
| several all_gather_matmul of one x | one, with all weights |
| the sum of several matmul_reduce_scatter, or of matmul_all_reduce | one, that adds up the products before the reduction |
"""

import torch
from torch._inductor.pattern_matcher import stable_topological_sort

from . import _ops  # noqa: F401 - defines the operators

_gather = torch.ops.tandem.all_gather_matmul.default
_reductions = {torch.ops.tandem.matmul_reduce_scatter.default: "reduce-scatters",
               torch.ops.tandem.matmul_all_reduce.default: "all-reduces"}
_add = torch.ops.aten.add.Tensor


def merge(graph):
    """Returns [(what, the new node, text)] of all that was merged, in a graph of aten and functional operators."""
    said = _one_input(graph) + _sums(graph)
    if said:
        stable_topological_sort(graph)  # new nodes are where the first of the old ones was, in front of their inputs
    return said


def _positions(graph):
    return {node: index for index, node in enumerate(graph.nodes)}


def needs(node, others):
    """Is a node one of others, or does it use their results, directly or not? In any order of the graph's nodes: merged
    nodes can be in front of their inputs."""
    seen, stack = set(), [node]
    while stack:
        one = stack.pop()
        if one in others:
            return True
        if one not in seen:
            seen.add(one)
            stack.extend(one.all_input_nodes)
    return False


def _one_input(graph):
    """all_gather_matmul of one x."""
    kinds = {}
    for node in graph.nodes:
        if node.target is _gather:
            x, _, *rest, _ = node.args
            kinds.setdefault((x, *rest), []).append(node)
    said = []
    for (x, *rest), nodes in kinds.items():
        members = []
        for node in sorted(nodes, key=_positions(graph).get):  # so none needs a later one
            if not members or not needs(node, set(members)):
                members.append(node)
        if len(members) < 2:
            continue
        weights = [weight for node in members for weight in node.args[1]]
        whole = next((node.meta["val"][-1] for node in members if node.args[-1]), None)
        with graph.inserting_before(members[0]):
            made = graph.call_function(_gather, (x, weights, *rest, whole is not None))
        made.meta["val"] = [value for node in members for value in node.meta["val"][:len(node.args[1])]]
        made.meta["val"] += [whole] if whole is not None else []
        offset = 0
        for node in members:
            count = len(node.args[1])
            for user in list(node.users):
                user.args = made, len(weights) if user.args[1] == count else user.args[1] + offset
            offset += count
            graph.erase_node(node)
        stable_topological_sort(graph)  # the new node is where the first of the old ones was, in front of its inputs
        said.append(("all-gathers", made, f"{len(members)} of one value merged"))
    return said


def _sums(graph):
    """Sums of two results of reductions."""
    said, order = {}, _positions(graph)
    for total in list(graph.nodes):
        if total.target is not _add or total.kwargs or not all(isinstance(one, torch.fx.Node) for one in total.args):
            continue
        left, right = total.args
        if left is right or left.target not in _reductions or left.target is not right.target:
            continue
        kind, other = ((one.args[2:4], one.meta["val"].shape, one.meta["val"].dtype) for one in total.args)
        if kind != other or len(left.users) != 1 or len(right.users) != 1:
            continue
        first = min(left, right, key=order.get)
        with graph.inserting_before(first):
            made = graph.call_function(left.target, ([*left.args[0], *right.args[0]], [*left.args[1], *right.args[1]],
                                                     *left.args[2:]))
        order[made], made.meta["val"] = order[first], total.meta["val"]
        total.replace_all_uses_with(made)
        for node in (total, left, right):
            graph.erase_node(node)
        said[made] = said.pop(left, 1) + said.pop(right, 1)
    return [(_reductions[node.target], node, f"{count} of one sum merged") for node, count in said.items()]
