# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the integration tests share: tools in TANDEM_BIN, processes with a time limit, dumped tensors."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np

BIN = os.environ.get("TANDEM_BIN", "build/bin")
#: Sanitizers make everything slower.
SLOWER = float(os.environ.get("TANDEM_TEST_SLOWER", "1"))
#: Variables by which a launcher makes itself known; a test starts without those of whoever started it.
LAUNCHER_VARIABLES = ("TANDEM_", "OMPI_", "PMIX_", "SLURM_", "TORCHELASTIC_")
TORCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def tool(name):
    return os.path.join(BIN, name)


def environment(**more):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(LAUNCHER_VARIABLES) and k not in TORCH_VARIABLES}
    clean.update({k: str(v) for k, v in more.items()})
    return clean


class Done:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def __str__(self):
        return f"exit {self.code} after {self.seconds:.1f} s\nstdout:\n{self.out}\nstderr:\n{self.err}"


def start(command, env=None):
    """A process in a group of its own, so that nothing of it can be left behind."""
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=env or environment(), start_new_session=True)


def finish(process, limit=60):
    begin = time.monotonic()
    try:
        out, err = process.communicate(timeout=limit * SLOWER)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"no end within {limit * SLOWER} s: {process.args}\n{out}\n{err}")
    return Done(process.returncode, out, err, time.monotonic() - begin)


def run(command, env=None, limit=60):
    return finish(start(command, env), limit)


def tandem_run(*arguments, env=None, limit=60):
    return run([tool("tandem-run"), *map(str, arguments)], env, limit)


def mpirun(ranks, *command):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    # Open MPI unloads its modules and leaves their memory: nothing that a suppression could name.
    return run(["mpirun", "-n", str(ranks), *root, "--oversubscribe", *map(str, command)],
               environment(ASAN_OPTIONS="detect_leaks=0"))


def children(pid):
    """The ranks that a launcher has started: rank -> process id."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            if parent != pid:
                continue
            with open(f"/proc/{entry}/environ", "rb") as file:
                for variable in file.read().split(b"\0"):
                    if variable.startswith(b"TANDEM_RANK="):
                        found[int(variable[12:])] = int(entry)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def switches(pid):
    """How often a process has waited: grows while it communicates."""
    total = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/status") as file:
                for line in file:
                    if line.startswith("voluntary_ctxt_switches"):
                        total += int(line.split()[1])
    except (FileNotFoundError, ProcessLookupError):
        pass
    return total


def gone(pid):
    """Ended, perhaps not waited for yet."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def read_json(path):
    with open(path) as file:
        return json.load(file)


def read_dump(folder):
    """name -> array, of what --dump-npy wrote; bf16 becomes f32."""
    tensors = {}
    with open(os.path.join(folder, "index.json")) as file:
        for entry in json.load(file):
            array = np.load(os.path.join(folder, entry["file"]))
            if entry["dtype"] == "bf16":
                array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
            assert list(array.shape) == entry["shape"], (entry, array.shape)
            tensors[entry["name"]] = array
    return tensors


class Test(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tandem-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def assertVerified(self, done, ranks):
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.out, rf"verified \w+: ranks {ranks}, max relative error \d\.\de[-+]\d\d, "
                                   r"median \d+\.\d ms\n", str(done))
