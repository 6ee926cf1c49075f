# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank of test_compiled.py does: CollectiveMatmulPass in models whose activations have three dimensions."""

import copy
import itertools

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


def gathered(x, dim):  # as DTensor does; torch.compile does not take functional.all_gather_tensor(x, dim, group)
    whole = functional.all_gather_tensor(x, 0, dist.group.WORLD)
    return torch.cat(whole.chunk(dist.get_world_size()), dim) if dim else whole


def other_dimensions(rank, ranks):
    """Gathers and scatters in forms of which some fit."""
    group = dist.group.WORLD
    torch.manual_seed(1)
    x, w, v = torch.randn(2, 4 * ranks, 8), torch.randn(8, 6), torch.randn(8, 6)

    def middle(x, w, v):
        whole = gathered(x, 1)
        return whole @ w, torch.relu(whole), whole.flatten(0, 1) @ v

    def four(x, w, v):
        whole = gathered(x.unflatten(0, (1, 2)), 2)
        return whole.flatten(0, 2) @ w

    def last(x, w, v):  # the dimension that the matmul contracts
        return gathered(x, 2).flatten(0, 1) @ torch.cat([w] * ranks)

    def scatters(x, w, v):
        return functional.reduce_scatter_tensor(x @ w, "sum", 1, group)

    def adds(x, w, v):
        return functional.reduce_scatter_tensor(x @ w + (x * 2) @ v, "sum", 1, group)

    def columns(x, w, v):  # of the result
        return functional.reduce_scatter_tensor(x @ torch.cat([w] * ranks, 1), "sum", 2, group)

    def reduces(x, w, v):
        return functional.all_reduce(x @ w, "sum", group)

    local = part(x, rank, ranks, 1)
    for function, given, replaced, kept in ((middle, local, 1, 0), (four, local, 1, 0), (last, local, 1, 0), (scatters, x, 1, 0),
                                            (adds, x, 1, 0), (columns, x, 1, 0), (reduces, x, 1, 0)):
        used = tt.CollectiveMatmulPass()
        found, expected = _compile(function, used)(given, w, v), function(given, w, v)
        assert (len(used.replaced), len(used.skipped)) == (replaced, kept), (function, used.replaced, used.skipped)
        for one, other in zip(*(value if isinstance(value, tuple) else (value,) for value in (found, expected))):
            close(one, other)


