# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank of test_fsdp.py does: collectives next to no matmul, against those of torch, and FSDP with them."""

import copy

import torch
import torch.distributed as dist
from features import _refused
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

import tandem
import tandem.torch as tt

TYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int32, torch.int64]
MOVED = [*TYPES, torch.uint8, torch.bool, torch.int16, torch.float8_e4m3fn, torch.complex64]


def _numbers(dtype, *shape):
    """Whole numbers, whose sums have no error in any type."""
    return torch.randint(-8, 8, shape).to(dtype)


def _nodes(ranks, inside):
    """As if the ranks were on nodes of `inside` ranks each."""
    if inside:
        tt.context()
        for _, _, bootstrap, _ in tt._groups._contexts.values():
            assert bootstrap.ranks_of_a_node == ranks
            bootstrap.ranks_of_a_node = inside


def collectives(rank, ranks, inside):
    torch.manual_seed(rank)
    _nodes(ranks, int(inside))
    for dtype in MOVED:
        for size in (1, 5, 64, 1000):
            x = _numbers(dtype, size)
            expected = [torch.empty_like(x) for _ in range(ranks)]
            dist.all_gather([one.view(torch.int8) for one in expected], x.view(torch.int8))
            whole = torch.full((ranks * size,), 7).to(dtype)
            assert tt.all_gather_into_tensor(whole, x) is None
            assert torch.equal(whole.view(torch.int8), torch.cat(expected).view(torch.int8)), (dtype, size)
            part = torch.full((ranks * size,), 7).to(dtype)
            part[rank * size:(rank + 1) * size] = x
            tt.all_gather_into_tensor(part, part[rank * size:(rank + 1) * size])  # as FSDP calls it
            assert torch.equal(part.view(torch.int8), whole.view(torch.int8)), (dtype, size)
    for dtype in TYPES:
        for size in (1, 5, 64, 1000):
            x = _numbers(dtype, ranks * size)
            expected = x.clone().double()
            dist.all_reduce(expected)
            part = torch.full((size,), 7).to(dtype)
            tt.reduce_scatter_tensor(part, x)
            assert torch.equal(part.double(), expected[rank * size:(rank + 1) * size]), (dtype, size)
            if dtype.is_floating_point:
                tt.reduce_scatter_tensor(part, x.view(ranks, size), dist.ReduceOp.AVG)
                assert torch.equal(part, (expected[rank * size:(rank + 1) * size].to(dtype) / ranks)), (dtype, size)
            whole = x.clone()
            tt.all_reduce(whole)
            assert torch.equal(whole.double(), expected), (dtype, size)
    empty = torch.empty(0)
    tt.all_gather_into_tensor(empty, empty)
    x = torch.ones(4)
    _refused(tandem.ArgumentError, lambda: tt.all_gather_into_tensor(torch.empty(3), x), "all_gather_into_tensor", f"{4 * ranks} elements")
    _refused(tandem.ArgumentError, lambda: tt.all_gather_into_tensor(torch.empty(4 * ranks, dtype=torch.int32), x), "torch.int32")
    _refused(tandem.ArgumentError, lambda: tt.all_gather_into_tensor(torch.empty(4 * ranks, 2)[:, 0], x), "the output", "dense")
    _refused(tandem.ArgumentError, lambda: tt.all_reduce(x, dist.ReduceOp.MAX), "expected SUM", "MAX")
    _refused(tandem.ArgumentError, lambda: tt.reduce_scatter_tensor(torch.empty(1, dtype=torch.bool), torch.ones(ranks, dtype=torch.bool)),
             "torch.bool")
    # Ranks that disagree end with an error on all.
    _refused(tandem.Error, lambda: tt.all_reduce(torch.ones(4 + rank)), "elements")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(10), nn.Linear(10, 37), nn.Linear(37, 10)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def _sharded(model, mesh, ours, **options):
    for block in (*model, model):
        fully_shard(block, mesh=mesh, **options)
    if ours:
        for one in model.modules():
            if isinstance(one, FSDPModule):
                one.set_custom_all_gather(tt.AllGather())
                one.set_custom_reduce_scatter(tt.ReduceScatter())
    return model


def _losses(model, rank, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    torch.manual_seed(10 + rank)
    losses = []
    for _ in range(steps):
        loss = (model(torch.randn(6, 10)).float() ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return torch.stack(losses)


def shards(rank, ranks, kind):
    """Losses and weights are those of FSDP with torch's collectives."""
    torch.manual_seed(0)
    whole = nn.Sequential(*[Block() for _ in range(3)])
    options = {"reshard_after_forward": kind != "kept"}
    if kind == "mixed":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    if kind == "HSDP":
        mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))
        number = rank
    elif kind == "TP":
        both = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("dp", "tp"))
        mesh, number = both["dp"], rank // 2
        plan = {f"{one}.{name}": style for one in range(3) for name, style in (
            ("up", tt.ColwiseParallel()), ("down", tt.RowwiseParallel()))}
    else:
        mesh, number = init_device_mesh("cpu", (ranks,)), rank
    results = []
    for ours in (False, True):
        model = copy.deepcopy(whole)
        if kind == "TP":
            model[0].up, model[1].up, model[2].up = (nn.Linear(10, 36) for _ in range(3))
            model[0].down, model[1].down, model[2].down = (nn.Linear(36, 10) for _ in range(3))
            torch.manual_seed(5)
            for parameter in model.parameters():
                nn.init.normal_(parameter, std=0.2)
            tt.parallelize(model, both["tp"], plan)
        model = _sharded(model, mesh, ours, **options)
        losses = _losses(model, number)
        weights = [one.full_tensor() if isinstance(one, DTensor) else one for one in model.parameters()]
        results.append((losses, weights))
    (expected, old), (found, new) = results
    # Two terms are added up in one order. More are added in another one than by gloo.
    tolerance = {"rtol": 0, "atol": 0} if mesh.size(-1) == 2 and kind != "mixed" else {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(found, expected, **tolerance)
    for one, other in zip(old, new):
        torch.testing.assert_close(other, one, **tolerance)
