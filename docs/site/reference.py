# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the pages of the reference that the repository does not contain: of C and C++ headers, of the Python package, of
the schema of stream programs, of the tools' help, of the machine files."""

import ast
import glob
import json
import os
import re
import subprocess

TOOLS = ("tandem-compile", "tandem-run", "tandem-check", "tandem-sim")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def declarations(text):
    """The pieces of a header, or of a schema: (the name that it declares, or None; its lines with the comment before them)."""
    text = re.sub(r"^extern \"C\" \{\n|^(inline )?namespace [\w:]* ?\{\n|^\} *// namespace.*\n|^(extern \"C\" *)?\} */[/*].*\n", "", text, flags=re.M)
    text = re.sub(r"^#ifdef __cplusplus\n(\}\n)?#endif\n", "", text, flags=re.M)
    text = re.sub(r"^#(ifndef|define) TANDEM_\w+_H\n|^#include .*\n|^namespace [\w.]+;\n", "", text, flags=re.M)
    text = re.sub(r"\n#endif( /[/*].*)?\n*$", "\n", text)
    piece, depth, commented, declared = [], 0, False, False
    for line in text.splitlines() + [""]:
        bare = re.sub(r'//.*|/\*.*?\*/|"(\\.|[^"\\])*"', "", line)
        opens = line.lstrip().startswith(("/*", "//"))
        if depth == 0 and not commented and piece and (not line.strip() or opens and declared):
            yield name_of(piece), "\n".join(piece)
            piece, declared = [], False
        if line.strip():
            piece.append(line)
        if commented or "/*" in bare:
            commented = "*/" not in line
        elif not opens:
            depth += bare.count("{") + bare.count("(") - bare.count("}") - bare.count(")")
            declared = declared or bool(bare.strip())


def name_of(piece):
    """What a piece declares: a type, a macro, or the first function."""
    code = re.sub(r"//.*?$|/\*.*?\*/", "", "\n".join(piece), flags=re.M | re.S)
    found = (re.search(r"^\s*(?:template <.*>\s*)?(?:typedef )?(?:class|struct|enum(?: class)?|table|union|rpc_service) (\w+)", code, re.M) or
             re.search(r"^#define (\w+)", code, re.M) or re.search(r"^\s*using (\w+)", code, re.M) or
             re.search(r"(\w+|operator\W+)\(", code) or re.search(r"(\w+)(?: = .*)?;", code))
    return found.group(1) if found else None


def subject(text):
    """The title and the description that a header's first comment gives."""
    title = re.match(r"(?://|/\*)=+- [\w/.-]+ - (.*?) -*\*- C", text)
    after = re.search(r"LLVM-exception\n//\n((?://.*\n)*?)//\n?//=", text) or re.search(r"=\*/\n+/\* (.*?)\s*\*/", text, re.S)
    body = after.group(1) if after else ""
    return title.group(1) if title else "", re.sub(r"^( \* ?|// ?)", "", body, flags=re.M).strip()


def headers(title, about, root, names, language):
    lines = [f"# {title}", "", about, ""]
    for name in names:
        text = read(root, name)
        head, body = subject(text)
        lines += [f"## `{name.split('include/', 1)[1]}`", "", head[:1].upper() + head[1:] + ".", ""]
        lines += ["```text", body, "```", ""] if body else []
        rest = re.sub(r"\A(//.*\n|/\*.*?\*/\n|\s*\n)*", "", text, flags=re.S)
        for declared, code in declarations(rest):
            lines += [f"### `{declared}`", ""] if declared else []
            lines += [f"```{language}", code, "```", ""]
    return "\n".join(lines)


def documented(source, node):
    """The signature of a function or a class as its source has it, and its docstring."""
    code = ast.get_source_segment(source, node)
    body = node.body[0]
    head = "\n".join(code.splitlines()[:max(body.lineno - node.lineno, 1)]) if body.lineno > node.lineno else code
    return head, ast.get_docstring(node) or ""


