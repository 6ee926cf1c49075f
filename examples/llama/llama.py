# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Blocks of Llama, forward and backward, split over ranks by torch or by Tandem: losses, step times, memory. README.md
describes the options. Starts its ranks, or is one of torchrun's."""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

VARIANTS = ("torch", "torch-compiled", "async", "tandem", "tandem-compiled")
FREE = ("none", "none-compiled")  # without communication


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", choices=("tiny", "8b", "70b"), default="tiny")
    add("--blocks", type=int, default=4)
    add("--tokens", type=int, default=64, help="of all ranks; one sequence")
    add("--of", type=int, metavar="P", help="each rank has the shapes of a rank among P; default: of the ranks there are")
    add("--ranks", type=int, default=2)
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--ranks-share-gpu", action="store_true", help="all ranks on one GPU, over ucx: to check results")
    add("--dtype", choices=("float32", "bfloat16"), help="default: bfloat16 on GPUs")
    add("--variants", default="torch,tandem", help=f"of {', '.join(VARIANTS)}")
    add("--losses", type=int, default=0, metavar="STEPS", help="train so many steps, compare with the model on one rank")
    add("--rounds", type=int, default=0, help="time so many turns of each variant, interleaved")
    add("--turn", type=int, default=1, metavar="STEPS", help="of a turn, one after the other as in training; above 1, "
        "one step before them is not timed")
    add("--profile", action="store_true", help="where the time of a step goes, in each variant (torch.profiler): by kind "
        "of kernel, until the first launch, idle; then the kernels that differ most. One GPU: --ranks 1 --device cuda "
        "--model 8b --blocks 2 --tokens 2048 --variants none-compiled,torch-compiled,tandem-compiled --profile")
    add("--tolerance", type=float, help="of losses, relative; default 1e-4, with bfloat16 1e-1: there torch's own "
        "tensor parallelism differs by 6e-2 after 20 steps")
    add("--json", metavar="FILE")
    add("--fail", default="", metavar="RANK:STEP,..", help="these ranks raise an error in that step: a test")
    options = parser.parse_args(arguments)
    options.variants = options.variants.split(",")
    options.dtype = options.dtype or ("bfloat16" if options.device == "cuda" else "float32")
    options.fail = dict(map(int, one.split(":")) for one in filter(None, options.fail.split(",")))
    options.tolerance = options.tolerance or (1e-4 if options.dtype == "float32" else 1e-1)
    known = VARIANTS + (FREE if options.profile and not options.losses and not options.rounds else ())
    if wrong := set(options.variants) - set(known):
        parser.error(f"--variants: expected {', '.join(known)}, found {', '.join(sorted(wrong))}")
    if options.ranks_share_gpu and (options.device != "cuda" or not set(options.variants) <= {"tandem", "tandem-compiled"}):
        parser.error("--ranks-share-gpu: expected --device cuda and variants of tandem: NCCL needs a GPU per rank")
    if options.turn < 1:
        parser.error(f"--turn: expected at least 1, found {options.turn}")
    if "async" in options.variants and options.device != "cuda":
        parser.error("--variants: async: torch's symmetric memory needs GPUs")
    return options


