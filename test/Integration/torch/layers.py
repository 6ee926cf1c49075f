# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank of a test does: layers of tandem.torch against the same layers on one rank with torch alone."""

import copy
import os
import re
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from counting import Counting
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

import tandem
import tandem.torch as tt

# Set by gpu.py.
KIND = os.environ.get("TANDEM_TEST_DEVICE", "cpu")
SHARES_GPU = "TANDEM_TEST_SHARES_GPU" in os.environ
# Inductor compiles less on the side: programs that try vector instructions, headers.
LESS_C = {"cpp.vec_isa_ok": False, "cpp_cache_precompile_headers": False}


def close(found, expected):
    # Sums of f32 in another order.
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def part(tensor, rank, ranks, dim=0):
    """This rank's piece, of ceil size, as torch.chunk and DTensor cut."""
    size = -(-tensor.shape[dim] // ranks)
    return tensor.narrow(dim, min(rank * size, tensor.shape[dim]), max(0, min(size, tensor.shape[dim] - rank * size))).clone()


def gather(rank, ranks, *sizes):
    """all_gather_matmul with two weights, one of them stored as [in, out]; tokens of any number, also fewer than ranks."""
    for tokens in map(int, sizes):
        inside = [((tokens, 2, 8), 0), ((2, tokens, 3, 8), 1)] if tokens % ranks == 0 else []
        for shape, dim in (((tokens, 8), 0), ((2, tokens, 8), 1), ((1, tokens, 8), 1), ((tokens, 1, 8), 0), *inside):
            torch.manual_seed(tokens)
            x_all = torch.randn(shape, requires_grad=True)
            w_all = [torch.randn(6 * ranks, 8, requires_grad=True), torch.randn(8, 4 * ranks, requires_grad=True)]
            y_all = [x_all @ w_all[0].t(), x_all @ w_all[1]]
            grads = [torch.randn_like(y) for y in y_all]
            torch.autograd.backward(y_all, grads)

            x = part(x_all.detach(), rank, ranks, dim).requires_grad_()
            w = [part(w_all[0].detach(), rank, ranks).requires_grad_(),
                 part(w_all[1].detach(), rank, ranks, 1).requires_grad_()]
            y = tt.all_gather_matmul(x, [w[0].t(), w[1]], dim, tokens=tokens)
            for found, expected in zip(y, y_all):
                close(found, part(expected.detach(), rank, ranks, -1))
            torch.autograd.backward(y, [part(grad, rank, ranks, -1) for grad in grads])
            close(x.grad, part(x_all.grad, rank, ranks, dim))
            close(w[0].grad, part(w_all[0].grad, rank, ranks))
            close(w[1].grad, part(w_all[1].grad, rank, ranks, 1))


def scatter(rank, ranks, *sizes):
    """matmul_reduce_scatter and matmul_all_reduce, forward and backward; gradients of the first by one program and apart."""
    for tokens in map(int, sizes):
        for transposed, apart in ((False, False), (True, False), (False, True), (True, True)):
            tt._ops._is_faster_in_two = lambda program, gather: apart  # else only with a machine file
            torch.manual_seed(tokens)
            x_all = torch.randn(2, tokens, 4 * ranks, requires_grad=True)
            w_all = torch.randn(4 * ranks, 5 + apart, requires_grad=True)
            y_all = x_all @ w_all
            grad = torch.randn_like(y_all)
            y_all.backward(grad)

            def weight():
                local = part(w_all.detach(), rank, ranks)
                return (local.t().contiguous() if transposed else local).requires_grad_()

            x, w = part(x_all.detach(), rank, ranks, -1).requires_grad_(), weight()
            y = tt.matmul_reduce_scatter(x, w.t() if transposed else w, 1)
            close(y, part(y_all.detach(), rank, ranks, 1))
            y.backward(part(grad, rank, ranks, 1))
            close(x.grad, part(x_all.grad, rank, ranks, -1))
            close(w.grad.t() if transposed else w.grad, part(w_all.grad, rank, ranks))

            if tokens % ranks == 0:  # [tokens, batch, in]
                x, w = part(x_all.detach().transpose(0, 1).contiguous(), rank, ranks, -1).requires_grad_(), weight()
                y = tt.matmul_reduce_scatter(x, w.t() if transposed else w)
                close(y, part(y_all.detach(), rank, ranks, 1).transpose(0, 1))
                y.backward(part(grad, rank, ranks, 1).transpose(0, 1))
                close(x.grad, part(x_all.grad, rank, ranks, -1).transpose(0, 1))
                close(w.grad.t() if transposed else w.grad, part(w_all.grad, rank, ranks))

            x, w = part(x_all.detach(), rank, ranks, -1).requires_grad_(), weight()
            y = tt.matmul_all_reduce(x, w.t() if transposed else w)
            close(y, y_all.detach())
            y.backward(grad)
            close(x.grad, part(x_all.grad, rank, ranks, -1))
            close(w.grad.t() if transposed else w.grad, part(w_all.grad, rank, ranks))


def memory(rank, ranks):
    """Intermediate values and workspaces are in torch's memory: memory_allocated counts them, and programs share them. On
    CPUs a counting allocator is in its place."""
    counting = Counting()
    if KIND == "cpu":
        tt._groups._allocator = lambda device: counting
    allocated = torch.cuda.memory_allocated if KIND == "cuda" else lambda: counting.bytes
    torch.manual_seed(16)
    x, w, large = torch.randn(ranks, 8 * ranks, 64), torch.randn(ranks, 64, 32), torch.ones(1024 * ranks, 64)
    expected, expected_large = (x @ w).sum(0), large @ w.sum(0)
    before = allocated()
    tt.context()

    def scatter(tokens):
        close(tt.matmul_reduce_scatter(x[rank, :tokens], w[rank]), part(expected[:tokens], rank, ranks))
        used = tt.context().allocator.bytes
        # torch counts blocks, which are multiples of 512 bytes.
        assert 0 < used <= allocated() - before < used + 2**16, (used, allocated() - before)
        return used

    one = scatter(8 * ranks)
    if KIND == "cuda":
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(3):
                scatter(8 * ranks)
            torch.cuda.synchronize()
    else:
        assert scatter(4 * ranks) == scatter(8 * ranks) == one  # a smaller program has the same memory
    close(tt.matmul_reduce_scatter(large, w[rank]), part(expected_large, rank, ranks))
    many = [scatter(8 * ranks), scatter(4 * ranks), scatter(8 * ranks)]
    assert KIND == "cuda" or one < many[0] and many[1] == many[2], (one, many)
    dist.barrier()
    tt.context().close()
    assert tt.context().allocator.bytes == 0 and allocated() - before < 2**16
    # Memory of the device.
    group = dist.new_group(list(range(ranks)))
    assert tt.context(group, torch_memory=False).allocator is None
    close(tt.matmul_reduce_scatter(x[rank], w[rank], group=group), part(expected, rank, ranks))
    assert allocated() - before < 2**16


class Block(nn.Module):
    """A transformer block whose attention is that of each token's heads with themselves: only its linear layers matter."""

    def __init__(self, hidden=16, inner=24, bias=False):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(hidden, hidden, bias=bias) for _ in range(3))
        self.o_proj = nn.Linear(hidden, hidden, bias=bias)
        self.gate_proj, self.up_proj = nn.Linear(hidden, inner, bias=bias), nn.Linear(hidden, inner, bias=bias)
        self.down_proj = nn.Linear(inner, hidden, bias=bias)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.o_proj(torch.tanh(self.q_proj(h)) * self.k_proj(h) + self.v_proj(h))
        h = self.norm2(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class Fused(nn.Module):
    """Layers whose names hide that they hold several projections, or that nothing column-parallel feeds."""

    def __init__(self):
        super().__init__()
        self.qkv_proj, self.o_proj = nn.Linear(4, 12), nn.Linear(4, 4)


def _full(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def _train(rank, ranks, make, shape, dim, steps=3, wrap=None):
    """Trains a model split over the ranks, and the same one on this rank alone; compares losses and parameters."""
    torch.manual_seed(1)
    whole = nn.Sequential(Block(**make), Block(**make))
    split = nn.Sequential(Block(**make), Block(**make))
    split.load_state_dict(whole.state_dict())
    mesh = init_device_mesh(KIND, (ranks,), mesh_dim_names=("tp",))
    assert tt.parallelize(split, mesh, sequence_dim=dim) is split
    if wrap:
        step = wrap(split)
    else:
        step = split = copy.deepcopy(split)  # hooks of parameters are not copied
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, foreach=True) for model in (whole, split)]
    for _ in range(steps):
        x = torch.randn(shape)
        target = torch.randn(shape)
        local = x if dim is None else part(x, rank, ranks, dim)
        loss = ((whole(x) - target) ** 2).sum() / target.numel()
        loss.backward()
        mine = ((step(local) - (target if dim is None else part(target, rank, ranks, dim))) ** 2).sum() / target.numel()
        mine.backward()
        total = mine.detach().clone()
        if dim is not None:
            dist.all_reduce(total)
        close(total, loss.detach())
        assert all(one.grad.placements == one.placements for one in split.parameters())
        whole_norm, norm = (torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5) for model in (whole, split))
        close(_full(norm), whole_norm)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    found = dict(split.named_parameters())
    for name, parameter in whole.named_parameters():
        close(_full(found[name]).detach(), parameter.detach())


