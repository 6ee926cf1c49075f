# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tools/gpu/run-all: what it makes of programs that share a process, on a tandem-run of this file's that passes, fails and
dies as it is told, and on the real one with the driver that stands in for CUDA."""

import os
import re
import shutil
import sys
import unittest

import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "tools", "gpu", "run-all")
FAKE_GPU = os.path.abspath(os.path.join(harness.BIN, "..", "lib", "libTandemFakeCuda.so"))

#: A program is a text: how many ranks it is for, and what becomes of it.
STAND_IN = r'''#!%s
import os, sys, time
files = [a for a in sys.argv[1:] if not a.startswith("-")]
options = dict(a.partition("=")[::2] for a in sys.argv[1:] if a.startswith("-"))
with open(os.environ["STAND_IN_CALLS"], "a") as calls:
    calls.write(" ".join([os.path.basename(f) for f in files] + sorted(options)) + "\n")
def say(text):
    print(text, flush=True)
ranks, passed, failed, several = None, 0, 0, len(files) > 1
for file in files:
    prefix = file + ": " if several else ""
    mine, what = open(file).read().split()
    ranks = ranks or mine
    if mine != ranks:
        say(f'{prefix}FAILED {file}: program "f" is for {mine} ranks, launched were {ranks}')
        failed += 1
        continue
    if what == "die":
        os.kill(os.getpid(), 9)
    if what == "hang":
        time.sleep(1000)
    if what in ("apart", "careless"):
        mate = os.path.join(os.path.dirname(sys.argv[0]), "mate" + os.environ["TANDEM_MASTER_PORT"])
        if os.environ["TANDEM_RANK"] == "1":
            os.symlink(f"/proc/{os.getpid()}/stat", mate)
            while not os.path.lexists(mate + ".end"):
                time.sleep(0.05)
            sys.exit(1)
        def lives():
            try:
                return open(mate).read().rpartition(")")[2].split()[0] not in "TZ"
            except (FileNotFoundError, ProcessLookupError):
                return False
        late = time.monotonic() + 10 # a rank that the signal meets before it begins never lives
        while not os.path.lexists(mate) and time.monotonic() < late:
            time.sleep(0.05)
        while lives():
            time.sleep(0.05)
        os.symlink("end", mate + ".end")
        if what == "careless":
            sys.exit(0)
        say("FAILED f: rank 0: lost rank 1: no sign of life")
        sys.exit(1)
    if what == "slowly":
        time.sleep(1.1)
    if what == "graphless" and "--no-graph" not in options:
        print("tandem: @f runs without a graph: rank 0: a reason", file=sys.stderr, flush=True)
    folder = options.get("--dump-npy")
    if folder:
        folder += "/" + os.path.basename(file)[:-4] if several else ""
        os.makedirs(folder)
        with open(folder + "/out.npy", "w") as out:
            out.write("other" if what == "differs" and "--no-graph" in options else "same")
    reason = {"wrong": "rank 0: argument \"out\" is wrong", "shared": "rank 0: channel ccl needs a GPU for each rank: ranks 0 "
              "and 1 share one", "break": "rank 0: no end after 20000 ms"}.get(what)
    say(f"{prefix}FAILED f: {reason}" if reason else f"{prefix}verified f: ranks {mine}, max relative error 0, median 1 ms")
    passed, failed = passed + (not reason), failed + bool(reason)
    if what == "break":
        break
left = files[passed + failed:]
if several:
    say(f"{passed} passed, {failed} failed" + (f", {len(left)} not run: {' '.join(left)}" if left else ""))
sys.exit(77 if what == "late-death" else failed > 0)
''' % sys.executable


class RunAllTest(harness.Test):
    def setUp(self):
        super().setUp()
        for folder in ("stage/bin", "stage/programs", "logs"):
            os.makedirs(self.path(folder))

    def run_all(self, *arguments, **env):
        done = harness.run([SCRIPT, *arguments], harness.environment(TANDEM_FAKE_GPUS=2, **env), limit=120)
        with open(self.path("logs/summary.txt")) as file:
            self.summary = {}
            for line in file:
                words = re.match(r"(\S+(?: \S+)*)\s+(ok|FAIL)\s+\d+ s  (.*)", line)
                self.summary[words[1]] = (words[2], words[3])
        return done

    def said(self, step):
        with open(self.path(f"logs/{step}.out")) as file:
            return file.read()


class Processes(RunAllTest):
    def programs(self, kind, **programs):
        for name, text in programs.items():
            with open(self.path(f"stage/programs/{name}.{kind}.tsp"), "w") as file:
                file.write(text)

    def check(self, step, *options, **env):
        tool = self.path("stage/bin/tandem-run")
        with open(tool, "w") as file:
            file.write(STAND_IN)
        os.chmod(tool, 0o755)
        self.calls = []
        done = self.run_all("--budget=60", *options, self.path("stage"), self.path("logs"), step,
                            TANDEM_CUDA_LIBRARY="none", STAND_IN_CALLS=self.path("calls"), **env)
        with open(self.path("calls")) as file:
            self.calls = file.read().splitlines()
        return done

    def started(self, *names):
        """With graphs, of channel peer."""
        return sum(call.split()[:len(names)] == [f"{name}.2.cuda-peer.tsp" for name in names] for call in self.calls)

    def test_all_pass(self):
        self.programs("2.cuda-peer", a="2 pass", b="2 pass", c="2 pass", d="2 pass", e="2 pass")
        done = self.check("programs-peer")
        self.assertEqual(done.code, 0, str(done))
        passed = "passed 5, failed 0, too few GPUs for 0, no time for 0"
        self.assertEqual(self.summary, {"programs peer": ("ok", passed), "programs peer-direct": ("ok", passed)})
        # Two processes for each way.
        self.assertEqual(len(self.calls), 4)
        self.assertEqual((self.started("a", "c", "e"), self.started("b", "d")), (2, 2))
        self.assertTrue(all("--verify" in call and "--repeat" in call for call in self.calls))
        self.assertEqual(sum("--no-graph" in call for call in self.calls), 2)

    def test_hosts(self):
        """A rank that is killed, stopped or terminated; the other one says so, or takes no notice."""
        self.programs("2.cuda-nccl")
        os.mkdir(self.path("stage/long"))
        for kind, word in (("apart", "ok"), ("careless", "FAIL")):
            with open(self.path("stage/long/gather.2.cuda-nccl.tsp"), "w") as file:
                file.write(f"2 {kind}")
            self.check("hosts")
            self.assertEqual(list(self.summary), ["hosts-KILL", "hosts-STOP", "hosts-TERM"])
            for how, said in self.summary.values():
                self.assertEqual(how, word, said)
                self.assertIn("rank 1: no sign of life" if word == "ok" else "rank 1 is not named", said)

    def test_sanitizer_of_programs(self):
        """The summary must be clean, and the program right."""
        self.programs("x.2.cuda-peer", **{"direct.bf16": "2 pass", "other.bf16": "2 wrong"})
        for name, text in (("bin/ConformanceTests", ""), ("tools/compute-sanitizer", """
