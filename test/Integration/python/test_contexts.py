# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Contexts: processes of a launcher, an embedder's bootstrap, threads."""

import os
import shutil
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import error, rows
from test_programs import TEXT

import tandem

RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks.py")


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def test_environment():
    """Two processes that find each other by torchrun's variables."""
    port, processes = str(free_port()), []
    for rank in range(2):
        processes.append(subprocess.Popen(
            [sys.executable, RANKS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}))
    for rank, process in enumerate(processes):
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, f"ok {rank}\n"), err


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun")
def test_mpirun():
    out = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, RANKS],
                         capture_output=True, text=True, timeout=60)
    assert out.returncode == 0 and sorted(out.stdout.split("\n")) == ["", "ok 0", "ok 1"], out.stderr


def test_malformed_environment(monkeypatch):
    monkeypatch.setenv("TANDEM_RANK", "zero")
    monkeypatch.setenv("TANDEM_WORLD_SIZE", "2")
    with pytest.raises(tandem.ArgumentError, match="TANDEM_RANK"):
        tandem.Context()


class Exchange:
    """A bootstrap of threads."""

    def __init__(self, size):
        self.parts, self.meeting = [None] * size, threading.Barrier(size, timeout=20)

    def of(self, rank):
        return Rank(self, rank)


class Rank:
    def __init__(self, exchange, rank):
        self.exchange, self.rank, self.world_size = exchange, rank, len(exchange.parts)
        self.local_rank, self.local_size, self.calls = rank, self.world_size, 0

    def all_gather(self, data):
        self.calls += 1
        self.exchange.parts[self.rank] = data
        self.exchange.meeting.wait()
        parts = list(self.exchange.parts)
        self.exchange.meeting.wait()
        return parts

    def barrier(self):
        self.exchange.meeting.wait()


def run_threads(function, size):
    results = [None] * size

    def body(rank):
        try:
            results[rank] = function(rank)
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=body, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_node_of_a_bootstrap():
    """It is a text, or not there."""
    bootstrap = Exchange(1).of(0)
    tandem.Context(bootstrap=bootstrap).close()
    bootstrap.node = "rack"
    tandem.Context(bootstrap=bootstrap).close()
    bootstrap.node = 7
    with pytest.raises(RuntimeError):
        tandem.Context(bootstrap=bootstrap)


def test_bootstrap(random):
    exchange = Exchange(2)
    program = tandem.compile(TEXT, mesh={"x": 2}, shapes={"x": (32, 16)}, target="cpu-ucx")
    x, w = random(32, 16), random(16, 12)

    def run(rank):
        bootstrap = exchange.of(rank)
        context = tandem.Context(bootstrap=bootstrap, timeout=20)
        assert (context.rank, context.world_size) == (rank, 2)
        with context:
            y = program(rows(x, context), w)
            calls = bootstrap.calls
            program(rows(x, context), w)
            assert bootstrap.calls == calls > 0  # used to prepare, not to run
        bootstrap.barrier()
        context.close()
        return y

    for y in run_threads(run, 2):
        assert isinstance(y, np.ndarray) and error(y, x @ w) < 1e-5, y


@pytest.mark.parametrize("gather, kind, message", [
    (lambda data: 1 / 0, ZeroDivisionError, "division"),
    (lambda data: [data], ValueError, "2 parts, found 1"),
    (lambda data: [data, data + b"!"], ValueError, "parts of .* bytes"),
    (lambda data: ["text", "text"], tandem.ArgumentError, "all_gather: expected a list of bytes, found 'text'"),
    (lambda data: None, TypeError, "None"),
])
def test_failing_bootstrap(gather, kind, message):
    class Bootstrap:
        rank, world_size = 0, 2
        all_gather = staticmethod(gather)

        def barrier(self):
            pass

    program = tandem.compile(TEXT, mesh={"x": 2}, shapes={"x": (32, 16)}, target="cpu-ucx")
    with pytest.raises(kind, match=message):
        program(np.zeros((16, 16), np.float32), np.zeros((16, 12), np.float32),
                context=tandem.Context(bootstrap=Bootstrap(), timeout=5))


