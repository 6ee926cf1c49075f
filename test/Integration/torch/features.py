# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank of test_features.py does: torch's features on layers that are split over ranks. Each result is that of the
same layers on one rank, or an error that says what is not supported."""

import copy
import functools
import io
import itertools
import logging
import os
import random
import tempfile
import threading
import time

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import tandem
import tandem.torch as tt
from layers import LESS_C

close = functools.partial(torch.testing.assert_close, rtol=1e-4, atol=1e-4)


class MLP(nn.Module):
    def __init__(self, bias=True):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(8, 16, bias), nn.Linear(8, 16, bias)
        self.down_proj = nn.Linear(16, 8, bias)

    def forward(self, x):
        return self.down_proj(torch.relu(self.gate_proj(x)) * self.up_proj(x))


class LoRALinear(nn.Linear):
    """A linear layer with a forward of its own, as FP8 and fake-quantised layers have."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.a, self.b = nn.Parameter(torch.randn(2, inputs)), nn.Parameter(torch.randn(outputs, 2))

    def forward(self, x):
        return super().forward(x) + x @ self.a.t() @ self.b.t()


class Adapted(nn.Module):
    """As peft's LoRA layers are."""

    def __init__(self, base):
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, 2, False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, base.out_features, False)})

    def forward(self, x):
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](x))


@functools.cache
def _mesh(ranks):
    return init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))


def _part(x, rank, ranks, dim=0):
    return x.chunk(ranks, dim)[rank].clone()


def _both(ranks, make=MLP, **options):
    torch.manual_seed(1)
    whole = make()
    split = copy.deepcopy(whole)
    return whole, tt.parallelize(split, _mesh(ranks), **options)


