# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank of test_replicated.py does: models with parameters that no rank has a part of, through optimizers, clipping
and what torch does with parameters. Each result is that of the whole model."""

import copy
import functools
import io
import itertools
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.utils.checkpoint import checkpoint

import tandem.torch as tt

close = functools.partial(torch.testing.assert_close, rtol=1e-9, atol=1e-11)


class Layer(nn.Module):
    """Attention of each token's heads with themselves, with norms of heads, then an MLP."""

    def __init__(self):
        super().__init__()
        self.norm, self.q_norm, self.k_norm = nn.LayerNorm(16), nn.RMSNorm(4), nn.RMSNorm(4)
        self.q_proj, self.k_proj, self.o_proj = (nn.Linear(16, 16) for _ in range(3))
        self.fc1, self.fc2 = nn.Linear(16, 24), nn.Linear(24, 16)
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x):
        h = self.norm(x)
        q, k = (norm(layer(h).unflatten(-1, (-1, 4))) for layer, norm in ((self.q_proj, self.q_norm), (self.k_proj, self.k_norm)))
        x = x + self.o_proj((torch.tanh(q) * k).flatten(-2))
        return x + self.fc2(torch.relu(self.fc1(x))) * self.scale


class Model(nn.Module):
    """With an embedding to which the head is tied: the model itself computes with the parameter of one of its modules."""

    def __init__(self, checkpoints=None):
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 16), nn.Linear(16, 12, bias=False)
        self.head.weight = self.embed.weight
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.bias = nn.ParameterList([nn.Parameter(torch.zeros(12))])
        self.frozen = nn.Parameter(torch.ones(16), requires_grad=False)
        self.checkpoints = checkpoints

    def forward(self, ids):
        x = self.embed(ids) * self.frozen
        for layer in self.layers:
            x = layer(x) if self.checkpoints is None else checkpoint(layer, x, use_reentrant=self.checkpoints)
        return self.head(x) + 0.1 * nn.functional.linear(x, self.embed.weight) + self.bias[0]


def _full(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def _made(**options):
    torch.manual_seed(1)
    model = Model(**options).double()
    for one in model.parameters():
        if one.requires_grad:
            nn.init.normal_(one, 1.0 if one.dim() == 1 else 0.0, 0.3)
    return model


def _saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def _read(model):
    """A model of another seed that has read what a checkpoint of the first one has."""
    folder = os.path.join(os.path.dirname(os.environ["TANDEM_TEST_STORE"]), "checkpoint")
    dcp.save(model.state_dict(), checkpoint_id=folder)
    dist.barrier()
    with torch.no_grad():
        for one in model.parameters():
            one.zero_()
    state = model.state_dict()
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state)
    dist.barrier()
    return model


OPTIMIZERS = {"SGD": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9),
              "foreach": functools.partial(torch.optim.AdamW, lr=0.01, eps=1e-4, foreach=True),
              "fused": functools.partial(torch.optim.AdamW, lr=0.01, eps=1e-4, fused=True),
              "RMSprop": functools.partial(torch.optim.RMSprop, lr=0.01, eps=1e-4, foreach=True)}


def _agree(rank, ranks, whole, split, dim, optimizer, step=None, data=(0, 1)):
    """Steps of an optimizer with clipped gradients. `data`: which of how many batches this rank has."""
    both = (whole, split)
    optimizers = [optimizer(one.parameters()) for one in both]
    at, batches = data
    for number in range(3):
        ids = torch.randint(12, (batches * 2 * ranks, 2 * ranks), generator=torch.Generator().manual_seed(number))
        mine = ids.chunk(batches)[at]
        if dim is not None:
            mine = mine.chunk(ranks, dim)[rank]
        losses = [call(given).square().sum() for call, given in ((whole, ids), (split if step is None else step, mine))]
        if dim is None and batches == 1:
            close(losses[1], losses[0])
        (losses[0] / batches).backward()
        losses[1].backward()
        names = dict(split.named_parameters())
        assert names.keys() == dict(whole.named_parameters()).keys()
        for name, expected in whole.named_parameters():
            if expected.requires_grad:
                found = names[name].grad
                assert found.placements == names[name].placements, (name, found.placements)
                close(_full(found), expected.grad, msg=lambda text, name=name: f"gradient of {name}: {text}")
        norms = [torch.nn.utils.get_total_norm([value.grad for value in one.parameters() if value.grad is not None]) for one in both]
        close(_full(norms[1]), norms[0])
        norms = [torch.nn.utils.clip_grad_norm_(one.parameters(), 0.5) for one in both]
        close(_full(norms[1]), norms[0])
        for one in optimizers:
            one.step()
            one.zero_grad()
        for name, expected in whole.named_parameters():
            close(_full(names[name]).detach(), expected.detach(), msg=lambda text, name=name: f"{name}: {text}")
    assert split.embed.weight is split.head.weight


