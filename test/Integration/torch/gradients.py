# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank of test_features.py does: torch's own checks of operators and their gradients."""

import torch
import torch.distributed as dist

import tandem.torch as tt


class _Enter(torch.autograd.Function):
    """A value that is the same on all ranks, of which each takes a part."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


class _Leave(torch.autograd.Function):
    """The sum of terms that the ranks have."""

    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


def gradcheck(rank, ranks):
    """Derivatives of each function, against those that torch finds by differences, in f64. All ranks change the same
    element of the same global tensors, so their calls are the same."""
    torch.manual_seed(5)
    shape = {"dtype": torch.float64, "requires_grad": True}
    part = lambda x, dim: _Enter.apply(x).chunk(ranks, dim)[rank]  # noqa: E731
    # Other weights of the result on each rank, where each has a part of it.
    weigh = lambda y, seed: (y * torch.linspace(1, 2 + seed, y.numel(), dtype=y.dtype).view_as(y)).sum()  # noqa: E731
    x, w, v = torch.randn(2 * ranks, 2 * ranks, **shape), torch.randn(2 * ranks, 2 * ranks, **shape), torch.randn(2 * ranks, ranks, **shape)
    ops, group = torch.ops.tandem, dist.group.WORLD.group_name
    calls = {
        "all_gather_matmul": (lambda x, w: _Leave.apply(weigh(tt.all_gather_matmul(part(x, 0), part(w, 1)), rank)), (x, w)),
        "two weights": (lambda x, w, v: _Leave.apply(sum(weigh(y, rank) for y in tt.all_gather_matmul(
            part(x, 0), [part(w, 1), part(v, 1)]))), (x, w, v)),
        "matmul_reduce_scatter": (lambda x, w: _Leave.apply(weigh(tt.matmul_reduce_scatter(part(x, 1), part(w, 0)), rank)), (x, w)),
        "matmul_all_reduce": (lambda x, w: weigh(tt.matmul_all_reduce(part(x, 1), part(w, 0)), 0), (x, w)),
        "column_parallel": (lambda x, w: _Leave.apply(weigh(tt.column_parallel(x, part(w, 1)), rank)), (x, w)),
        # The operators, with the gathered value too, and with a sum of two products.
        "ops.all_gather_matmul": (lambda x, w: _Leave.apply(weigh(ops.all_gather_matmul(
            part(x, 0), [part(w, 1)], 0, group, None, True)[0], rank)), (x, w)),
        "ops.matmul_reduce_scatter": (lambda x, w, v: _Leave.apply(weigh(ops.matmul_reduce_scatter(
            [part(x, 1), part(v.t(), 1)], [part(w, 0), part(w + 1, 0)], 0, group), rank)), (x, w, x.detach() + 1)),
        "ops.matmul_all_reduce": (lambda x, w, v: weigh(ops.matmul_all_reduce(
            [part(x, 1), part(v.t(), 1)], [part(w, 0), part(w + 1, 0)], group), 0), (x, w, (x.detach() + 1).requires_grad_())),
    }
    for name, (call, inputs) in calls.items():
        with torch.autograd.graph.save_on_cpu():
            assert torch.autograd.gradcheck(call, inputs), name
    whole = ops.all_gather_matmul(part(x, 0), [part(w, 1)], 0, group, None, True)[1]
    assert torch.equal(whole, x) and not whole.requires_grad


def opcheck(rank, ranks):
    """Schemas, fake tensors and registrations of the operators, by torch.library.opcheck."""
    torch.manual_seed(6)
    group = dist.group.WORLD.group_name
    x, w, v = torch.randn(4, 8), torch.randn(8, 4), torch.randn(8, 6)
    grad = torch.randn(4 // ranks, 4)
    ops = torch.ops.tandem
    for op, arguments in ((ops.all_gather_matmul, (x, [w, v], 0, group, None, True)),
                          (ops.all_gather_matmul, (x, [w], 0, group, None, False)),
                          (ops.matmul_reduce_scatter, ([x], [w], 0, group)),
                          (ops.matmul_reduce_scatter_backward, (x, w, grad, 0, group, True, True)),
                          (ops.matmul_all_reduce, ([x], [w], group))):
        for needs in (False, True):
            if needs and op is ops.matmul_reduce_scatter_backward:
                continue  # it is a gradient
            for one in (x, w, v):
                one.requires_grad_(needs)
            torch.library.opcheck(op.default, arguments)