def python_entries(name, path, public):
    """The entries of the public functions and classes of one file: signatures, docstrings, and public methods."""
    text, lines, shown = read(path), [], None
    for node in ast.parse(text).body:
        made = getattr(node.targets[0], "id", None) if isinstance(node, ast.Assign) else None
        if made in public and isinstance(node.value, ast.Name):  # another name of the class before
            lines += [f"### `{name}.{made}`", "", f"`{name}.{node.value.id}`.", ""]
        elif made in public and isinstance(node.value, ast.Call):  # a function of each element
            lines += [f"### `{name}.{made}`", "", "```python", f"def {made}(value: Value) -> Value:", "```", "", node.value.args[-1].value, ""]
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name not in public:
            continue
        for one in [node, *(node.body if isinstance(node, ast.ClassDef) else ())]:
            if one is not node and not (isinstance(one, ast.FunctionDef) and (one.name in ("__init__", "__call__") or one.name[0] != "_")):
                continue
            head, note = documented(text, one)
            lines += [f"### `{name}.{node.name}`", ""] if one is node and node.name != shown else []  # else one more signature
            lines += ["```python", head, "```", ""] + (["```text", note, "```", ""] if note else [])
        shown = node.name
    return lines


def python_page(root):
    """The public functions and classes of the package, of its extension, and of tandem.torch."""
    package = os.path.join(root, "lib", "Bindings", "Python", "tandem")
    lines = ["# Python API", "", "The signatures of the package `tandem`; [Python](../python.md) explains them.", "", "## tandem", ""]
    for name, folder, about in (("tandem", package, None), ("tandem.torch", os.path.join(package, "torch"), "[PyTorch](../torch.md) explains them.")):
        lines += [f"## {name}", "", about, ""] if about else []
        public = {alias.name for node in ast.parse(read(folder, "__init__.py")).body if isinstance(node, ast.ImportFrom) for alias in node.names}
        for path in [*sorted(glob.glob(os.path.join(folder, "_*.py"))), *glob.glob(os.path.join(folder, "_tandem.pyi"))]:
            lines += python_entries(name, path, public)
    return "\n".join(lines)


def schema_page(root):
    text = read(root, "lib", "Program", "stream_program.fbs")
    about, rest = re.match(r"((?://.*\n)*)(.*)", text, re.S).groups()
    lines = ["# Stream programs (`.tsp`)", "", "The schema of the file that `tandem-compile` writes and the runtime reads. "
             "[Semantics](../semantics.md) says what commands do, `tandem-compile --dump` prints a program as text.", "",
             "```text", re.sub(r"^// ?", "", about, flags=re.M).strip(), "```", ""]
    for name, code in declarations(rest):
        lines += [f"## `{name}`", ""] if name else []
        lines += ["```c", code, "```", ""]
    return "\n".join(lines)


def tools_page(root, tools):
    lines = ["# Commands", "", "The help of each tool. `tandem-opt` runs single passes: the pages of passes have their options.", ""]
    commands = [("tools/dev", [os.path.join(root, "tools", "dev"), "help"])]
    commands += [(tool, [os.path.join(tools, tool), "--help"]) for tool in TOOLS]
    for name, command in commands:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        lines += [f"## {name}", "", "```text", done.stdout.strip(), "```", ""]
    return "\n".join(lines)


def machines_page(root):
    lines = ["# Machine files", "", "Names for `--machine`. [Simulator](../simulator.md#machine-files) explains the files.", "",
             "| name | nodes | devices per node | about |", "|---|---|---|---|"]
    for path in sorted(glob.glob(os.path.join(root, "machines", "*.json"))):
        machine = json.loads(read(path))
        name = os.path.basename(path)[:-len(".json")]
        lines.append(f"| `{name}` | {machine['nodes']} | {machine['devices_per_node']} | {machine['about']} |")
    return "\n".join(lines) + "\n"


def pages(root, tools):
    """The pages by name, without `.md`."""
    c_api = [os.path.relpath(path, root) for path in sorted(glob.glob(os.path.join(root, "include", "tandem-c", "*.h")))]
    builder = ["include/tandem/Compiler/Builder.h"] + [
        f"include/tandem/Compiler/Builder/{name}.h" for name in ("Types", "Elementwise", "Compile")]
    return {
        "CApi": headers("C API", "The headers of `libtandem_compiler` and `libtandem_runtime`; [embedding](../embedding.md) explains them.",
                        root, c_api, "c"),
        "CppBuilder": headers("C++ builder", "Headers that build fusions in C++; [embedding](../embedding.md#builder) has an example.",
                              root, builder, "cpp"),
        "Commands": tools_page(root, tools),
        "Machines": machines_page(root),
        "Python": python_page(root),
        "StreamProgram": schema_page(root),
    }