def _full(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def _refused(error, call, *words):
    try:
        call()
    except error as raised:
        assert all(word in str(raised) for word in words), raised
    else:
        raise AssertionError(f"expected {error.__name__} with {words}")


def _agree(rank, ranks, whole, split, dim, step=lambda model, x: model(x)):
    """Outputs and all gradients of the two models. Gradients of plain parameters are those of this rank's tokens."""
    torch.manual_seed(3)
    x = torch.randn(2 * ranks, 3, 8) if dim == 0 else torch.randn(3, 2 * ranks, 8)
    mine = (x if dim is None else _part(x, rank, ranks, dim)).requires_grad_()
    x.requires_grad_()
    expected, found = step(whole, x), step(split, mine)
    close(found, expected if dim is None else _part(expected, rank, ranks, dim))
    (expected ** 2).sum().backward()
    (found ** 2).sum().backward()
    close(mine.grad, x.grad if dim is None else _part(x.grad, rank, ranks, dim))
    parameters = dict(split.named_parameters())
    for name, parameter in whole.named_parameters():
        grad = parameters[name].grad
        assert (grad is None) == (parameter.grad is None), name
        if grad is not None:
            # clip_grad_norm_ scales no gradient that is a sum to be made. (LoRALinear: torch's style leaves one.)
            assert (not isinstance(grad, DTensor) or grad.placements == parameters[name].placements or
                    isinstance(split.get_submodule(name.rpartition(".")[0]), LoRALinear)), (name, grad.placements)
            close(_full(grad), parameter.grad, msg=lambda text, name=name: f"{name}: {text}")


def own_forward(rank, ranks):
    """A layer that computes more than F.linear keeps what it computes."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.up_proj, self.down_proj = LoRALinear(8, 16), LoRALinear(16, 8)

        def forward(self, x):
            return self.down_proj(torch.relu(self.up_proj(x)))

    for dim in (None, 0):
        _agree(rank, ranks, *_both(ranks, Model, sequence_dim=dim), dim)
    torch.manual_seed(1)
    whole = MLP()
    split = copy.deepcopy(whole)
    for model in (whole, split):  # as accelerate's hooks
        before = model.up_proj.forward
        model.up_proj.forward = lambda x, before=before: 2 * before(x)
    tt.parallelize(split, _mesh(ranks), sequence_dim=None)
    _agree(rank, ranks, whole, split, None)


    # Of all layers, as some libraries do.
    whole, split = MLP(), MLP()
    split.load_state_dict(whole.state_dict())
    with pytest.MonkeyPatch.context() as patch:
        before = nn.Linear.forward
        patch.setattr(nn.Linear, "forward", lambda self, x: 2 * before(self, x))
        tt.parallelize(split, _mesh(ranks), sequence_dim=None)
        _agree(rank, ranks, whole, split, None)

    class Doubled(torch.Tensor):  # a split tensor would not call this
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            made = super().__torch_function__(function, types, args, kwargs or {})
            return 2 * made.as_subclass(torch.Tensor) if function is nn.functional.linear else made

    model = MLP()
    model.up_proj.weight = nn.Parameter(model.up_proj.weight.detach().as_subclass(Doubled))
    _refused(tandem.ArgumentError, lambda: tt.parallelize(model, _mesh(ranks), sequence_dim=None), "layer up_proj", "Doubled")


def names(rank, ranks):
    """No layer stays whole next to split ones without a word."""
    class Block(nn.Module):
        def __init__(self, name, other="out_proj"):
            super().__init__()
            self.attention, self.mlp = nn.Module(), MLP()
            setattr(self.attention, name, nn.Linear(8, 24))
            setattr(self.attention, other, nn.Linear(8, 8))
            self.mlp.qkv_norm = nn.LayerNorm(8)

    for name in ("qkv", "to_qkv", "Wqkv", "kv_proj", "fused_qkv", "query_key_value", "c_attn"):
        _refused(tandem.ArgumentError, lambda name=name: tt.parallelize(Block(name), _mesh(ranks)), f"attention.{name} (several")
        tt.parallelize(Block(name), _mesh(ranks), sequence_dim=None)  # all ranks have all tokens
    said, handler = [], logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("tandem.torch").addHandler(handler)
    tt.parallelize(nn.Sequential(Block("mixer"), Block("router", "q_b_proj")), _mesh(ranks))
    assert said == ["parallelize: these linear layers are not split, and work on this rank's tokens: *.attention.mixer, "
                    "*.attention.router, *.attention.q_b_proj, *.attention.out_proj"], said
    model = MLP()
    model.extra, model.others = nn.Linear(8, 16), nn.Sequential(nn.Linear(8, 16), nn.ReLU())
    model.up_proj = Adapted(model.up_proj)
    tt.parallelize(model, _mesh(ranks), sequence_dim=None)
    assert said[1:] == ["parallelize: these linear layers are not split: extra, others.*"], said
    model = Block("qkv")
    model.mlp.qkv = nn.Sequential(nn.Linear(8, 24), nn.Dropout())
    _refused(tandem.ArgumentError, lambda: tt.parallelize(model, _mesh(ranks), sequence_dim=None), "mlp.qkv (several")
    model.mlp.qkv = nn.ModuleDict({"q_proj": nn.Linear(8, 8), "v_proj": nn.Linear(8, 8)})  # no projection itself
    tt.parallelize(model, _mesh(ranks), sequence_dim=None)
    assert isinstance(model.mlp.qkv["q_proj"].weight, DTensor)
    tt.parallelize(MLP(), _mesh(ranks))
    assert len(said) == 2, said
    logging.getLogger("tandem.torch").removeHandler(handler)
    for plan in ({"nothing": tt.ColwiseParallel()}, {}, {"*.*": tt.RowwiseParallel()}):
        _refused(tandem.ArgumentError, lambda plan=plan: tt.parallelize(MLP(), _mesh(ranks), plan), "found none")
    tt.parallelize(MLP(), _mesh(ranks), {"gate*": tt.ColwiseParallel(), "*": tt.ColwiseParallel()})
    layer = tt.parallelize(nn.Linear(8, 4), _mesh(ranks), tt.ColwiseParallel())
    assert layer(torch.randn(2, 8)).shape == (2, 4 // ranks)
    for plan in (_mesh(ranks).get_group(), None):
        _refused(tandem.ArgumentError, lambda plan=plan: tt.parallelize(MLP(), plan), "mesh of one dimension")
    for dim in ("0", 1.0, True):
        _refused(tandem.ArgumentError, lambda dim=dim: tt.parallelize(MLP(), _mesh(ranks), sequence_dim=dim), "sequence_dim")


def adapters(rank, ranks):
    """LoRA next to split layers, in front of them and in place of them; wrappers that are not known are refused."""
    def make(names):
        model = MLP()
        for name in names:
            setattr(model, name, Adapted(getattr(model, name)))
        return model

    for names, dim in itertools.product((["up_proj"], ["down_proj"], ["gate_proj", "up_proj", "down_proj"]), (None, 0, 1)):
        whole, split = _both(ranks, lambda names=names: make(names), sequence_dim=dim)
        _agree(rank, ranks, whole, split, dim)
        again = nn.Sequential(getattr(split, names[0]))  # in a second module
        _refused(tandem.ArgumentError, lambda again=again: again[0].lora_A.update({"other": nn.Linear(8, 2)}), "expected no further adapter")
        whole, split = _both(ranks, sequence_dim=dim)  # added after, with the first rank's values
        for model, seed in ((whole, 2), (split, 2 + rank)):
            torch.manual_seed(seed)
            for name in names:
                setattr(model, name, Adapted(getattr(model, name)))
        _agree(rank, ranks, whole, split, dim)
    _refused(tandem.ArgumentError, lambda: split.up_proj.lora_A.update({"other": nn.Linear(8, 2)}), "up_proj", "expected no further adapter")

    class Magnitude(Adapted):
        def __init__(self, base):
            super().__init__(base)
            self.magnitude = nn.Parameter(torch.ones(1))

    class Quantised(nn.Module):
        def __init__(self):
            super().__init__()
            self.packed = nn.Parameter(torch.ones(4))

    split = tt.parallelize(MLP(), _mesh(ranks))
    _refused(tandem.ArgumentError, lambda: setattr(split, "up_proj", Magnitude(split.up_proj)), "up_proj", "with the parameter magnitude")
    patched, special = Adapted(nn.Linear(8, 16)), Adapted(nn.Linear(8, 16))
    patched.lora_A["default"].forward = torch.relu
    special.lora_A["default"] = LoRALinear(8, 2)
    for layer, words in ((Magnitude(nn.Linear(8, 16)), "Magnitude with the parameter magnitude"), (Quantised(), "Quantised"),
                         (special, "Adapted with the parameter lora_A.default.a"), (patched, "up_proj.lora_A.default")):
        model = MLP()
        model.up_proj = layer
        _refused(tandem.ArgumentError, lambda model=model: tt.parallelize(model, _mesh(ranks)), "up_proj", words)
        assert not isinstance(model.gate_proj.weight, DTensor)
    model = MLP()
    model.attention = nn.Module()
    model.attention.qkv_proj = nn.Linear(8, 24)
    _refused(tandem.ArgumentError, lambda: tt.parallelize(model, _mesh(ranks)), "attention.qkv_proj", "several projections")
    tt.parallelize(model, _mesh(ranks), sequence_dim=None)  # every rank has all tokens: it stays whole
    assert model.attention.qkv_proj.weight.placements == (Replicate(),)


def modes(rank, ranks):
    """Layers of one input do not see each other's modes, inputs or weights."""
    for mode in (torch.inference_mode, torch.no_grad):
        whole, split = _both(ranks)
        x = torch.randn(2 * ranks, 8, generator=torch.Generator().manual_seed(2))
        mine = _part(x, rank, ranks)
        with mode():
            for model, value in ((whole, x.clone()), (split, mine.clone())):
                model.gate_proj(value)
                value.add_(1)
                model.found = model.up_proj(value)
            close(split.found, _part(whole.found, rank, ranks, 1))
        assert split.up_proj(mine).requires_grad
        with mode():
            assert not split.gate_proj(mine).requires_grad
            for model in (whole, split):
                for parameter in model.parameters():
                    parameter.mul_(2)
            close(split.up_proj(mine), _part(whole.up_proj(x), rank, ranks, 1))
    whole, split = _both(ranks)
    with torch.autocast("cpu", torch.bfloat16):
        assert split.gate_proj(mine).dtype == torch.bfloat16
    assert split.up_proj(mine).dtype == torch.float32


def losses(rank, ranks):
    """Several losses; parts of a model that a loss does not use have no gradient, not a zero one."""
    for dim in (0, None):
        whole, split = _both(ranks, sequence_dim=dim)
        x = torch.randn(2 * ranks, 8)
        for model in (whole, split):
            value = x if dim is None or model is whole else _part(x, rank, ranks)
            a, b = model.gate_proj(value), model.up_proj(value)
            a.sum().backward()
            (3 * b).sum().backward()
        for name in ("gate_proj", "up_proj"):
            grad = getattr(split, name).weight.grad
            assert isinstance(grad, DTensor)
            if dim is None:
                close(grad.full_tensor(), getattr(whole, name).weight.grad)
    _, split = _both(ranks)
    x = torch.randn(2, 8)
    gate, up = tt.column_linears(x, [split.gate_proj, split.up_proj])
    close(gate, split.gate_proj(x))
    close(up, split.up_proj(x))
    up.sum().backward()
    assert split.gate_proj.weight.grad is None and split.up_proj.weight.grad is not None
    for one, other in zip(tt.column_linears(x, [whole.gate_proj, whole.up_proj]), (whole.gate_proj, whole.up_proj)):
        close(one, other(x))  # layers that are not split
    expected = split.up_proj(x)
    for hook in ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_full_backward_pre_hook"):
        seen = []
        handle = getattr(split.up_proj, hook)(lambda *_, seen=seen: seen.append(1))
        sum(y.sum() for y in tt.column_linears(x.clone().requires_grad_(), [split.gate_proj, split.up_proj])).backward()
        assert len(seen) == 1, hook
        handle.remove()
    before = split.up_proj.forward
    split.up_proj.forward = lambda x: 2 * before(x)
    close(tt.column_linears(x, [split.gate_proj, split.up_proj])[1], 2 * expected)


def checkpoints(rank, ranks):
    """Checkpointing of all kinds, also while the profiler looks."""
    selective = functools.partial(create_selective_checkpoint_contexts,
                                  lambda context, op, *args, **kwargs: CheckpointPolicy.PREFER_RECOMPUTE)
    for dim, options in itertools.product((0, None), ({"use_reentrant": False}, {"use_reentrant": True},
                                                      {"use_reentrant": False, "context_fn": selective})):
        def step(model, x, options=options):
            return checkpoint(model, x, **options)
        _agree(rank, ranks, *_both(ranks, sequence_dim=dim), dim, step)
        with torch.profiler.profile():
            _agree(rank, ranks, *_both(ranks, sequence_dim=dim), dim, step)


def changes(rank, ranks):
    """A weight that changes between forward and backward is torch's error, also of a frozen layer and of adapters."""
    def make():
        model = MLP()
        model.gate_proj, model.down_proj = Adapted(model.gate_proj), Adapted(model.down_proj)
        return model

    for dim, frozen, name in itertools.product((0, None), (False, True), (
            *(f"{one}.{part}" for one in ("gate_proj", "down_proj") for part in ("base_layer", "lora_A.default", "lora_B.default")), "up_proj")):
        _, split = _both(ranks, make, sequence_dim=dim)
        for parameter in split.parameters():
            parameter.requires_grad_(not frozen)
        x = torch.randn(2, 8, requires_grad=True)
        loss = split(x).sum()
        with torch.no_grad():
            split.get_submodule(name).weight.mul_(2)
        _refused(RuntimeError, loss.backward, "modified by an inplace operation")
        dist.barrier()
    # torch keeps a copy of the DTensor then, but the product has its local part.
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        _, split = _both(ranks)
        loss = split(x).sum()
        with torch.no_grad():
            split.up_proj.weight.mul_(2)
        _refused(RuntimeError, loss.backward, "layer up_proj", "modified by an inplace operation")


def transforms(rank, ranks):
    """Double backward, vmap, func.grad and forward-mode AD are refused by a sentence of this package."""
    x, w = torch.randn(2, 8, requires_grad=True), torch.randn(8, 4 * ranks, requires_grad=True)
    ops, group = torch.ops.tandem, dist.group.WORLD.group_name
    calls = {"all_gather_matmul": lambda x: tt.all_gather_matmul(x, w), "matmul_all_reduce": lambda x: tt.matmul_all_reduce(x, w),
             "matmul_reduce_scatter": lambda x: tt.matmul_reduce_scatter(x, w), "column_parallel": lambda x: tt.column_parallel(x, w),
             "ops.all_gather_matmul": lambda x: ops.all_gather_matmul(x, [w], 0, group, None, False)[0],
             "ops.matmul_reduce_scatter": lambda x: ops.matmul_reduce_scatter([x], [w], 0, group),
             "ops.matmul_all_reduce": lambda x: ops.matmul_all_reduce([x], [w], group)}
    for name, call in calls.items():
        is_ours, name = not name.startswith("ops."), name.removeprefix("ops.")
        _refused(RuntimeError, lambda call=call: torch.autograd.grad(call(x).sum(), x, create_graph=True), name, "no gradient")
        # Of an operator the dispatcher says it.
        _refused(RuntimeError, lambda call=call: torch.func.vmap(call)(x[None]), name, "torch.func" if is_ours else "atching rule")
        _refused(RuntimeError, lambda call=call: torch.func.grad(lambda x: call(x).sum())(x), name, "torch.func")
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones_like(x))
            _refused(RuntimeError, lambda call=call, dual=dual: call(dual), name, "forward-mode")
        y = call(x)
        batched = functools.partial(torch.autograd.grad, y, x, torch.ones(3, *y.shape), is_grads_batched=True)
        if name == "matmul_all_reduce":  # its gradients are local
            close(batched()[0][1], torch.autograd.grad(call(x), x, torch.ones_like(y))[0])
        else:
            _refused(RuntimeError, batched, name, "a batch")
    # 8-bit floats have no gradients, nor have their scales.
    x8, w8, one = torch.ones(2, 16).to(torch.float8_e4m3fn), torch.ones(16, 4).to(torch.float8_e4m3fn), torch.tensor(1.0)
    scale = torch.tensor(1.0, requires_grad=True)
    for call in (lambda scale: tt.all_gather_scaled_matmul(x8, w8, scale, one), lambda scale: tt.all_gather_scaled_matmul(x8, w8, one, scale),
                 lambda scale: tt.scaled_matmul_reduce_scatter(x8, w8, one, scale)):
        _refused(tandem.ArgumentError, lambda call=call: call(scale), "need no gradient")
        with torch.no_grad():
            close(call(scale), call(one))
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(one, one)
            _refused(RuntimeError, lambda call=call, dual=dual: call(dual), "forward-mode")


