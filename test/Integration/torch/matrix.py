# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank of test_features.py does: features of torch on layers that tandem.torch or torch has split. Tandem's layers
give what torch's do, or an error of their own."""

import concurrent.futures
import copy
import functools
import io
import itertools
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from features import MLP, Adapted, _full, _mesh, _part, close
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

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


class FakeQuantised(nn.Linear):
    """As quantisation-aware training has them: the weight is rounded, its gradient is not."""

    def forward(self, x):
        return nn.functional.linear(x, self.weight + ((self.weight * 64).round() / 64 - self.weight).detach(), self.bias)


class Rounded(torch.Tensor):
    """A frozen weight of 8 bits that is a subclass of tensors, as torchao has them, in a plain nn.Linear."""

    @staticmethod
    def __new__(cls, numbers, scale):
        return torch.Tensor._make_wrapper_subclass(cls, numbers.shape, strides=numbers.stride(), dtype=torch.float32)

    def __init__(self, numbers, scale):
        self.numbers, self.scale = numbers, scale

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in ("detach", "clone", "alias", "slice", "split", "t", "view", "transpose"):
            made = function(args[0].numbers, *args[1:], **(kwargs or {}))
            return [cls(one, args[0].scale) for one in made] if isinstance(made, (list, tuple)) else cls(made, args[0].scale)
        if name not in ("mm", "addmm", "linear"):
            return NotImplemented
        return function(*(one.numbers * one.scale if isinstance(one, cls) else one for one in args), **(kwargs or {}))


@functools.cache
def _square():
    """Ranks for data times ranks for tensors."""
    return init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("data", "tensor"))


def _replaced(make, model):
    for name, layer in list(model.named_children()):
        setattr(model, name, make(layer))
    return model


def _fake_quantised(layer):
    made = FakeQuantised(layer.in_features, layer.out_features)
    made.load_state_dict(layer.state_dict())
    return made


def _rounded(layer):
    scale = layer.weight.detach().abs().max() / 127
    layer.weight = nn.Parameter(Rounded((layer.weight.detach() / scale).round().to(torch.int8), scale), requires_grad=False)
    return layer


def _step(model, x, call=None):
    """The result, and the gradients of x and of all parameters."""
    y = (model if call is None else call)(x)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(one.grad for one in model.parameters())]


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


def _optimizers(model, x):
    """Steps with what optimizers do to gradients: by torch's loops over all of them, too."""
    scaler, found = torch.amp.GradScaler("cpu", init_scale=4.0), []
    for kind, foreach in itertools.product((torch.optim.SGD, torch.optim.AdamW), (False, True)):
        optimizer = kind(model.parameters(), lr=0.01, foreach=foreach)
        scaler.scale(model(x).square().sum()).backward()
        scaler.unscale_(optimizer)
        found.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        scaler.step(optimizer)
        scaler.update()
        found += [one.detach().clone() for one in model.parameters()]
        optimizer.zero_grad()
    return found


def _selective(model, x):
    """Products are kept, the rest is computed again."""
    def policy(context, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if "mm" in str(op) or "matmul" in str(op) else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    return _step(model, x, lambda x: checkpoint(model, x, use_reentrant=False, context_fn=contexts))


def _sharded(model, x, **options):
    """Other inputs on the ranks for data, two steps of an optimizer."""
    fully_shard(model, mesh=_square()["data"], **options)
    with torch.no_grad():
        x.mul_(1 + _square().get_local_rank("data"))
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.01), []
    for _ in range(2):
        x.grad = None
        found += [one.clone() for one in _step(model, x)]
        optimizer.step()
        optimizer.zero_grad()
    return found


