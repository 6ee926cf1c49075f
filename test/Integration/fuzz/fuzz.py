#!/usr/bin/env python3
# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random fusions: each is compiled, run on all its ranks (threads of one process), compared with its reference and with
NumPy (reference.py, which shares nothing with the compiler), and a deterministic one with the bits of its baseline; or the
compiler says in one of its own passes what it does not accept, at a place of the file.

  fuzz.py [--seed S] [--count N] [--seconds T] [--jobs J] [--out FOLDER] [--runner FILE] [--no-minimise]

Runs seeds S, S+1, ... until one of the budgets is spent. A failure is written to FOLDER (seed-N.mlir, and seed-N.min.mlir,
a smaller program that fails alike), with the commands that show it. Exit 0 only if nothing failed.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import re
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import generator  # noqa: E402
import harness  # noqa: E402
import reference  # noqa: E402
import structure  # noqa: E402
from minimise import map_values, minimise  # noqa: E402
from varying import at_extent  # noqa: E402

#: Passes that must not refuse a program: post-conditions, and (hostir) what only sees what the compiler has made itself.
MUST_NOT_REFUSE = re.compile(r"fusion-verify|hostir-|canonicalize|cse|behind ")
#: Of later stages, what a program may ask for and a target may lack.
MAY_LACK = re.compile(r"has no counterpart in expression code|expression code cannot store|"
                      r"one block of each dimension per device, since an extent varies")
#: Errors about ops and types that no fusion is written in.
NOT_THE_USERS = re.compile(r"'?(hostir|memref|scf)\.|memref<|block argument|dominate|"
                           r"requires the same (encoding|type|shape)")
#: A partial argument or result of which several ranks hold copies: the file does not say whose term is whose.
CANNOT_CHECK = re.compile(r"cannot tell who holds which term")
LOCATED = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): error: (?P<message>.*)$", re.M)


SMALLEST = """
#m = #tandem.mesh<"m", ["x" = 2]>
func.func @f(%a: tensor<2xf32, #fusion.axes<#m, [-]>>) -> tensor<2xf32, #fusion.axes<#m, [-]>> {
  return %a : tensor<2xf32, #fusion.axes<#m, [-]>>
}
"""


def snapshots(folder):
    """Names of the passes whose snapshots lie there, in their order."""
    if not os.path.isdir(folder):
        return []
    return [re.sub(r"^\d+-|\.mlir$", "", name) for name in sorted(os.listdir(folder))]


@dataclasses.dataclass
class Outcome:
    kind: str  # "verified", "refused", "unchecked", or what failed
    message: str = ""

    @property
    def failed(self):
        return self.kind not in ("verified", "refused", "unchecked")

    @property
    def signature(self):
        """Equal for failures of one cause, most likely."""
        text = re.sub(r"tensor<.*?>{1,3}|memref<.*?>{1,2}|#fusion\.\w+<.*?>+", "TYPE", self.message)
        text = re.sub(r"\"[^\"]*\"|@\w+", "NAME", text)
        text = re.sub(r"(didx|stream|serial)\(\w+\)|didx\(NAME\)|\bstream\b( \*)?", "DIGIT", text)
        text = re.sub(r"-?\d+(\.\d+)?(e[-+]\d+)?", "N", text)
        text = re.sub(r"0x[0-9a-f]+", "N", text)
        return f"{self.kind}: {' '.join(text.split())[:150]}"


def without_casts(program):
    """Casts become `x + x`, for a program that has one dtype now."""
    return dataclasses.replace(program, ops=tuple(
        dataclasses.replace(op, kind="arith.addf", operands=op.operands * 2)
        if op.kind in ("arith.extf", "arith.truncf") else op for op in program.ops))