class Job:
    """This rank: its device, its part of the data, its models."""

    def __init__(self, options, rank, ranks):
        import model
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh

        import tandem.torch
        self.options, self.rank, self.ranks, self.steps = options, rank, ranks, 0
        self.torch, self.dist, self.model = torch, dist, model
        torch.set_num_threads(1) if options.device == "cpu" else None
        gpu = 0 if options.ranks_share_gpu else int(os.environ.get("LOCAL_RANK", rank))
        self.device = torch.device("cuda", gpu) if options.device == "cuda" else torch.device("cpu")
        if options.device == "cuda":
            torch.cuda.set_device(gpu)
        dist.init_process_group("nccl" if options.device == "cuda" and not options.ranks_share_gpu else "gloo",
                                init_method=os.environ.get("LLAMA_STORE", "env://"), rank=rank, world_size=ranks)
        self.mesh = init_device_mesh(options.device, (ranks,))
        if options.ranks_share_gpu:
            tandem.torch.context(self.mesh.get_group(), self.device, channels="ucx")
        self.shape = model.SHAPES[options.model]
        if options.of:
            self.shape = self.shape.of_a_rank(ranks, options.of)
        self.dtype = getattr(torch, options.dtype)
        tokens = options.tokens
        if tokens % ranks or self.shape.groups % ranks or self.shape.inner % ranks or not self.shape.groups:
            raise SystemExit(f"expected tokens, heads and features that {ranks} ranks divide, found {tokens} tokens and "
                             f"{self.shape}")
        torch.manual_seed(3)
        self.whole = [torch.randn(tokens, self.shape.hidden).to(self.device, self.dtype) for _ in range(2)]  # x, target
        self.mine = [one.chunk(ranks)[rank].contiguous() for one in self.whole]
        self.table = model.rope(tokens, self.shape.head, self.device, self.dtype)

    def make(self, how):
        """(model, call, what has to be entered while it is compiled)."""
        import tandem.torch
        torch = self.torch
        model = self.model.make(self.shape, self.options.blocks, self.device, self.dtype)
        if how == "plain":
            return model, model, contextlib.nullcontext()
        kind, compiled = how.removesuffix("-compiled"), how.endswith("-compiled") or how == "async"
        model = self.model.split(model, self.mesh, "torch" if kind == "async" else kind, self.whole[1])
        if not compiled:
            return model, model, contextlib.nullcontext()
        if how == "async":
            from torch.distributed._symmetric_memory import enable_symm_mem_for_group
            enable_symm_mem_for_group(self.mesh.get_group().group_name)
        # Options tell the variants apart in the cache of torch.compile, for which torch's two models look the same.
        call = torch.compile(model, options={"_micro_pipeline_tp": how == "async"})
        return model, call, tandem.torch.overlap_compiled() if kind == "tandem" else contextlib.nullcontext()

    def step(self, call, whole=False):
        """Forward and backward; this rank's part of the loss."""
        self.steps += 1
        if self.options.fail.get(self.rank) == self.steps:
            raise RuntimeError(f"rank {self.rank} fails in step {self.steps}, as asked")
        x, target = self.whole if whole else self.mine
        loss = (call(x, self.table) - target).float().square().sum() / self.whole[0].numel()
        loss.backward()
        return loss.detach()

    def losses(self, how, steps):
        """Trains; the losses of all steps."""
        torch, dist = self.torch, self.dist
        model, call, entered = self.make(how)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0, foreach=False)
        norms = [p for name, p in model.named_parameters() if "norm" in name]
        found = []
        with entered:
            for _ in range(steps):
                optimizer.zero_grad()
                loss = self.step(call, how == "plain")
                if how != "plain":
                    # Norms are on all ranks; each has seen its own tokens.
                    sums = torch.cat([p.grad.float() for p in norms] + [loss[None]])
                    dist.all_reduce(sums)
                    for p, part in zip(norms, sums.split([p.numel() for p in norms] + [1])):
                        p.grad.copy_(part)
                    loss = sums[-1]
                optimizer.step()
                found.append(loss.item())
        return found

    def times(self, names, rounds):
        """{variant: (median seconds of the slowest rank, bytes at most)}, of interleaved steps."""
        torch, dist = self.torch, self.dist
        made, memory = {}, {}
        for name in names:
            made[name] = self.make(name)
            with made[name][2]:
                for _ in range(3):
                    self.one(*made[name][:2])
            memory[name] = self.memory(*made[name][:2])
        seconds = {name: [] for name in names}
        for index in range(rounds):
            for name in names[index % len(names):] + names[:index % len(names)]:
                seconds[name].append(self.turn(*made[name][:2]))
        values = torch.tensor([seconds[name] for name in names], dtype=torch.float64, device=self.device)
        dist.all_reduce(values, dist.ReduceOp.MAX)
        return {name: (statistics.median(row), memory[name]) for name, row in zip(names, values.tolist())}

    def turn(self, model, call):
        """Seconds of a step, of those of a turn."""
        if self.options.turn > 1:
            self.one(model, call)
        return self.one(model, call, self.options.turn)

    def one(self, model, call, steps=1):
        """Seconds of a step, of so many in a row."""
        model.zero_grad(set_to_none=True)
        self.settle()
        self.dist.barrier()
        self.settle()
        start = time.perf_counter()
        for step in range(steps):
            if step:
                model.zero_grad(set_to_none=True)
            self.step(call)
        self.settle()
        return (time.perf_counter() - start) / steps

    def memory(self, model, call):
        """The most that torch's allocator holds in a step for this model alone, in bytes; None on CPUs."""
        if self.device.type == "cpu":
            return None
        model.zero_grad(set_to_none=True)
        before = self.torch.cuda.memory_allocated()
        self.torch.cuda.reset_peak_memory_stats()
        self.one(model, call)
        weights = sum(getattr(p, "to_local", lambda p=p: p)().nbytes for p in model.parameters())
        return self.torch.cuda.max_memory_allocated() - before + weights

    def settle(self):
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()


