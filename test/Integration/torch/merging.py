# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Like layers.py: operators that torch.compile's graphs have together, which the pass merges."""

import torch
from layers import _compile, close, part

import tandem.torch as tt
from tandem.torch import _merging


def merges(rank, ranks):
    """Operators with one input share their collectives in compiled code: forward, backward, and where nothing is split."""
    torch.manual_seed(8)
    x = torch.randn(2 * ranks, 8)
    weights = [torch.randn(6, 8, requires_grad=True) for _ in range(3)]

    def gathered(x, *weights):  # the second depends on nothing but x; the last one on the first: it cannot be merged
        one, other = tt.all_gather_matmul(x, weights[0].t()), tt.all_gather_matmul(x, torch.tanh(weights[1]).t())
        return one + other, tt.all_gather_matmul(x, (weights[2] * one.sum()).t())

    def replicated(x, *weights):
        return tuple(tt.column_parallel(x, weight.t()) for weight in weights)

    def free(x, *weights):
        return gathered(x.detach(), *weights)

    def crossed(x, *weights):  # with one for both of x, the first of y needs the second
        x, y = x.detach(), x.detach() + 1
        one = tt.all_gather_matmul(x, weights[0].t())
        first = tt.all_gather_matmul(y, (weights[0] * one.mean()).t())
        second = tt.all_gather_matmul(y, weights[1].t())
        return first, tt.all_gather_matmul(x, (weights[2] * second.mean()).t())

    for function, local, wanted in (
            (gathered, part(x, rank, ranks), [["all-gathers", "2 of one value"], ["reduce-scatters", "3 of one sum"]]),
            (free, part(x, rank, ranks), [["all-gathers", "2 of one value"]]),
            (crossed, part(x, rank, ranks), [["all-gathers", "2 of one value"]]),
            (replicated, x, [["all-reduces", "3 of one sum"]])):
        found, said = [], []
        for compiling in (False, True):
            used = tt.CollectiveMatmulPass()
            call = _compile(function, used) if compiling else function
            inputs = [local.clone().requires_grad_(), *(weight.detach().clone().requires_grad_() for weight in weights)]
            results = call(*inputs)
            torch.autograd.backward(results, [torch.cos(result.detach()) for result in results])
            found.append([*results, *(one.grad for one in inputs if one.grad is not None)])
            said = used.replaced
        assert len(found[0]) == len(found[1])
        for one, other in zip(*found):
            close(one, other)
        brief = [[text.split(" all_")[0].split(" matmul_")[0], text.split(": ")[1].removesuffix(" merged")] for text in said]
        assert brief == wanted, said


def thin(rank, ranks):
    """Products with few columns, and sums of products of few terms, become one product in compiled code."""
    torch.manual_seed(9)
    x = torch.randn(128 * ranks, 64)

    def layers(x, *weights):  # a view of a result, and one in another order, as attention has them
        results = [tt.all_gather_matmul(x, weight.t()) for weight in weights]
        return (*(torch.sin(result.view(-1, 2, result.shape[1] // 2).transpose(0, 1)) for result in results), results[0] + 1)

    for limit, widths, together in ((256, (8, 4, 4), 3), (4, (12, 4, 6), 2), (2, (8, 4, 4), 0)):
        _merging._THIN, before = limit, _merging._THIN
        weights, found = [torch.randn(width, 64) for width in widths], []
        try:
            for compiling in (False, True):
                used = tt.CollectiveMatmulPass()
                call = _compile(layers, used) if compiling else layers
                inputs = [part(x, rank, ranks).clone().requires_grad_(), *(weight.clone().requires_grad_() for weight in weights)]
                results = call(*inputs)
                torch.autograd.backward(results, [torch.cos(result.detach()) for result in results])
                found.append([*results, *(one.grad for one in inputs)])
        finally:
            _merging._THIN = before
        for one, other in zip(*found):
            close(one, other)
        wanted = []
        for where, what in (("value", "weights"), ("sum", "products")):
            wanted += [f"3 of one {where} merged"] + [f"{together} {what} next to each other"] * (together > 0)
        assert [text.split(": ")[1] for text in used.replaced] == wanted, used.replaced
