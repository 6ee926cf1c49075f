# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The documentation as a site (docs/site): it builds without a warning, so each link leads somewhere, and a reader who
opens it in a browser, from files and without a network, can navigate, search, and see the pictures."""

import ast
import glob
import os
import re

import browser
import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PYTHON = os.path.join(ROOT, "build", "docs-env", "bin", "python")


class Site(harness.Test):
    def test_site(self):
        out = self.path("site")
        done = harness.run([PYTHON, os.path.join(ROOT, "docs", "site", "build.py"), harness.BIN, out, "--pictures-as-they-are"], limit=200)
        self.assertEqual((done.code, done.err), (0, ""), str(done))
        with self.subTest("reference"):
            self.check_reference(out)
        if not browser.CHROMIUM:
            self.skipTest("not looked at: no Chromium (Debian: chromium)")
        with self.subTest("navigation"):
            self.check_navigation(out)
        with self.subTest("search"):
            self.check_search(out)
        with self.subTest("pictures"):
            self.check_pictures(out)

    def check_reference(self, out):
        """Each function of the C API, each public name of the Python package and each option is in the reference."""
        def text(page):
            with open(os.path.join(out, "docs", "reference", page + ".html"), encoding="utf-8") as file:
                return re.sub(r"<[^>]+>", "", file.read())

        c_api, python = text("CApi"), text("Python")
        names = set()
        for header in glob.glob(os.path.join(ROOT, "include", "tandem-c", "*.h")):
            with open(header, encoding="utf-8") as file:
                names |= set(re.findall(r"^[a-z][\w *]*?\b(tandem_\w+)\(", file.read(), re.M))
        self.assertGreater(len(names), 60)
        self.assertEqual([name for name in sorted(names) if name + "(" not in c_api], [])
        with open(os.path.join(ROOT, "lib", "Bindings", "Python", "tandem", "__init__.py"), encoding="utf-8") as file:
            imports = [node for node in ast.parse(file.read()).body if isinstance(node, ast.ImportFrom)]
        public = {name.asname or name.name for node in imports for name in node.names if node.level == 1} - {"__version__"}
        self.assertGreater(len(public), 50)
        self.assertEqual([name for name in sorted(public) if f"tandem.{name}" not in python], [])
        self.assertIn("--timeout SECONDS", text("Commands"))
        self.assertIn("h200x4", text("Machines"))
        self.assertIn("signal_slots", text("StreamProgram"))

    def check_navigation(self, out):
        """Every page is in the tree on the left, below its part; the links there lead to files."""
        parts, links = browser.look(os.path.join(out, "index.html"), """[
            [...document.querySelectorAll(".sidebar-tree .caption-text")].map(part => part.textContent),
            [...document.querySelectorAll(".sidebar-tree a")].map(link => link.getAttribute("href"))]""")
        self.assertEqual(parts, ["Get started", "Tutorials", "Guides", "Results", "Reference", "Internals", "Project"])
        pages = {name for name in glob.glob("**/*.html", root_dir=out, recursive=True) if "/" in name}
        self.assertGreater(len(pages), 35)
        self.assertEqual(pages, {link for link in links if "/" in link})

    def check_search(self, out):
        found = browser.look(os.path.join(out, "search.html?q=didx"),
                             '[...document.querySelectorAll("#search-results li a")].map(link => link.getAttribute("href"))', wait=5)
        self.assertIn("docs/learn.html", [link.split("?")[0].split("#")[0] for link in found])

    def check_pictures(self, out):
        for page, least in (("index.html", 1), ("docs/learn.html", 2), ("docs/schedules.html", 9), ("docs/performance.html", 2)):
            widths = browser.look(os.path.join(out, page), "[...document.images].map(image => image.naturalWidth)")
            self.assertGreaterEqual(len(widths), least, page)
            self.assertTrue(all(width > 200 for width in widths), f"{page}: {widths}")
        # From other machines nothing is loaded.
        with open(os.path.join(out, "index.html"), encoding="utf-8") as file:
            self.assertEqual(re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*", file.read()), [])


if __name__ == "__main__":
    harness.main(__doc__, Site)
