# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the integration tests share: tools in TANDEM_BIN, processes with a time limit, dumped tensors, the choice of
combinations, and the command line.

  FILE [--all] [-v] [PATTERN...]

--all: every combination, not a choice of them. PATTERN: only tests whose name contains one of them.
"""

import argparse
import atexit
import functools
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

BIN = os.environ.get("TANDEM_BIN", "build/bin")
#: Sanitizers make everything slower.
SLOWER = float(os.environ.get("TANDEM_TEST_SLOWER", "1"))
# A shell that starts a test in the background ignores this signal, and what is started would, too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Terminated(KeyboardInterrupt):
    """SIGTERM. unittest takes any other exception for the failure of one test, and goes on."""


#: Variables by which a launcher makes itself known; a test starts without those of whoever started it.
LAUNCHER_VARIABLES = ("TANDEM_", "OMPI_", "PMIX_", "SLURM_", "TORCHELASTIC_")
TORCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

#: Kernels of an embedder (test/Kernels), for tandem-run.
KERNELS = os.path.join(BIN, "..", "lib", "tandem-test-kernels.so")
CHANNELS = ("ucx", "local")
FLOATS = ("f32", "f16", "bf16")
FP8 = ("f8E4M3FN", "f8E5M2")
#: Of what is only moved, too.
DTYPES = FLOATS + ("i32", "f64", "i8")
#: And what cannot be summed.
MOVED = DTYPES + FP8
#: Of ||out - ref|| / ||ref||.
TOLERANCE = {"f32": 1e-5, "f16": 1e-3, "bf16": 8e-3, "i32": 0, "f64": 1e-12, "i64": 0, "i8": 0, "f8E4M3FN": 0,
             "f8E5M2": 0}
#: What read_dump gives.
NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": np.float32, "i32": np.int32, "f64": np.float64,
         "i64": np.int64, "i8": np.int8, "i16": np.int16, "f8E4M3FN": np.float32, "f8E5M2": np.float32}


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


def start(command, env=None, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
    """A process in a group of its own, so that nothing of it can be left behind."""
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                            text=True, env=env or environment(), start_new_session=True)


def start_ranks(environments, *arguments):
    """tandem-run once for each environment."""
    return [start([tool("tandem-run"), *arguments], environment(**env)) for env in environments]


def finish(process, limit=60):
    begin = time.monotonic()
    try:
        out, err = process.communicate(timeout=limit * SLOWER)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"no end within {limit * SLOWER} s: {process.args}\n{out}\n{err}") from None
    return Done(process.returncode, out, err, time.monotonic() - begin)


def run(command, env=None, limit=60):
    return finish(start(command, env), limit)


def free_port():
    """Below those that Linux gives to connections by default: there a test beside this one could have taken it by the
    time it is used."""
    while True:
        port = random.randrange(10240, 32768)
        with socket.socket() as listener:
            try:
                listener.bind(("", port))
            except OSError:
                continue
            return port


def wait_until_listening(process, port):
    """Until the port has a listener, or the process has ended; fails after a time in which it should have."""
    row = re.compile(rf"^ *\d+: [0-9A-F]+:{int(port):04X} [0-9A-F]+:0000 0A ", re.MULTILINE)
    end = time.monotonic() + 20 * SLOWER
    while process.poll() is None:
        for table in filter(os.path.exists, ("/proc/net/tcp", "/proc/net/tcp6")):
            with open(table) as file:
                if row.search(file.read()):
                    return
        assert time.monotonic() < end, f"no listener on port {port}"
        time.sleep(0.01)


@functools.lru_cache(maxsize=None)
def made_programs():
    """A folder with what make-programs writes; it goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="tandem-programs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    done = run([tool("make-programs"), folder, str(SLOWER)])
    assert done.code == 0, str(done)
    return folder


def program(name):
    """The file of a program of make-programs."""
    return os.path.join(made_programs(), name + ".tsp")


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


def threads(pid):
    """How many threads a process has; 0 if it has ended. A rank has a second one, its heartbeat, once all have met."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def gone(pid):
    """Ended, perhaps not waited for yet."""
    return status_of(pid)["State"][0] == "Z"


def status_of(pid):
    """The lines of /proc/pid/status; of a process that is not there: as of one that has ended."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    except (FileNotFoundError, ProcessLookupError):
        return {"State": "Z", "Name": ""}


def left_of(process):
    """Name and id of each process in the group of what `start` has started that has not ended: [] at the job's end.

    What a sanitizer starts to name the functions of its report ends a moment after its parent.
    """
    def is_left(pid):
        try:
            return os.getpgid(pid) == process.pid and not gone(pid) and "symbolizer" not in status_of(pid)["Name"]
        except ProcessLookupError:
            return False
    return [f"{status_of(pid)['Name']} {pid}" for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_left(pid)]


def read_json(path):
    with open(path) as file:
        return json.load(file)