def compiled_autograd(rank, ranks):
    """A backward pass of eager layers that torch.compile compiles."""
    _, split = _both(ranks, sequence_dim=None)
    x = torch.randn(2, 8)
    split.gate_proj(x).square().sum().backward()
    expected = split.gate_proj.weight.grad.full_tensor()
    split.zero_grad()
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
        split.gate_proj(x).square().sum().backward()
    close(split.gate_proj.weight.grad.full_tensor(), expected)


def life(rank, ranks):
    """Copies, files, keywords, weights that are split already; what cannot be split is refused by its name."""
    whole, split = _both(ranks)
    x = torch.randn(2, 8)
    expected = split(x).detach()
    file = io.BytesIO()
    torch.save(split, file)
    file.seek(0)
    for other in (copy.deepcopy(split), torch.load(file, weights_only=False)):
        close(other(x), expected)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        close(split(x), expected)  # it has parameters of its own
        other.load_state_dict(split.state_dict())
        close(other(x), expected)
    close(split.gate_proj(input=x), split.gate_proj(x))
    seen = []
    hook = split.gate_proj.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    split(x)
    assert len(seen) == 1
    hook.remove()  # column_linears takes layers with hooks one by one

    again = MLP()
    for name, dim in (("gate_proj", 0), ("up_proj", 1)):
        layer = getattr(again, name)
        layer.weight = nn.Parameter(distribute_tensor(layer.weight.detach(), _mesh(ranks), [Shard(dim)]))
    _refused(tandem.ArgumentError, lambda: tt.parallelize(again, _mesh(ranks)), "up_proj", "placement")

    tied = MLP()
    tied.up_proj.weight = tied.gate_proj.weight
    other = tt.parallelize(copy.deepcopy(tied), _mesh(ranks), sequence_dim=None)
    assert other.up_proj.weight is other.gate_proj.weight  # split alike
    close(other(x), tied(x))
    tied.extra = nn.Linear(8, 16)
    tied.extra.weight = tied.up_proj.weight
    _refused(tandem.ArgumentError, lambda: tt.parallelize(tied, _mesh(ranks)), "tied", "gate_proj.weight", "up_proj.weight")
    for norm in (nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm, nn.utils.spectral_norm):
        model = MLP()
        norm(model.up_proj)
        _refused(tandem.ArgumentError, lambda model=model: tt.parallelize(model, _mesh(ranks)), "up_proj", "remove it before")
        assert not isinstance(model.gate_proj.weight, DTensor)
    model = MLP()
    model.up_proj.weight = nn.Parameter(torch.ones(16, 8, dtype=torch.int8), requires_grad=False)
    _refused(tandem.ArgumentError, lambda: tt.parallelize(model, _mesh(ranks)), "layer up_proj", "int8", "quantised layers")
    assert not isinstance(model.gate_proj.weight, DTensor)
    model = MLP()
    model.up_proj = nn.LazyLinear(16)
    _refused(tandem.ArgumentError, lambda: tt.parallelize(model, _mesh(ranks)), "layer up_proj", "uninitialised")
    _refused(tandem.ArgumentError, lambda: split.gate_proj(torch.randn(2, 7)), "layer gate_proj", "expected weights of 7 rows")
    for layer, x, words in ((split.gate_proj, None, "NoneType"), (split.down_proj, [1.0], "list"),
                            (split.down_proj, torch.tensor(1.0), "shape ()")):
        _refused(tandem.ArgumentError, lambda layer=layer, x=x: layer(x), "layer", "_proj", words)
    for dim in (2, 3, 4, -4):  # none of the input
        other = tt.parallelize(MLP(), _mesh(ranks), sequence_dim=dim)
        _refused(tandem.ArgumentError, lambda other=other: other(torch.randn(2, 2, 8)), "layer gate_proj", f"dimension {dim}" if dim != 2 else "2")
    other = copy.deepcopy(split)
    other.down_proj.weight = nn.Parameter(torch.ones(8, 8))
    _refused(tandem.ArgumentError, lambda: other.down_proj(torch.randn(2, 8)), "layer down_proj", "weight", "DTensor")
    _refused(tandem.ArgumentError, lambda: tt.column_linears(torch.randn(2, 7), [split.gate_proj, split.up_proj]),
             "layer gate_proj, up_proj")


