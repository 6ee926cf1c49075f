# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Blocks of Llama with random weights, and the ways to split them over ranks. Activations are [tokens, hidden]; between
the layers each rank has its own tokens (sequence parallelism)."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor import parallel as tp

import tandem.torch


@dataclass(frozen=True)
class Shape:
    hidden: int
    inner: int
    heads: int
    groups: int  # heads of keys and values
    head: int  # features of a head

    def of_a_rank(self, ranks, of):
        """The model of `ranks` ranks, each of which has what one of `of` ranks would have of this one."""
        return replace(self, inner=self.inner * ranks // of, heads=self.heads * ranks // of,
                       groups=self.groups * ranks // of)


SHAPES = {"tiny": Shape(64, 160, 8, 4, 8), "8b": Shape(4096, 14336, 32, 8, 128), "70b": Shape(8192, 28672, 64, 8, 128)}
COLUMNS = ("attention.q_proj", "attention.k_proj", "attention.v_proj", "mlp.gate_proj", "mlp.up_proj")
ROWS = ("attention.o_proj", "mlp.down_proj")


def rope(tokens, head, device, dtype):
    """[2, tokens, 1, head / 2]: cosines and sines of the rotary embedding."""
    angles = torch.outer(torch.arange(tokens), 500000.0 ** (-torch.arange(0, head, 2) / head))
    return torch.stack([angles.cos(), angles.sin()]).unsqueeze(2).to(device, dtype)


def rotate(x, table):
    first, second = x.chunk(2, -1)
    cos, sin = table
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.head = shape.head
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.groups * shape.head, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.groups * shape.head, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head, shape.hidden, bias=False)

    def forward(self, x, table):
        q, k, v = tandem.torch.column_linears(x, [self.q_proj, self.k_proj, self.v_proj])
        # All tokens, and this rank's heads: their number is that of the tensor.
        q, k, v = (one.view(one.shape[0], -1, self.head) for one in (q, k, v))
        q, k = rotate(q, table), rotate(k, table)
        q, k, v = (one.transpose(0, 1).unsqueeze(0) for one in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.squeeze(0).transpose(0, 1).flatten(1))


class MLP(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x):
        gate, up = tandem.torch.column_linears(x, [self.gate_proj, self.up_proj])
        return self.down_proj(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(shape.hidden, eps=1e-5), nn.RMSNorm(shape.hidden, eps=1e-5)
        self.attention, self.mlp = Attention(shape), MLP(shape)

    def forward(self, x, table):
        x = x + self.attention(self.attention_norm(x), table)
        return x + self.mlp(self.mlp_norm(x))


class Llama(nn.Module):
    def __init__(self, shape, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(Block(shape) for _ in range(blocks))

    def forward(self, x, table):
        for block in self.blocks:
            x = block(x, table)
        return x


def make(shape, blocks, device, dtype):
    """The whole model: the same random weights on every rank."""
    torch.manual_seed(7)
    with torch.device(device):
        model = Llama(shape, blocks).to(dtype)
    return model


def split(model, mesh, how, whole):
    """Splits the model over the ranks of the mesh: by Tandem, by torch, or without any communication; then `whole`,
    [tokens, hidden], stands for what would come from other ranks."""
    if how == "tandem":
        plan = {name: tandem.torch.ColwiseParallel(input_layouts=Shard(0)) for name in COLUMNS}
        plan.update({name: tandem.torch.RowwiseParallel(output_layouts=Shard(0)) for name in ROWS})
        return tandem.torch.parallelize(model, mesh, {f"blocks.*.{name}": style for name, style in plan.items()},
                                        src_data_rank=None)
    if how == "torch":
        plan = {"blocks.*.attention": tp.PrepareModuleInput(input_layouts=(Shard(0), None),
                                                            desired_input_layouts=(Replicate(), None)),
                "blocks.*.mlp": tp.PrepareModuleInput(input_layouts=(Shard(0),), desired_input_layouts=(Replicate(),))}
        plan.update({f"blocks.*.{name}": tp.ColwiseParallel() for name in COLUMNS})
        plan.update({f"blocks.*.{name}": tp.RowwiseParallel(output_layouts=Shard(0)) for name in ROWS})
        return tp.parallelize_module(model, mesh, plan, src_data_rank=None)
    return _without_communication(model, mesh.get_local_rank(), mesh.size(), whole)


class _Gathered(torch.autograd.Function):
    """Stands for an all-gather: gives memory that is there already."""

    @staticmethod
    def forward(ctx, x, whole):
        ctx.rows = x.shape[0]
        return whole.detach()

    @staticmethod
    def backward(ctx, grad):
        return grad[:ctx.rows], None


class _Scattered(torch.autograd.Function):
    """Stands for a reduce-scatter."""

    @staticmethod
    def forward(ctx, y, whole, ranks):
        ctx.save_for_backward(whole)
        return y[:y.shape[0] // ranks].clone()

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0].detach(), None, None


def _without_communication(model, rank, ranks, whole):
    """Each rank computes what it would compute, with wrong values: the time that is left if communication were free."""
    for name, module in model.named_modules():
        if isinstance(module, (Attention, MLP)):
            module.register_forward_pre_hook(
                lambda _, inputs: (_Gathered.apply(inputs[0], whole), *inputs[1:]))
        if name.endswith(COLUMNS + ROWS):
            dim = 0 if name.endswith(COLUMNS) else 1
            module.weight = nn.Parameter(module.weight.detach().chunk(ranks, dim)[rank].clone())
        if name.endswith(ROWS):
            module.register_forward_hook(lambda _, inputs, y: _Scattered.apply(y, whole, ranks))
    return model