def test_incomplete_bootstrap():
    class Bootstrap:
        rank, world_size = 0, 2

    with pytest.raises(AttributeError, match="all_gather"):
        tandem.Context(bootstrap=Bootstrap())


@pytest.mark.parametrize("options, message", [
    ({"device": "tpu"}, "tpu"),
    ({"device": "hip:1"}, "does not take tensors of HIP yet"),
    ({"channels": "pigeon"}, "pigeon"),
    ({"timeout": -1}, "seconds"),
    ({"world": tandem._tandem.World(2), "rank": 2}, "rank 2"),
    ({"world": tandem._tandem.World(2), "rank": 0, "bootstrap": object()}, "found both"),
])
def test_rejected(options, message):
    with pytest.raises(tandem.Error, match=message):
        tandem.Context(**options)


def test_nesting():
    """The innermost `with` of the thread counts; other threads do not see it."""
    outer, inner = tandem.Context(), tandem.Context()
    with outer:
        with inner:
            assert tandem.current_context() is inner
            (other,) = run_threads(lambda rank: tandem.current_context(), 1)
            assert other is not inner
        assert tandem.current_context() is outer
        with pytest.raises(tandem.ArgumentError, match="enter"):
            inner.__exit__(None, None, None)


def test_timeout(random):
    """A rank that does not come: the others raise."""
    with tandem.local_world(2, timeout=1) as world:
        program = tandem.compile(TEXT, mesh={"x": 2}, shapes={"x": (32, 16)})
        x, w = random(32, 16), random(16, 12)
        world.run(lambda context: program(rows(x, context), w))

        def run(context):
            if context.rank == 0:
                program(rows(x, context), w)

        with pytest.raises(tandem.Timeout):
            world.run(run)
        with pytest.raises(tandem.Error):
            world._contexts[0].check_health()


def test_flight_recorder(random, tmp_path):
    """A rank that does not come: the file of the other one says for whom it waits, and why it failed."""
    prefix = str(tmp_path / "hang")
    with tandem.local_world(2, timeout=1, flight_recorder=prefix) as world:
        program = tandem.compile(TEXT, mesh={"x": 2}, shapes={"x": (32, 16)})
        x, w = random(32, 16), random(16, 12)
        assert world.run(lambda context: context.dump()["rank"]) == [0, 1]
        world.run(lambda context: program(rows(x, context), w))

        def run(context):
            if context.rank == 0:
                program(rows(x, context), w)

        with pytest.raises(tandem.Timeout):
            world.run(run)
    report = tandem.hang_report(prefix)
    assert report["held_up_by"] == [1], report["summary"]
    record = report["ranks"][0]["file"]
    assert record["reason"] == "failure"
    assert 1 in [wait["rank"] for command in record["in_flight"] for wait in command["waits_for"]], record
    assert "no end after" in record["error"]
    with pytest.raises(tandem.Error, match="no file of a flight recorder"):
        tandem.hang_report(str(tmp_path / "other"))


def test_exit():
    """A process ends cleanly with contexts that are still open, in any state."""
    code = """
import threading, numpy as np, tandem
from test_programs import TEXT
program = tandem.compile(TEXT, mesh={"x": 1}, shapes={"x": (8, 16)})
x, w = np.ones((8, 16), np.float32), np.ones((16, 12), np.float32)
first = tandem.init()
program(x, w)
def enter():
    context = tandem.Context()
    context.__enter__()
    program(x, w)
thread = threading.Thread(target=enter)
thread.start()
thread.join()
second = tandem.init()
program(x, w)
enter()
kept = tandem.local_world(2)
kept.run(lambda context: None)
print("ok")
"""
    here = os.path.dirname(RANKS)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=here)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
