# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What docs/ shows of compiled and simulated programs is what they are now: `tools/dev docs` writes it again."""

import os
import re
import sys

import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Docs(harness.Test):
    def test_timelines(self):
        drawn = self.path("images")
        done = harness.run([os.path.join(ROOT, "tools", "dev"), "draw-timelines", drawn])
        self.assertEqual(done.code, 0, str(done))
        with open(os.path.join(ROOT, "docs", "schedules.md")) as file:
            shown = set(re.findall(r"\(images/([\w.]+)\)", file.read()))
        self.assertEqual(set(os.listdir(drawn)), shown)
        for name in sorted(shown):
            with self.subTest(name=name):
                with open(os.path.join(drawn, name)) as new, open(os.path.join(ROOT, "docs", "images", name)) as old:
                    self.assertEqual(new.read(), old.read(), "stale: run tools/dev docs")

    def test_choices(self):
        written = self.path("choices.md")
        done = harness.run([sys.executable, os.path.join(ROOT, "docs", "choices.py"), harness.BIN, written], limit=300)
        self.assertEqual(done.code, 0, str(done))
        with open(written) as new, open(os.path.join(ROOT, "docs", "choices.md")) as old:
            self.assertEqual(new.read(), old.read(), "stale: run tools/dev docs")


if __name__ == "__main__":
    harness.main(__doc__, Docs)
