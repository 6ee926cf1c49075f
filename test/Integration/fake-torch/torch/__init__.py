# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""As much of PyTorch as tools/gpu/torch-bench calls, on the CPU with NumPy, so that its ranks, turns and failures are tested
where no GPU is. Nothing of what it times means anything. FAKE_TORCH makes the fused operation misbehave:

  wrong    rank 1's result is off          late       the same, from its tenth run on
  stale    rank 1's graphs write nothing   capture    cannot be captured
  raise    raises at once                  hang       rank 1 never returns from a replay of a graph
  die      rank 1 dies in its third run    multicast  a machine that has it on
"""

import contextlib
import itertools
import os
import sys
import time
import types

import numpy

FAULT = os.environ.get("FAKE_TORCH", "")
assert os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] == "1" and os.environ["NCCL_NVLS_ENABLE"] == "0"

__version__ = "2.11.0+fake"
float32, float16, bfloat16, float8_e4m3fn, uint8 = "f32", "f16", "bf16", "f8", "u8"
capturing = None  # the graph whose capture is under way
rank, ranks, exchanges, runs = 0, 1, itertools.count(), itertools.count()


class Tensor:
    def __init__(self, array, dtype):
        self.array, self.dtype, self.shape = array, dtype, array.shape

    def fill_(self, value):
        self.array[...] = numpy.nan if self.dtype == uint8 and value == 0x7f else value

    def uniform_(self, low, high, generator):
        self.array[...] = generator.state.uniform(low, high, self.shape)
        return self

    def to(self, dtype):  # rounded about as much
        assert dtype == float8_e4m3fn and self.dtype == bfloat16
        return Tensor(numpy.round(self.array * 16) / 16, dtype)

    def view(self, dtype):  # as bytes
        assert dtype == uint8 and self.dtype == float8_e4m3fn
        return Tensor(self.array, dtype)

    def t(self):
        return Tensor(self.array.T, self.dtype)

    def __len__(self):
        return self.shape[0]

    def float(self):
        return Tensor(self.array.astype(numpy.float32), float32)

    def norm(self):
        return numpy.linalg.norm(self.array)

    def clone(self):
        return Tensor(self.array.copy(), self.dtype)

    def __sub__(self, other):
        return Tensor(self.array - other.array, self.dtype)


def empty(shape, dtype, device):
    assert device == f"cuda:{rank}"
    return Tensor(numpy.zeros(shape, numpy.float16 if dtype == float16 else numpy.float32), dtype)


def ones(count, device):
    tensor = empty((count,), float32, device)
    tensor.fill_(1)
    return tensor


def device(kind, index):
    return f"{kind}:{index}"


def set_grad_enabled(on):
    assert not on


class Generator:
    def __init__(self, device):
        self.state = None

    def manual_seed(self, seed):
        self.state = numpy.random.default_rng(seed)


def enqueue(action):
    if capturing is None:
        action()
    else:
        capturing.actions.append(action)


def mm(a, b, out):
    assert a.shape[1] == b.shape[0] and out.shape == (a.shape[0], b.shape[1])
    enqueue(lambda: numpy.matmul(a.array, b.array, out=out.array))
    return out


def scaled(a, b, scale_a, scale_b, out_dtype):
    """A function that gives the product, once its operands are those that _scaled_mm accepts."""
    assert a.dtype == b.dtype == float8_e4m3fn and out_dtype == bfloat16
    assert a.array.flags.c_contiguous and b.array.flags.f_contiguous, "both are read along K"
    assert scale_a.dtype == scale_b.dtype == float32
    assert (scale_a.shape, scale_b.shape) in (((1,), (1,)), ((a.shape[0], 1), (1, b.shape[1])))
    return lambda: a.array @ b.array * scale_a.array * scale_b.array


def _scaled_mm(a, b, scale_a, scale_b, out_dtype, out):
    assert out.shape == (a.shape[0], b.shape[1]) and out.dtype == out_dtype
    return put(out, scaled(a, b, scale_a, scale_b, out_dtype))


# --- cuda ---


class CUDAGraph:
    def __init__(self):
        self.actions = []

    def replay(self):
        for action in self.actions:
            action()


@contextlib.contextmanager
def graph(made, stream, capture_error_mode):
    global capturing
    capturing = made
    try:
        yield
    finally:
        capturing = None


def nothing(*_):
    pass


def set_device(device):
    global rank
    rank = int(device.split(":")[1])


cuda = types.SimpleNamespace(
    device_count=lambda: 4, set_device=set_device, synchronize=nothing, Stream=object, set_stream=nothing,
    empty_cache=nothing, get_device_name=lambda device: "a fake GPU", CUDAGraph=CUDAGraph, graph=graph,
    nccl=types.SimpleNamespace(version=lambda: (2, 28, 9)))


# --- distributed ---


def exchange(array):
    """Every rank's array, through files."""
    number = next(exchanges)
    folder = os.environ["TORCH_BENCH_FOLDER"]

    def path(rank):
        return os.path.join(folder, f"fake.{number}.{rank}.npy")

    numpy.save(path(rank) + ".part.npy", array)
    os.rename(path(rank) + ".part.npy", path(rank))
    for other in range(ranks):
        while not os.path.exists(path(other)):
            time.sleep(0.0002)
    return [numpy.load(path(other)) for other in range(ranks)]