def model(rank, ranks):
    """parallelize: sequence parallelism along both dimensions, and none; with and without bias; in inference mode."""
    assert not tt.plan(Fused())
    x, block = torch.ones(2 * ranks, 16), Block()
    torch.manual_seed(1)
    for parameter in block.parameters():
        nn.init.normal_(parameter)
    expected = block(x).detach()
    tt.parallelize(block, init_device_mesh(KIND, (ranks,)))
    with torch.inference_mode():
        close(block(part(x, rank, ranks)), part(expected, rank, ranks))
    _train(rank, ranks, {}, (4 * ranks, 16), 0)
    _train(rank, ranks, {"bias": True}, (2, 2 * ranks, 16), 1)
    _train(rank, ranks, {"bias": True}, (6, 16), None)


def compiled(rank, ranks):
    """The same under torch.compile."""
    _train(rank, ranks, {}, (4 * ranks, 16), 0, wrap=lambda split: torch.compile(split, backend="aot_eager"))


def autocast(rank, ranks):
    """Layers under torch.autocast: the dtypes of torch's own layers, and their values within the rounding of bf16; eager,
    compiled, and in a group of one rank."""
    meshes = [init_device_mesh(KIND, (ranks,))]
    if not SHARES_GPU:
        meshes += [init_device_mesh(KIND, (ranks, 1), mesh_dim_names=("dp", "tp"))["tp"]]
    for mesh, dim in ((meshes[0], 0), (meshes[0], None), (meshes[-1], 0)):
        torch.manual_seed(9)
        whole, split = Block(bias=True), Block(bias=True)
        split.load_state_dict(whole.state_dict())
        tt.parallelize(split, mesh, sequence_dim=dim)
        torch._dynamo.reset()
        x = torch.randn(4 * ranks, 16)
        mine = part(x, mesh.get_local_rank(), mesh.size()) if dim == 0 else x
        for step in (split, torch.compile(split, backend="aot_eager")) if mesh is meshes[0] and dim == 0 else (split,):
            for one in (whole, split):
                one.zero_grad()
            with torch.autocast(KIND, dtype=torch.bfloat16):
                expected, y = whole(x), step(mine)
                assert y.dtype == expected.dtype
                assert split.o_proj(mine[:, :split.o_proj.weight.to_local().shape[1]]).dtype == torch.bfloat16
            torch.testing.assert_close(y, part(expected, mesh.get_local_rank(), mesh.size()) if dim == 0 else expected,
                                       rtol=3e-2, atol=3e-2)
            expected.sum().backward()
            y.sum().backward()
            for name in ("q_proj", "gate_proj", "o_proj", "down_proj"):
                found, wanted = (getattr(model, name).weight.grad for model in (split, whole))
                assert found.dtype == torch.float32
                torch.testing.assert_close(_full(found), wanted, rtol=5e-2, atol=1e-1)
    if KIND != "cpu":  # where f64 is not multiplied
        return
    with torch.autocast(KIND, dtype=torch.bfloat16):
        double = torch.ones(4, 4, dtype=torch.float64)
        assert tt.matmul_all_reduce(double, double).dtype == torch.float64


