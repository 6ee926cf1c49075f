# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank of test_features.py does: features of torch on layers that tandem.torch or torch has split. Tandem's layers
give what torch's do, or an error of their own."""

import concurrent.futures
import copy
import io
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from features import MLP, _full, _mesh, _part, close
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint

import tandem
import tandem.torch as tt


class Columns(nn.Module):
    """A layer that is split by columns alone, or by rows."""

    def __init__(self):
        super().__init__()
        self.up_proj = nn.Linear(8, 16)

    def forward(self, x):
        return torch.relu(self.up_proj(x)).sum(-1, keepdim=True)


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.down_proj = nn.Linear(8, 16)

    def forward(self, x):
        return torch.relu(self.down_proj(x))


def _step(model, x, call=None):
    """The result, and the gradients of x and of all parameters."""
    y = (model if call is None else call)(x)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(_full(one.grad) for one in model.parameters())]


def _inference(model, x):
    with torch.inference_mode():
        return [model(x).clone()]


def _no_grad_then_grad(model, x):
    with torch.no_grad():
        first = model(x)
    return [first, *_step(model, x)]


def _autocast(model, x):
    with torch.autocast("cpu", torch.bfloat16):
        return [one.float() for one in _step(model, x)]


def _hooks(model, x):
    seen = []
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].sum()))
            layer.register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs[0].sum()))
    return [*_step(model, x), torch.tensor(float(len(seen)))]


def _loaded(model, x):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return _step(torch.load(file, weights_only=False), x)


def _state(model, x):
    state = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        for one in model.parameters():
            one.zero_()
    model.load_state_dict(state)
    return _step(model, x)


