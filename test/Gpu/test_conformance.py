# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The suites of ConformanceTests that need a driver. On the stand-in they are ctest's (conformance-FakeCuda)."""

import re
import subprocess

import pytest
from conftest import BIN, ENVIRONMENT

_SHARDS = 4
# (name, GPUs, filter, environment)
_SUITES = [
    ("device", 1, "CudaLocal.*-*Failure*", {}),
    ("device-launches", 1, "CudaLocal.Launch*:CudaLocal.Stream*", {"TANDEM_GRAPH": "0"}),
    ("peer", 1, "CudaPeer.*-*Failure*", {}),
    ("peer-launches", 1, "CudaPeer.*-*Failure*", {"TANDEM_GRAPH": "0"}),
    ("peer-processes", 1, "CudaPeerProcesses.OneSided*", {}),
    ("ucx", 1, "CudaUcx.*f32*-*Failure*", {}),
    ("failure", 1, "Cuda*.*Failure*", {}),
    ("ccl", 2, "CudaCcl.*-*Failure*", {}),
    ("ccl-processes", 2, "CudaCclProcesses.*f32*/2-*Failure*", {}),
    ("wide-peer", 4, "CudaPeer.*/4:CudaPeerProcesses.OneSided*/4-*Failure*", {}),
    ("wide-ccl", 4, "CudaCcl.*/4-*Failure*", {}),
    ("wide-ccl-processes", 4, "CudaCclProcesses.*f32*/4-*Failure*", {}),
]
_SANITIZED = "CudaLocal.Copy*f16*:CudaLocal.Launch.mixed*:CudaLocal.Reduce*bf16*:CudaPeer.OneSided.*2"


def _start(command, name, environment, logs):
    with open(logs / f"suite-{name}.log", "w", encoding="utf-8") as out:
        return subprocess.Popen(command, env={**ENVIRONMENT, **environment}, stdout=out, stderr=subprocess.STDOUT)


def _finish(process, name, logs):
    try:
        status = process.wait(timeout=300)
    finally:
        process.kill()
    text = (logs / f"suite-{name}.log").read_text(errors="replace")
    assert status == 0, text[-8000:]
    return text


@pytest.mark.real
@pytest.mark.parametrize("suite, filter, environment",
                         [pytest.param(name, filter, environment, id=name, marks=pytest.mark.gpus(gpus))
                          for name, gpus, filter, environment in _SUITES])
def test_suite(suite, filter, environment, logs):
    shards = {f"{suite}-{shard}": _start([BIN / "ConformanceTests", f"--gtest_filter={filter}", "--gtest_brief=1"], f"{suite}-{shard}",
                                         {**environment, "GTEST_TOTAL_SHARDS": str(_SHARDS), "GTEST_SHARD_INDEX": str(shard)}, logs)
              for shard in range(_SHARDS)}
    texts = [_finish(process, name, logs) for name, process in shards.items()]
    passed = sum(int(count) for text in texts for count in re.findall(r"\[  PASSED  \] (\d+) test", text))
    assert passed > 0, texts[0]


@pytest.mark.real
@pytest.mark.sanitizer
@pytest.mark.parametrize("tool, filter", [("memcheck", _SANITIZED), ("racecheck", "CudaLocal.Reduce*bf16*")])
def test_sanitizer(tool, filter, logs):
    """Errors that calls return are handled: the end of a kernel's parameters is found by one."""
    process = _start(["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", "--error-exitcode=9", BIN / "ConformanceTests",
                      f"--gtest_filter={filter}", "--gtest_brief=1"], f"sanitizer-{tool}", {}, logs)
    text = _finish(process, f"sanitizer-{tool}", logs)
    assert "SUMMARY: 0 " in text
