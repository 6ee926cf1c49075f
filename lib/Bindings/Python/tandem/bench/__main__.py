# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times Tandem's schedules next to the unoverlapped baseline, their parts and PyTorch's operators, all interleaved in one run.

  python -m tandem.bench -n 2 --shapes=ag:512x1024x512                       ranks are started here
  torchrun --nproc-per-node=8 -m tandem.bench --device=cuda --machine=h200x8 or by a launcher
  python -m tandem.bench -n 2 --calibrate=FILE                               a machine file of this host
  python -m tandem.bench --judge REPORT...                                   the goals for a report's numbers

Exit status: 0: all was measured or refused; 1: a rank failed, a result is wrong, nothing could run, or --judge found what is not
as wanted; 2: the command line or a file; 3: --fail-if-slower; 4: --total-time was up. See docs/benchmarking.md."""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

from .._errors import Error
from . import calibrate, explain, fusions, ranks, report, shapes
from .shapes import Usage
from .torch_arms import ENVIRONMENT

_RESTARTS = 3
_CLOCKS = "clocks.sm,clocks.mem,temperature.gpu,power.draw"


def _number(least, most, kind=int):
    def parse(text):
        value = kind(text)
        if not least <= value <= most:
            raise ValueError
        return value

    parse.__name__ = f"number from {least} to {most}"
    return parse


def _parser():
    parser = argparse.ArgumentParser(prog="python -m tandem.bench", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("-n", type=_number(2, 65536), metavar="N", help="ranks that are started here; without a launcher")
    add("--device", choices=("cpu", "cuda", "null"), default="cpu")
    add("--channel", default="", help="default: ucx, on GPUs peer,ccl; local: ranks are threads")
    add("--threads", action="store_true", help="ranks are threads of one process, also with other channels than local")
    add("--target", help="of the compiler; default: by device and channel")
    add("--machine", default="", metavar="FILE", help="machine file for choosing `auto`, and for predictions")
    group = parser.add_argument_group("what")
    add = group.add_argument
    add("--shapes", metavar="LIST", help="OP:MxNxK or OP:NxK; OP: ag, rs, ar; N, K of all ranks together; layers: those of known models "
        "(default); many: some 200 cases")
    add("--tokens", metavar="LIST", help="M for shapes without M; default 1024,2048,8192")
    add("--dtypes", metavar="LIST", help=f"{', '.join(shapes.DTYPES)}; default bf16")
    add("--part", metavar="I/P", help="of the cases each P-th, from the I-th on")
    add("--schedules", default=fusions.USUAL, metavar="LIST", help=f"of {', '.join(fusions.NAMES)}, with keys: push:slices=2:order=xor; "
        f"default {fusions.USUAL}")
    add("--torch", choices=("auto", "yes", "no"), default="auto", help="PyTorch's arms; auto: if it is installed and ranks are processes")
    add("--modes", metavar="LIST", help="eager (command by command), graph; default both on GPUs, else eager")
    group = parser.add_argument_group("how")
    add = group.add_argument
    add("--iterations", type=_number(1, 1000), default=20, metavar="K", help="timed rounds; default 20")
    add("--warmup", type=_number(0, 1000), default=3, metavar="K", help="rounds before them; default 3")
    add("--sets", type=_number(1, 64), default=2, metavar="K", help="sets of inputs, used alternately; default 2")
    add("--batch", type=_number(1, 10000), default=1, metavar="K", help="runs back to back; times are divided by K")
    add("--gap", type=_number(0, 1e4, float), default=0, metavar="MS", help="pause between runs")
    add("--row-time", type=_number(1e-3, 1e6, float), default=2, metavar="SECONDS", help="then a case has fewer rounds, at least 3")
    add("--total-time", type=_number(1e-3, 1e6, float), metavar="SECONDS", help="no case begins that would end later")
    add("--timeout", type=_number(1, 1e6, float), default=60, metavar="SECONDS", help="of each step of an arm")
    add("--verify", choices=("auto", "all", "none"), default="auto",
        help="auto: up to 2 GFLOP by NumPy, others by the sequence's results; all: each by NumPy")
    add("--seed", type=_number(0, 1 << 32), default=0, help="of the inputs")
    add("--link-rate", type=_number(1e-6, 1e6, float), metavar="GB/s", help="instead of measuring it")
    add("--link-bytes", type=_number(64, 1 << 32), default=64 << 20, metavar="B", help="of the rings that measure it")
    add("--programs", default="", metavar="FOLDER", help="where compiled programs are kept, for machines without the compiler")
    add("--compile-only", action="store_true", help="with --programs and -n: measures nothing")
    group = parser.add_argument_group("reports")
    add = group.add_argument
    add("--json", default="", metavar="FILE", help="all samples; replaced after each case")
    add("--fail-if-slower", type=_number(0, 1e6, float), metavar="PCT", help="exit status 3 if `auto` is slower than the baseline by more")
    add("--judge", nargs="+", metavar="REPORT", help="measures nothing: a line for each case of these reports, and the counts")
    add("--explain", nargs="+", metavar="REPORT", help="measures nothing: where the time of `auto` goes, simulated on --machine")
    group = parser.add_argument_group("other measurements")
    add = group.add_argument
    add("--calibrate", default="", metavar="FILE", help="writes a machine file; fields that cannot be measured are those of --machine "
        "(default cpu2, h200x8). --shapes, --tokens, --dtypes select the matmuls; --json gets what each probe took")
    add("--probes", default="", metavar="LIST", help="with --calibrate: only these kinds, such as put,all_gather")
    add("--probe-figures", metavar="FILE", help="with --calibrate: measures nothing; the --json output of an earlier calibration")
    add("--tune", default="", metavar="FILE", help="stores the quickest candidate of each loop, for compile(tuned=FILE)")
    add("--program", nargs="+", metavar="FILE.mlir", help="with --tune: programs instead of --shapes")
    add("--skip", default="{}", help=argparse.SUPPRESS)  # arms that have failed before, and how
    add("--folder", default="", help=argparse.SUPPRESS)  # where a rank says what it does
    return parser


def _options(arguments):
    options = _parser().parse_args(arguments)
    options.command = " ".join(arguments)
    if options.modes is None:
        options.modes = "eager,graph" if options.device == "cuda" else "eager"
    options.modes = options.modes.split(",")
    if not set(options.modes) <= {"eager", "graph"}:
        raise Usage(f"--modes: expected eager, graph, found {','.join(options.modes)}")
    options.schedules = [fusions.Schedule(text) for text in dict.fromkeys(options.schedules.split(",")) if text != "sequence"]
    options.skip = json.loads(options.skip)
    options.threads |= options.channel == "local"
    if not options.channel:
        options.channel = "peer,ccl" if options.device == "cuda" else "local" if options.threads else "ucx"
    from .. import __version__
    from .._program import _target
    options.target = options.target or _target(SimpleNamespace(device=options.device, channels=options.channel))
    options.versions = {"tandem": __version__, "python": sys.version.split()[0]}
    if options.calibrate and not options.shapes and not options.tokens and not options.dtypes:
        options.cases = ()
    return options


def _cases(options, size):
    if not hasattr(options, "cases"):
        options.cases = shapes.parse(options.shapes, options.tokens, options.dtypes, size, options.part)
    return options.cases


def _check_writable(*paths):
    for path in filter(None, paths):
        try:
            with open(path, "a", encoding="utf-8"):
                pass
        except OSError as error:
            raise Usage(f"{path}: {error.strerror}") from None


def _clocks(is_gpu):
    """Of the GPUs of this host, as nvidia-smi has them."""
    if not is_gpu:
        return []
    try:
        return subprocess.run(["nvidia-smi", f"--query-gpu={_CLOCKS}", "--format=csv"], capture_output=True, text=True, timeout=10,
                              check=False).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def _torch(connection, options):
    """PyTorch's process group, or None."""
    if options.torch == "no" or options.threads or options.calibrate or options.tune or not importlib.util.find_spec("torch"):
        if options.torch == "yes":
            raise Usage("--torch: expected ranks that are processes, and PyTorch")
        return None
    from .torch_arms import Torch
    return Torch(connection, options.device == "cuda", options.timeout)


