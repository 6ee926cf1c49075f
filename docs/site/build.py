# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the documentation as a site that needs no network and no server.

  build.py FOLDER-OF-THE-TOOLS OUTPUT [--pictures-as-they-are]

Pages are those of README.md and the project files that it links, docs/ and examples/, unchanged, and the reference that reference.py makes.
The table in README.md, "Documentation", is the navigation. Pictures are drawn again, unless those of docs/images are to be used. A link that leads nowhere is an error.
OUTPUT and OUTPUT-source are made anew: each must be new, empty, or of an earlier call.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

import reference

SITE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(SITE))
#: In each folder that this script has made: what has it may be deleted.
MARK = ".tandem-site"
#: Generated pages, by the row of README.md's table in which they are, too.
FOLDERS = {"reference": "docs/reference/", "results": "docs/measured/"}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def write(text, *path):
    os.makedirs(os.path.dirname(os.path.join(*path)), exist_ok=True)
    with open(os.path.join(*path), "w", encoding="utf-8") as file:
        file.write(text)


def make_anew(*folders):
    """All of them or, if something else is in one, none."""
    for folder in folders:
        if os.path.islink(folder) or os.path.exists(folder) and not os.path.isdir(folder):
            sys.exit(f"build.py: {folder}: found what is no folder, expected an empty or new one")
        if os.path.isdir(folder) and os.listdir(folder) and not os.path.isfile(os.path.join(folder, MARK)):
            sys.exit(f"build.py: {folder}: found a folder with other files, expected an empty or new one, or an earlier site (with {MARK})")
    for folder in folders:
        if os.path.isdir(folder):
            shutil.rmtree(folder)
        write("", folder, MARK)


def navigation(readme, generated):
    """A table of contents for each row of README.md's table: its first column is the caption."""
    table = readme.split("\n## Documentation\n", 1)[1]
    rows = re.findall(r"^\| ([a-z ,]+) \| (.*\]\(.*) \|$", table, re.M)
    lines = []
    for caption, links in rows:
        pages = re.findall(r"\]\(([\w./-]+)\.md\)", links)
        pages += [page for page in generated if page.startswith(FOLDERS.get(caption, "-")) and page not in pages]
        lines += ["```{toctree}", ":hidden:", f":caption: {caption.capitalize()}", ""] + pages + ["```", ""]
    return "\n".join(lines)


def stage(tools, source):
    """The pages in the folders that they have in the repository, so that links between them stay as they are."""
    pages = [page for folder in ("docs", "docs/reference", "docs/measured") for page in glob.glob(folder + "/*.md", root_dir=ROOT)]
    project = [page for page in glob.glob("*.md", root_dir=ROOT) if f"({page})" in read(ROOT, "README.md")]
    for page in pages + project + glob.glob("examples/**/README.md", root_dir=ROOT, recursive=True):
        # GitHub shows README.md of a folder; the first page of a site is its index.
        text = re.sub(r"\]\(\.\./README\.md", "](../index.md", read(ROOT, page))
        text = text.replace("\n[TOC]\n", "\n")
        if page.endswith("Passes.md"):  # mlir-tblgen writes sections, no page
            text = f"# Passes: {os.path.basename(page)[:-len('Passes.md')]}\n\n" + re.sub(r"^#(?=##)", "", text, flags=re.M)
        write(text, source, page)
    made = {f"docs/reference/{name}": text for name, text in reference.pages(ROOT, tools).items()}
    for page, text in made.items():
        write(text, source, page + ".md")
    written = sorted(page[:-len(".md")] for page in pages if page.startswith(tuple(FOLDERS.values())))
    readme = read(ROOT, "README.md")
    write(readme + "\n" + navigation(readme, sorted(made) + written), source, "index.md")
    # Links to other files of the repository are downloads.
    for page in glob.glob("**/*.md", root_dir=source, recursive=True):
        for link in re.findall(r"\]\(([\w./-]+)\)", read(source, page)):
            path = os.path.normpath(os.path.join(os.path.dirname(page), link))
            if not path.startswith("..") and not path.endswith(".md") and os.path.isfile(os.path.join(ROOT, path)):
                os.makedirs(os.path.dirname(os.path.join(source, path)), exist_ok=True)
                shutil.copyfile(os.path.join(ROOT, path), os.path.join(source, path))


def draw(tools, images):
    environment = dict(os.environ, TANDEM_BIN=tools)
    subprocess.run([os.path.join(ROOT, "tools", "dev"), "draw-timelines", images], check=True, env=environment)
    subprocess.run([sys.executable, os.path.join(ROOT, "docs", "pictures.py"), tools, images], check=True)


def main():
    arguments = sys.argv[1:]
    drawn = "--pictures-as-they-are" not in arguments
    if not drawn:
        arguments.remove("--pictures-as-they-are")
    if len(arguments) != 2:
        sys.exit(__doc__)
    tools, out = map(os.path.abspath, arguments)
    source = out + "-source"
    make_anew(source, out)
    stage(tools, source)
    if drawn:
        draw(tools, os.path.join(source, "docs", "images"))
    sys.exit(subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "2", "-c", SITE, "-d", source + "/.doctrees",
                             source, out]).returncode)


if __name__ == "__main__":
    main()