def fp8_values(dtype):
    """The numbers of the 256 bit patterns, in f32."""
    patterns = np.arange(256)
    if dtype == "f8E5M2":  # the upper half of an f16
        return (patterns << 8).astype(np.uint16).view(np.float16).astype(np.float32)
    exponent, digits = patterns >> 3 & 15, patterns & 7
    sizes = np.where(exponent == 0, digits * 2.0**-9, (digits + 8) * 2.0 ** (exponent - 10.0))
    sizes[patterns & 127 == 127] = np.nan
    return np.where(patterns & 128, -sizes, sizes).astype(np.float32)


def round_fp8(dtype, x):
    """Finite numbers that fit, to the nearest of the type, halves to the even pattern."""
    values = fp8_values(dtype)[:128]
    values = values[np.isfinite(values)].astype(np.float64)
    above = np.searchsorted(values, np.abs(x)).clip(1, len(values) - 1)
    low, high = np.abs(x) - values[above - 1], values[above] - np.abs(x)
    return np.sign(x) * values[above - ((low < high) | ((low == high) & (above % 2 == 1)))]


def read_dump(folder):
    """name -> array, of what --dump-npy wrote; bf16 and floats of 8 bits become f32."""
    tensors = {}
    with open(os.path.join(folder, "index.json")) as file:
        for entry in json.load(file):
            array = np.load(os.path.join(folder, entry["file"]))
            if entry["dtype"] == "bf16":
                array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
            if entry["dtype"] in FP8:
                array = fp8_values(entry["dtype"])[array]
            assert list(array.shape) == entry["shape"], (entry, array.shape)
            tensors[entry["name"]] = array
    return tensors


def pairwise(*factors):
    """Few tuples in which every pair of values of two factors occurs. Greedy, and the same each time."""
    everything = list(itertools.product(*factors))
    places = list(itertools.combinations(range(len(factors)), 2))

    def pairs(row):
        return {(i, j, row[i], row[j]) for i, j in places}

    missing = set().union(*map(pairs, everything))
    rows = []
    while missing:
        best = max(everything, key=lambda row: len(pairs(row) & missing))
        rows.append(best)
        missing -= pairs(best)
    return rows


def each_once(*factors):
    """Few tuples in which every value of every factor occurs."""
    return [tuple(factor[i % len(factor)] for factor in factors) for i in range(max(map(len, factors)))]


class Test(unittest.TestCase):
    """A test with a folder of its own."""

    running = None

    def setUp(self):
        Test.running = self
        self.folder = tempfile.mkdtemp(prefix="tandem-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, value):
        """The path of the file; what is no text is written as JSON."""
        with open(self.path(name), "w") as file:
            file.write(value if isinstance(value, str) else json.dumps(value))
        return self.path(name)

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def assertVerified(self, done, ranks):
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.out, rf"verified \w+: ranks {ranks}, max relative error \d\.\de[-+]\d\d, "
                                   r"median \d+\.\d ms(, not proven)?\n", str(done))

    def assertClose(self, found, wanted, tolerance, name=None):
        """`found` has the dtype that the program writes, `wanted` is f64 or i64; tolerance 0: equal to the last bit."""
        if tolerance == 0:
            np.testing.assert_array_equal(found, wanted.astype(found.dtype), err_msg=name or "")
            return
        error = np.linalg.norm(found.astype(np.float64) - wanted)
        self.assertLessEqual(error, tolerance * np.linalg.norm(wanted), name)


class CombinationTest(Test):
    """A test of one combination, which has a `name`. A subclass says what `check` does."""

    def __init__(self, combination):
        super().__init__("check")
        self.combination = combination

    def id(self):
        return self.combination.name

    __str__ = id

    def shortDescription(self):
        return None


def terminated(number, frame):
    signal.signal(number, signal.SIG_IGN)  # once: what follows cleans up
    raise Terminated


def main(description, *classes, combined=(), more_options=lambda parser: None):
    """The command line of a file of tests. `classes`: of ordinary tests; `combined`: pairs of a CombinationTest and a
    function that takes the options and yields combinations."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every combination")
    parser.add_argument("-v", "--verbose", action="store_true", help="names of tests")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="only tests whose name contains one of them")
    more_options(parser)
    options = parser.parse_args()
    tests = [test for each in classes for test in unittest.defaultTestLoader.loadTestsFromTestCase(each)]
    tests += [test(combination) for test, combinations in combined for combination in combinations(options)]
    chosen = [test for test in tests
              if not options.patterns or any(pattern in test.id() for pattern in options.patterns)]
    if not chosen:
        sys.exit("no test has such a name")
    signal.signal(signal.SIGTERM, terminated)
    try:
        result = unittest.TextTestRunner(verbosity=2 if options.verbose else 1).run(unittest.TestSuite(chosen))
    except KeyboardInterrupt as error:
        # unittest leaves out the cleanups of a test that is interrupted.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if Test.running:
            Test.running.doCleanups()
        sys.exit(128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT))
    sys.exit(not result.wasSuccessful())