case "$*" in *tandem-run*) echo "========= $SUMMARY" ;; *) echo "========= ERROR SUMMARY: 0 errors" ;; esac
while [ "${1#/}" = "$1" ]; do shift; done
exec "$@"
""")):
            os.makedirs(os.path.dirname(self.path("stage/" + name)), exist_ok=True)
            with open(self.path("stage/" + name), "w") as file:
                file.write("#!/bin/sh\n" + text)
            os.chmod(self.path("stage/" + name), 0o755)
        path = self.path("stage/tools") + ":" + os.environ["PATH"]
        for program, second, word in (("pass", "ERROR SUMMARY: 0 errors", "ok"), ("wrong", "ERROR SUMMARY: 0 errors", "FAIL"),
                                      ("pass", "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", "ok"),
                                      ("pass", "ERROR SUMMARY: 0 errors\nits 2 parts run one by one: no kernel", "FAIL"),
                                      ("pass", "ERROR SUMMARY: 2 errors", "FAIL"), ("pass", "ended without one", "FAIL"),
                                      ("pass", "ERROR SUMMARY: 0 errors\n========= ERROR SUMMARY: 2 errors", "FAIL")):
            self.programs("x.2.cuda-peer", **{"direct.bf16": "2 " + program})
            self.check("sanitizer", SUMMARY=second, PATH=path)
            self.assertEqual([call.split()[0] for call in self.calls[-2:]], ["direct.bf16.x.2.cuda-peer.tsp"] * 2)
            for tool in ("memcheck", "racecheck"):
                self.assertEqual(self.summary[f"sanitizer {tool}"][0], "ok", str(self.summary))
                self.assertEqual(self.summary[f"sanitizer {tool} programs"][0], word, str(self.summary))

    def test_no_such_step(self):
        """Before anything runs, or is said of what would."""
        for options in ([], ["--dry-run"]):
            done = harness.run([SCRIPT, *options, self.path("stage"), self.path("logs"), "peer", "wider"])
            self.assertEqual((done.code, done.out), (2, ""), str(done))
            self.assertIn("run-all: no such step: wider", done.err)

    def test_each_way_to_fail(self):
        """In the middle, as the last, and what comes after it is run."""
        self.programs("2.cuda-peer", a="2 pass", b="2 pass", c="2 wrong", d="2 pass", e="2 break", f="2 shared", g="2 pass",
                      h="2 pass", i="2 die", j="2 pass", k="2 pass", l="2 late-death")
        done = self.check("programs-peer")
        self.assertEqual(done.code, 1, str(done))
        for name in ("programs peer", "programs peer-direct"):
            self.assertEqual(self.summary[name], ("FAIL", "passed 7, failed 4, too few GPUs for 1, no time for 0"))
        self.assertEqual((self.started("g", "i", "k"), self.started("k"), self.started("f")), (2, 2, 0))
        said = self.said("programs-peer")
        for name, reason in (("c", 'FAILED f: rank 0: argument "out" is wrong rc 1'),
                             ("e", "FAILED f: rank 0: no end after 20000 ms rc 1"), ("i", "FAILED: status 137"),
                             ("l", "FAILED: status 77 at the end")):
            self.assertEqual(said.count(f"FAILED peer: {name}.2.cuda-peer.tsp: {reason}"), 1, said)
        self.assertEqual(said.count("FAILED peer:"), 4, said)

    def test_one_program(self):
        """Its line does not say the file."""
        for text, expected in (("2 pass", "passed 1, failed 0"), ("2 wrong", "passed 0, failed 1"),
                               ("2 die", "passed 0, failed 1"), ("2 break", "passed 0, failed 1"),
                               ("2 late-death", "passed 0, failed 1")):
            with self.subTest(text=text):
                self.programs("2.cuda-peer", a=text)
                self.check("programs-peer")
                self.assertIn(expected, self.summary["programs peer"][1])

    def test_nothing_works(self):
        """It does not go on for ever."""
        self.programs("2.cuda-peer", **dict.fromkeys("abcdefghijklmnop", "2 break"))
        self.check("programs-peer")
        self.assertEqual(self.summary["programs peer"][1], "passed 0, failed 16, too few GPUs for 0, no time for 0")
        self.assertEqual(len(self.calls), 12)
        self.assertIn("not run: nothing passed in three processes before it", self.said("programs-peer"))

    def test_one_that_hangs(self):
        """Programs together may take longer than one."""
        self.programs("2.cuda-peer", a="2 hang", b="2 slowly", c="2 pass", d="2 slowly", e="2 pass", f="2 slowly",
                      h="2 slowly", g="2 slowly")
        self.check("programs-peer", "--patience=5")
        self.assertEqual(self.summary["programs peer"][1], "passed 7, failed 1, too few GPUs for 0, no time for 0")
        self.assertIn("FAILED peer: a.2.cuda-peer.tsp: FAILED: no end within 5 s rc 1", self.said("programs-peer"))

    def test_no_time(self):
        self.programs("2.cuda-peer", a="2 pass", b="2 pass", c="2 hang", d="2 pass", e="2 pass")
        self.check("programs-peer", "--budget=14")
        self.assertEqual(self.summary["programs peer"], ("FAIL", "passed 3, failed 0, too few GPUs for 0, no time for 2"))
        self.assertEqual(self.summary["programs peer-direct"][1], "passed 0, failed 0, too few GPUs for 0, no time for 5")

    def test_other_numbers_of_ranks(self):
        """They run together afterwards."""
        self.programs("fixed.cuda-nccl", a="2 pass", b="8 pass", c="4 pass", d="2 pass", e="4 wrong", f="4 pass", g="2 pass",
                      h="8 wrong", i="4 pass")
        self.check("programs")
        self.assertEqual(self.summary["programs local-fixed"][1], "passed 7, failed 2, too few GPUs for 0, no time for 0")
        said = self.said("programs")
        self.assertEqual(re.findall(r"FAILED local-fixed: (\w)\.", said), ["e", "h"])
        calls = [re.findall(r"(\w)\.fixed", call) for call in self.calls]
        self.assertEqual(sorted("".join(call) for call in calls if call), ["acegi", "bdfh", "cei", "d", "f"])

    def test_bits(self):
        self.programs("1.cuda-nccl", a="1 pass", b="1 differs", c="1 pass", d="1 wrong", e="1 graphless", f="1 pass")
        self.programs("2.cuda-nccl", a="2 pass", b="2 pass", c="2 shared")
        done = self.check("bits")
        self.assertEqual(self.summary["bits"], ("FAIL", "equal 5, failed 3, too few GPUs for 1, no time for 0"), str(done))
        said = self.said("bits")
        self.assertEqual(len(re.findall("FAILED bits:", said)), 3, said)
        for pattern in ("b.1.cuda-nccl.tsp: results differ", "d.1.cuda-nccl.tsp: graph: FAILED f: rank 0: .* is wrong",
                        "e.1.cuda-nccl.tsp: .*runs without a graph"):
            self.assertRegex(said, "FAILED bits: " + pattern)
        self.assertFalse([entry for entry in os.listdir(self.path("logs/bits")) if entry.endswith("npy")])

    def test_one_of_bits(self):
        for text, verdict in (("1 pass", "ok"), ("1 differs", "FAIL")):
            self.programs("1.cuda-nccl", a=text)
            self.check("bits")
            self.assertEqual(self.summary["bits"][0], verdict)


@unittest.skipUnless(os.path.exists(FAKE_GPU), "the driver that stands in for CUDA was not built")
class Real(RunAllTest):
    """Programs of make-programs."""

    def stage(self, **names):
        shutil.copy(harness.tool("tandem-run"), self.path("stage/bin/tandem-run"))
        done = harness.run([harness.tool("make-programs"), self.folder])
        self.assertEqual(done.code, 0, str(done))
        for name, source in names.items():
            shutil.copy(self.path(f"{source}.tsp"), self.path(f"stage/programs/{name}.tsp"))

    def check(self, *steps):
        return self.run_all("--budget=120", self.path("stage"), self.path("logs"), *steps, TANDEM_CUDA_LIBRARY=FAKE_GPU,
                            TANDEM_CUBLASLT_LIBRARY=FAKE_GPU, TANDEM_NCCL_LIBRARY=FAKE_GPU)

    def test_peer(self):
        self.stage(**{"a.2.cuda-peer": "push-2", "b.2.cuda-peer": "push-2", "c.2.cuda-peer": "wrong-push-2",
                      "d.2.cuda-peer": "gather-2", "e.2.cuda-peer": "push-2"})
        with open(self.path("stage/programs/f.2.cuda-peer.tsp"), "w") as file:
            file.write("nothing of the kind")
        done = self.check("programs-peer")
        self.assertEqual(self.summary["programs peer"], ("FAIL", "passed 3, failed 3, too few GPUs for 0, no time for 0"),
                         f"{done}\n{self.said('programs-peer')}")
        self.assertEqual(self.summary["programs peer-direct"], self.summary["programs peer"])
        said = self.said("programs-peer")
        for pattern in ("c.2.cuda-peer.tsp: FAILED wrong_push: argument", "d.2.cuda-peer.tsp: FAILED gather: .*needs two_sided",
                        "f.2.cuda-peer.tsp: FAILED .*f.2.cuda-peer.tsp: "):
            self.assertRegex(said, "FAILED peer: " + pattern)

    def test_shared(self):
        """Ranks have a GPU with others; programs that have one each are no matter of this step."""
        self.stage(**{"a.3.cuda-peer": "push-3", "b.3.cuda-peer": "push-3", "c.2.cuda-peer": "push-2"})
        done = self.check("shared")
        passed = ("ok", "passed 2, failed 0, too few GPUs for 0, no time for 0")
        self.assertEqual(self.summary, {"programs shared-peer-3": passed, "programs shared-peer-3-direct": passed},
                         f"{done}\n{self.said('shared')}")

    def test_bits(self):
        self.stage(**{"a.1.cuda-nccl": "gather-1", "b.2.cuda-nccl": "gather-2", "c.2.cuda-nccl": "gather-2"})
        done = self.check("bits")
        self.assertEqual((done.code, self.summary["bits"]), (0, ("ok", "equal 3, failed 0, too few GPUs for 0, no time for 0")),
                         f"{done}\n{self.said('bits')}")


if __name__ == "__main__":
    harness.main(__doc__, Processes, Real)
