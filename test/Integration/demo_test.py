# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tools/dev demo`, once built, on a small layer: results are verified, times are printed next to predictions, the pictures have
their timelines, and the commands that it ends with work."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import shlex
import sys
from xml.etree import ElementTree

import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "tools", "demo")


def load():
    loader = importlib.machinery.SourceFileLoader("demo_script", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.dont_write_bytecode = True  # beside a tool
    loader.exec_module(module)
    return module


class Demo(harness.Test):
    def test_a_link_for_every_machine(self):
        """Whatever the speed of the machine and its number of cores, the link is such that push is predicted to gain."""
        demo, tools = load(), os.path.abspath(harness.BIN)
        for cores, alone, together, message in ((4, 40, 40, 10), (4, 80, 80, 15), (4, 90, 90, 15), (2, 50, 100, 10), (2, 60, 110, 10),
                                                (4, 10, 10, 5), (4, 100, 120, 80), (4, 40, 45, 200), (1, 40, 165, 20),
                                                (2, 2000, 4000, 300), (4, 20000, 21000, 900)):
            with self.subTest(cores=cores, alone=alone, together=together, message=message), contextlib.chdir(ROOT), \
                    contextlib.redirect_stdout(io.StringIO()):
                one = demo.Demo(tools, 1, 256, self.path("machines"))
                one.cores = list(range(cores))
                one.alone, one.together, one.message = alone * 1e-6, together * 1e-6, message * 1e-6
                one.choose_link()
                one.write_machine()
                baseline, push = (one.predict(one.compile(name, quiet=True, more=["--no-reference"]), one.machine)
                                  for name in ("baseline", "push"))
                self.assertLess(push, 0.9 * baseline)

    def test_demo(self):
        done = harness.run([SCRIPT, os.path.abspath(harness.BIN), "2", "256", self.path("demo")],
                           limit=300)
        self.assertEqual((done.code, done.err), (0, ""), str(done))
        schedules = ["baseline", "exchange", "ring", "push"]
        self.assertEqual(re.findall(r"^verified (\w+): ranks 4", done.out, re.M), schedules, str(done))
        rows = re.findall(r"^(\w+) +([\d.]+) ms +([\d.]+) x +([\d.]+) ms +([\d.]+) x$", done.out, re.M)
        self.assertEqual([row[0] for row in rows], schedules, str(done))
        # What is measured depends on the machine's other work; what is predicted does not, and is not rounded in the traces.
        predicted = {}
        for name in schedules:
            with open(os.path.join(self.path("demo"), f"{name}-predicted.json"), encoding="utf-8") as file:
                predicted[name] = json.load(file)["tandem"]["seconds"]
        self.assertLess(predicted["push"], predicted["baseline"], str(done))
        gpus = {name: int(time) for name, time in re.findall(r"^(\w+) +(\d+) us ", done.out, re.M)}
        self.assertEqual(list(gpus), [*schedules, "auto"], str(done))
        self.assertLess(gpus["push"], gpus["baseline"], str(done))
        self.assertEqual(gpus["auto"], min(gpus.values()), str(done))

        commands = re.findall(r"^  (/\S+ .*)$", done.out[done.out.index("\nTry next"):], re.M)
        self.assertEqual(len(commands), 3, str(done))
        for command in commands:
            with self.subTest(command=command):
                ran = harness.run(["env", "-C", ROOT, *shlex.split(command)])
                self.assertEqual(ran.code, 0, str(ran))
                self.assertGreater(len(ran.out), 20)

        pictures = re.findall(r"open (\S+\.svg)$", done.out, re.M)
        self.assertEqual(len(pictures), 2, str(done))
        for picture in pictures:
            with self.subTest(picture=picture):
                texts = [text.text for text in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
                runs = [text for text in texts if text.startswith("@")]
                self.assertEqual(len(runs), 4 if picture.endswith("report.svg") else 2)
                self.assertGreater(len(texts), 4 * len(runs))


if __name__ == "__main__":
    harness.main(__doc__, Demo)