def optimizers(rank, ranks, name):
    mesh = init_device_mesh("cpu", (ranks,))
    for dim in (None, 0, 1):
        whole = _made()
        split = tt.parallelize(copy.deepcopy(whole), mesh, sequence_dim=dim)
        assert all(isinstance(one, DTensor) for one in split.parameters())
        _agree(rank, ranks, whole, split, dim, OPTIMIZERS[name])


def ways(rank, ranks, way):
    """Copies, files, recomputation, compiled code, a plan of one's own."""
    mesh = init_device_mesh("cpu", (ranks,))
    for dim in (None, 1):
        whole = _made(**({"checkpoints": way == "reentrant"} if way in ("checkpoint", "reentrant") else {}))
        split, step = copy.deepcopy(whole), None
        if way == "plan":
            plan = tt.plan(split, dim)
            assert tt.parallelize(split, mesh, plan) is split and plan[""].sum_gradients == (dim is not None)
        elif way == "meta":
            with torch.device("meta"):
                split = tt.parallelize(Model().double(), mesh, sequence_dim=dim).to_empty(device="cpu")
            split.load_state_dict(tt.parallelize(copy.deepcopy(whole), mesh, sequence_dim=dim).state_dict())
            split.frozen.requires_grad_(False)
        else:
            tt.parallelize(split, mesh, sequence_dim=dim)
        if way in ("deepcopy", "pickle", "read"):
            split = {"deepcopy": copy.deepcopy, "pickle": _saved, "read": _read}[way](split)
        if way == "compile":
            torch._dynamo.reset()
            step = torch.compile(split, backend="aot_eager", fullgraph=True)
        _agree(rank, ranks, whole, split, dim, OPTIMIZERS["foreach"], step)


def sharded(rank, ranks):
    """FSDP on the other dimension of the mesh."""
    mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("data", "tensor"))
    tensor = mesh["tensor"]
    for dim, reshards in itertools.product((None, 1), (True, False)):
        whole = _made()
        split = tt.parallelize(copy.deepcopy(whole), tensor, sequence_dim=dim)
        for layer in split.layers:
            fully_shard(layer, mesh=mesh["data"], reshard_after_forward=reshards)
        fully_shard(split, mesh=mesh["data"])
        _agree(tensor.get_local_rank(), tensor.size(), whole, split, dim, OPTIMIZERS["foreach"], data=(mesh.get_local_rank("data"), 2))


def others(rank, ranks):
    """What stays as it is, errors, modes, and modules that are called without the model around them."""
    mesh = init_device_mesh("cpu", (ranks,))
    whole = _made()
    whole.rnn, whole.sparse = nn.LSTM(16, 4).double(), nn.Embedding(4, 4, sparse=True)
    split = tt.parallelize(copy.deepcopy(whole), mesh, sequence_dim=None)
    plain = {name.partition(".")[0] for name, one in split.named_parameters() if not isinstance(one, DTensor)}
    assert plain == {"rnn", "sparse"}, plain
    ids = torch.arange(8)
    x = whole.embed(ids)
    for one in (split, copy.deepcopy(split)):
        close(one.rnn(x)[0], whole.rnn(x)[0])
        close(one.embed(ids), x)
        close(one.layers[0](x), whole.layers[0](x))
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                close(one(ids), whole(ids))
        try:
            one.layers[1](x[:, :3])
        except RuntimeError:
            assert all(isinstance(value, DTensor) for value in one.layers.parameters())
        else:
            raise AssertionError("expected an error")
    loss = split(ids).sum()
    with torch.no_grad():
        split.layers[0].norm.weight.mul_(2)
    try:
        loss.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error), error
    else:
        raise AssertionError("expected an error")
    # The values are those of one rank.
    one = _made()
    with torch.no_grad():
        one.embed.weight.add_(rank)
    tt.parallelize(one, mesh, sequence_dim=None)
    close(_full(one.embed.weight), _made().embed.weight)
    plan = {"layers.*.fc1": tt.ColwiseParallel(input_layouts=Shard(0)), "layers.*.fc2": tt.RowwiseParallel(output_layouts=Shard(0))}
    one = tt.parallelize(_made(), mesh, plan)
    assert not isinstance(one.embed.weight, DTensor)  # as torch does: it is not known what the ranks have there
    one = tt.parallelize(_made(), mesh, {"": tt.Replicated(sum_gradients=True), **plan})
    assert all(isinstance(value, DTensor) for value in one.parameters()) and one.layers[0].fc1.weight.placements == (Shard(0),)