def _measure(connection, options):
    """All cases, on one rank. The exit status."""
    from .measure import link_rate
    from .runner import Runner
    connection.phase("connecting", 3 * options.timeout)
    torch = _torch(connection, options)
    runner, root, is_gpu = Runner(connection, options, torch), connection.rank == 0, options.device == "cuda"
    data = report.new(connection, options, runner.context, _clocks(is_gpu and root), torch)
    earlier = connection.gather(_earlier(options))[0]
    if earlier:
        data["rows"], data["link"] = earlier["rows"], earlier["link"]
    elif options.link_rate:
        data["link"] = {"bytes_per_second": options.link_rate * 1e9, "source": "--link-rate"}
    else:
        data["link"] = link_rate(runner)
    if root:
        print(report.head(data), end="")
    try:
        _measure_cases(connection, options, runner, data)
    except BaseException as error:
        data["failure"] = f"rank 0: {error}"
        data["not_measured"] = list(map(str, _cases(options, connection.size)[len(data["rows"]):]))
        if root:
            _write(options, data)
        raise
    status = 0
    if root:
        data["clocks"]["after"] = _clocks(is_gpu)
        text, status = report.end(data, options.fail_if_slower)
        status = ranks.REPORTED if status == 1 and options.folder else status
        print(f"\n{text}", flush=True)
        _write(options, data)
    connection.gather("done")
    if torch:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # what torch does at the end waits for ranks that may have gone
    return status


