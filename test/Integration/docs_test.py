# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The timelines of docs/schedules.md are those of the programs as they are compiled and simulated now."""

import os
import re

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


if __name__ == "__main__":
    harness.main(__doc__, Docs)
