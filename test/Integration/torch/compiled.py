# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank of test_compiled.py does: CollectiveMatmulPass in models whose activations have three dimensions."""

import copy

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from layers import _compile, _full, close, part
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import tandem.torch as tt


class Attention(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16, bias) for _ in range(3))
        self.o = nn.Linear(16, 16, bias)

    def forward(self, x):
        q, k, v = (one(x).unflatten(-1, (-1, 4)).transpose(1, 2) for one in (self.q, self.k, self.v))
        y = torch.softmax(q @ k.transpose(-1, -2), -1) @ v
        return self.o(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.RMSNorm(16), nn.LayerNorm(16), Attention(bias)
        self.gate, self.up, self.down = nn.Linear(16, 32, bias), nn.Linear(16, 32, bias), nn.Linear(32, 16, bias)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(torch.sigmoid(self.gate(y)) * self.up(y))


def _plan(dim, prepares):
    """torch's plan of torchtitan (`prepares`: one gather for q, k and v), or a gather for each layer."""
    rows = Shard(dim)
    columns = ColwiseParallel() if prepares else ColwiseParallel(input_layouts=rows)
    plan = {"norm1": SequenceParallel(sequence_dim=dim), "norm2": SequenceParallel(sequence_dim=dim),
            **{f"attention.{name}": columns for name in "qkv"}, "gate": ColwiseParallel(input_layouts=rows),
            "up": ColwiseParallel(input_layouts=rows),
            "attention.o": RowwiseParallel(output_layouts=rows), "down": RowwiseParallel(output_layouts=rows)}
    if prepares:
        plan["attention"] = PrepareModuleInput(input_layouts=(rows,), desired_input_layouts=(Replicate(),))
    return plan


def three_dimensions(rank, ranks, dim, prepares, bias):
    """The sequences of a batch are split along their tokens: each collective next to a matmul is replaced."""
    dim, prepares, bias = int(dim), prepares == "True", bias == "True"
    mesh = init_device_mesh("cpu", (ranks,))
    for batch in (1, 3):
        torch.manual_seed(4)
        whole = nn.Sequential(Block(bias), Block(bias))
        split = copy.deepcopy(whole)
        for block in split:
            parallelize_module(block, mesh, _plan(dim, prepares))
        shape = (batch, 4 * ranks, 16) if dim == 1 else (4 * ranks, batch, 16)
        x = torch.randn(shape, requires_grad=True)
        mine = part(x.detach(), rank, ranks, dim).requires_grad_()
        used = tt.CollectiveMatmulPass()
        found, expected = _compile(split, used)(mine), whole(x)
        weight = torch.randn(shape)
        (expected * weight).sum().backward()
        (found * part(weight, rank, ranks, dim)).sum().backward()
        close(found, part(expected, rank, ranks, dim))
        close(mine.grad, part(x.grad, rank, ranks, dim))
        parameters = dict(whole.named_parameters())
        for name, one in split.named_parameters():
            close(_full(one.grad), parameters[name].grad)
        # Those that remain add up the gradients of norms and biases.
        assert all(one.startswith("all-reduce") and "not a matmul" in one for one in used.skipped), list(used.skipped)
        kinds = [one.split()[0] for one in used.replaced]
        assert kinds.count("all-gather") >= 4 and kinds.count("reduce-scatter") >= 4, list(used.replaced)


def other_dimensions(rank, ranks):
    """Gathers and scatters in forms of which some fit."""
    group = dist.group.WORLD
    torch.manual_seed(1)
    x, w, v = torch.randn(2, 4 * ranks, 8), torch.randn(8, 6), torch.randn(8, 6)

    def gather(x, dim):  # as DTensor does; torch.compile does not take functional.all_gather_tensor(x, dim, group)
        return torch.cat(torch.chunk(functional.all_gather_tensor(x, 0, group), ranks), dim)

    def middle(x, w, v):
        whole = gather(x, 1)
        return whole @ w, torch.relu(whole), whole.flatten(0, 1) @ v

    def four(x, w, v):
        whole = gather(x.unflatten(0, (1, 2)), 2)
        return whole.flatten(0, 2) @ w

    def last(x, w, v):  # the dimension that the matmul contracts
        return gather(x, 2).flatten(0, 1) @ torch.cat([w] * ranks)

    def scatters(x, w, v):
        return functional.reduce_scatter_tensor(x @ w, "sum", 1, group)

    def adds(x, w, v):
        return functional.reduce_scatter_tensor(x @ w + (x * 2) @ v, "sum", 1, group)

    def columns(x, w, v):  # of the result
        return functional.reduce_scatter_tensor(x @ torch.cat([w] * ranks, 1), "sum", 2, group)

    def reduces(x, w, v):
        return functional.all_reduce(x @ w, "sum", group)

    local = part(x, rank, ranks, 1)
    for function, given, replaced, kept in ((middle, local, 1, 0), (four, local, 1, 0), (last, local, 0, 1), (scatters, x, 1, 0),
                                            (adds, x, 1, 0), (columns, x, 0, 1), (reduces, x, 1, 0)):
        used = tt.CollectiveMatmulPass()
        found, expected = _compile(function, used)(given, w, v), function(given, w, v)
        assert (len(used.replaced), len(used.skipped)) == (replaced, kept), (function, used.replaced, used.skipped)
        for one, other in zip(*(value if isinstance(value, tuple) else (value,) for value in (found, expected))):
            close(one, other)
