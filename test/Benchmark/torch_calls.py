# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What calls of tandem.torch cost the host, next to torch's own operators in eager mode. Microseconds of rank 0, the best
of several rounds; the calls are interleaved.

    PYTHONPATH=build/release/python python3 test/Benchmark/torch_calls.py [--device DEVICE] [-n RANKS]

--device null (default): nothing is computed or sent, so what is left is host time; torch's operators are not measured.
--device cpu: gloo groups. Times contain the work, and a call waits for its run.
--device cuda: a GPU per rank, NCCL. A call returns when all is launched, so its time is at least that to the first launch.
--share-gpu: all ranks use one GPU, over ucx (which stages in host memory); torch's collectives (gloo) are not measured then.

Ends with status 1 if a target is missed: 15 us from a call to its launch, 2 us for a lookup (not checked on cpu)."""

import argparse
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import tandem
import tandem.torch as tt
from tandem.torch import _ops

TARGETS = {"program": 15, "lookup": 2}


def measure(calls, settle, rounds, count):
    """{name: microseconds}."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            settle()
            start = time.perf_counter()
            for _ in range(count):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / count * 1e6)
            settle()
    return best


def program_of(context, x, w):
    """A program of one product, and the fusion that finds it by shapes."""
    tp = tandem.Mesh("tp", x=context.world_size)

    @tandem.fuse(tandem.TensorType("f32", (None, x.shape[1]), tp["x", None]), tandem.TensorType("f32", tuple(w.shape), tp[None, None]),
                 results=tp["x", None])
    def product(x, w):
        return x @ w

    shape = (x.shape[0] * context.world_size, x.shape[1])
    return product, product.compile(shapes={"x": shape}, target=tandem._program._target(context), ranks=context.world_size)


def torchs(x, xs, w, ranks):
    """The same by torch alone: a collective and a product."""
    whole, piece = x.new_empty((x.shape[0] * ranks, x.shape[1])), x.new_empty((x.shape[0], w.shape[1]))

    def gather():
        dist.all_gather_into_tensor(whole, x)
        return whole @ w

    def scatter():
        dist.reduce_scatter_tensor(piece, xs @ w)
        return piece

    def reduce():
        y = xs @ w
        dist.all_reduce(y)
        return y

    return {"all_gather_matmul": gather, "matmul_reduce_scatter": scatter, "matmul_all_reduce": reduce}


def main(rank, options):
    is_gpu, ranks = options.device == "cuda", options.n
    gpu = 0 if options.share_gpu else rank
    device = torch.device("cuda", gpu) if is_gpu else torch.device("cpu")
    torch.set_num_threads(1)
    if is_gpu:
        torch.cuda.set_device(gpu)
    backend = "nccl" if is_gpu and not options.share_gpu else "gloo"
    dist.init_process_group(backend, init_method="file://" + options.store, rank=rank, world_size=ranks)
    if options.device == "null":
        tt._groups._make_context = lambda bootstrap, device, *more: tandem.Context("null", bootstrap=bootstrap)
    _ops._is_alone = lambda group: False  # one rank, too, runs programs: what a call of them costs is the question
    context = tt.context(device=device, channels="ucx" if options.share_gpu else "")
    settle = (lambda: torch.cuda.synchronize()) if is_gpu else (lambda: None)

    # Small, so that the host is what takes the time.
    x, xs = torch.ones(16, 64, device=device), torch.ones(16 * ranks, 64, device=device)
    w, out = torch.ones(64, 64, device=device), torch.empty(16, 64, device=device)
    fusion, program = program_of(context, x, w)
    name, numbers = _ops._name(None), (0, None, False)
    parts = {"all_gather_matmul": (x, lambda x, w: tt.all_gather_matmul(x, w)),
             "matmul_reduce_scatter": (xs, lambda x, w: tt.matmul_reduce_scatter(x, w)),
             "matmul_all_reduce": (xs, lambda x, w: tt.matmul_all_reduce(x, w))}
    grad = {key: (one.clone().requires_grad_(), w.clone().requires_grad_()) for key, (one, _) in parts.items()}

    def step(key):
        y = parts[key][1](*grad[key])
        torch.autograd.grad(y, grad[key], y.detach())

    calls = {
        "program, results given": lambda: program(x, w, out=out, context=context),
        "program, new results": lambda: program(x, w, context=context),
        "fusion, results given": lambda: fusion(x, w, out=out, context=context),
        "lookup of an operator's program": lambda: _ops._gather.has(name, numbers, (x,), (w,)),
        **{key: lambda key=key: parts[key][1](parts[key][0], w) for key in parts},
        **{f"{key}, for autograd": lambda key=key: parts[key][1](*grad[key]) for key in parts},
        **{f"{key}, with backward": lambda key=key: step(key) for key in parts},
        "torch.mm": lambda: torch.mm(x, w),
    }
    if options.device != "null" and not options.share_gpu:
        calls.update({f"torch: {key}": call for key, call in torchs(x, xs, w, ranks).items()})
    assert not _ops._gather.has(name, numbers, (x,), (w,))
    for call in calls.values():
        call()
    assert _ops._gather.has(name, numbers, (x,), (w,))
    # A GPU's queue holds about a thousand launches: fewer, or the host would wait for it.
    times = measure(calls, settle, options.rounds, options.count or (30 if is_gpu else 300))
    missed = []
    if rank == 0:
        where = torch.cuda.get_device_name() if is_gpu else options.device
        print(f"{context.description}; {ranks} ranks, {where}, torch {torch.__version__}")
        for key, microseconds in times.items():
            other = times.get(f"torch: {key}")
            print(f"{key:40}{microseconds:8.2f}" + (f"   torch's own {other:8.2f}" if other else ""))
        found = times["fusion, results given"] - times["program, results given"]
        print(f"{'fusion, of it to find the program':40}{found:8.2f}")
        worst = {"program": times["program, new results"],
                 "lookup": max(found, times["lookup of an operator's program"])}
        missed = [f"{key}: {worst[key]:.1f} us, target {most} us" for key, most in TARGETS.items() if worst[key] > most]
        if options.device != "cpu":
            for text in missed:
                print("MISSED", text)
    dist.barrier()
    dist.destroy_process_group()
    return 1 if missed and options.device != "cpu" else 0


def child(rank, options):
    if code := main(rank, options):
        sys.exit(code)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("null", "cpu", "cuda"), default="null")
    parser.add_argument("-n", type=int, default=1, metavar="RANKS")
    parser.add_argument("--share-gpu", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=0, help="calls of a round")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parsed.store = os.path.join(folder, "store")
        if parsed.n == 1:
            os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
            sys.exit(main(0, parsed))
        torch.multiprocessing.spawn(child, args=(parsed,), nprocs=parsed.n)  # ends all if one fails
