# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests on GPUs, or on the driver that stands in for them (TANDEM_CUDA_LIBRARY): the same ones. docs/gpu.md has the commands.

TANDEM_BIN has tandem-run and ConformanceTests. Test cases of one batch share processes: each starts CUDA and NCCL once.
`--gpus=N --collect-only` lists what N GPUs run; `--logs=FOLDER` keeps what the tools print."""

import os
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("TANDEM_BIN", ROOT / "build" / "bin"))
FAKE = bool(os.environ.get("TANDEM_CUDA_LIBRARY"))
# It stands in for all three libraries.
_LIBRARIES = dict.fromkeys(("TANDEM_CUBLASLT_LIBRARY", "TANDEM_NCCL_LIBRARY"), os.environ["TANDEM_CUDA_LIBRARY"]) if FAKE else {}
# Ranks that share a GPU share its hardware queues, and a wait at the head of one holds up what stands behind it.
ENVIRONMENT = {**os.environ, **_LIBRARIES, "NCCL_NVLS_ENABLE": "0", "CUDA_DEVICE_MAX_CONNECTIONS": "32"}
PATIENCE = 60  # seconds in which a program has to say something
REPEAT = 20 if FAKE else 200
# What tandem-run says of a program that this machine has no way to run. The stand-in runs no machine code and few kernels.
_SKIPPED = re.compile("is for [0-9]+ ranks, launched|libtandem_gated.so is not installed" +
                      ("|the fake (driver|NCCL) refuses|has native code|needs a GPU for each rank" if FAKE else ""))


def count_gpus():
    if FAKE:
        return int(os.environ.get("TANDEM_FAKE_GPUS", "2"))
    try:
        found = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30).stdout.count("GPU ")
    except OSError:
        return 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return found if visible is None else min(found, len([one for one in visible.split(",") if one]))


def pytest_addoption(parser):
    parser.addoption("--gpus", type=int, help="instead of asking the driver; with --collect-only it needs none")
    parser.addoption("--logs", type=Path, help="folder that keeps the output of the tools")


def pytest_configure(config):
    config.addinivalue_line("markers", "gpus(n): needs n GPUs")
    config.addinivalue_line("markers", "sanitizer: slow; `-m \"not sanitizer\"` leaves it out")
    config.addinivalue_line("markers", "xdist_group(name): of pytest-xdist")
    config.addinivalue_line("markers", "real: needs a driver that is no stand-in")
    config.batches = {}


def _cases(item):
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return [value for value in parameters if hasattr(value, "batch")]


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config, items):
    given = config.getoption("--gpus")
    gpus = count_gpus() if given is None else given
    chosen, left = [], []
    for item in items:
        needed = item.get_closest_marker("gpus")
        fits = (needed.args[0] if needed else 1) <= gpus and not (FAKE and item.get_closest_marker("real"))
        (chosen if fits else left).append(item)
        for case in _cases(item):  # pytest-xdist's --dist=loadgroup gives a batch to one process
            item.add_marker(pytest.mark.xdist_group(case.batch))
    items[:] = chosen
    config.hook.pytest_deselected(items=left)


def pytest_collection_finish(session):
    """Cases of a batch run together, and only those that were selected."""
    for item in session.items:
        for case in _cases(item):
            session.config.batches.setdefault(case.batch, {})[case] = None


@pytest.fixture(scope="session")
def logs(request, tmp_path_factory):
    folder = request.config.getoption("--logs") or tmp_path_factory.mktemp("logs")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Outcome:
    """Of a program: what tandem-run printed of it; `error` is empty if it was right. `is_refused`: by the compiler."""

    def __init__(self, error, text="", is_refused=False):
        self.error, self.text, self.is_refused = error, text, is_refused

    def check(self):
        if self.is_refused or _SKIPPED.search(self.error):
            pytest.skip(self.error)
        assert not self.error, self.text


def _listen(process, lines):
    """Its output, until it ends or has said nothing for PATIENCE; then it is ended."""
    heard = [time.monotonic()]

    def read():
        for line in process.stdout:
            heard[0] = time.monotonic()
            lines.append(line.rstrip("\n"))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    silent = False
    while reader.is_alive():
        reader.join(0.2)
        if time.monotonic() - heard[0] > PATIENCE:
            silent = True
            process.kill()
            reader.join(10)  # a rank that hangs in the driver keeps the pipe open
            break
    return process.wait(), silent


def run_programs(files, flags, log=None):
    """{file: Outcome} of tandem-run on all of them in one process; where it dies, in another one on the rest."""
    outcomes, rest = {}, list(files)
    while rest:
        lines = []
        # Of one program alone the tensors would have no folder of their own.
        own = [f"{flag}/{Path(rest[0]).stem}" if len(rest) == 1 and flag.startswith("--dump-npy=") else flag for flag in flags]
        process = subprocess.Popen([BIN / "tandem-run", *rest, *own], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=ENVIRONMENT, errors="replace")
        status, silent = _listen(process, lines)
        if log:
            with open(log, "a", encoding="utf-8") as out:
                out.write("\n".join(lines) + f"\nstatus {status}\n")
        said, waiting = [], list(rest)
        for line in lines:
            if len(rest) == 1 and re.match("(verified|ran|FAILED) ", line):
                line = f"{rest[0]}: {line}"
            found = waiting and re.match(f"{re.escape(str(waiting[0]))}: (verified|ran|FAILED) (.*)", line)
            said.append(line)
            if found:
                outcomes[waiting.pop(0)] = Outcome(found[2] if found[1] == "FAILED" else "", "\n".join(said))
                said = []
        # An error after which the ranks cannot continue has its line, and the rest is for the next process.
        is_told = any(re.match(r"\d+ passed, \d+ failed, \d+ not run: ", line) for line in lines)
        if waiting and not (is_told and len(waiting) < len(rest)):
            why = f"no end within {PATIENCE} s" if silent else f"status {status}"
            outcomes[waiting.pop(0)] = Outcome(f"{why}: {said[-1] if said else 'nothing was said'}", "\n".join(said))
        elif status != int(any(outcomes[file].error for file in rest)):
            outcomes[rest[-1]] = Outcome(f"status {status} at the end", "\n".join(said))
        rest = waiting
    return outcomes


@pytest.fixture(scope="session")
def outcome_of(request, tmp_path_factory, logs):
    """outcome_of(case): compiles and runs the batch of a case at its first use."""
    done = {}

    def compile_one(case, folder):
        import tandem
        try:
            case.compile(tandem).save(folder / f"{case.name}.tsp")
        except tandem.CompileError as error:
            # What the compiler itself has emitted must be right.
            return Outcome(f"refused: {error}".splitlines()[0], str(error), is_refused="'hostir." not in str(error))
        return None

    def get(case):
        if case not in done:
            cases = list(request.config.batches[case.batch])
            folder = tmp_path_factory.mktemp(case.batch)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                refused = dict(zip(cases, pool.map(lambda one: compile_one(one, folder), cases)))
            for one, found in refused.items():
                if found:  # a compiler that refuses all of many is broken
                    found.is_refused &= len(cases) < 20 or not all(refused.values())
                    done[one] = found
            files = {folder / f"{one.name}.tsp": one for one in cases if not refused[one]}
            flags = [flag.format(folder=folder) for flag in (*case.flags, *(["--no-native"] if FAKE else []))]
            for file, outcome in run_programs(files, flags, logs / f"{case.batch}.log").items():
                outcome.folder = folder
                done[files[file]] = outcome
        return done[case]

    return get