def _twice(model, x):
    y = model(x)
    (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    return [second]


def _forward_mode(model, x):
    with torch.autograd.forward_ad.dual_level():
        y = model(torch.autograd.forward_ad.make_dual(x.detach(), torch.ones_like(x)))
        return [torch.autograd.forward_ad.unpack_dual(y).tangent]


def _thread(model, x):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(_step, model, x).result()


FEATURES = {
    "eager": _step, "inference": _inference, "no_grad then grad": _no_grad_then_grad, "autocast": _autocast, "hooks": _hooks,
    "checkpoint": lambda model, x: _step(model, x, lambda x: checkpoint(model, x, use_reentrant=False)),
    "reentrant": lambda model, x: _step(model, x, lambda x: checkpoint(model, x, use_reentrant=True)),
    "deepcopy": lambda model, x: _step(copy.deepcopy(model), x), "pickle": _loaded, "state_dict": _state,
    "compile": lambda model, x: _step(model, x, torch.compile(model, backend="aot_eager")),
    "create_graph": _twice, "forward AD": _forward_mode,
    "vmap": lambda model, x: [torch.func.vmap(model)(x[None])[0]],
    "func.grad": lambda model, x: [torch.func.grad(lambda x: model(x).sum())(x)],
    "threads": _thread,
}
#: What torch's layers do, and these refuse; or what torch's refuse, too.
REFUSED = {"create_graph", "forward AD", "vmap", "func.grad"}


def matrix(rank, ranks, feature):
    use = FEATURES[feature]
    for make, plan in ((MLP, ("gate_proj", "up_proj", "down_proj")), (Columns, ("up_proj",)), (Rows, ("down_proj",))):
        for dim in (None, 0, 1):
            torch.manual_seed(7)
            whole = make()
            x = torch.randn(2 * ranks, 2 * ranks, 8)
            theirs, ours = copy.deepcopy(whole), copy.deepcopy(whole)
            layout = {} if dim is None else {"input_layouts": Shard(dim)}
            result = {} if dim is None else {"output_layouts": Shard(dim)}
            # A layer that is split by rows takes this rank's columns.
            parallelize_module(theirs, _mesh(ranks), {
                name: RowwiseParallel(**result) if name == "down_proj" else ColwiseParallel(**layout) for name in plan})
            tt.parallelize(ours, _mesh(ranks), {
                name: tt.RowwiseParallel(**result) if name == "down_proj" else tt.ColwiseParallel(**layout) for name in plan})
            found = {}
            for who, model in (("theirs", theirs), ("ours", ours)):
                mine = x.clone() if make is not Rows else _part(x, rank, ranks, 2)
                mine = (_part(mine, rank, ranks, dim) if make is not Rows and dim is not None else mine).requires_grad_()
                try:
                    found[who] = use(model, mine)
                except Exception as error:  # noqa: BLE001 - looked at below; torch's layers cannot be pickled
                    found[who] = error
            if feature in REFUSED:
                assert isinstance(found["ours"], (RuntimeError, tandem.Error)), (make, dim, found)
                assert any(word in str(found["ours"]) for word in ("no gradient", "torch.func", "forward-mode")), found["ours"]
                continue
            if isinstance(found["ours"], Exception):
                raise AssertionError((make.__name__, dim, found["theirs"])) from found["ours"]
            if isinstance(found["theirs"], Exception):
                continue  # more than torch's layers do
            tolerance = {"rtol": 3e-2, "atol": 3e-2} if feature == "autocast" else {}
            assert len(found["ours"]) == len(found["theirs"]) > 0
            for one, other in zip(found["ours"], found["theirs"]):
                close(_full(one), _full(other), **tolerance)


def life_of_jobs(rank, ranks):
    """Checkpoints of a job, models without memory, a mesh as group, one dimension of a mesh."""
    torch.manual_seed(8)
    whole = MLP()
    x = torch.randn(2, 8)
    split = tt.parallelize(copy.deepcopy(whole), _mesh(ranks))
    folder = os.path.join(os.path.dirname(os.environ["TANDEM_TEST_STORE"]), "checkpoint")
    dcp.save(split.state_dict(), checkpoint_id=folder)
    with torch.device("meta"):
        empty = MLP()
    empty = tt.parallelize(empty, _mesh(ranks)).to_empty(device="cpu")
    state = empty.state_dict()
    dcp.load(state, checkpoint_id=folder)
    empty.load_state_dict(state)
    close(empty(x), whole(x))
    unsplit = MLP()
    state = unsplit.state_dict()
    dcp.load(state, checkpoint_id=folder)
    unsplit.load_state_dict(state)
    close(unsplit(x), whole(x))

    w = torch.randn(8, 4)
    close(tt.all_gather_matmul(x, w, group=_mesh(ranks)), tt.all_gather_matmul(x, w))
    square = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("dp", "tp"))
    try:
        tt.all_gather_matmul(x, w, group=square)
    except tandem.ArgumentError as error:
        assert "one dimension" in str(error), error
    else:
        raise AssertionError("a mesh of two dimensions is no group")
    split = tt.parallelize(copy.deepcopy(whole), square["tp"])
    close(split(x), whole(x))
    torch.manual_seed(9 + rank)
    rows = torch.randn(2, 8)
    group = square["tp"].get_group()
    parts = [torch.empty(2, 8) for _ in range(ranks // 2)]
    dist.all_gather(parts, rows, group=group)
    close(tt.all_gather_matmul(rows, w, group=square["tp"]), torch.cat(parts) @ w)


def dropout(rank, ranks):
    """Each rank draws its own numbers for what it has a part of (docs/torch.md)."""
    torch.manual_seed(10)
    whole = MLP()
    split = tt.parallelize(copy.deepcopy(whole), _mesh(ranks), sequence_dim=0)
    x = torch.randn(2 * ranks, 8)
    mine = _part(x, rank, ranks).requires_grad_()
    torch.manual_seed(100 + rank)
    mask = torch.nn.functional.dropout(torch.ones(2, 8), 0.5)
    torch.manual_seed(100 + rank)
    y = torch.nn.functional.dropout(split(mine), 0.5)
    masks = [torch.empty(2, 8) for _ in range(ranks)]
    dist.all_gather(masks, mask)
    assert not torch.equal(masks[0], masks[1])
    x.requires_grad_()
    expected = whole(x) * torch.cat(masks)
    close(y, _part(expected, rank, ranks))
    y.square().sum().backward()
    expected.square().sum().backward()
    close(mine.grad, _part(x.grad, rank, ranks))
