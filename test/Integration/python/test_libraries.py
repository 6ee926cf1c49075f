# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of torch, JAX, ml_dtypes and of a library that has DLPack only. Libraries that are not installed are skipped;
the test of the last one runs always."""

import sys

import numpy as np
import pytest
from conftest import error

import tandem
from tandem import TensorType

one = tandem.Mesh("one", x=1)
WHOLE = one[None, None]


def program(dtype="f32"):
    @tandem.fuse(TensorType(dtype, (8, 16), WHOLE), TensorType(dtype, (16, 12), WHOLE), results=WHOLE)
    def product(x, w):
        return x @ w
    return product.compile()


class Other:
    """A tensor of a library that only has DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.fixture
def context():
    with tandem.Context() as context:
        yield context


def test_dlpack(context, random):
    x, w = random(8, 16), random(16, 12)
    result = program()(Other(x), Other(w))
    assert (result.shape, result.dtype) == ((8, 12), "f32")
    y = np.from_dlpack(result)
    del result
    assert error(y, x @ w) < 1e-5
    out = np.empty((8, 12), np.float32)
    program()(Other(x), Other(w), out=Other(out))
    assert error(out, x @ w) < 1e-5


def test_no_copies(context, random):
    """The program reads the memory that it was given, and the capsules are released."""
    x, w = random(8, 16), random(16, 12)
    before = sys.getrefcount(x), sys.getrefcount(w)
    compiled = program()
    compiled(Other(x), Other(w))
    x *= 2
    assert error(np.from_dlpack(compiled(Other(x), Other(w))), x @ w) < 1e-5
    compiled(x, w)
    assert (sys.getrefcount(x), sys.getrefcount(w)) == before


def test_dlpack_strides(context, random):
    with pytest.raises(tandem.ArgumentError, match="contiguous"):
        program()(Other(random(16, 8).T), Other(random(16, 12)))


def test_stream_of_the_cpu(context, random):
    with pytest.raises(tandem.ArgumentError, match="the context's device is the CPU"):
        program()(random(8, 16), random(16, 12), stream=0)


def test_bfloat16(context, random):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, w = random(8, 16).astype(ml_dtypes.bfloat16), random(16, 12).astype(ml_dtypes.bfloat16)
    y = program("bf16")(x, w)
    assert y.dtype == ml_dtypes.bfloat16
    assert error(y.astype(np.float32), x.astype(np.float32) @ w.astype(np.float32)) < 8e-3


