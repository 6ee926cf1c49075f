# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Merges operators of tandem in graphs of torch.compile that can share a collective. Linear layers with one input (q, k,
v; gate, up) are separate operators in the graph: without this, each would gather the input for itself, and in the backward
pass add up its own gradient of the input over the ranks.

| found | becomes |
|---|---|
| several all_gather_matmul of one x | one, with all weights |
| the sum of several matmul_reduce_scatter, or of matmul_all_reduce | one, that adds up the products before the reduction |
| thin products in one of these, such as those of k and v | one product of the operands next to each other |

A product of few columns takes as long as reading x, one that adds few terms as long as reading and writing the sum. So it
costs less to copy the operands next to each other, with the narrowest of those that are not thin.
"""

import operator

import torch
from torch._inductor.pattern_matcher import stable_topological_sort

from ._ops import _gather_op, _reduce_op, _scatter_op

_reductions = {_scatter_op: "reduce-scatters", _reduce_op: "all-reduces"}
_aten = torch.ops.aten
_add = _aten.add.Tensor
#: Columns of a weight, or terms of a sum, up to which memory bounds a product: operations per element that memory moves.
_THIN = 256


def merge(graph):
    """Returns [(what, the new node, text)] of all that was merged, in a graph of aten and functional operators."""
    said = _one_input(graph) + _sums(graph)
    said += [text for node in list(graph.nodes) for text in _thin_columns(graph, node) + _thin_terms(graph, node)]
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
        if node.target is _gather_op:
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
            made = graph.call_function(_gather_op, (x, weights, *rest, whole is not None))
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


def _group(widths, copied, passed):
    """Which products become one: indices. `copied`: elements that are copied for each unit of width; `passed`: those that
    a thin product moves. Empty if too few are thin."""
    if not all(isinstance(one, int) for one in (*widths, copied, passed)):
        return []
    order = sorted(range(len(widths)), key=widths.__getitem__)
    count = sum(one <= _THIN for one in widths)
    taken = sorted(order[:count + 1])
    gone = min(count, len(taken) - 1)  # of those that took as long as memory does
    return taken if gone > 0 and 2 * copied * sum(widths[index] for index in taken) < gone * passed else []


def _beside(graph, nodes, dim):
    """The matrices next to each other along a dimension; those that are transposes are copied as they lie in memory."""
    if all(node.target is _aten.permute.default and list(node.args[1]) == [1, 0] for node in nodes):
        whole = call(graph, _aten.cat.default, [node.args[0] for node in nodes], 1 - dim)
        return call(graph, _aten.permute.default, whole, [1, 0])
    return call(graph, _aten.cat.default, list(nodes), dim)


def call(graph, op, *args, **more):
    made = graph.call_function(op, args, more)
    values = torch.fx.map_arg(args, lambda node: node.meta["val"])
    made.meta["val"] = op(*values, **more)
    return made


def _alike(nodes):
    return len({(node.meta["val"].dtype, node.meta["val"].dim()) for node in nodes}) == 1


def _thin_columns(graph, node):
    """Of an all_gather_matmul."""
    if node.target is not _gather_op or not _alike(node.args[1]):
        return []
    _, weights, *rest = node.args
    values = node.meta["val"]
    rows, inner = values[0].numel() // max(values[0].shape[-1], 1), weights[0].meta["val"].shape[0]
    taken = _group([one.meta["val"].shape[1] for one in weights], inner + rows, rows * inner)
    if not taken or any(user.target is not operator.getitem for user in node.users):
        return []
    kept = [index for index in range(len(weights)) if index not in taken]
    with graph.inserting_before(node):
        beside = _beside(graph, [weights[index] for index in taken], 1)
        made = graph.call_function(_gather_op, (node.args[0], [beside, *(weights[index] for index in kept)], *rest))
        columns = [weights[index].meta["val"].shape[1] for index in taken]
        wide = values[0].new_empty((*values[0].shape[:-1], sum(columns)))
        made.meta["val"] = [wide, *(values[index] for index in kept), *values[len(weights):]]
        whole = graph.call_function(operator.getitem, (made, 0))
        whole.meta["val"] = wide
    for user in list(node.users):
        index = user.args[1]
        if index in taken:
            first = sum(columns[:taken.index(index)])
            with graph.inserting_before(user):
                part = call(graph, _aten.slice.Tensor, whole, wide.dim() - 1, first, first + columns[taken.index(index)])
                part = call(graph, _aten.clone.default, part, memory_format=torch.contiguous_format)
            user.replace_all_uses_with(part)
            graph.erase_node(user)
        else:
            user.args = made, (1 + kept.index(index) if index < len(weights) else 1 + len(kept))
    graph.erase_node(node)
    return [("all-gather", made, f"{len(taken)} weights next to each other")]


def _thin_terms(graph, node):
    """Of the sum of products in a reduction."""
    if node.target not in _reductions or not _alike(node.args[0]) or not _alike(node.args[1]):
        return []
    left, right, *rest = node.args
    if left[0].meta["val"].dim() != 2:
        return []
    rows, columns = left[0].meta["val"].shape[0], right[0].meta["val"].shape[1]
    taken = _group([one.meta["val"].shape[0] for one in right], rows + columns, 2 * rows * columns)
    if not taken:
        return []
    kept = [index for index in range(len(right)) if index not in taken]
    with graph.inserting_before(node):
        factors = [[_beside(graph, [side[index] for index in taken], dim), *(side[index] for index in kept)]
                   for side, dim in ((left, 1), (right, 0))]
    node.args = (*factors, *rest)
    return [(_reductions[node.target][:-1], node, f"{len(taken)} products next to each other")]
