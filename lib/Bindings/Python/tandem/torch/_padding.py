# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many numbers of tokens share few programs: the rows of each rank are padded with zeros to a step, and the results cut.

Zeros change nothing: rows of results that come from them are cut off, and in a weight's gradient, which contracts over
rows, they add 0. Steps are those of families (docs/families.md): 4 between n and 2 n.
"""

from tandem import _tandem

from . import _fusions, _groups

EXACT = 64  # numbers of tokens of a layer that get programs of their own
UNIT = 64  # the least step, of the rows of all ranks


def padded_rows(group, op, like, ranks, tokens, outer, *kind):
    """(rows, call). rows: those of a rank in the program for `tokens` tokens of all ranks, or None: they get a program of
    their own, as the first EXACT numbers of a layer do. call: a text that each run must carry, since ranks with another
    number of tokens may run the same program. outer: the dimensions in front of tokens; kind: all else that a layer
    differs by. Collective over the group: raises unless all ranks are about to make the same call."""
    name, context, notes = group
    call = f"{op}: {tokens} tokens, {like.dtype}, {', '.join(map(str, (*outer, *kind)))}"
    if isinstance(context, _fusions.Planned):
        context.calls.append(call)
        return None, call
    _groups._agree(name, like.device, call)
    numbers, bound = notes.setdefault((op, like.dtype, kind), set()), _tandem.round_up(-(-tokens // ranks), max(1, UNIT // ranks))
    one = *outer, tokens
    if one not in numbers and len(numbers) >= EXACT and tokens not in (0, ranks * bound):
        return bound, call
    if len(numbers) < EXACT:
        numbers.add(one)
    return None, call


def agreed(group, like, call):
    """The call as a run carries it. The runs of ranks on other hosts are not compared, so there all ranks exchange it."""
    if not group[1].compares_runs:
        _groups._agree(group[0], like.device, call)
    return call


def _copies(padded, dense, dim, pieces, rows, bound):
    """Pairs of equal parts of a padded tensor and a dense one: `pieces` times `bound` rows, `rows` of which are used."""
    total = dense.shape[dim]
    whole = total // rows
    if whole:
        yield (padded.unflatten(dim, (pieces, bound)).narrow(dim, 0, whole).narrow(dim + 1, 0, rows),
               dense.narrow(dim, 0, whole * rows).unflatten(dim, (whole, rows)))
    if rest := total - whole * rows:
        yield padded.narrow(dim, whole * bound, rest), dense.narrow(dim, whole * rows, rest)


def pad(tensor, dim, pieces, rows, bound):
    """A tensor of pieces of `rows` rows along dim, the last ones shorter; now each has `bound` rows, zeros at its end."""
    shape = list(tensor.shape)
    shape[dim] = pieces * bound
    made = tensor.new_zeros(shape)
    for to, one in _copies(made, tensor, dim, pieces, rows, bound):
        to.copy_(one)
    return made


def cut(tensor, dim, pieces, rows, bound, total):
    """The reverse of `pad`: `total` rows."""
    if pieces == 1:
        return tensor.narrow(dim, 0, total).contiguous()
    shape = list(tensor.shape)
    shape[dim] = total
    made = tensor.new_empty(shape)
    for one, to in _copies(tensor, made, dim, pieces, rows, bound):
        to.copy_(one)
    return made