def tensors(rank, ranks):
    """DTensors in and out, forward and backward, of tokens that the ranks do not divide; layouts that are not the layer's."""
    mesh = init_device_mesh(KIND, (ranks,), mesh_dim_names=("tp",))
    torch.manual_seed(2)
    whole = nn.Sequential(nn.Linear(8, 4 * ranks), nn.ReLU(), nn.Linear(4 * ranks, 8))
    x_all = torch.randn(4 * ranks - 1, 8, requires_grad=True)
    expected = whole(x_all)
    grad = torch.randn_like(expected)
    expected.backward(grad)

    for tokens in (Shard(0), Replicate()):
        layers = nn.Sequential(nn.Linear(8, 4 * ranks), nn.ReLU(), nn.Linear(4 * ranks, 8))
        layers.load_state_dict(whole.state_dict())
        tt.parallelize(layers, mesh, {"0": tt.ColwiseParallel(input_layouts=tokens, use_local_output=False),
                                      "2": tt.RowwiseParallel(output_layouts=tokens, use_local_output=False)})
        for given in (Shard(0), Replicate()):
            layers.zero_grad()
            local = part(x_all.detach(), rank, ranks) if given == Shard(0) else x_all.detach().clone()
            x = DTensor.from_local(local, mesh, [given], shape=x_all.shape, stride=x_all.stride()).requires_grad_()
            y = layers(x)
            assert isinstance(y, DTensor) and y.placements == (tokens,) and y.shape == expected.shape, y
            close(y.full_tensor().detach(), expected.detach())
            mine = part(grad, rank, ranks) if tokens == Shard(0) else grad
            y.backward(DTensor.from_local(mine, mesh, [tokens], shape=grad.shape, stride=grad.stride()))
            close(_full(x.grad), x_all.grad)
            for found, wanted in zip(layers.parameters(), whole.parameters()):
                close(_full(found.grad), wanted.grad)