@pytest.mark.parametrize("dtype, name", [("f8E4M3FN", "float8_e4m3fn"), ("f8E5M2", "float8_e5m2")])
def test_eight_bits(context, random, dtype, name):
    """Inputs, results and casts of 8 bits: `scaled_matmul` and a quantized result, against ml_dtypes."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = getattr(ml_dtypes, name)

    @tandem.fuse(TensorType(dtype, (8, 16), one["x", None]), TensorType("f8E4M3FN", (16, 12), WHOLE),
                 TensorType("f32", (8,), one["x"]), TensorType("f32", (), one[()]), results=(WHOLE, WHOLE))
    def scaled(x, w, rows, whole):
        return tandem.scaled_matmul(x, w, rows, whole, dtype="f32"), (x.astype("f32") * 3).astype(dtype)

    x, w = random(8, 16).astype(kind), random(16, 12).astype(ml_dtypes.float8_e4m3fn)
    rows, whole = np.abs(random(8)) + 1, np.float32(0.5).reshape(())
    y, tripled = scaled(x, w, rows, whole)
    expected = x.astype(np.float32) @ w.astype(np.float32) * rows[:, None] * whole
    assert error(y, expected) < 1e-5
    assert tripled.dtype == kind
    assert np.array_equal(tripled.view(np.uint8), (x.astype(np.float32) * 3).astype(kind).view(np.uint8))

    @tandem.fuse(TensorType(dtype, (8, 16), one["x", None]), TensorType("f8E4M3FN", (16, 12), WHOLE), TensorType("f32", (8,), one["x"]),
                 TensorType("f32", (), one[()]), TensorType("f32", (), one[()]), results=WHOLE)
    def quantized(x, w, rows, whole, scale):
        return tandem.scaled_matmul(x, w, rows, whole, dtype=dtype, scale_result=scale)

    largest = float(ml_dtypes.finfo(kind).max)
    scale = np.float32(2 * largest / np.abs(y).max()).reshape(())
    found = quantized(x, w, rows, whole, scale)
    saturated = np.clip(y * scale, -largest, largest)
    assert found.dtype == kind and (np.abs(saturated) == largest).any()
    assert np.array_equal(found.view(np.uint8), saturated.astype(kind).view(np.uint8))
    with pytest.raises(tandem.ArgumentError, match=r"expected scale_a of f32\[\] or f32\[8\]"):
        tandem.fuse(TensorType(dtype, (8, 16), one["x", None]), TensorType(dtype, (16, 12), WHOLE),
                    TensorType("f32", (12,), one[None]), results=WHOLE)(lambda x, w, s: tandem.scaled_matmul(x, w, s, s)).compile()


def test_torch(context, random):
    torch = pytest.importorskip("torch")
    x, w = torch.tensor(random(8, 16)), torch.tensor(random(16, 12))
    y = program()(x, w)
    assert isinstance(y, torch.Tensor) and error(y.numpy(), (x @ w).numpy()) < 1e-5
    out = torch.empty(8, 12)
    assert program()(x, w, out=out) is out and torch.equal(out, y)

    class Other(torch.Tensor):  # read by its methods
        pass

    assert torch.equal(program()(x.as_subclass(Other), torch.nn.Parameter(w, requires_grad=False)), y)
    with pytest.raises(tandem.ArgumentError, match="needs a gradient"):
        program()(x, torch.nn.Parameter(w))
    with torch.no_grad():
        assert torch.equal(program()(x, torch.nn.Parameter(w)), y)
    with pytest.raises(tandem.ArgumentError, match="contiguous"):
        program()(torch.tensor(random(16, 8)).T, w)
    with pytest.raises(tandem.ArgumentError, match="expected elements of"):
        program()(x.to(torch.complex64), w)
    half = program("bf16")(x.bfloat16(), w.bfloat16())
    assert half.dtype == torch.bfloat16


def test_torch_gpus(random):
    """One rank per GPU, at most two, as threads. Runs are ordered with the current stream, and the host does not wait."""
    torch = pytest.importorskip("torch")
    count = min(2, torch.cuda.device_count())
    if count == 0:
        pytest.skip("no GPU")
    mesh = tandem.Mesh("tp", x=None)

    @tandem.fuse(TensorType("bf16", (None, 256), mesh["x", None]), TensorType("bf16", (256, 128), mesh[None, None]),
                 results=mesh[tandem.loop("x"), None])
    def product(x, w):
        return x @ w

    x, w = torch.tensor(random(512, 256)).bfloat16(), torch.tensor(random(256, 128)).bfloat16()
    expected = (x.float() @ w.float()).numpy()

    def run(context):
        torch.cuda.set_device(context.rank)
        mine, weight = x.chunk(count)[context.rank].cuda(), w.cuda()
        with torch.cuda.stream(torch.cuda.Stream()):
            for factor in (1, 2, 4):
                y = product(mine * factor, weight) + 0
                assert y.is_cuda and y.dtype == torch.bfloat16
                assert error(y.float().cpu().numpy(), factor * expected) < 8e-3
        return y

    with tandem.local_world(count, device="cuda", timeout=60) as world:
        assert len(world.run(run)) == count


def test_array_of_a_device(context, random):
    """An array of JAX on a GPU has the buffer protocol of Python, and raises when it is used."""
    class Far(np.ndarray):
        def __dlpack_device__(self):
            return 2, 0

    x = np.zeros((8, 16), "M8[s]").view(Far)  # NumPy exports no buffer of this type either
    with pytest.raises(tandem.ArgumentError, match=r'"x": expected a tensor of the CPU, found one of a device'):
        program()(x, random(16, 12))


def test_jax(context, random):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_platforms", "cpu")
    x, w = jax.numpy.asarray(random(8, 16)), jax.numpy.asarray(random(16, 12))
    y = program()(x, w)
    assert isinstance(y, jax.Array) and error(np.asarray(y), np.asarray(x) @ np.asarray(w)) < 1e-5


def test_no_library_is_imported():
    import subprocess
    code = "import sys, tandem; print([m for m in ('numpy', 'torch', 'jax', 'cupy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_device():
    """device.py, on the stand-in driver; a build without CUDA has none."""
    import os
    import subprocess
    driver = os.path.join(os.environ.get("TANDEM_BUILD", ""), "lib", "libTandemFakeCuda.so")
    if not os.path.exists(driver):
        pytest.skip("no stand-in driver of GPUs was built")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "device.py")
    result = subprocess.run(
        [sys.executable, script, driver], capture_output=True, text=True, timeout=120,
        env={**os.environ, "TANDEM_FAKE_GPUS": "2", "TANDEM_CUDA_LIBRARY": driver, "TANDEM_CUBLASLT_LIBRARY": driver,
             "TANDEM_NCCL_LIBRARY": driver})
    assert (result.returncode, result.stdout) == (0, "ok\n"), result.stdout + result.stderr
