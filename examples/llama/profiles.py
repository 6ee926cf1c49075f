# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One step of each variant under torch.profiler: where its time goes, kind by kind and kernel by kernel."""

import collections
import re
import statistics

# The first kind that fits the name of a kernel (on CPUs: of an operator).
KINDS = (("collective", r"nccl|c10d|gloo|all_gather_into|reduce_scatter_tensor|all_reduce"),
         ("attention", r"flash|fmha|attention|sdpa"),
         ("matmul", r"gemm|nvjet|cutlass|xmma|matmul|mm\b|\bmm|addmm|tandem::"),
         ("copy", r"memcpy|memset|copy|_to_copy|clone|contiguous"),
         ("other", r""))
LAUNCH = re.compile(r"(cuda|cu)(Launch|GraphLaunch|Memcpy|Memset)")


def kind(name):
    return next(key for key, pattern in KINDS if re.search(pattern, name, re.IGNORECASE))


def busy(intervals):
    """Microseconds in which at least one of the intervals lasts."""
    total, end = 0.0, float("-inf")
    for first, last in sorted(intervals):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


def profile(job, names, steps=5):
    """{variant: {"wall", "busy", "idle", "start", "launches", "allocations": per step, "kernels": {name: (us, count)}}}.

    Times are microseconds of this rank. wall: median without the profiler. start: from the begin of a step to its first
    kernel. launches: calls of the driver that start something, a graph is one. On CPUs "kernels" are operators, and
    there is no start."""
    torch = job.torch
    is_gpu = job.device.type == "cuda"
    activities = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if is_gpu else [])
    found = {}
    for name in names:
        model, call, entered = job.make(name)
        with entered:
            for _ in range(3):
                job.one(model, call)
        wall = statistics.median(job.one(model, call) for _ in range(4 * steps)) * 1e6
        before = torch.cuda.memory_stats().get("allocation.all.allocated", 0) if is_gpu else 0
        with torch.profiler.profile(activities=activities) as profiler:
            for _ in range(steps):
                model.zero_grad(set_to_none=True)
                job.settle()
                job.dist.barrier()
                job.settle()
                with torch.profiler.record_function("llama: step"):
                    job.step(call)
                    job.settle()
        after = torch.cuda.memory_stats().get("allocation.all.allocated", 0) if is_gpu else 0
        found[name] = {"wall": wall, "allocations": (after - before) / steps, **read(torch, profiler, is_gpu, steps)}
        found[name]["idle"] = wall - found[name]["busy"]
        del model, call
    return found


def read(torch, profiler, is_gpu, steps):
    """What the profiler saw between the begin and the end of steps; per step."""
    events = list(profiler.events())
    on_device = torch.autograd.DeviceType.CUDA
    marks = sorted((event.time_range.start, event.time_range.end) for event in events
                   if event.name == "llama: step" and event.device_type != on_device)
    kernels, launches, intervals, first = collections.defaultdict(lambda: [0.0, 0]), 0, [], [None] * len(marks)

    def step_of(event):
        return next((i for i, (start, end) in enumerate(marks) if start <= event.time_range.start <= end), None)

    for event in events:
        index = step_of(event)
        if index is None or event.name.startswith(("llama:", "ProfilerStep")):
            continue
        if event.device_type == on_device:
            if getattr(event, "is_user_annotation", False):
                continue
            start, end = event.time_range.start, event.time_range.end
            intervals.append((start, end))
            microseconds = end - start
            first[index] = start if first[index] is None else min(first[index], start)
        elif is_gpu:
            launches += bool(LAUNCH.match(event.name))
            continue
        else:
            microseconds = event.self_cpu_time_total
            if not microseconds:
                continue
        row = kernels[event.name]
        row[0] += microseconds / steps
        row[1] += 1 / steps
    if is_gpu:
        delays = [one - start for one, (start, _) in zip(first, marks) if one is not None]
        return {"kernels": dict(kernels), "launches": launches / steps, "busy": busy(intervals) / steps,
                "start": statistics.median(delays) if delays else 0.0}
    return {"kernels": dict(kernels), "launches": 0.0, "busy": sum(us for us, _ in kernels.values()), "start": 0.0}


def report(found, is_gpu, rows=16, say=print):
    """Prints the table: each variant next to the first one."""
    names = list(found)

    def line(what, cells):
        say(f"{what:34}" + "".join(f"{cell:>22}" for cell in cells))

    def with_count(pair):
        return f"{pair[0]:.1f} ({pair[1]:.0f})" if pair[1] else "-"

    line("us per step (how many)", names)
    for key, _ in KINDS:
        sums = []
        for one in found.values():
            members = [pair for name, pair in one["kernels"].items() if kind(name) == key]
            sums.append((sum(us for us, _ in members), sum(count for _, count in members)))
        line(f"  {key}", map(with_count, sums))
    keys = ("busy", "wall", "idle", "start") if is_gpu else ("busy", "wall")
    for key in keys:
        line({"busy": "busy: at least one kernel", "wall": "wall, not profiled", "idle": "wall - busy",
              "start": "until the first kernel"}[key], (f"{one[key]:.1f}" for one in found.values()))
    line(f"wall / {names[0]}", (f"{one['wall'] / found[names[0]]['wall']:.3f}" for one in found.values()))
    if is_gpu:
        line("calls that launch", (f"{one['launches']:.0f}" for one in found.values()))
        line("allocations by torch", (f"{one['allocations']:.0f}" for one in found.values()))
    say(f"\n{'kernels' if is_gpu else 'operators'} that differ most between {names[0]} and {names[-1]}:")
    first, last = found[names[0]]["kernels"], found[names[-1]]["kernels"]
    differences = {name: last.get(name, (0, 0))[0] - first.get(name, (0, 0))[0] for name in {**first, **last}}
    for name in sorted(differences, key=lambda one: -abs(differences[one]))[:rows]:
        say(f"{differences[name]:+10.1f}" + "".join(f"{with_count(one['kernels'].get(name, (0, 0))):>18}"
                                                   for one in found.values()) + f"  {name[:90]}")
