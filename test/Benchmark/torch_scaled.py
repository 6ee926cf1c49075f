# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times tandem.torch's operators for products of 8 bits next to torch's fused ones and to `_scaled_mm` with NCCL, all captured
into torch's graphs, on 2 GPUs. TANDEM_MACHINE names the machine file by which Tandem chooses.

    PYTHONPATH=build/python TANDEM_MACHINE=h100x2 python3 test/Benchmark/torch_scaled.py

Microseconds of a replay, from the end of a small all-reduce before it to its own end, on the slower GPU; medians of 40
interleaved rounds on random data. First behind a kernel that lets the GPU wait until the graph is launched, then without it:
these times contain what is left of the launch. N, K: of both ranks together. The last number is the error of tandem's result,
relative to that of torch's sequence."""

import os

os.environ.update(TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NCCL_NVLS_ENABLE="0")  # before torch is loaded

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed import _symmetric_memory

import tandem.torch as tt

RANKS, ROUNDS, WARMUP = 2, 40, 4
WAIT = 600_000  # clocks of a GPU, some 300 us: more than the launch of a graph takes
SHAPES = (("ag", 2752, 4096), ("ag", 7168, 8192), ("rs", 4096, 2752), ("rs", 8192, 7168))
TOKENS = (640, 2048, 8192)
BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn


def numbers(*shape):
    return torch.empty(shape, dtype=BF16).uniform_(-1, 1).to(FP8)


def scales(*shape):
    return torch.empty(shape).uniform_(0.5, 1)


def gather(rank, group, m, n, k, by_row):
    """{name: function without arguments}."""
    torch.manual_seed(7)
    whole, whole_scales = numbers(m, k), scales(m, 1) if by_row else scales(1)
    torch.manual_seed(100 + rank)
    x, w = whole.chunk(RANKS)[rank].clone(), numbers(n // RANKS, k).t()
    sx, sw = whole_scales.chunk(RANKS)[rank].clone() if by_row else whole_scales, scales(1, n // RANKS) if by_row else scales(1)
    gathered, gathered_scales, y = torch.empty_like(whole), torch.empty_like(whole_scales), torch.empty(m, n // RANKS, dtype=BF16)

    def sequence():
        dist.all_gather_into_tensor(gathered.view(torch.uint8), x.view(torch.uint8))
        if by_row:
            dist.all_gather_into_tensor(gathered_scales, sx)
        return torch._scaled_mm(gathered, w, scale_a=gathered_scales if by_row else sx, scale_b=sw, out_dtype=BF16, out=y)

    mine = (sx, sw) if by_row else (sx.reshape(()), sw.reshape(()))
    fused = torch.ops.symm_mem.fused_all_gather_scaled_matmul
    return {"sequence": sequence, "fused": lambda: fused(x, [w], sx, [sw], 0, group, [None], [None], [BF16], [False])[1][0],
            "tandem": lambda: tt.all_gather_scaled_matmul(x, w, *mine)}


def scatter(rank, group, m, n, k, by_row):
    torch.manual_seed(100 + rank)
    x, w = numbers(m, k // RANKS), numbers(n, k // RANKS).t()
    sx, sw = (scales(m, 1), scales(1, n)) if by_row else (scales(1), scales(1))
    terms, y = torch.empty(m, n, dtype=BF16), torch.empty(m // RANKS, n, dtype=BF16)

    def sequence():
        dist.reduce_scatter_tensor(y, torch._scaled_mm(x, w, scale_a=sx, scale_b=sw, out_dtype=BF16, out=terms))
        return y

    mine = (sx, sw) if by_row else (sx.reshape(()), sw.reshape(()))
    fused = torch.ops.symm_mem.fused_scaled_matmul_reduce_scatter
    return {"sequence": sequence, "fused": lambda: fused(x, w, sx, sw, "sum", 0, 0, group, [m, n], out_dtype=BF16),
            "tandem": lambda: tt.scaled_matmul_reduce_scatter(x, w, *mine)}


def capture(call):
    """A graph of a call, and what it returns."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    graph.replay()
    torch.cuda.synchronize()
    return graph, result


def measure(graphs, launched):
    """{name: median}. launched: the GPU begins when the graph has been launched."""
    tiny, events, late = torch.zeros(1), {name: [] for name in graphs}, 0
    for number in range(WARMUP + ROUNDS):
        for name, graph in graphs.items():
            waited, begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
            if launched:
                torch.cuda._sleep(WAIT)
                waited.record()
            dist.all_reduce(tiny)
            begin.record()
            graph.replay()
            end.record()
            late += launched and waited.query()
            if number >= WARMUP:
                events[name].append((begin, end))
        torch.cuda.synchronize()
    medians = {}
    for name, pairs in events.items():
        times = torch.tensor([begin.elapsed_time(end) * 1e3 for begin, end in pairs])
        dist.all_reduce(times, op=dist.ReduceOp.MAX)
        medians[name] = times.median().item()
    if late:
        print(f"rank {dist.get_rank()}: {late} graphs were launched too late", flush=True)
    return medians


def work(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(RANKS),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29511"))
    torch.cuda.set_device(rank)
    torch.set_default_device(torch.device("cuda", rank))
    dist.init_process_group("nccl", rank=rank, world_size=RANKS)
    group = dist.group.WORLD.group_name
    _symmetric_memory.enable_symm_mem_for_group(group)
    for by_row in (False, True):
        for m in TOKENS:
            for op, n, k in SHAPES:
                calls = (gather if op == "ag" else scatter)(rank, group, m, n, k, by_row)
                captured = {name: capture(call) for name, call in calls.items()}
                graphs = {name: graph for name, (graph, _) in captured.items()}
                times = []
                for launched in (True, False):
                    medians = measure(graphs, launched)
                    times.append(", ".join(f"{name} {us:.1f}" for name, us in medians.items())
                                 + f", fused / tandem {medians['fused'] / medians['tandem']:.2f}")
                right, found = (captured[name][1].float() for name in ("sequence", "tandem"))
                if rank == 0:
                    print(f"{op} {m} x {n} x {k}, a scale per {'row' if by_row else 'tensor'}: {times[0]}; with the launch "
                          f"{times[1]}; error {((found - right).norm() / right.norm()).item():.1e}", flush=True)
                del graphs
                del captured
    dist.barrier()
    os._exit(0)  # graphs hold NCCL's communicators


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=RANKS)
