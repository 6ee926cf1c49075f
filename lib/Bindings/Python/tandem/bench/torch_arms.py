# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's arms: the collective and torch.mm, torch.mm alone, and the fused operators of symmetric memory (async tensor
parallelism), each eager and in a CUDA graph, on the tensors of Tandem's arms and in the same processes."""

import math
import os
import socket

from .. import _tandem
from .arms import Arm

#: Multicast over NVLink is off: Tandem does not use it, and its faults can take a whole host out of service. Read when torch
#: and NCCL are loaded.
ENVIRONMENT = {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}
_CAPTURED = "graph"


class Torch:
    """The process group of all ranks."""

    def __init__(self, ranks, is_gpu, timeout):
        import datetime

        import torch
        import torch.distributed as dist
        self.torch, self.dist, self.is_gpu, self.ranks = torch, dist, is_gpu, ranks
        torch.set_grad_enabled(False)
        device = torch.device("cuda", ranks.local_rank % max(1, torch.cuda.device_count())) if is_gpu else torch.device("cpu")
        self.device = device
        if is_gpu:
            torch.cuda.set_device(device)
        shares = is_gpu and torch.cuda.device_count() < ranks.local_size
        backend = "nccl" if is_gpu and not shares else "gloo"
        with socket.socket() as free:
            free.bind(("", 0))
            place = ranks.gather([os.environ.get("MASTER_ADDR", "127.0.0.1"), free.getsockname()[1]])[0]
        store = dist.TCPStore(*place, ranks.size, ranks.rank == 0, datetime.timedelta(seconds=timeout))
        dist.init_process_group(backend, store=store, rank=ranks.rank, world_size=ranks.size,
                                timeout=datetime.timedelta(seconds=timeout), device_id=device if backend == "nccl" else None)
        self.group = dist.group.WORLD.group_name
        self.stream = torch.cuda.Stream() if is_gpu else None
        if is_gpu:
            torch.cuda.set_stream(self.stream)
        dist.all_reduce(torch.ones(1, device=device))
        self.wait()
        self.without_fused = ranks.first_problem(self._enable_fused())
        nccl = ".".join(map(str, torch.cuda.nccl.version())) if backend == "nccl" else ""
        self.versions = {"torch": str(torch.__version__), "nccl": nccl, "backend": backend, "cuda": torch.version.cuda,
                         "gpu": torch.cuda.get_device_name(device) if is_gpu else ""}

    def wait(self):
        if self.is_gpu:
            self.torch.cuda.synchronize()

    def _enable_fused(self):
        if not self.is_gpu or self.dist.get_backend() != "nccl":
            return "symmetric memory needs a GPU for each rank"
        try:
            from torch.distributed import _symmetric_memory as symmetric
            if symmetric._SymmetricMemory.has_multicast_support(symmetric.DeviceType.CUDA, self.device.index):
                return "NVLink multicast is on, in spite of TORCH_SYMM_MEM_DISABLE_MULTICAST"
        except Exception as error:  # noqa: BLE001 - then these arms are refused
            return f"{type(error).__name__}: {error}".splitlines()[0]
        return ""

    def release(self):
        """Memory that nobody uses any more goes back to the device."""
        self.wait()
        if self.is_gpu:
            self.torch.cuda.empty_cache()

    def tensor(self, array):
        if array.dtype.startswith("f8"):
            return self.torch.from_dlpack(array.view("i8")).view(self.torch.float8_e4m3fn)
        return self.torch.from_dlpack(array)

    def arms(self, case, ours, modes, memory):
        """`ours`: the prepared arms of Tandem by name, whose tensors they read."""
        problem = case.problem(self.ranks.size)
        if not problem and not {"sequence", "matmul"} <= ours.keys():
            problem = "Tandem's sequence or matmul, whose tensors it would read, were refused"
        names = [("torch sequence", "sequence"), ("torch matmul", "matmul"), ("torch fused", "fused")]
        if case.op == "ar":
            names = names[:2] + [("torch one shot", "fused"), ("torch two shots", "fused"), ("torch communication", "communication"),
                                 ("torch one shot alone", "communication"), ("torch two shots alone", "communication")]
        arms = []
        for what, role in names:
            for mode in modes:
                arm = TorchArm(what, role, mode, self, case, ours)
                arm.refused = problem or (self.without_fused if role == "fused" or "shot" in what else "") or (
                    "graphs need a GPU and NCCL" if mode == _CAPTURED and self.dist.get_backend() != "nccl" else "")
                arms.append(arm)
        return arms

    def inputs(self, case, ours, number):
        """The tensors of a set; what is computed gets its memory here."""
        torch, size = self.torch, self.ranks.size
        kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[case.types.result]
        d = {name: self.tensor(array) for name, array in ours["sequence"].inputs[number].items()}
        if case.is_scaled:
            d["w"] = d["w"].t()

        def empty(*shape, dtype=kind):
            return torch.empty(shape, dtype=dtype, device=self.device)

        if case.op == "ag":
            d["whole"] = self.tensor(ours["matmul"].inputs[number]["x"])
            d["full"], d["y"] = empty(case.m, case.k, dtype=d["x"].dtype), empty(case.m, case.n // size)
        else:
            d["whole"], d["terms"] = d["x"], empty(case.m, case.n)
            if case.op == "rs":
                d["y"] = empty(case.m // size, case.n)
        if case.dtype == "f8E4M3FN-rows":
            if case.op == "rs":  # Tandem's ranks scale the rows of the sum; torch's product those of each term
                whole = empty(case.m, dtype=torch.float32)
                self.dist.all_gather_into_tensor(whole, d["sx"])
                d["sx"] = whole
            d["sx"], d["sw"] = d["sx"].reshape(-1, 1), d["sw"].reshape(1, -1)
            d["all_sx"] = empty(case.m, 1, dtype=torch.float32) if case.op == "ag" else d["sx"]
        elif case.is_scaled:
            d["sx"], d["sw"] = d["sx"].reshape(1), d["sw"].reshape(1)
            d["all_sx"] = d["sx"]
        return d


class TorchArm(Arm):
    """An operator of torch, eager or in a CUDA graph."""

    def __init__(self, what, role, mode, torch, case, ours):
        super().__init__(what, role, mode)
        self.torch, self.case, self.ours = torch, case, ours
        self.data, self.outs, self.graphs = [], [], []

    def prepare(self, memory, sets):
        module, torch = self.torch, self.torch.torch
        self.body = getattr(self, "_scaled" if self.case.is_scaled else "_plain")()
        for number in range(sets):
            data = module.inputs(self.case, self.ours, number)
            if "shot" in self.what:
                import torch.distributed._symmetric_memory as symmetric
                data["terms"] = symmetric.empty(*data["terms"].shape, dtype=data["terms"].dtype, device=module.device)
                symmetric.rendezvous(data["terms"], module.group)
            self.data.append(data)
            self.outs.append(self.body(data))
            module.wait()
            if self.mode == _CAPTURED:
                graph = torch.cuda.CUDAGraph()
                # NCCL's watchdog may query events of its own meanwhile.
                with torch.cuda.graph(graph, stream=module.stream, capture_error_mode="thread_local"):
                    self.outs[number] = self.body(data)
                self.graphs.append(graph)
                graph.replay()
                module.wait()

    def run(self, number, start, count, spins):
        if self.graphs:
            call = self.graphs[number].replay
        else:
            def call():
                self.outs[number] = self.body(self.data[number])
        return _tandem.time_calls(call, self.torch.wait, start, count, spins)

    def poison(self, number):
        data = self.data[number]
        for name in ("full", "terms", "y"):
            if name in data:
                tensor = data[name]
                tensor.view(self.torch.torch.uint8).fill_(0xff) if tensor.element_size() == 1 else tensor.fill_(math.nan)
        if self.outs[number] is not None:
            self.outs[number].fill_(math.nan)
        self.torch.wait()

    def result(self, number):
        return self.outs[number].float().cpu().numpy()

    def tensor(self, torch, number):
        return self.outs[number].float()

    def release(self):
        self.data, self.outs, self.graphs, self.ours = [], [], [], {}

    def _plain(self):
        dist, group, mm, op = self.torch.dist, self.torch.group, self.torch.torch.mm, self.case.op
        fused = getattr(self.torch.torch.ops, "symm_mem", None)

        def product(d):
            return mm(d["whole"], d["w"], out=d["y" if op == "ag" else "terms"])

        def gather(d):
            dist.all_gather_into_tensor(d["full"], d["x"])
            return mm(d["full"], d["w"], out=d["y"])

        return self._choose(product, gather, fused and {
            "ag": lambda d: fused.fused_all_gather_matmul(d["x"], [d["w"]], 0, group, return_A=False)[1][0],
            "rs": lambda d: fused.fused_matmul_reduce_scatter(d["x"], d["w"], "sum", 0, group)})

    def _scaled(self):
        torch, dist, group, case = self.torch.torch, self.torch.dist, self.torch.group, self.case
        fused, result = getattr(torch.ops, "symm_mem", None), torch.bfloat16

        def multiply(d, x, scale, out):
            torch._scaled_mm(x, d["w"], scale_a=scale, scale_b=d["sw"], out_dtype=result, out=out)
            return out

        def gather(d):  # as bytes, which NCCL of any version moves
            dist.all_gather_into_tensor(d["full"].view(torch.uint8), d["x"].view(torch.uint8))
            if d["all_sx"] is not d["sx"]:
                dist.all_gather_into_tensor(d["all_sx"], d["sx"])
            return multiply(d, d["full"], d["all_sx"], d["y"])

        def product(d):
            return multiply(d, d["whole"], d["all_sx"], d["y" if case.op == "ag" else "terms"])

        return self._choose(product, gather, fused and {
            "ag": lambda d: fused.fused_all_gather_scaled_matmul(
                d["x"], [d["w"]], d["sx"], [d["sw"]], 0, group, [None], [None], [result], [False])[1][0],
            "rs": lambda d: fused.fused_scaled_matmul_reduce_scatter(
                d["x"], d["w"], d["sx"], d["sw"], "sum", 0, 0, group, [case.m, case.n], out_dtype=result)})

    def _choose(self, product, gather, fused):
        """The function of this arm, on a set's tensors; gives the result."""
        dist, group, ops = self.torch.dist, self.torch.group, self.torch.torch.ops

        def scatter(d):
            dist.reduce_scatter_tensor(d["y"], product(d))
            return d["y"]

        def reduce(d):
            dist.all_reduce(product(d))
            return d["terms"]

        def communicate(d):
            dist.all_reduce(d["terms"])

        def one_shot(d):
            return ops.symm_mem.one_shot_all_reduce(d["terms"], "sum", group)

        def two_shots(d):
            return ops.symm_mem.two_shot_all_reduce_(d["terms"], "sum", group)

        return {"torch matmul": product, "torch communication": communicate,
                "torch one shot alone": one_shot, "torch two shots alone": two_shots,
                "torch one shot": lambda d: (product(d), one_shot(d))[1],
                "torch two shots": lambda d: (product(d), two_shots(d))[1],
                "torch sequence": {"ag": gather, "rs": scatter, "ar": reduce}[self.case.op],
                "torch fused": (fused or {}).get(self.case.op)}[self.what]
