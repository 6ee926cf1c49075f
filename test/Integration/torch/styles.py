# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank of test_styles.py does: Tandem's styles in the place of torch's, with all arguments, in the models of torch's
own tests."""

import copy
import functools
import itertools

import torch
import torch.testing._internal.distributed._tensor.common_dtensor as common
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor import parallel as theirs
from torch.distributed.tensor.parallel import loss_parallel, parallelize_module

import tandem.torch as tt

close = functools.partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)
LAYOUTS = (None, Replicate(), Shard(0), Shard(1), Shard(-1), Partial())


def _full(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def _given(x, mesh, layout, is_local):
    """x by a layout, as a DTensor or as this rank's part of one."""
    if layout.is_partial():
        made = DTensor.from_local(x / mesh.size(), mesh, [layout])
    else:
        made = DTensor.from_local(x, mesh, [Replicate()]).redistribute(placements=[layout])
    return (made.to_local().clone() if is_local else made).detach()


def _run(style, layer, mesh, x):
    """The result, and all gradients."""
    layer = parallelize_module(copy.deepcopy(layer), mesh, style)
    if x.is_floating_point():
        x = x.clone().requires_grad_()
    y = layer(x)
    weights = _full(y.detach()).sin() if isinstance(y, DTensor) else y.detach().sin()
    (_full(y) * weights).sum().backward()
    return [y.detach(), *(one.grad for one in layer.parameters()), *([x.grad] if x.is_floating_point() else [])]


def arguments(rank, ranks, name, kind):
    """Each combination that torch's style takes: the same results and gradients."""
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(1)
    layer = nn.Linear(8, 12) if kind == "Linear" else nn.Embedding(10, 8)
    whole = torch.randn(4, 4, 8) if kind == "Linear" else torch.randint(10, (4, 4))
    count, differ = 0, []
    for before, after, is_local, is_dtensor in itertools.product(LAYOUTS, LAYOUTS, (True, False), (False, True)):
        options = {"input_layouts": before, "output_layouts": after, "use_local_output": is_local}
        layout = before or (Shard(-1) if name == "RowwiseParallel" and kind == "Linear" else Replicate())
        if kind == "Embedding" and layout.is_partial():
            continue
        x = _given(whole, mesh, layout, not is_dtensor)
        try:
            expected = _run(getattr(theirs, name)(**options), layer, mesh, x)
        except (RuntimeError, NotImplementedError, AssertionError, ValueError, TypeError, IndexError):
            continue
        found = _run(getattr(tt, name)(**options), layer, mesh, x)
        count += 1
        for one, other in zip(found, expected):
            assert (one is None) == (other is None) and isinstance(one, DTensor) == isinstance(other, DTensor), (options, one, other)
            if one is found[0] and isinstance(one, DTensor):
                assert one.placements == other.placements, (options, one.placements, other.placements)
            try:
                close(_full(one), _full(other))
            except AssertionError as error:
                differ.append((options, is_dtensor, found.index(one) if one is found[0] else "grad", str(error)[:200]))
    assert not differ, "\n".join(map(str, differ))
    assert count >= 20, count


def _trained(whole, split, x, rank, mesh, steps=3):
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1, foreach=True) for one in (whole, split)]
    for _ in range(steps):
        results = [one(x) for one in (whole, split)]
        close(_full(results[1]), results[0])
        for one in results:
            one.square().mean().backward()
        names = dict(whole.named_parameters())
        for name, found in split.named_parameters():
            close(_full(found.grad), names[name].grad, msg=lambda text, name=name: f"gradient of {name}: {text}")
        for one in optimizers:
            one.step()
            one.zero_grad()


def torchs_models(rank, ranks):
    """MLPModule, MLPStacked and Transformer with their own plan, which reads torch's names of styles."""
    mesh = init_device_mesh("cpu", (ranks,))
    for name in ("ColwiseParallel", "RowwiseParallel"):
        setattr(common, name, getattr(tt, name))
    for make in (common.MLPModule, common.MLPStacked):
        whole = make("cpu")
        for layout in (None, Shard(0)):
            split = copy.deepcopy(whole)
            parallelize_module(split, mesh, {f"{start}{key}": style for start in ("", "layers.*.") for key, style in (
                ("net1", tt.ColwiseParallel(input_layouts=layout)), ("net2", tt.RowwiseParallel(output_layouts=layout)))
                if (make is common.MLPModule) == (start == "")})
            x = torch.randn(8, 10, generator=torch.Generator().manual_seed(2))
            if layout is None:
                _trained(copy.deepcopy(whole), split, x, rank, mesh)
            else:
                close(split(x.chunk(ranks)[rank]), whole(x).chunk(ranks)[rank])
    for is_sequence, is_tied, dtype in itertools.product((True, False), (True, False), (torch.float64, torch.float32)):
        torch.manual_seed(3)
        whole = common.Transformer(common.ModelArgs(dropout_p=0.0, weight_tying=is_tied)).to(dtype)
        split = common.Transformer.parallelize(copy.deepcopy(whole), mesh, is_sequence, local_output_for_attn=True)  # CPUs' attention takes no DTensors
        parallelize_module(split, mesh, tt.Replicated())  # torch's plan leaves norms, and its optimizers refuse them next to others
        ids = torch.randint(8, (8, 8), generator=torch.Generator().manual_seed(4))
        if is_tied:
            assert split.output.weight is split.tok_embeddings.weight
        _trained(whole, split, ids, rank, mesh)


def tied(rank, ranks):
    """`parallelize` keeps a head tied to an embedding, if the plan splits both alike; the loss of a head's columns."""
    mesh = init_device_mesh("cpu", (ranks,))
    whole = common.Transformer(common.ModelArgs(dropout_p=0.0))
    plan = {"tok_embeddings": tt.RowwiseParallel(input_layouts=Replicate()), "pos_embeddings": tt.RowwiseParallel(input_layouts=Replicate()),
            "output": tt.ColwiseParallel(output_layouts=Shard(-1), use_local_output=False), "layers.*.feed_forward.w1": tt.ColwiseParallel(),
            "layers.*.feed_forward.w2": tt.RowwiseParallel(), "": tt.Replicated()}
    split = tt.parallelize(copy.deepcopy(whole), mesh, plan)
    assert split.output.weight is split.tok_embeddings.weight and split.output.weight.placements == (Shard(0),)
    ids = torch.randint(8, (4, 8), generator=torch.Generator().manual_seed(4))
    optimizers = [torch.optim.AdamW(one.parameters(), lr=0.01, foreach=True) for one in (whole, split)]
    for _ in range(3):
        loss = nn.functional.cross_entropy(whole(ids).flatten(0, 1), ids.flatten())
        with loss_parallel():
            found = nn.functional.cross_entropy(split(ids).flatten(0, 1), ids.flatten())
            close(_full(found), loss)
            found.backward()
        loss.backward()
        norms = [torch.nn.utils.clip_grad_norm_(one.parameters(), 0.1) for one in (whole, split)]
        close(_full(norms[1]), norms[0])
        for one in optimizers:
            one.step()
            one.zero_grad()
        names = dict(whole.named_parameters())
        for name, one in split.named_parameters():
            close(_full(one).detach(), names[name].detach())
    for name in ("tok_embeddings", "output"):
        try:
            tt.parallelize(copy.deepcopy(whole), mesh, {key: style for key, style in plan.items() if key != name})
        except tt._parallel.tandem.ArgumentError as error:
            assert "tied: tok_embeddings.weight, output.weight" in str(error), error
        else:
            raise AssertionError("expected an error")