def _measure_cases(connection, options, runner, data):
    from .measure import predictor
    begin, slowest, predict = time.monotonic(), options.row_time, predictor(options.machine)
    cases = _cases(options, connection.size)
    for number in range(len(data["rows"]), len(cases)):
        started = time.monotonic()
        if connection.gather(bool(options.total_time) and started + slowest > begin + options.total_time)[0]:
            data["not_measured"] = list(map(str, cases[number:]))
            return
        arms = runner.measure(cases[number])
        slowest = max(slowest, time.monotonic() - started)
        if connection.rank == 0:
            row = report.row_of(cases[number], connection.size, data["link"]["bytes_per_second"], arms, predict)
            row["clocks"] = _clocks(options.device == "cuda")
            data["rows"].append(row)
            print(report.table_row(row), end="", flush=True)
            _write(options, data)


def _write(options, data):
    if options.json:
        report.write(options.json, json.dumps(data, indent=1) + "\n")


def _earlier(options):
    """The rows that were measured before a rank failed, where ranks have been started again."""
    if options.skip and options.json and os.path.exists(options.json) and os.path.getsize(options.json):
        return report.read(options.json)
    return None


def _body(connection, options):
    if options.calibrate:
        from .measure import calibrate as run
    elif options.tune:
        from .measure import tune as run
    else:
        run = _measure
    return run(connection, options)


def _as_rank(options):
    """This process is a rank. The exit status."""
    os.environ.update(ENVIRONMENT)
    os.environ.setdefault("TANDEM_ALGORITHMS", os.path.join(tempfile.gettempdir(), f"tandem-bench-{os.getppid()}.algorithms"))
    connection = ranks.join({"device": options.device, "channels": options.channel}, options.timeout, options.folder)
    try:
        return _body(connection, options)
    except Usage:
        raise
    except BaseException as error:
        if options.folder:
            with open(os.path.join(options.folder, f"error.{connection.rank}"), "w", encoding="utf-8") as file:
                file.write(f"{type(error).__name__}: {error}".splitlines()[0])
        raise


def _launch(options, arguments):
    """Starts ranks; again without an arm in which a rank crashed or hung. The exit status."""
    skip, begin = {}, time.monotonic()
    keeps = bool(options.json) and not options.calibrate and not options.tune
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        os.environ.setdefault("TANDEM_ALGORITHMS", os.path.join(folder, "algorithms"))
        while True:
            extra = [f"--skip={json.dumps(skip)}"] if skip else []
            if skip and options.total_time:
                extra.append(f"--total-time={max(1e-3, options.total_time - (time.monotonic() - begin))}")
            for name in os.listdir(folder):
                if name.startswith(("phase.", "error.")):
                    os.remove(os.path.join(folder, name))
            status, phase, failure = ranks.launch(options.n, [*arguments, *extra], folder)
            if not failure:
                return status
            if status == 2:
                return 2
            print(f"FAILED: {failure}{f' ({phase})' if phase else ''}", file=sys.stderr, flush=True)
            arm = phase.split(", ")[-2] if phase.count(", ") else ""
            if keeps and arm and arm not in skip and len(skip) < _RESTARTS:
                skip[arm] = failure
                continue
            if keeps and os.path.getsize(options.json):
                data = report.read(options.json)
                data["failure"] = f"{failure} ({phase})"
                data["not_measured"] = list(map(str, _cases(options, options.n)[len(data["rows"]):]))
                _write(options, data)
            return 1


def main(arguments):
    options = _options(arguments)
    if options.judge:
        lines, is_good = report.judge([report.read(path) for path in options.judge])
        print("\n".join(lines))
        return 0 if is_good else 1
    if options.explain:
        print(explain.explain([report.read(path) for path in options.explain], options))
        return 0
    if options.probe_figures:
        from .measure import calibrate_again
        return calibrate_again(options)
    launched = ranks.is_launched()
    if not launched and not options.n:
        raise Usage("expected -n N, or ranks of torchrun, mpirun or srun")
    if options.n:
        _cases(options, options.n)
    if options.machine:
        calibrate.machine_path(options.machine)
    if options.compile_only:
        from .measure import compile_all
        return compile_all(options)
    _check_writable(*(() if launched else (options.json, options.calibrate)))
    if launched:
        return _as_rank(options)
    if options.threads:
        connect = {"device": options.device, "channels": options.channel}
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
            os.environ.setdefault("TANDEM_ALGORITHMS", os.path.join(folder, "algorithms"))
            return ranks.run_threads(options.n, connect, options.timeout, lambda connection: _body(connection, options))
    return _launch(options, arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Usage, Error) as error:
        print(f"tandem.bench: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, Usage) else 1)