def run(options, rank, ranks):
    """What a rank does. Returns the report."""
    job = Job(options, rank, ranks)
    report = {"model": options.model, "blocks": options.blocks, "tokens": options.tokens, "of": options.of or ranks,
              "ranks": ranks, "dtype": options.dtype, "device": options.device, "losses": {}, "times": {}}
    say = print if rank == 0 else lambda *_, **__: None
    wrong = []
    if options.losses:
        expected = job.losses("plain", options.losses)
        say(f"loss of plain torch on one rank: {expected[0]:.6f} to {expected[-1]:.6f} in {options.losses} steps")
        report["losses"]["plain"] = expected
        for name in options.variants:
            found = report["losses"][name] = job.losses(name, options.losses)
            worst = max(abs(one - other) / abs(other) for one, other in zip(found, expected))
            say(f"  {name:16} differs by {worst:.1e} at most (relative; allowed {options.tolerance:.0e})")
            if not worst <= options.tolerance:
                wrong.append(name)
    if options.rounds:
        names = ["none", *(["none-compiled"] if any(v not in ("torch", "tandem") for v in options.variants) else []),
                 *options.variants]
        times = job.times(names, options.rounds)
        free = min(seconds for name, (seconds, _) in times.items() if name.startswith("none"))
        first = times[options.variants[0]][0]
        say(f"{'':16} {'ms':>9} {'exposed':>8} {'/ ' + options.variants[0]:>16} {'GB':>6}")
        for name, (seconds, memory) in times.items():
            report["times"][name] = {"seconds": seconds, "exposed": 1 - free / seconds, "bytes": memory}
            say(f"{name:16} {seconds * 1e3:9.3f} {100 * (1 - free / seconds):6.1f} % {seconds / first:16.3f} " +
                (f"{memory / 1e9:6.2f}" if memory is not None else f"{'-':>6}"))
    if options.profile:
        import profiles
        report["profile"] = profiles.profile(job, options.variants)
        if rank == 0:
            profiles.report(report["profile"], options.device == "cuda")
    if rank == 0 and options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    job.dist.barrier()
    job.dist.destroy_process_group()
    if wrong:
        say(f"WRONG: {', '.join(wrong)}")
    return 1 if wrong else 0


def be_rank(options, rank, ranks):
    """Ends the process at once if the rank fails: destructors of groups would wait for the others."""
    try:
        code = run(options, rank, ranks)
    except SystemExit as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(2)
    except BaseException:  # noqa: BLE001 - the process ends
        print(f"rank {rank} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        os._exit(1)
    sys.stdout.flush()
    os._exit(code)


def launch(options):
    """Starts the ranks. When one of them fails, ends the others. The exit status is that of the first one to fail."""
    with tempfile.TemporaryDirectory() as folder:
        store = "file://" + os.path.join(folder, "store")
        base = {**os.environ, "WORLD_SIZE": str(options.ranks), "LOCAL_WORLD_SIZE": str(options.ranks), "LLAMA_STORE": store}
        base.setdefault("OMP_NUM_THREADS", "1")
        processes = [subprocess.Popen([sys.executable, os.path.abspath(__file__), *sys.argv[1:]],
                                      env={**base, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdin=subprocess.DEVNULL)
                     for rank in range(options.ranks)]
        try:
            while True:
                codes = [process.poll() for process in processes]
                failed = [rank for rank, code in enumerate(codes) if code]
                if failed:
                    print(f"llama: rank {failed[0]} ended with status {codes[failed[0]]}; the others are ended",
                          file=sys.stderr)
                    return 1 if codes[failed[0]] < 0 else codes[failed[0]]
                if all(code == 0 for code in codes):
                    return 0
                time.sleep(0.05)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                process.wait()


if __name__ == "__main__":
    parsed = parse()
    if "RANK" in os.environ:
        be_rank(parsed, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    sys.exit(launch(parsed))