def _check(function, inputs, expected, replaced=1, kept=0, is_exact=True, **options):
    used = tt.CollectiveMatmulPass()
    found = _compile(function, used, fullgraph=True, **options)(*inputs)
    assert (len(used.replaced), len(used.skipped)) == (replaced, kept), (function, used.replaced, used.skipped)
    for one, other in zip(*(value if isinstance(value, tuple) else (value,) for value in (found, expected)), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape and one.stride() == other.stride(), (function, one.stride(), other.stride())
        exact = is_exact and one.dtype == torch.float32
        torch.testing.assert_close(one.float(), other.float(), rtol=1e-4 if exact else 0.02, atol=1e-4 if exact else 0.05)


def patterns(rank, ranks):
    """Those of torch's test_micro_pipeline_tp.py, each along each dimension."""
    group = dist.group.WORLD
    torch.manual_seed(1)
    for shape in ((8, 16), (2, 8, 16)):
        for dim in range(len(shape)):
            whole, w = torch.randn(shape), torch.randn(16, 12)
            is_last = dim == len(shape) - 1
            _check(lambda x, w: gathered(x, dim) @ w, (part(whole, rank, ranks, dim), w), whole @ w)

            def both(x, w):
                whole = gathered(x, dim)
                return whole.clone(), whole @ w

            _check(both, (part(whole, rank, ranks, dim), w), (whole, whole @ w), not is_last, is_last)
            y = part(whole @ w * (ranks + 1) / 2, rank, ranks, dim)
            _check(lambda x, w: functional.reduce_scatter_tensor(x @ w, "avg", dim, group), (whole * (rank + 1), w), y)


def scaled_patterns(rank, ranks):
    """Of 8-bit floats, by a scale for the tensor or for each row and column."""
    group, e4m3 = dist.group.WORLD, torch.float8_e4m3fn

    def gathered(x, dim):
        whole = functional.all_gather_tensor(x, 0, group)
        if dim == 0:
            return whole.view(e4m3)
        return torch.cat([one.view(torch.uint8) for one in whole.chunk(ranks)], dim).view(e4m3)

    def times(x, w, *scales, out_dtype=torch.bfloat16):
        y = torch._scaled_mm(x.flatten(0, -2), w, *scales, out_dtype=out_dtype)
        return y.view(*x.shape[:-1], y.shape[-1])

    torch.manual_seed(2)
    for shape in ((8, 16), (2, 8, 16)):
        rows = torch.Size(shape[:-1]).numel()
        w = torch.randn(32, 16).to(e4m3).t()
        whole = torch.randn(shape).to(e4m3)
        exact = whole.float() @ w.float()
        for dim, by_row in itertools.product(range(len(shape)), (False, True)):
            scales = (torch.rand(rows, 1) + 0.5, torch.rand(1, 32) + 0.5) if by_row else (torch.tensor(0.1), torch.tensor(0.3))
            y = (exact * (scales[0].view(*shape[:-1], 1) if by_row else scales[0]) * scales[1]).bfloat16()
            bits = whole.view(torch.uint8)
            is_last = dim == len(shape) - 1
            local = part(bits, rank, ranks, dim).view(torch.uint8 if is_last else e4m3)  # gloo gathers no 8-bit floats

            def both(x, w, *scales):
                whole = gathered(x, dim)
                return whole.view(torch.uint8).clone(), times(whole, w, *scales)

            if not (is_last and by_row):  # CPUs' own _scaled_mm, which is left there, has no scales of rows
                _check(lambda x, w, *scales: times(gathered(x, dim), w, *scales), (local, w, *scales), y, not is_last, is_last)
                _check(both, (local, w, *scales), (bits, y), not is_last, is_last)
                if by_row and dim == 0:
                    _check(lambda x, w, scale, other: times(gathered(x, 0), w, functional.all_gather_tensor(scale, 0, group), other),
                           (local, w, part(scales[0], rank, ranks), scales[1]), y,)
                bias = torch.randn(32).bfloat16()
                _check(lambda x, w, *more: times(gathered(x, dim), w, *more), (local, w, *scales, bias), (y.float() + bias).bfloat16(),
                       not is_last, is_last)
            mine = scales[0] * (rank + 1), scales[1]
            _check(lambda x, w, *scales: functional.reduce_scatter_tensor(times(x, w, *scales), "avg", dim, group), (whole, w, *mine),
                   part(y * (ranks + 1) / 2, rank, ranks, dim))


def casts(rank, ranks):
    """Between a collective and its matmul: casts, scales, transposes, with several users, and where a cast cannot be moved."""
    group = dist.group.WORLD
    torch.manual_seed(3)
    x, w, v = torch.randn(8, 4, 16), torch.randn(16, 12), torch.randn(16, 12)
    local, scale = part(x, rank, ranks), torch.tensor(0.25)

    def gathered(x):
        return functional.all_gather_tensor(x, 0, group)

    def cast_twice(x, w, v):
        whole = gathered(x)
        return whole.bfloat16() @ w.bfloat16(), whole.bfloat16() @ v.bfloat16(), whole.bfloat16() + 1

    def scaled(x, w, v):
        whole = gathered(x) * 2 / scale
        return whole @ w, whole @ v, torch.relu(whole)

    def turned(x, w, v):
        whole = (gathered(x) * scale).permute(1, 0, 2).float()
        return whole @ w, whole.reshape(32, 16) @ v

    def before(x, w, v):
        whole = gathered(x)
        return whole.bfloat16() @ w.bfloat16(), whole + 1

    def reduced(x, w, v):
        y = (x.bfloat16() @ w.bfloat16()).float() * scale * (rank + 1) + (x @ v).permute(0, 1, 2) * 0.5
        return functional.reduce_scatter_tensor(y, "sum", 0, group)

    def wider(x, w, v):
        y = (x.bfloat16() @ w.bfloat16()).float() * scale * (rank + 1)
        return functional.reduce_scatter_tensor(y.permute(1, 0, 2), "sum", 1, group), functional.all_reduce((x @ v).permute(1, 0, 2) / 2, "sum", group)

    for dynamic in (False, True):
        for function, given, replaced, kept in ((cast_twice, local, 1, 0), (scaled, local, 1, 0), (turned, local, 1, 0), (before, local, 0, 1),
                                                (reduced, x, 0, 1), (wider, x, 2, 0)):
            _check(function, (given, w, v), function(given, w, v), replaced, kept, function is not wider, dynamic=dynamic)


def hf_llama(rank, ranks):
    """A model of transformers under torch's plan with sequence parallelism: each collective next to a matmul is replaced."""
    from transformers import LlamaConfig, LlamaForCausalLM

    mesh, rows = init_device_mesh("cpu", (ranks,)), Shard(1)
    torch.manual_seed(5)
    whole = LlamaForCausalLM(LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
                                         num_key_value_heads=2, use_cache=False))
    columns, sums = ColwiseParallel(), RowwiseParallel(output_layouts=rows, use_local_output=False)
    gathers = PrepareModuleInput(input_kwarg_layouts={"hidden_states": rows}, desired_input_kwarg_layouts={"hidden_states": Replicate()})
    plan = {"input_layernorm": SequenceParallel(), "post_attention_layernorm": SequenceParallel(), "self_attn": gathers, "self_attn.o_proj": sums,
            "mlp": PrepareModuleInput(input_layouts=(rows,), desired_input_layouts=(Replicate(),)), "mlp.down_proj": sums,
            **{f"self_attn.{name}_proj": columns for name in "qkv"}, "mlp.gate_proj": columns, "mlp.up_proj": columns}
    split = parallelize_module(copy.deepcopy(whole), mesh, {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=rows, use_local_output=False),
        "model.norm": SequenceParallel(), "lm_head": ColwiseParallel(input_layouts=rows, output_layouts=Replicate()),
        **{f"model.layers.*.{name}": style for name, style in plan.items()}})
    ids = torch.randint(32, (2, 8), generator=torch.Generator().manual_seed(6))
    used = tt.CollectiveMatmulPass()
    found, expected = _compile(lambda ids: split(ids).logits, used)(ids), whole(ids).logits
    close(found, expected)
    for logits in (found, expected):
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
    names = dict(whole.named_parameters())
    for name, one in split.named_parameters():
        close(_full(one.grad), names[name].grad)
    kinds = [one.split()[0] for one in used.replaced]
    assert kinds.count("all-gather") >= 9 and kinds.count("reduce-scatter") >= 9, (list(used.replaced), list(used.skipped))
    assert all("matmul" in one or "embedding" in one for one in used.skipped), list(used.skipped)
