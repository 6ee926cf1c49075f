# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many runs of a mix of programs in one job per channel. Where ranks are processes (ucx, peer), they are stopped for random
times in between. All results are right, and memory, descriptors and threads stay flat. Channels ccl and peer run over the
stand-in driver.

  soak.py [--runs 40000] [--seconds 0] [-v] [PATTERN...]

--seconds: for each channel one job after another, each with another mix, until so much time has passed.
"""

import dataclasses
import os
import random
import signal
import time

import harness
from harness import program, start, tool
from fault_injection_test import CHANNELS, PROCESSES, runs_here, variables

PROGRAMS = {"peer": ["push-2"], "ccl": ["matmul-2", "gather-2"]}
#: Runs of a program, after which the next one is prepared.
REPEAT = 50
#: kB by which the smallest memory may grow from the first third of a job to the last. It grew by 0.2 MB at most. A leak of
#: 1 KB a run is 4 MB in a channel's 10,000 runs.
SLACK = 2048
#: With so many runs, that leak is found.
ENOUGH = 8000
#: The C library gives all large blocks back at once. Else what it keeps would vary by 40 MB from sample to sample.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


@dataclasses.dataclass(frozen=True)
class Channel:
    name: str
    runs: int
    seconds: float


def sample(pid):
    """Resident kB, descriptors, threads."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    return int(fields["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(fields["Threads"])


class Soak(harness.CombinationTest):
    def check(self):
        end, seed = time.monotonic() + self.combination.seconds, 1
        self.soak(seed)
        while time.monotonic() < end:
            seed += 1
            self.soak(seed)

    def soak(self, seed):
        channel, options = self.combination.name, CHANNELS[self.combination.name][0]
        mix = [program(name) for name in PROGRAMS.get(channel, ["matmul-2", "gather-2", "large-2"])]
        chosen = random.Random(seed).choices(mix, k=self.combination.runs // REPEAT)
        log = self.path("log")
        with open(log, "w", encoding="utf-8") as out:
            job = start([tool("tandem-run"), *chosen, f"--repeat={REPEAT}", "--verify", *options],
                        {**variables(channel), **MALLOC}, out, out)
        self.addCleanup(lambda: job.poll() is None and os.killpg(job.pid, signal.SIGKILL))
        samples, chance = {}, random.Random(-seed)
        while job.poll() is None:
            ranks = list(harness.children(job.pid).values()) if channel in PROCESSES else [job.pid]
            for pid in ranks:
                try:
                    samples.setdefault(pid, []).append(sample(pid))
                except (OSError, KeyError):
                    continue
            if ranks and channel in PROCESSES:
                self.disturb(chance.choice(ranks), chance)
            time.sleep(chance.uniform(0.002, 0.02))
        with open(log, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(job.returncode, 0, f"mix {seed}: {text}")
        self.assertIn(f"{len(chosen)} passed, 0 failed", text)
        self.assertTrue(samples, "the job was over too soon")
        for found in samples.values():
            self.assertFlat(found, self.combination.runs)

    @staticmethod
    def disturb(pid, chance):
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(chance.uniform(0, 0.03))
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def assertFlat(self, found, runs):
        """Between start and end, the last third has no more of anything than those before. In a short job, the start is
        long: its low memory would look like growth."""
        kept = found[len(found) // 3:len(found) * 9 // 10]
        third = len(kept) // 3
        self.assertGreater(third, 3, "too few samples: more --runs")
        memory = [kilobytes for kilobytes, _, _ in kept]
        self.assertLessEqual(growth(memory), SLACK, f"resident kB grow: {memory}")
        for what, slack in ((1, 4), (2, 6)):
            middle, last = (max(s[what] for s in part) for part in (kept[third:2 * third], kept[2 * third:]))
            self.assertLessEqual(last, middle + slack, f"{('descriptors', 'threads')[what - 1]} grow")
        # The test of this test: the same samples, with a leak of 1 KB a run.
        if runs >= ENOUGH:
            leaking = [each + runs * i // len(found) for i, each in enumerate(memory)]
            self.assertGreater(growth(leaking), SLACK, "a leak would not be found")


def growth(memory):
    """From the first third to the last. The smallest values are compared: memory swings with the run in flight."""
    third = len(memory) // 3
    return min(memory[-third:]) - min(memory[:third])


def channels(options):
    names = [name for name in CHANNELS if runs_here(name) and not name.startswith("hip-")]
    for name in names:
        yield Channel(name, options.runs // len(names), options.seconds)


def more_options(parser):
    parser.add_argument("--runs", type=int, default=40000)
    parser.add_argument("--seconds", type=float, default=0)


if __name__ == "__main__":
    harness.main(__doc__, combined=[(Soak, channels)], more_options=more_options)