def late(rank, ranks):
    """The timeout is that of the process group or of the context, and a live rank is waited for."""
    assert tt._groups.timeout_of(dist.group.WORLD) == 1800
    for timeout in (0, -1, float("inf"), float("nan"), "5", 4e9):
        _refused(tandem.ArgumentError, lambda timeout=timeout: tt.context(timeout=timeout), "timeout")
    context = tt.context(timeout=40)
    assert tt.context() is context and tt.context(timeout=40) is context
    _refused(tandem.ArgumentError, lambda: tt.context(timeout=41), "40")
    if rank == 0:
        time.sleep(0.5)
    close(tt.all_gather_matmul(torch.ones(4, 8), torch.ones(8, 4)), torch.full((4 * ranks, 4), 8.0))


def disagree(rank, ranks, kind):
    """Ranks that make other calls: an error on all of them that says what each does, long before the timeout."""
    w = torch.ones(8, 4)
    gather = lambda rows: tt.all_gather_matmul(torch.ones(rows, 8), w)
    # After 64 numbers of tokens, others share programs.
    for rows in range(1, 70) if kind == "padded" else (1, 3, 4):
        gather(rows)
    start = time.monotonic()
    # A rank that prepares a program waits for others in another place than one that runs a program.
    rows, said = {"padded": (67 + rank, ("134 tokens", "136 tokens")), "known": (3 + rank, ("6 tokens", "8 tokens")),
                  "new": (4 + rank, ("8 tokens", "10 tokens")), "operator": (3, ("all_gather_matmul", "matmul_all_reduce")),
                  "tokens": (2, ("3 tokens", "4 tokens")), "batches": (0, ("12 tokens", "float32, 2", "float32, 3")),
                  "batches of tokens": (0, ("24 tokens", "float32, 6", "float32, 4")),
                  "known batches": (0, ("24 tokens", "float32, 6", "float32, 4")),
                  "rows": (2, ("expected 1 of 3 rows on rank 1, found 2",) if rank else ("rank 1", "3 tokens")),
                  "layer": (3 + rank, ("layer gate_proj", "6 tokens", "8 tokens", "a layer a DTensor"))}[kind]
    with pytest.raises(tandem.Error) as error:
        if kind == "operator" and rank == 1:
            tt.matmul_all_reduce(torch.ones(rows, 8), w)
        elif kind == "tokens":
            tt.all_gather_matmul(torch.ones(rows, 8), w, tokens=3 + rank)
        elif kind == "rows":
            tt.all_gather_matmul(torch.ones(2 - rank, 8), w, tokens=3)
            tt.all_gather_matmul(torch.ones(rows, 8), w, tokens=3)
        elif kind == "batches":
            tt.matmul_all_reduce(torch.ones(2 + rank, 6 - 2 * rank, 8), w)
        elif kind in ("batches of tokens", "known batches"):
            for one in (2, 3) if kind == "known batches" else ():
                tt.all_gather_matmul(torch.ones(one, 12 // one, 8), w)
            tt.all_gather_matmul(torch.ones(2 + rank, 6 - 2 * rank, 8), w)
        elif kind == "layer":
            tt.parallelize(MLP(), _mesh(ranks))(torch.ones(rows, 8))
        else:
            gather(rows)
    assert all(text in str(error.value) for text in said), error.value
    assert time.monotonic() - start < 60, "the timeout of the group is 1800 s"


def crossed(rank, ranks):
    """Threads that use groups of their own, which the ranks begin in another order."""
    groups = [dist.new_group(list(range(ranks))) for _ in range(2)]
    ends = [threading.Event() for _ in groups]

    def body(index):
        for rows in (2, 4):
            x = torch.full((rows, 8), index + 1.0, requires_grad=True)
            y = tt.all_gather_matmul(x, torch.ones(8, 4), group=groups[index])
            close(y, torch.full((rows * ranks, 4), 8 * (index + 1.0)))
            y.sum().backward()
            close(x.grad, torch.full((rows, 8), 4.0 * ranks))
        ends[index].set()

    for index in (rank, 1 - rank):
        threading.Thread(target=body, args=(index,), daemon=True).start()
        ends[index].wait(1)
    assert all(end.wait(60) for end in ends)


def ended(rank, ranks):
    """A rank that ended is not waited for where the others make a program."""
    w = torch.ones(8, 4)
    tt.all_gather_matmul(torch.ones(4, 8), w)
    if rank == 1:
        os._exit(0)
    start = time.monotonic()
    _refused(tandem.Error, lambda: tt.all_gather_matmul(torch.ones(6, 8), w), "lost rank 1")
    assert time.monotonic() - start < 60, "the timeout of the group is 1800 s"


def recorded(rank, ranks):
    """A rank that does not come: its flight recorder says so on the other one, also in a group of its own."""
    with tempfile.TemporaryDirectory() as folder:
        names = [folder]
        dist.broadcast_object_list(names)
        os.environ["TANDEM_FLIGHT_RECORDER"] = prefix = os.path.join(names[0], "hang")
        alone = [dist.new_group([other]) for other in range(ranks)][rank]
        tt.context(alone)
        assert os.path.exists(f"{prefix}.{alone.group_name}.rank0")
        gather = lambda: tt.all_gather_matmul(torch.ones(4, 8), torch.ones(8, 4))
        gather()
        dist.barrier()
        deadline = time.monotonic() + 60
        if rank == 1:
            while not os.path.exists(prefix + ".seen"):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        else:
            threading.Thread(target=gather).start()
            waits = lambda dump: [wait["rank"] for command in dump["in_flight"] for wait in command["waits_for"]]
            while 1 not in waits(dump := tt.context().dump()):
                assert time.monotonic() < deadline, dump
            assert (dump["rank"], dump["error"]) == (0, None), dump
            assert "run @" in dump["calls"][-1]["call"] and dump["others"][0]["calls"] < dump["calls"][-1]["number"], dump
            while tandem.hang_report(prefix)["held_up_by"] != [1]:
                assert time.monotonic() < deadline, tandem.hang_report(prefix)
            open(prefix + ".seen", "w").close()
        if rank == 1:
            gather()
        dist.barrier()


def negative(rank, ranks):
    """Tensors with torch's negative bit."""
    x, w = torch.randn(4, 8), torch.randn(8, 4 * ranks)
    found = tt.all_gather_matmul(torch._neg_view(x), torch._neg_view(w))
    close(found, tt.all_gather_matmul(x, w))
    close(tt.all_gather_matmul(torch._neg_view(x), w.t().contiguous().t()), -found)


def chained(rank, ranks):
    """The pass of torch.compile runs behind another one, and is found by the backward's compile, too."""
    config = torch._inductor.config
    seen = []

    class Other(CustomGraphPass):
        def __call__(self, graph):
            seen.append(graph)

        def uuid(self):
            return "other"

    def step(x, w):
        return functional.all_gather_tensor(x, 0, dist.group.WORLD) @ w

    with config.patch(post_grad_custom_post_pass=Other()):
        with tt.overlap_compiled() as overlap:
            assert config.post_grad_custom_post_pass is overlap
        assert isinstance(config.post_grad_custom_post_pass, Other)
    assert config.post_grad_custom_post_pass is None
    x, w = torch.randn(4, 8), torch.randn(8, 4, requires_grad=True)
    expected = step(x, w)
    expected.sum().backward()
    grad, w.grad = w.grad, None
    overlap = tt.CollectiveMatmulPass(Other())
    assert overlap.uuid() not in (None, tt.CollectiveMatmulPass().uuid())
    assert tt.CollectiveMatmulPass(lambda graph: None).uuid() is None, "such a function may be another one each time"
    compiled = torch.compile(step, options={"post_grad_custom_post_pass": overlap, **LESS_C})
    with config.patch(force_disable_caches=True):  # of which a rank gets what the other one has compiled, without the pass
        y = compiled(x, w)
        close(y, expected)
        y.sum().backward()
    close(w.grad, grad)
    assert len(seen) == 2 and len(overlap.replaced) == 1, (seen, overlap.replaced)


def gradients_of_fuse(rank, ranks):
    """A traced function has no gradient, so it does not take tensors that need one, where autograd records."""
    mesh = tandem.Mesh("tp", x=None)

    @tandem.fuse(x=tandem.TensorType("f32", (4, 8), mesh["x", None]), w=tandem.TensorType("f32", (8, 4), mesh[None, None]),
                 results=mesh[None, None])
    def gather(x, w):
        return x @ w

    x, w, context = torch.ones(4 // ranks, 8), nn.Parameter(torch.ones(8, 4)), tt.context()
    _refused(tandem.ArgumentError, lambda: gather(x, w, context=context), "argument 1: needs a gradient")
    out = torch.zeros(4, 4, requires_grad=True)
    _refused(tandem.ArgumentError, lambda: gather(x, w.detach(), out=out, context=context), "needs a gradient")
    expected = torch.full((4, 4), 8.0)
    with torch.no_grad():
        close(gather(x, w, context=context), expected)
    close(gather(x, w.detach(), context=context), expected)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        _refused(tandem.ArgumentError, lambda: gather(dual, w.detach(), context=context), "argument 0", "forward-mode")
        close(gather(x, w.detach(), context=context), expected)
    for transform in (torch.func.vmap, torch.func.grad, torch.func.jacrev):
        _refused(tandem.ArgumentError, lambda transform=transform: transform(
            lambda x: gather(x, w.detach(), context=context).sum())(x), "argument 0", "torch.func")


class _Random(nn.Module):
    """A few MLPs with random features of torch; the same on all ranks by its seed."""

    def __init__(self, random, dim):
        super().__init__()
        self.blocks = nn.ModuleList()
        self.kinds = []
        for _ in range(random.randint(1, 3)):
            block = MLP(random.random() < 0.5)
            for name in ("gate_proj", "up_proj", "down_proj"):
                kind = random.random()
                if kind < 0.2:
                    setattr(block, name, Adapted(getattr(block, name)))
                elif kind < 0.3 and dim != 1:  # torch's style splits it, and refuses dimension 1
                    old = getattr(block, name)
                    setattr(block, name, LoRALinear(old.in_features, old.out_features))
                elif kind < 0.4:
                    getattr(block, name).weight.requires_grad_(False)
            self.blocks.append(block)
            self.kinds.append(random.choice(["plain", "plain", "checkpoint", "reentrant", "hook", "twice"]))
            if self.kinds[-1] == "hook":
                block.up_proj.register_forward_hook(lambda module, args, output: output * 0.5)

    def forward(self, x):
        for block, kind in zip(self.blocks, self.kinds):
            if kind in ("checkpoint", "reentrant"):
                y = checkpoint(block, x, use_reentrant=kind == "reentrant")
            else:
                y = block(block(x)) if kind == "twice" else block(x)
            x = x + torch.tanh(y)
        return x


def fuzz(rank, ranks, first, seconds):
    """Random modules with random features against the unsharded module, for so many seconds. All ranks stop together."""
    count, end = 0, time.monotonic() + float(seconds)
    while True:
        more = torch.tensor(float(time.monotonic() < end))
        dist.broadcast(more, 0)
        if not more:
            break
        seed = int(first) + count
        chosen = random.Random(seed)
        dim = chosen.choice([None, 0, 1])
        torch.manual_seed(seed)
        whole = _Random(chosen, dim).double()  # so that the order of sums does not matter
        split = copy.deepcopy(whole)
        tt.parallelize(split, _mesh(ranks), sequence_dim=dim)
        try:
            for step in range(chosen.randint(1, 3)):
                torch.manual_seed(100 * seed + step)
                shape = [3, 8]
                shape.insert(dim or 0, 2 * ranks)
                x = torch.randn(shape, dtype=torch.float64)
                mine = x if dim is None else _part(x, rank, ranks, dim)
                modes = [None, None, torch.no_grad, torch.inference_mode]
                if any(isinstance(one, LoRALinear) for one in whole.modules()):
                    modes.pop()  # torch's DTensors have views that inference mode refuses
                mode = chosen.choice(modes)
                if mode:
                    with mode():
                        found, expected = split(mine), whole(x)
                        close(found, expected if dim is None else _part(expected, rank, ranks, dim))
                        if chosen.random() < 0.5:
                            mine.add_(1)
                            x.add_(1)
                        found, expected = split(mine), whole(x)
                        close(found, expected if dim is None else _part(expected, rank, ranks, dim))
                    continue
                found, expected = split(mine.requires_grad_()), whole(x.requires_grad_())
                close(found, expected if dim is None else _part(expected, rank, ranks, dim))
                scales = [1.0, 0.5][:chosen.randint(1, 2)]  # one loss or two
                for scale in scales:
                    for value in (found, expected):
                        (scale * value ** 2).sum().backward(retain_graph=scale != scales[-1])
                parameters = dict(split.named_parameters())
                for name, parameter in whole.named_parameters():
                    grad = parameters[name].grad
                    assert (grad is None) == (parameter.grad is None), name
                    if grad is not None:
                        close(_full(grad), parameter.grad, msg=lambda text, name=name: f"{name}: {text}")
                for model in (whole, split):
                    torch.optim.SGD(model.parameters(), lr=0.01, foreach=False).step()
                    model.zero_grad()
        except BaseException as error:
            raise AssertionError(f"seed {seed}, sequence_dim={dim}, {whole.kinds}") from error
        count += 1
    assert count, "expected at least one module"
    print(f"{count} modules", flush=True)


def step_report(rank, ranks):
    """A step that is really computed leaves gradients, buffers and random states as they were; ranks see the same report."""
    class Counting(MLP):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x):
            self.steps += 1
            return super().forward(nn.functional.dropout(x, 0.5))

    _, split = _both(ranks, Counting)
    x = torch.randn(6, 8, requires_grad=True)
    (split(x) ** 2).sum().backward()
    of_x = x.grad.clone()
    before = [one.grad for one in split.parameters()], split.steps.item(), torch.get_rng_state()
    values = [_full(one).clone() for one in before[0]]
    report = tt.report(split, x, machine="h200x2", loss=lambda y: (y ** 2).sum())
    assert all(one.grad is grad for one, grad in zip(split.parameters(), before[0]))
    for grad, value in zip(before[0], values):
        assert torch.equal(_full(grad), value)
    assert torch.equal(x.grad, of_x) and split.steps.item() == before[1] and torch.equal(torch.get_rng_state(), before[2])
    everyones = [None] * ranks
    dist.all_gather_object(everyones, report.calls)
    assert all(one == report.calls for one in everyones)
    assert {(one["layer"], one["direction"]) for one in report.calls} >= {
        ("gate_proj", "forward"), ("down_proj", "forward"), ("down_proj", "backward"), ("up_proj", "backward")}, str(report)
    (split(x) ** 2).sum().backward()  # and the model still trains
    assert split.steps.item() == before[1] + 1


class _Made(logging.Handler):
    """Counts the programs that are made while it is open."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.count = 0

    def emit(self, record):
        self.count += 1

    def __enter__(self):
        log = logging.getLogger("tandem.torch")
        log.addHandler(self)
        log.setLevel(logging.INFO)
        return self

    def __exit__(self, *_):
        log = logging.getLogger("tandem.torch")
        log.removeHandler(self)
        log.setLevel(logging.NOTSET)


def warm_up(rank, ranks, how):
    """The first step makes no program any more, and is right. how: also while the compiler works, from ranks that call layers
    in another order, and for weights that are not there yet."""
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.warming = MLP(), MLP(), False

        def forward(self, x):
            if how == "order" and self.warming and rank:
                second = self.second(x)
                return self.first(x[:2]), second
            return self.first(x[:2]), self.second(x)

    whole, split = _both(ranks, Two)
    split.warming, x = True, torch.randn(6, 8, requires_grad=True)

    def loss(results):
        return sum((one ** 2).sum() for one in results)

    device = "meta" if how == "meta" else "cpu"
    with _Made() as made:
        model = copy.deepcopy(split).to(device) if how == "meta" else split
        warm = tt.warm_up(model, torch.empty(6, 8, device=device, requires_grad=True), loss=loss, wait=how != "background")
        assert warm.wait() is warm and made.count >= len(warm.calls) >= 6
    assert warm.compile_seconds > 0 and warm.prepare_seconds > 0
    everyones = [None] * ranks
    dist.all_gather_object(everyones, warm.calls)
    assert all(one == warm.calls for one in everyones)
    assert all(one.grad is None for one in split.parameters())
    split.warming = False
    with _Made() as made:
        results = split(x)
        loss(results).backward()
    assert made.count == 0
    everyone = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(everyone, x.detach())
    expected = whole(torch.cat(everyone))[1]
    torch.testing.assert_close(results[1], expected.tensor_split(ranks)[rank].detach(), atol=1e-4, rtol=1e-4)


def warm_up_differs(rank, ranks):
    _, split = _both(ranks, MLP)
    with pytest.raises(tandem.ArgumentError, match="warm_up: expected the same calls on all ranks .* found .*tokens.* on rank"):
        tt.warm_up(split, torch.empty(6 if rank else 10, 8))
    tt.warm_up(split, torch.empty(6, 8))
    with pytest.raises(tandem.ArgumentError, match="warm_up: expected a module, found 3"):
        tt.warm_up(3, torch.empty(6, 8))