class Fuzzer:
    def __init__(self, arguments):
        self.arguments = arguments
        self.stages = {}  # signature of an error -> pass that it comes from
        self.lock = threading.Lock()
        self.passes = self.order_of_passes()

    def order_of_passes(self):
        """Names, beginning with "input", which is none; a pass that runs twice stands where it ran first."""
        with tempfile.TemporaryDirectory(prefix="tandem-fuzz-") as folder:
            path = os.path.join(folder, "program.mlir")
            with open(path, "w") as file:
                file.write(SMALLEST)
            done = harness.run([harness.tool("tandem-compile"), path, "-o", os.path.join(folder, "program.tsp"),
                                f"--snapshots={folder}/snapshots"])
            if done.code != 0:
                sys.exit(str(done))
            return list(dict.fromkeys(snapshots(os.path.join(folder, "snapshots"))))

    def command(self, program, path, compiled):
        return [harness.tool("tandem-compile"), path, *program.options(), "-o", compiled,
                f"--snapshots={os.path.join(os.path.dirname(path), 'snapshots')}"]

    def check(self, program):
        """Compiles and runs a program."""
        with tempfile.TemporaryDirectory(prefix="tandem-fuzz-") as folder:
            return self.check_in(program, folder)

    def check_in(self, program, folder):
        path, compiled = os.path.join(folder, "program.mlir"), os.path.join(folder, "program.tsp")
        with open(path, "w") as file:
            file.write(program.text())
        try:
            done = harness.run(self.command(program, path, compiled), limit=30)
        except AssertionError as error:
            return Outcome("compiler hangs", str(error)[:300])
        if done.code != 0:
            return self.judge_error(program, path, folder, done)
        text = harness.run([harness.tool("tandem-compile"), "--dump", compiled], limit=60)
        wrong = structure.wrong(program, os.path.join(folder, "snapshots"), text.out)
        if wrong:
            return Outcome("structure", wrong)
        tensors, failed = self.run(program, compiled, os.path.join(folder, "dump"))
        if failed:
            return failed
        computed = at_extent(program, program.extents[-1]) if program.bound else program
        expected = reference.evaluate(computed, tensors)
        results = [tensors[f"out{i}"] for i in range(len(expected))]
        wrong = reference.compare(computed, results, expected)
        if wrong:
            return Outcome("differs from NumPy", wrong)
        return self.compare_with_baseline(program, path, results) if program.deterministic else Outcome("verified")

    def run(self, program, compiled, dump):
        """Results by name of the last run, or the outcome if a run fails."""
        extents = [f"--extent={','.join(map(str, program.extents))}"] if program.bound else []
        repeat = max(2, len(program.extents))
        try:
            done = harness.run([self.arguments.runner or harness.tool("tandem-run"), compiled, "--channel=local", *extents,
                                "--verify", f"--repeat={repeat}", "--timeout=20", f"--dump-npy={dump}"], limit=60)
        except AssertionError as error:
            return None, Outcome("run hangs", str(error)[:300])
        if done.code == 0:
            return harness.read_dump(dump), None
        text = (done.out + done.err).strip()
        if "ThreadSanitizer" in text:
            return None, Outcome("data race", re.sub(r"0x\w+", "", text[text.index("WARNING"):])[:6000])
        if done.code < 0 or done.code > 1:
            return None, Outcome("run crashes", f"exit {done.code} {text[:2000]}")
        return None, Outcome("unchecked" if CANNOT_CHECK.search(text) else "run fails", text[:2000])

    def compare_with_baseline(self, program, path, results):
        """A deterministic program has the bits of its unoverlapped baseline."""
        compiled = path + ".baseline.tsp"
        done = harness.run([harness.tool("tandem-compile"), path, *program.options(), "--baseline", "-o", compiled], limit=30)
        if done.code != 0:
            return Outcome("baseline fails", done.err[:1000])
        tensors, failed = self.run(program, compiled, path + ".baseline")
        if failed:
            return dataclasses.replace(failed, kind="baseline: " + failed.kind)
        for i, found in enumerate(results):
            plain = tensors[f"out{i}"]
            if plain.tobytes() != found.tobytes():
                return Outcome("other bits than the baseline", f"result {i}: {(plain != found).sum()} of {found.size} elements")
        return Outcome("verified")

    def judge_error(self, program, path, folder, done):
        if done.code < 0 or done.code > 1 or "Stack dump" in done.err:
            reason = re.search(r"Assertion.*|LLVM ERROR.*|runtime error.*", done.err)
            frames = re.findall(r"^ *#\d+ \S+ (.*?) (?:/|\()", done.err, re.M)
            frames = [f for f in frames if "tandem" in f][:2]
            return Outcome("compiler crashes", f"{reason.group(0) if reason else done.code} {' < '.join(frames)}")
        error = LOCATED.search(done.err)
        if not error or error["file"] != path:
            return Outcome("error without a place", done.err.replace(path, "program.mlir")[:500])
        line = program.text().splitlines()[int(error["line"]) - 1]
        message = error["message"]
        if not message.strip():
            return Outcome("error without words", line)
        if not re.search(r"[%=]|func\.func|return", line):
            return Outcome("error at no op", f"{line}: {message}")
        refused = Outcome("refused", message)
        if NOT_THE_USERS.search(message):
            return Outcome("error about the compiler's own ops", message)
        # Where the compiler chose the schedule, the program must not suffer for it.
        chosen = re.match(r"schedule (\w+) |.* for schedule '(\w+)'", message)
        if chosen and f"schedule<{chosen[1] or chosen[2]}" not in program.text():
            return Outcome("a schedule that was not asked for is refused", message)
        stage = self.stage_of(folder)
        with self.lock:
            self.stages[refused.signature] = stage
        if MUST_NOT_REFUSE.match(stage) and not MAY_LACK.search(message):
            return Outcome(f"error of a late stage ({stage})", message)
        return refused

    def stage_of(self, folder):
        """The pass that an error comes from: that behind the last snapshot."""
        last = snapshots(os.path.join(folder, "snapshots"))[-1:]
        if not last:
            return "parse"
        following = self.passes[self.passes.index(last[0]) + 1:] if last[0] in self.passes else []
        return following[0] if following else "behind " + last[0]

    def examine(self, seed):
        """One seed: the outcome, and the program if it failed."""
        program = generator.generate(seed)
        outcome = self.check(program)
        # Much rounding may add up, and tandem-run judges by the dtypes of the results alone: the same program in f64 says
        # whether that is all.
        floats = {v.dtype for v in program.arguments} | {op.result.dtype for op in program.ops}
        floats &= set(generator.FLOATS)
        if floats and (outcome.kind == "differs from NumPy" or "relative error" in outcome.message):
            wide = map_values(program, lambda v: dataclasses.replace(v, dtype="f64") if v.dtype in floats else v)
            if not self.check(without_casts(wide)).failed:
                return program, Outcome("verified", "in f64")
        return program, outcome

    def write(self, name, program, outcome):
        os.makedirs(self.arguments.out, exist_ok=True)
        path = os.path.join(self.arguments.out, f"{name}.mlir")
        options = " ".join(program.options())
        with open(path, "w") as file:
            file.write(f"// seed {program.seed}: {outcome.kind}\n")
            for line in outcome.message.splitlines()[:12]:
                file.write(f"// {line}\n")
            file.write(f"// tandem-compile {name}.mlir {options} -o {name}.tsp && "
                       f"tandem-run {name}.tsp --channel=local --verify"
                       + (f" --extent={','.join(map(str, program.extents))}" if program.bound else "") + "\n")
            file.write(program.text())
        return path