def groups(rank, ranks):
    """Groups of some ranks, in any order, that overlap, alive at the same time and made again; a mesh in another order."""
    for _ in range(2):
        pairs = [dist.new_group([first + 1, first]) for first in range(0, ranks, 2)]
        members = sorted({ranks - 1, 0, 1})
        some = dist.new_group(members[::-1])
        everyone = dist.new_group(list(range(ranks)))
        pair, first = pairs[rank // 2], rank - rank % 2
        torch.manual_seed(3)
        x, w = torch.randn(ranks, 2, 4), torch.randn(4, 4)
        for _ in range(2):
            close(tt.all_gather_matmul(x[rank], w, group=pair), torch.cat([x[first], x[first + 1]]) @ w)
            if rank in members:
                close(tt.all_gather_matmul(x[rank], w, group=some), torch.cat(list(x[members])) @ w)
                close(tt.matmul_all_reduce(x[rank], w, group=some), x[members].sum(0) @ w)
            close(tt.all_gather_matmul(x[rank], w, group=everyone), x.reshape(-1, 4) @ w)
        for group in [*pairs, some, everyone]:
            if group is not dist.GroupMember.NON_GROUP_MEMBER:
                dist.destroy_process_group(group)
    mesh = DeviceMesh(KIND, list(range(ranks))[::-1])
    torch.manual_seed(7)
    block, whole = Block(), Block()
    block.load_state_dict(whole.state_dict())
    x = torch.randn(2 * ranks, 16)
    tt.parallelize(block, mesh)
    close(block(part(x, mesh.get_local_rank(), ranks)), part(whole(x), mesh.get_local_rank(), ranks))


def passes(rank, ranks):
    """The pass over graphs of torch.compile, on what functional collectives write."""
    import torch.distributed._functional_collectives as functional

    group = dist.group.WORLD
    torch.manual_seed(4)
    # Inductor pads products of GPUs whose extents 8 does not divide, and reduces a slice then.
    x, w, v = torch.randn(2 * ranks, 8), torch.randn(8, 8), torch.randn(8, 4)
    local, small = part(x, rank, ranks), torch.eye(2 * ranks)  # sums of small numbers are exact in bf16

    def gathers(x, w, v):
        whole = functional.all_gather_tensor(x, 0, group)
        return torch.relu(whole @ w), whole @ v, whole.sum()

    def scatters(x, w):
        return functional.reduce_scatter_tensor(torch.relu(x) @ w, "sum", 0, group) + 1

    def reduces(x, w):
        return functional.all_reduce(x @ w, "sum", group) * 2

    def sums(x, w, v):
        y, z = x @ torch.tanh(w), (x + 1) @ w
        return (functional.reduce_scatter_tensor(y + z + x @ v, "sum", 0, group),
                functional.all_reduce(x @ w + x @ v, "sum", group))

    def used_twice(x, w, v):
        y, whole = x @ w, functional.all_gather_tensor(x @ v, 0, group)
        return (functional.all_reduce(y + x @ v, "sum", group) + y, whole @ (whole.sum() * w.t()),
                functional.all_reduce(x @ w, "max", group))

    def mixed(x, w):
        y, z = x + w, x - w
        return (functional.all_reduce(x.bfloat16() @ w.bfloat16() + x @ w, "sum", group),
                functional.reduce_scatter_tensor(y.bfloat16() @ w.bfloat16() + z @ w, "sum", 0, group))

    def mixed_sum(x, w):  # one operator each, and not one for both
        return functional.all_reduce(x.bfloat16() @ w.bfloat16(), "sum", group) + functional.all_reduce(x @ w, "sum", group)

    def gathered_twice(x, w):
        one, other = functional.all_gather_tensor(x, 0, group), functional.all_gather_tensor(x + 1, 0, group)
        return torch.addmm(w, one, one), torch.addmm(other, other, w)

    def crossed(x, w):  # the weight of one product needs the other gather, and the other way round
        one, other = functional.all_gather_tensor(x, 0, group), functional.all_gather_tensor(x + 1, 0, group)
        product = one @ (other.sum() * w)
        return product, other @ (product.sum() * w)

    def crossed_far(x, w):  # the same, through nodes in front of the second gather
        one = functional.all_gather_tensor(x, 0, group)
        weight = torch.tanh(torch.tanh((one @ w).sum() * w))
        other = functional.all_gather_tensor(x + 1, 0, group)
        return other @ weight, one @ (other.sum() * w)

    def left(x):
        return functional.all_gather_tensor(x, 0, group) * 2, functional.all_reduce(x, "sum", group)

    for function, inputs, replaced, kept in ((gathers, (local, w, v), 1, 0), (scatters, (x, w), 1, 0),
                                             (reduces, (local, w), 1, 0), (left, (local,), 0, 2),
                                             (sums, (x, w, w.flip(0)), 2, 0), (used_twice, (x, w, w.flip(0)), 0, 3),
                                             (mixed, (small, small.t()), 0, 2), (mixed_sum, (small, small.t()), 2, 0),
                                             (gathered_twice, (part(small, rank, ranks), small.t()), 0, 2),
                                             (crossed, (local, w), 1, 1), (crossed_far, (local, w), 1, 1)):
        expected = function(*inputs)
        torch._dynamo.reset()
        if function is scatters:
            with tt.overlap_compiled() as used, torch._inductor.config.patch(LESS_C):
                found = torch.compile(function)(*inputs)
        else:  # the pass alone: inductor's C++ compiler takes its time
            used = tt.CollectiveMatmulPass()
            found = _compile(function, used)(*inputs)
        assert len(used.replaced) == replaced and len(used.skipped) == kept, (used.replaced, used.skipped)
        for one, other in zip(found if isinstance(found, tuple) else (found,),
                              expected if isinstance(expected, tuple) else (expected,)):
            close(one, other)


def cached(rank, ranks, rows):
    """Ranks with different numbers of rows share a folder with compiled code: each gets its own."""
    rows = int(rows)
    torch.manual_seed(14)
    x_all, w_all, v_all = torch.randn(rows, 4 * ranks), torch.randn(4 * ranks, 4), torch.randn(4, 6 * ranks)
    whole = [one.clone().requires_grad_() for one in (x_all, w_all, v_all)]
    expected = whole[0] @ whole[1] @ whole[2]
    grad = torch.randn_like(expected)
    expected.backward(grad)
    mine = [part(one, rank, ranks, dim).requires_grad_() for one, dim in zip((x_all, w_all, v_all), (1, 0, 1))]

    def step(x, w, v):
        return tt.all_gather_matmul(tt.matmul_reduce_scatter(x, w), v, tokens=rows)  # no loops that are compiled as C++

    for turn in range(2):  # the second time from the cache
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        with torch._inductor.config.patch(LESS_C):
            found = torch.compile(step)(*mine)
            grads = torch.autograd.grad(found, mine, part(grad, rank, ranks, 1))
        close(found, part(expected.detach(), rank, ranks, 1))
        for one, other, dim in zip(grads, whole, (1, 0, 1)):
            close(one, part(other.grad, rank, ranks, dim))
        counters = torch._dynamo.utils.counters
        assert turn == 0 or counters["aot_autograd"]["autograd_cache_hit"] == 1, counters


def dynamic(rank, ranks):
    """Compiled once for any number of rows, also such that the ranks do not divide: forward and backward."""
    def step(x, w, v):
        y = torch.tanh(tt.matmul_reduce_scatter(x, w))
        return y, tt.matmul_all_reduce(tt.all_gather_matmul(x, v), w)

    torch._dynamo.utils.counters.clear()
    compiled_ = torch.compile(step, backend="aot_eager", dynamic=True, fullgraph=True)
    torch.manual_seed(15)
    for rows in (5, 8, 7, 12):
        inputs = [torch.randn(shape, requires_grad=True) for shape in ((rows, 4), (4, 6), (4, 4))]
        made, expected = compiled_(*inputs), step(*inputs)
        for one, other in zip(made, expected):
            close(one, other)
        for one, other in zip(*(torch.autograd.grad([y.sum() for y in ys], inputs) for ys in (made, expected))):
            close(one, other)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1, torch._dynamo.utils.counters


_torch_compile = torch.compile


def _compile(function, used, **options):
    """Forward and backward graphs go through a pass, and run as they are then."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def compile_(graph, _):
        used(graph.graph)
        assert not any("matmul" in str(node.target) and str(node.target).startswith("tandem") and not
                       str(node.target).endswith((".without_gradient", "_backward.default")) and "scaled" not in str(node.target) for node in graph.graph.nodes)
        graph.recompile()
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    return _torch_compile(function, backend=aot_autograd(fw_compiler=compile_, bw_compiler=compile_), **options)


def torchs(rank, ranks):
    """Layers that torch made parallel: the pass replaces all their collectives, forward and backward."""
    from torch.distributed.tensor import parallel

    mesh = init_device_mesh(KIND, (ranks,))
    for rows, columns in ((Shard(0), "all-gather"), (Replicate(), None)):
        torch.manual_seed(10)
        whole, split = Block(), Block()
        split.load_state_dict(whole.state_dict())
        x_all = torch.randn(4 * ranks, 16, requires_grad=True)
        expected = whole(x_all)
        grad = torch.randn_like(expected)
        expected.backward(grad)
        plan = {f"{name}_proj": parallel.ColwiseParallel(input_layouts=rows) for name in ("q", "k", "v", "gate", "up")}
        plan.update({name: parallel.RowwiseParallel(output_layouts=rows) for name in ("o_proj", "down_proj")})
        parallel.parallelize_module(split, mesh, plan)
        used = tt.CollectiveMatmulPass()
        x = (part(x_all.detach(), rank, ranks) if columns else x_all.detach().clone()).requires_grad_()
        y = _compile(split, used)(x)
        y.backward(part(grad, rank, ranks) if columns else grad)
        close(y, part(expected.detach(), rank, ranks) if columns else expected.detach())
        close(x.grad, part(x_all.grad, rank, ranks) if columns else x_all.grad)
        for name in ("q_proj", "up_proj", "down_proj"):
            close(_full(getattr(split, name).weight.grad), getattr(whole, name).weight.grad)
        assert used.replaced and not used.skipped, (used.replaced, used.skipped)


def alone(rank, ranks):
    """In a group of one rank, functions and layers are torch's own operators; their arguments are checked all the same."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            assert "tandem" not in str(function), function
            return function(*args, **(kwargs or {}))

    groups_ = [dist.new_group([one]) for one in range(ranks)]
    group = groups_[rank]
    x, w = torch.randn(2, 3, 8, requires_grad=True), torch.randn(8, 4, requires_grad=True)

    def functions(x, w):
        return (tt.all_gather_matmul(x, w, 1, group), *tt.all_gather_matmul(x, [w, w], 1, group, tokens=3),
                tt.matmul_reduce_scatter(x, w, 1, group), tt.matmul_all_reduce(x, w, group), tt.column_parallel(x, w, group))

    for call in (functions, torch.compile(functions, backend="aot_eager", fullgraph=True)):
        with Seen():
            made = call(x, w)
            grads = torch.autograd.grad([y.sum() for y in made], (x, w))
        for y in made:
            close(y, (x @ w))
        close(grads[0], 6 * (torch.ones(2, 3, 4) @ w.t()))
        close(grads[1], 6 * (x.reshape(-1, 8).t() @ torch.ones(6, 4)))
    for wrong in (lambda: tt.all_gather_matmul(x, w, 1, group, tokens=4), lambda: tt.all_gather_matmul(x, w, 2, group),
                  lambda: tt.matmul_reduce_scatter(x, w.half(), 1, group), lambda: tt.matmul_all_reduce(x, w[0], group),
                  lambda: tt.matmul_all_reduce(x.int(), w.int(), group)):
        try:
            wrong()
        except tandem.ArgumentError as error:
            assert "expected" in str(error) and "found" in str(error), error
        else:
            raise AssertionError("expected an ArgumentError")
    assert not any(name == group.group_name for name, _ in tt._groups._contexts)


def graphs(rank, ranks):
    """On GPUs: forward and backward in a CUDA graph of torch, replayed with other values; and as torch.compile makes them."""
    torch.manual_seed(13)
    whole, split = Block(), Block()
    split.load_state_dict(whole.state_dict())
    tt.parallelize(split, init_device_mesh(KIND, (ranks,)))
    weights, wanted = [split.q_proj.weight, split.down_proj.weight], [whole.q_proj.weight, whole.down_proj.weight]
    x = torch.zeros(4, 16)

    def step(call=split):
        y = call(x)
        return y, torch.autograd.grad(y.square().sum(), weights)

    def check(y, grads):
        expected = whole(x_all)
        close(y, part(expected.detach(), rank, ranks))
        for found, one in zip(grads, torch.autograd.grad(expected.square().sum(), wanted)):
            close(_full(found), one)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = step()
    for _ in range(4):
        x_all = torch.randn(4 * ranks, 16)
        x.copy_(part(x_all, rank, ranks))
        graph.replay()
        check(*made)
    torch._dynamo.reset()
    with tt.overlap_compiled():
        call = torch.compile(split, mode="reduce-overhead")
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            x_all = torch.randn(4 * ranks, 16)
            x.copy_(part(x_all, rank, ranks))
            check(*step(call))


class UpDown(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 24), nn.Linear(24, 16)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([UpDown(), UpDown()])

    def forward(self, x):
        return self.layers[1](self.layers[0](x))


def documentation(rank, ranks):
    """The programs of docs/torch.md, one after another, each with a model for which it is meant."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "torch.md")
    with open(page) as file:
        programs = re.findall(r"^```python\n(.*?)^```$", file.read().split("\n## torchtitan")[0], re.M | re.S)
    assert len(programs) == 3, programs
    said, x_all = [], torch.randn(2 * ranks, 16, generator=torch.Generator(KIND).manual_seed(11))
    names = {"torch": torch, "x": part(x_all, rank, ranks), "Shard": Shard, "print": lambda *values: said.extend(values)}

    def run_(program, model):
        torch.manual_seed(12)
        names["model"], whole = model(), model()
        whole.load_state_dict(names["model"].state_dict())
        exec(program.replace('"cuda", (8,)', f'"{KIND}", ({ranks},)'), names)
        return whole

    whole = run_(programs[0], Block)
    close(names["y"], part(whole(x_all), rank, ranks))
    whole = run_(programs[1], Layers)
    close(names["model"](names["x"]), part(whole(x_all), rank, ranks))

    def compile_(function, options):  # as inductor calls the pass, without its compiler of C++
        return _compile(function, options["post_grad_custom_post_pass"])

    torch.compile = compile_
    try:
        run_(f"{programs[0]}\n{programs[2]}", Block)
    finally:
        torch.compile = _torch_compile
    replaced, skipped = said
    # Forward and backward of q, k, v and of gate, up. Left: the sums of the norms' gradients.
    assert len(replaced) == 4 and len(skipped) == 2 and all("reduces tangents" in one for one in skipped), said
    start_page(rank, ranks)


def start_page(rank, ranks):
    """The program of docs/start.md, which compares its results with those of the whole model; here the group is there already."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "start.md")
    with open(page) as file:
        (program,) = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
    for call in ("torch.distributed.init_process_group()", "torch.distributed.destroy_process_group()"):
        assert call in program
        program = program.replace(call, "")
    said = []
    exec(program, {"print": said.append})
    assert said == [f"rank {rank}: the results are those of the whole model"], said


def errors(rank, ranks):
    """Arguments that do not fit are refused on every rank, before anything is sent."""
    x, w = torch.randn(2, 8), torch.randn(8, 4)
    for call in (lambda: tt.all_gather_matmul(x, torch.randn(7, 4)), lambda: tt.all_gather_matmul(x, w.half()),
                 lambda: tt.all_gather_matmul(x, w, dim=1), lambda: tt.all_gather_matmul(x, w, tokens=99),
                 lambda: tt.all_gather_matmul(x.int(), w.int()), lambda: tt.all_gather_matmul(x, []), lambda: tt.matmul_all_reduce(x, w[0]),
                 lambda: torch.ops.tandem.matmul_all_reduce([x, x.double()], [w, w.double()], tt._ops._name(None)),
                 lambda: torch.ops.tandem.matmul_reduce_scatter([x, x.half()], [w, w.half()], 0, tt._ops._name(None)),
                 lambda: tt.parallelize(nn.Sequential(nn.Tanh()), init_device_mesh(KIND, (ranks,))),
                 lambda: tt.RowwiseParallel(input_layouts="all"),
                 lambda: tt.all_gather_matmul(x, w, group=dist.GroupMember.NON_GROUP_MEMBER),
                 lambda: tt.context(dist.GroupMember.NON_GROUP_MEMBER, "cpu"),
                 *([lambda: tt.matmul_reduce_scatter(torch.randn(ranks + 1, 2, 8), w),
                    lambda: tt.all_gather_matmul(torch.randn(1, 2, 8), w, tokens=ranks + 1)] if ranks > 1 else []),
                 *([lambda: tt.parallelize(nn.Sequential(nn.Linear(4, 2 * ranks + 1)), init_device_mesh(KIND, (ranks,)),
                                           {"0": tt.ColwiseParallel()})] if ranks > 1 else [])):
        try:
            call()
        except tandem.ArgumentError as error:
            assert "expected" in str(error) and "found" in str(error), error
        else:
            raise AssertionError("expected an ArgumentError")
    close(tt.all_gather_matmul(x, w)[2 * rank:2 * rank + 2], x @ w)
    if ranks == 1:
        return
    # Ranks with other numbers of tokens see that, unless they say how many there are.
    try:
        tt.all_gather_matmul(torch.randn(3 + rank, 8), w)
    except tandem.ArgumentError as error:
        assert "expected the same call on all ranks" in str(error) and "tokens=" in str(error), error
    else:
        raise AssertionError("expected an ArgumentError")
    close(tt.all_gather_matmul(x, w)[2 * rank:2 * rank + 2], x @ w)


def dispatch(rank, ranks):
    """Modes of torch see the operators; both ways agree; programs that are forgotten are prepared again."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.names.append(str(function))
            return function(*args, **(kwargs or {}))

    torch.manual_seed(5)
    x, w, v = torch.randn(4, 8), torch.randn(8, 4 * ranks), torch.randn(4 * ranks, 8)
    for parameter in (x, w, v):
        parameter.requires_grad_()

    def step():
        y = torch.tanh(tt.all_gather_matmul(x, w[:, :4].contiguous()))
        y = tt.matmul_reduce_scatter(y, v[:4]) + tt.matmul_all_reduce(y, v[:4])[:4]
        return y, *torch.autograd.grad(y.sum(), (x, w, v))

    expected = step()
    with Seen() as seen:
        found = step()
    for one, other in zip(found, expected):
        assert torch.equal(one, other)
    for name in ("all_gather_matmul.without_gradient", "matmul_reduce_scatter.without_gradient",
                 "matmul_reduce_scatter_backward.default", "matmul_all_reduce.without_gradient"):
        assert f"tandem.{name}" in seen.names, seen.names
    y = tt.all_gather_matmul(x, w)
    try:
        torch.autograd.grad(y.sum(), x, create_graph=True)
    except RuntimeError as error:
        assert "has no gradient" in str(error), error
    else:
        raise AssertionError("expected no double backward")

    tt._ops._groups.most_programs = 2
    with torch.no_grad():
        for tokens in (2, 4, 2, 6, 4, 2):
            whole = torch.randn(tokens * ranks, 8)
            close(tt.all_gather_matmul(part(whole, rank, ranks), w), whole @ w)
            close(tt.all_gather_matmul(part(whole, rank, ranks), w.t().contiguous().t()), whole @ w)


def varies(rank, ranks):
    """Many numbers of tokens of one layer share few programs: forward, backward, with and without batches, also numbers
    that the ranks do not divide."""
    compiled_, made = tt._fusions.compiled, []
    os.environ["TANDEM_MACHINE"] = ""  # with predictions it compiles more to compare

    def counted(make, group, like, *key):
        made.append(make.__name__)
        return compiled_(make, group, like, *key)

    tt._fusions.compiled, tt._padding.EXACT, tt._padding.UNIT = counted, 2, 4 * ranks
    torch.manual_seed(6)
    w, v = torch.randn(8, 6 * ranks), torch.randn(8 * ranks, 6)
    # 5 and 2 get programs of their own, 0 too; the others share those of 4, 8, 12 and 20 rows of a rank.
    numbers = [5 * ranks, 2 * ranks, ranks, 3 * ranks - 1, 4 * ranks, 7 * ranks, 6 * ranks + 1, 8 * ranks, 1, 20 * ranks,
               5 * ranks, 0, 17 * ranks - 2, 3 * ranks]
    for outer, counts in (((), numbers), ((2,), numbers[:9])):
        made.clear()
        dim = len(outer)
        for tokens in counts:
            for kind in ("gather", "scatter", "reduce"):
                x_all = torch.randn(*outer, tokens, 8 if kind == "gather" else 8 * ranks, requires_grad=True)
                w_all = (w if kind == "gather" else v).clone().requires_grad_()
                y_all = x_all @ w_all
                grad = torch.randn_like(y_all)
                y_all.backward(grad)
                cut_x = dim if kind == "gather" else -1
                x = part(x_all.detach(), rank, ranks, cut_x).requires_grad_()
                weight = part(w_all.detach(), rank, ranks, 1 if kind == "gather" else 0).requires_grad_()
                if kind == "gather":
                    y, cut_y = tt.all_gather_matmul(x, weight, dim, tokens=tokens), -1
                elif kind == "scatter":
                    y, cut_y = tt.matmul_reduce_scatter(x, weight, dim), dim
                else:
                    y, cut_y = tt.matmul_all_reduce(x, weight), None
                mine = [one if cut_y is None else part(one, rank, ranks, cut_y) for one in (y_all.detach(), grad)]
                close(y, mine[0])
                y.backward(mine[1])
                close(x.grad, part(x_all.grad, rank, ranks, cut_x))
                close(weight.grad, part(w_all.grad, rank, ranks, 1 if kind == "gather" else 0))
        most = 7 if not outer else 4
        # A gather's backward is a scatter, with other shapes.
        for name, layers in (("all_gather_matmul", 1), ("matmul_reduce_scatter", 2), ("matmul_reduce_scatter_backward", 1)):
            most_ = most * layers
            assert 0 < made.count(name) <= most_, (outer, name, made)
    # Without a gradient of one of them. Sums of results, so gradients are sums, too.
    for tokens in (9, 11):
        for needs_x in (True, False):
            xs, ws = torch.randn(ranks, tokens, 8), torch.randn(ranks, 8, 6)
            x, weight = xs[rank].clone().requires_grad_(needs_x), ws[rank].clone().requires_grad_(not needs_x)
            tt.all_gather_matmul(x, weight).sum().backward()
            close(x.grad if needs_x else weight.grad,
                  ws.sum((0, 2)).expand(tokens, 8) if needs_x else xs.sum((0, 1))[:, None].expand(8, 6))
            x, weight = xs.reshape(-1, 8).requires_grad_(needs_x), ws[rank].clone().requires_grad_(not needs_x)
            tt.matmul_reduce_scatter(x, weight).sum().backward()
            close(x.grad if needs_x else weight.grad,
                  ws[rank].sum(1).expand(ranks * tokens, 8) if needs_x else xs.sum((0, 1))[:, None].expand(8, 6))


def nodes(rank, ranks):
    """Nodes are told apart by the rule of tandem.init: torchrun's number of the node, unless TANDEM_NODE is a name."""
    os.environ.update(TORCHELASTIC_RUN_ID="job", MASTER_ADDR="localhost", MASTER_PORT="1", GROUP_RANK=str(rank % 2),
                      TANDEM_NODE="")
    bootstrap = tt._groups.StoreBootstrap(dist.group.WORLD)
    assert (bootstrap.local_rank, bootstrap.local_size) == (rank // 2, ranks // 2), bootstrap.node
    os.environ["TANDEM_NODE"] = "rack"
    bootstrap = tt._groups.StoreBootstrap(dist.group.WORLD)
    assert (bootstrap.local_rank, bootstrap.local_size) == (rank, ranks), bootstrap.node


def leaves(rank, ranks):
    """One rank fails before its call: the others' error says which rank did not come."""
    if rank == ranks - 1:
        return
    try:
        tt.context(timeout=3.0)
    except tandem.Timeout as error:
        assert str([ranks - 1]) in str(error), error
    else:
        raise AssertionError("expected a Timeout")
    os._exit(0)  # gloo's destructors would wait for the other rank


def fails(rank, ranks):
    """The last rank fails after its forward pass; the first one does other work and then fails by its own error, which says
    which rank is gone. Neither hangs."""
    x, w = torch.randn(4, 8), torch.randn(8, 4, requires_grad=True)
    for step in range(3):
        y = tt.all_gather_matmul(x, w)
        if step == 1 and rank == ranks - 1:
            print("fails on its own", flush=True)
            os._exit(3)
        z = tt.matmul_reduce_scatter(y, w[:4].t())
        z.sum().backward()
    raise AssertionError("expected an error")


def logs(rank, ranks):
    """What the package says: once for each program, how it runs and why; for each collective of a compiled graph, what
    became of it and why."""
    import logging

    import torch.distributed._functional_collectives as functional
    said, handler = [], logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logger = logging.getLogger("tandem.torch")
    logger.addHandler(handler)
    os.environ["TANDEM_MACHINE"] = "h200x2"
    x, w = torch.ones(2, 8), torch.ones(8, 6)
    tt.matmul_all_reduce(x, w)
    assert not said  # unless it is asked
    logger.setLevel(logging.INFO)
    for _ in range(3):
        tt.all_gather_matmul(x, w)
    # Overlap of such small matrices does not pay: the unoverlapped baseline, with the reason.
    assert len(said) == 1 and re.search(r"\Aall_gather_matmul (.*\n)* +all-gather at .*: (direct|pipeline|exchange)\b.*, by cost\n +communicates for "
                                        r"[\d.]+ us, 0 % of it overlapped with compute: (the quickest of|what .* might gain)", said[0]), said
    said.clear()
    group = dist.group.WORLD

    def mixed(x, w):
        whole = functional.all_gather_tensor(x, 0, group)
        return whole @ w, torch.relu(functional.all_gather_tensor(x + 1, 0, group)), functional.all_reduce(x, "sum", group)

    used = tt.CollectiveMatmulPass()
    _compile(mixed, used)(x, w)
    assert sorted(said) == sorted([f"overlapped: {one}" for one in used.replaced] + [f"skipped: {one}" for one in used.skipped]), said
    assert len(used.replaced) == 1 and used.replaced[0].endswith(": 1 matmuls"), used.replaced
    left = "\n".join(used.skipped)
    assert re.search(r"feeds no matmul but \S*relu", left) and re.search(r"reduces \S+, not a matmul", left), left


def _quantized(shape, kind, dim=None):
    """(tensor of 8 bits, scale): one number for the tensor, or one for each index of a dimension."""
    whole = torch.randn(shape)
    dims = [1 - dim] if dim is not None else [0, 1]
    scale = whole.abs().amax(dims, keepdim=True).clamp(min=1e-3) / torch.finfo(kind).max
    return (whole / scale).to(kind), scale if dim is not None else scale.reshape(())


def _scaled_mm(x, w, scale_x, scale, out_dtype):
    """torch._scaled_mm by its definition: CPUs of some versions multiply no such numbers."""
    return ((x.float() @ w.float()) * scale_x * scale).to(out_dtype)


def close_scaled(found, y, times=1):
    """Rounded to the type of y, `times` terms each. Hopper's tensor cores add products of 8 bits with some 13 bits of mantissa."""
    lost, largest = 2**-11 if KIND == "cuda" else 0, y.float().abs().max().item()
    eps = torch.finfo(y.dtype).eps
    torch.testing.assert_close(found.float(), y.float(), rtol=2 * eps + lost, atol=1e-4 + largest * (lost + (times - 1) * eps))


def scaled(rank, ranks, *sizes):
    """Products of 8-bit floats, with one scale for each tensor, row or column, in eager mode and compiled."""
    e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2
    gather_ = torch.compile(tt.all_gather_scaled_matmul, backend="aot_eager", fullgraph=True)
    scatter_ = torch.compile(tt.scaled_matmul_reduce_scatter, backend="aot_eager", fullgraph=True)
    for tokens in map(int, sizes):
        for kind, by_row, out in ((e4m3, True, torch.bfloat16), (e5m2, False, torch.float16), (e4m3, False, torch.float32)):
            torch.manual_seed(tokens)
            # Two weights: one stored as [out, in], of e4m3, with a scale for each column; the other with one for all.
            x, scale_x = _quantized((tokens, 16), kind, 0 if by_row else None)
            w, scales = zip(_quantized((16, 16 * ranks), e4m3, 1), _quantized((16, 8 * ranks), e4m3))
            mine = [part(w[0].t().contiguous(), rank, ranks).t(), part(w[1], rank, ranks, 1)]
            arguments = (part(x, rank, ranks), mine, part(scale_x, rank, ranks) if by_row else scale_x,
                         [part(scales[0], rank, ranks, 1), scales[1]])
            expected = [part(_scaled_mm(x, one, scale_x, scale, out), rank, ranks, 1) for one, scale in zip(w, scales)]
            for call in (tt.all_gather_scaled_matmul, gather_):
                for found, y in zip(call(*arguments, tokens=tokens, out_dtype=out), expected):
                    assert found.dtype == out
                    close_scaled(found, y)
            # A result of 8 bits. Half of its numbers are too large; the product's last bit may decide how one is rounded.
            largest = torch.finfo(kind).max
            scale = largest / expected[0].float().abs().median()
            found = tt.all_gather_scaled_matmul(arguments[0], mine[0], arguments[2], arguments[3][0], tokens=tokens,
                                                out_dtype=kind, scale_result=scale)
            assert found.dtype == kind and (found.float().abs() == largest).any()
            exact = part(_scaled_mm(x, w[0], scale_x, scales[0], torch.float32) * scale, rank, ranks, 1)
            torch.testing.assert_close(found.float(), exact.clamp(-largest, largest), rtol=torch.finfo(kind).eps,
                                       atol=2**-9 if KIND == "cpu" else 2**-11 * exact.abs().max().item())

            # Each rank has quantized its columns of x and its rows of w.
            parts = [(_quantized((tokens, 16), kind, 0 if by_row else None), _quantized((16, 8), e4m3, 1 if by_row else None))
                     for _ in range(ranks)]
            (x, scale_x), (w, scale_w) = parts[rank]
            y = sum(_scaled_mm(a, b, scale_a, scale_b, torch.float32) for (a, scale_a), (b, scale_b) in parts)
            for call, weight in ((tt.scaled_matmul_reduce_scatter, w), (scatter_, w.t().contiguous().t())):
                found = call(x, weight, scale_x, scale_w, out_dtype=out)
                assert found.dtype == out
                close_scaled(found, part(y, rank, ranks).to(out), ranks + 1)
    x, w, one = torch.zeros(4, 16).to(e4m3), torch.zeros(16, 4).to(e4m3), torch.tensor(1.0)
    for call in (lambda: tt.all_gather_scaled_matmul(x.float(), w, one, one), lambda: tt.all_gather_scaled_matmul(x, w[:8], one, one),
                 lambda: tt.all_gather_scaled_matmul(x, w, one.double(), one), lambda: tt.all_gather_scaled_matmul(x, w, 1.0, one),
                 lambda: tt.all_gather_scaled_matmul(x, w, one.expand(3, 1), one),
                 lambda: tt.all_gather_scaled_matmul(x, [w, w], one, one),
                 lambda: tt.all_gather_scaled_matmul(x, w, one, one, out_dtype=torch.float64),
                 lambda: tt.all_gather_scaled_matmul(x, w, one, one, tokens=99),
                 lambda: tt.all_gather_scaled_matmul(x, w, one, one, out_dtype=e4m3, scale_result=one.expand(2)),
                 lambda: tt.scaled_matmul_reduce_scatter(x, w, one, one, out_dtype=e4m3)):
        try:
            call()
        except tandem.ArgumentError as error:
            assert "expected" in str(error) and "found" in str(error), error
        else:
            raise AssertionError("expected an ArgumentError")


def scaled_varies(rank, ranks):
    """Many numbers of tokens are padded to steps, their scales too; slices of the products are chosen by prediction."""
    tt._padding.EXACT = 1
    os.environ["TANDEM_MACHINE"] = "h200x2"
    kind, out = torch.float8_e4m3fn, torch.float32
    for tokens in (64 * ranks, 37, 70):
        torch.manual_seed(tokens)
        (x, scale_x), (w, scale) = _quantized((tokens, 16), kind, 0), _quantized((16, 8), kind, 1)
        y = _scaled_mm(x, w, scale_x, scale, out)
        found = tt.all_gather_scaled_matmul(part(x, rank, ranks), w, part(scale_x, rank, ranks), scale, tokens=tokens,
                                            out_dtype=out)
        close_scaled(found, y)
        close_scaled(tt.scaled_matmul_reduce_scatter(x, w, scale_x, scale * (rank + 1), out_dtype=out),
                     part(y, rank, ranks) * (ranks * (ranks + 1) // 2), ranks)


def main(name, arguments):
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    if KIND == "cuda":
        torch.cuda.set_device(0 if SHARES_GPU else int(os.environ["LOCAL_RANK"]))
        torch.set_default_device(torch.device("cuda", torch.cuda.current_device()))
    if ranks == 1 and name != "alone":
        tt._ops._is_alone = lambda group: False  # to test programs with one GPU
    if SHARES_GPU:  # NCCL rejects ranks on one GPU
        make = tt._groups._make_context
        tt._groups._make_context = lambda bootstrap, device, channels, *more: make(bootstrap, device, channels or "ucx", *more)
    dist.init_process_group("nccl" if KIND == "cuda" and not SHARES_GPU else "gloo",
                            init_method="file://" + os.environ["TANDEM_TEST_STORE"], rank=rank, world_size=ranks)
    import compiled
    import features
    import fsdp
    import gradients
    import matrix
    import merging
    import replicated

    files = [sys.modules[__name__], compiled, replicated, merging, features, gradients, matrix, fsdp, *filter(None, map(sys.modules.get, ("models", "styles", "titan")))]
    (function,) = (getattr(one, name) for one in files if hasattr(one, name))
    function(rank, ranks, *arguments)
    if name != "leaves":
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