def put(out, make):
    def action():
        out.array[...] = make()

    enqueue(action)
    return out


def gathered(x):
    return numpy.concatenate(exchange(x.array))


def scattered(terms):
    return numpy.split(sum(exchange(terms)), ranks)[rank]


def init_process_group(backend, init_method, rank, world_size, device_id):
    global ranks
    assert backend == "nccl" and init_method.startswith("tcp://127.0.0.1:") and device_id == f"cuda:{rank}"
    ranks = world_size


distributed = types.ModuleType("torch.distributed")
distributed.init_process_group = init_process_group
distributed.group = types.SimpleNamespace(WORLD=types.SimpleNamespace(group_name="0"))
distributed.all_reduce = lambda t: put(t, lambda: sum(exchange(t.array)))
distributed.all_gather_into_tensor = lambda out, x: put(out, lambda: gathered(x))
distributed.reduce_scatter_tensor = lambda out, terms: put(out, lambda: scattered(terms.array))
distributed._symmetric_memory = types.ModuleType("torch.distributed._symmetric_memory")
distributed._symmetric_memory.DeviceType = types.SimpleNamespace(CUDA=1)
distributed._symmetric_memory._SymmetricMemory = types.SimpleNamespace(
    has_multicast_support=lambda kind, index: FAULT == "multicast")
distributed._symmetric_memory.enable_symm_mem_for_group = nothing
sys.modules["torch.distributed"] = distributed
sys.modules["torch.distributed._symmetric_memory"] = distributed._symmetric_memory


def fused(shape, dtype, make):
    assert FAULT != "raise", "no peer access"
    assert FAULT != "capture" or capturing is None, "operation not permitted when stream is capturing"
    captured, out = capturing is not None, empty(shape, dtype, f"cuda:{rank}")

    def action():
        run = next(runs)
        fault = FAULT if rank == 1 else ""
        if fault == "die" and run == 2:
            os._exit(7)
        if fault == "hang" and captured:
            time.sleep(1e6)
        made = make()
        if fault == "stale" and captured:
            return out.array
        return made * (1.01 if fault == "wrong" or fault == "late" and run >= 9 else 1)

    return put(out, action)


def fused_all_gather_matmul(x, ws, dim, group, return_A):
    assert dim == 0 and group == "0" and not return_A
    return None, [fused((x.shape[0] * ranks, w.shape[1]), x.dtype, lambda: gathered(x) @ w.array) for w in ws]


def fused_matmul_reduce_scatter(x, w, op, dim, group):
    assert dim == 0 and group == "0" and op == "sum"
    return fused((x.shape[0] // ranks, w.shape[1]), x.dtype, lambda: scattered(x.array @ w.array))


def fused_all_gather_scaled_matmul(x, ws, scale, scales, dim, group, biases, result_scales, out_dtypes, fast):
    assert dim == 0 and group == "0" and biases == result_scales == [None] and fast == [False]
    (w,), (scale_w,), (out_dtype,) = ws, scales, out_dtypes
    scaled(x, w, scale, scale_w, out_dtype)

    def make():
        rows = gathered(scale) if len(scale.shape) == 2 else scale.array
        return gathered(x) @ w.array * rows * scale_w.array

    return x, [fused((x.shape[0] * ranks, w.shape[1]), out_dtype, make)]


def fused_scaled_matmul_reduce_scatter(x, w, scale, scale_w, op, dim, reshaped_dim, group, output_shape, out_dtype):
    assert dim == reshaped_dim == 0 and group == "0" and op == "sum" and output_shape == [x.shape[0], w.shape[1]]
    make = scaled(x, w, scale, scale_w, out_dtype)
    return fused((x.shape[0] // ranks, w.shape[1]), out_dtype, lambda: scattered(make()))


ops = types.SimpleNamespace(symm_mem=types.SimpleNamespace(
    fused_all_gather_matmul=fused_all_gather_matmul, fused_matmul_reduce_scatter=fused_matmul_reduce_scatter,
    fused_all_gather_scaled_matmul=fused_all_gather_scaled_matmul,
    fused_scaled_matmul_reduce_scatter=fused_scaled_matmul_reduce_scatter))