def run(arguments):
    fuzzer = Fuzzer(arguments)
    counts, refusals, failures = collections.Counter(), collections.Counter(), {}
    examples = {}
    deadline = time.monotonic() + arguments.seconds if arguments.seconds else None
    seeds = iter(range(arguments.seed, arguments.seed + arguments.count))
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        running = {}

        def feed():
            while len(running) < 2 * arguments.jobs and not (deadline and time.monotonic() > deadline):
                seed = next(seeds, None)
                if seed is None:
                    break
                running[pool.submit(fuzzer.examine, seed)] = seed

        feed()
        while running:
            done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                seed = running.pop(future)
                program, outcome = future.result()
                counts["failed" if outcome.failed else outcome.kind] += 1
                if outcome.kind == "refused":
                    refusals[outcome.signature] += 1
                    examples.setdefault(outcome.signature, seed)
                if not outcome.failed:
                    continue
                first = outcome.signature not in failures
                failures.setdefault(outcome.signature, []).append(seed)
                print(f"seed {seed}: {outcome.signature}", flush=True)
                if first:
                    path = fuzzer.write(f"seed-{seed}", program, outcome)
                    print(f"  written to {path}", flush=True)
                    if not arguments.no_minimise:
                        fails = lambda p: fuzzer.check(p).signature == outcome.signature
                        fuzzer.write(f"seed-{seed}.min", minimise(program, fails), outcome)
            feed()
    if arguments.verbose:
        print("refused:")
        for signature, count in refusals.most_common():
            print(f"  {count:5} {signature[9:]} [{fuzzer.stages.get(signature)}, seed {examples[signature]}]")
    if failures:
        print("failures:")
        for signature, found in sorted(failures.items(), key=lambda item: -len(item[1])):
            print(f"  {len(found):5} {signature} (seeds {', '.join(map(str, sorted(found)[:5]))})")
    total = sum(counts.values())
    print(f"{total} programs from seed {arguments.seed} in {time.monotonic() - begin:.0f} s: {counts['verified']} "
          f"verified, {counts['refused']} refused with a located error, {counts['failed']} failed"
          + (f", {counts['unchecked']} that tandem-run cannot check" if counts["unchecked"] else ""))
    if total and not counts["verified"]:
        print("nothing was verified: the generator makes nothing that the compiler accepts")
        return 1
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--count", type=int, default=1 << 30, help="programs")
    parser.add_argument("--seconds", type=float, help="no new program after this time")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", default="fuzz-failures", help="folder for what fails")
    parser.add_argument("--runner", help="another tandem-run: one that is built with TSan finds races between streams")
    parser.add_argument("--no-minimise", action="store_true")
    parser.add_argument("--show", action="store_true", help="print the program of --seed and end")
    parser.add_argument("-v", "--verbose", action="store_true", help="list what was refused")
    arguments = parser.parse_args()
    if arguments.show:
        print(generator.generate(arguments.seed).text(), end="")
        return
    if arguments.count == 1 << 30 and not arguments.seconds:
        arguments.count = 100
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
