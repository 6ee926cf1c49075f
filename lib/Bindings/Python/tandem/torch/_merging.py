# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Merges operators of tandem in graphs of torch.compile that can share a collective. Linear layers with one input (q, k,
v; gate, up) are separate operators in the graph: without this, each would gather the input for itself, and in the backward
pass add up its own gradient of the input over the ranks.

| found | becomes |
|---|---|
| all_gather_matmul of one x with several weights | one, with all weights |
| the sum of the gradients of x of several all_gather_matmul_backward of one x | one, whose gradient of x is the sum |
| all_gather_matmul_backward of one x, where no gradient of x is needed | one |
| the sum of several matmul_all_reduce | one, that adds up the products before the reduction |
"""

import operator

import torch
from torch._inductor.pattern_matcher import stable_topological_sort

from . import _ops  # noqa: F401 - defines the operators

_gather = torch.ops.tandem.all_gather_matmul.default
_backward = torch.ops.tandem.all_gather_matmul_backward.default
_reduce = torch.ops.tandem.matmul_all_reduce.default
_add = torch.ops.aten.add.Tensor


def merge(graph):
    """Returns [(what, the new node, text)] of all that was merged, in a graph of aten and functional operators."""
    said = _one_input(graph) + _sums(graph)
    if said:
        stable_topological_sort(graph)  # new nodes are where the first of the old ones was, in front of their inputs
    return said


def positions(graph):
    return {node: index for index, node in enumerate(graph.nodes)}


def needs(node, others, order):
    """Does a node use results of others, directly or not? No node in front of the first of `others` does."""
    first, seen, stack = min(order[one] for one in others), set(), list(node.all_input_nodes)
    while stack:
        one = stack.pop()
        if one in others:
            return True
        if one not in seen and order[one] > first:
            seen.add(one)
            stack.extend(one.all_input_nodes)
    return False


def _one_input(graph):
    """Operators with one x whose results are only put one after another."""
    kinds = {}
    for node in graph.nodes:
        if node.target is _gather and not node.args[-1]:
            kinds.setdefault((_gather, node.args[0], *node.args[2:]), []).append(node)
        elif node.target is _backward and not node.args[5]:
            kinds.setdefault((_backward, node.args[0], *node.args[3:]), []).append(node)
    said = []
    for (target, x, *rest), nodes in kinds.items():
        order, members = positions(graph), []
        for node in nodes:
            if not members or not needs(node, set(members), order):
                members.append(node)
        if len(members) < 2:
            continue
        lists = [sum((list(node.args[index]) for node in members), []) for index in range(1, 2 if target is _gather else 3)]
        with graph.inserting_before(members[0]):
            made = graph.call_function(target, (x, *lists, *rest))
        made.meta["val"] = [value for node in members for value in node.meta["val"]]
        offset = 0
        for node in members:
            _renumber(node, made, lambda index, offset=offset: index + offset)
            offset += len(node.meta["val"])
            graph.erase_node(node)
        said.append(("all-gathers", made, f"{len(members)} of one value merged"))
    return said


def _renumber(node, made, number):
    """The parts of a node become those of another one."""
    for user in list(node.users):
        user.args = made, number(user.args[1])


def _sums(graph):
    """Sums of two results that a collective has added up over the ranks: one collective of the sum."""
    said = {}
    order = positions(graph)
    for total in list(graph.nodes):
        if total.target is not _add or total.kwargs or not all(isinstance(one, torch.fx.Node) for one in total.args):
            continue
        left, right = total.args
        if left is right or len(left.users) != 1 or len(right.users) != 1:
            continue
        if left.target is _reduce and right.target is _reduce:
            made, count = _sum_of_reductions(graph, total, left, right, order, said)
        else:
            made, count = _sum_of_gradients(graph, total, left, right, order, said)
        if made is not None:
            said[made] = count
    return [("all-reduces" if node.target is _reduce else "all-gathers and reduce-scatters", node, f"{count} of one sum merged")
            for node, count in said.items()]


def _insert(graph, nodes, target, arguments, order):
    first = min(nodes, key=order.get)
    with graph.inserting_before(first):
        made = graph.call_function(target, arguments)
    order[made] = order[first]
    return made


def _sum_of_reductions(graph, total, left, right, order, said):
    """(new node or None, how many it stands for)."""
    if left.args[2] != right.args[2] or left.meta["val"].shape != right.meta["val"].shape:
        return None, 0
    made = _insert(graph, (left, right), _reduce,
                   ([*left.args[0], *right.args[0]], [*left.args[1], *right.args[1]], left.args[2]), order)
    made.meta["val"] = total.meta["val"]
    total.replace_all_uses_with(made)
    for node in (total, left, right):
        graph.erase_node(node)
    return made, said.pop(left, 1) + said.pop(right, 1)


def _sum_of_gradients(graph, total, left, right, order, said):
    """(new node or None, how many it stands for)."""
    nodes = []
    for part in (left, right):
        if part.target is not operator.getitem or part.args[1] != 0 or part.args[0].target is not _backward:
            return None, 0
        nodes.append(part.args[0])
    one, other = nodes
    if one is other or one.args[0] is not other.args[0] or one.args[3:] != other.args[3:] or not one.args[5]:
        return None, 0
    if needs(one, {other}, order) or needs(other, {one}, order):
        return None, 0
    x, *_, dim, group, need_x, need_weights = one.args
    made = _insert(graph, nodes, _backward,
                   (x, [*one.args[1], *other.args[1]], [*one.args[2], *other.args[2]], dim, group, need_x, need_weights), order)
    made.meta["val"] = [total.meta["val"], *one.meta["val"][1:], *other.meta["val"][1:]]
    with graph.inserting_after(made):
        gradient = graph.call_function(operator.getitem, (made, 0))
    gradient.meta["val"] = total.meta["val"]
    order[gradient] = order[made]
    total.replace_all_uses_with(gradient)
    for node in (total, left, right):
        graph.erase_node(node)
    _renumber(one, made, lambda index: index)
    _renumber(other, made, lambda index: index + len(one.meta["val"]) - 1)
    graph.erase_node(one)
    graph.erase_node(other)
    return made, said.pop(one, 1) + said.pop(other, 1)