FEATURES = {
    "eager": _step, "inference": _inference, "no_grad then grad": _no_grad_then_grad, "autocast": _autocast, "hooks": _hooks,
    "checkpoint": lambda model, x: _step(model, x, lambda x: checkpoint(model, x, use_reentrant=False)),
    "reentrant": lambda model, x: _step(model, x, lambda x: checkpoint(model, x, use_reentrant=True)),
    "deepcopy": lambda model, x: _step(copy.deepcopy(model), x), "pickle": _loaded, "state_dict": _state,
    "compile": lambda model, x: _step(model, x, torch.compile(model, backend="aot_eager")),
    "create_graph": _twice, "forward AD": _forward_mode,
    "vmap": lambda model, x: [torch.func.vmap(model)(x[None])[0]],
    "func.grad": lambda model, x: [torch.func.grad(lambda x: model(x).sum())(x)],
    "threads": _thread, "optimizers": _optimizers, "selective": _selective, "FSDP2": _sharded,
    "FSDP2 in bf16": functools.partial(_sharded, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32)),
    "adapter": _step, "fake-quantised": _step, "quantised": _step,
}
#: What a model has in the place of its linear layers.
LAYERS = {"adapter": Adapted, "fake-quantised": _fake_quantised, "quantised": _rounded}
#: What torch's layers do, and these refuse; or what torch's refuse, too.
REFUSED = {"create_graph", "forward AD", "vmap", "func.grad"}
#: What these do, and torch's refuse.
MORE = {"inference", "pickle"}
#: In bf16.
ROUGH = {"autocast", "FSDP2 in bf16"}


def matrix(rank, ranks, feature):
    use, mesh = FEATURES[feature], _square()["tensor"] if "FSDP2" in feature else _mesh(ranks)
    rank, ranks = mesh.get_local_rank(), mesh.size()
    for make, layers in ((MLP, ("gate_proj", "up_proj", "down_proj")), (Columns, ("up_proj",)), (Rows, ("down_proj",))):
        for dim in (None, 0, 1):
            torch.manual_seed(7)
            whole = _replaced(LAYERS.get(feature, lambda layer: layer), make())
            x = torch.randn(2 * ranks, 2 * ranks, 8)
            theirs, ours = copy.deepcopy(whole), copy.deepcopy(whole)
            layout = {} if dim is None else {"input_layouts": Shard(dim)}
            result = {} if dim is None else {"output_layouts": Shard(dim)}
            # A layer that is split by rows takes this rank's columns.
            plan = {name: name == "down_proj" for name in layers}
            if feature == "adapter":
                plan = {f"{name}.{part}": is_row for name, is_row in plan.items()
                        for part in ("base_layer", "lora_A.default" if is_row else "lora_B.default")}
            options = {"src_data_rank": None} if feature == "quantised" else {}
            parallelize_module(theirs, mesh, {
                name: RowwiseParallel(**result) if is_row else ColwiseParallel(**layout) for name, is_row in plan.items()}, **options)
            tt.parallelize(ours, mesh, {
                name: tt.RowwiseParallel(**result) if is_row else tt.ColwiseParallel(**layout) for name, is_row in plan.items()}, **options)
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
            if feature in MORE:
                assert isinstance(found["theirs"], Exception), feature
                continue
            if isinstance(found["theirs"], Exception):
                raise AssertionError((make.__name__, dim)) from found["theirs"]
            assert len(found["ours"]) == len(found["theirs"]) > 0
            for one, other in zip(found["ours"], found["theirs"]):
                if one is None or other is None:  # of a weight without a gradient
                    assert one is other, (make, dim)
                    continue
                assert not isinstance(other, DTensor) or one.placements == other.placements, (make, dim, one.placements)
                one, other = _full(one), _full(other)
                # torch adds up numbers of bf16, Tandem f32.
                tolerance = {"rtol": 0, "atol": 0.05 * other.abs().max().item()} if feature in ROUGH else {}
                close(one, other, **tolerance)


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
    empty = tt.parallelize(empty, _mesh(ranks))
    with torch.no_grad():
        y = empty(x.to("meta"))  # as programs do that estimate memory
    assert y.is_meta and y.shape == x.shape
    empty = empty.to_empty(device="cpu")
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
    for name, layout in (("gate_proj", Shard(0)), ("down_proj", Shard(1))):
        try:
            getattr(split, name)(DTensor.from_local(x, square["dp"], [layout]))
        except tandem.ArgumentError as error:
            assert f"layer {name}: expected a DTensor on" in str(error), error
        else:
            raise AssertionError("a DTensor of another mesh is no input")
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
