# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A rank is killed or stopped in the middle of its runs, also where kernels wait. The others end soon, and name it."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from conftest import BIN, ENVIRONMENT, FAKE
from sources import cases

_FOREVER = ["--device=cuda", "--timeout=5", "--repeat=10000000"]
_GATHER = """#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @long(%x: tensor<268435456xf16, #fusion.axes<#tp, [didx("x")]>>) -> tensor<268435456xf16, #fusion.axes<#tp, [-]>> {
  %y = fusion.reshard %x : tensor<268435456xf16, #fusion.axes<#tp, [didx("x")]>> -> tensor<268435456xf16, #fusion.axes<#tp, [-]>>
  return %y : tensor<268435456xf16, #fusion.axes<#tp, [-]>>
}
"""


def _children(pid):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                child = int(stat.parent.name)
                found += [child, *_children(child)]
        except OSError:
            pass
    return sorted(found)


def _has_gpu(pid):
    """Whether a process has a GPU, or its stand-in, open."""
    try:
        return bool(re.search("/dev/nvidia[0-9]|libTandemFakeCuda", Path(f"/proc/{pid}/maps").read_text()))
    except OSError:
        return False


def _wait(condition, seconds):
    """What `condition` gives as soon as it is not false."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def _compiled(file, entry, dtype, folder):
    import tandem
    for case in cases("failures", (), "cuda-peer", 2, dtypes=(dtype,), matching=f"^{file}$"):
        if case.entry == entry:
            case.compile(tandem).save(folder / "p.tsp")
            return folder / "p.tsp"
    raise LookupError(f"{file}: no @{entry}")


def _start(program, *flags, **environment):
    return subprocess.Popen([BIN / "tandem-run", program, *_FOREVER, *flags], env={**ENVIRONMENT, **environment}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")


def _ranks(launcher):
    """Of ranks that run, after some time in which they have begun to."""
    found = _wait(lambda: (pids := [pid for pid in _children(launcher.pid) if _has_gpu(pid)])[1:] and pids, 40)
    assert found, "the ranks did not start"
    time.sleep(1 if FAKE else 4)
    return found


@pytest.mark.gpus(2)
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("file, entry, dtype", [("allgather-matmul-push", "allgather_matmul_push", "f32"),
                                                pytest.param("direct", "direct_two_shots", "bf16", marks=pytest.mark.real)])
def test_rank(file, entry, dtype, sent, tmp_path):
    launcher = _start(_compiled(file, entry, dtype, tmp_path), "--channel=peer" if FAKE else "--channel=peer,ccl")
    try:
        victim = _ranks(launcher)[-1]
        os.kill(victim, sent)
        output = launcher.communicate(timeout=30)[0]
        assert launcher.returncode != 0, output
        # It is not left behind.
        assert _wait(lambda: not Path(f"/proc/{victim}/stat").exists() or " Z " in Path(f"/proc/{victim}/stat").read_text(), 5)
    finally:
        for pid in (*_children(launcher.pid), launcher.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.gpus(2)
@pytest.mark.real
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_host(sent, tmp_path):
    """The two ranks take each other for ranks of other hosts, so no memory that they share tells of the end of rank 1."""
    import tandem
    tandem.compile(_GATHER, target="cuda-nccl", check=False).save(tmp_path / "p.tsp")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [_start(tmp_path / "p.tsp", "--channel=ccl", CUDA_VISIBLE_DEVICES=str(rank), TANDEM_RANK=str(rank), TANDEM_WORLD_SIZE="2",
                    TANDEM_LOCAL_RANK="0", TANDEM_LOCAL_WORLD_SIZE="1", TANDEM_NODE=f"host{rank}", TANDEM_SECRET="hosts",
                    TANDEM_MASTER_ADDR="127.0.0.1", TANDEM_MASTER_PORT=str(port)) for rank in (0, 1)]
    try:
        time.sleep(8)
        ranks[1].send_signal(sent)
        output = ranks[0].communicate(timeout=30)[0]
        assert ranks[0].returncode > 0 and re.search(r"FAILED .*\brank 1\b", output), output
    finally:
        for rank in ranks:
            rank.kill()


@pytest.mark.gpus(2)
def test_late_rank(tmp_path):
    """A rank that is stopped for some tenths of a second, again and again, launches nothing: kernels of the other one wait."""
    program = _compiled("direct", "direct_signals", "f32", tmp_path)
    launcher = subprocess.Popen([BIN / "tandem-run", program, "--device=cuda", "--channel=peer", "--verify", "--timeout=30",
                                 f"--repeat={2000 if FAKE else 20000}"], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    stops = 0
    while launcher.poll() is None and stops < 20:
        for rank in _children(launcher.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank, signal.SIGSTOP)
                time.sleep(0.2)
                os.kill(rank, signal.SIGCONT)
                stops += 1
        time.sleep(0.05)
    output = launcher.communicate(timeout=60)[0]
    assert launcher.returncode == 0 and "verified" in output and stops > 1, output
