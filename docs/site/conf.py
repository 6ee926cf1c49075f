# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sphinx's configuration. docs/site/build.py prepares the pages and runs Sphinx."""

from pygments import token
from pygments.lexer import RegexLexer, words

project = "Tandem"
copyright = "the authors of Tandem"
extensions = ["myst_parser"]
root_doc = "index"
html_theme = "furo"
html_title = "Tandem"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
# Headings are anchors under the names that GitHub gives them, down to the ops of the reference.
myst_heading_anchors = 4
# mlir-tblgen's pages begin with a deeper heading and have headings that skip a level.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]


class MlirLexer(RegexLexer):
    """MLIR's text, as far as the pages show it."""

    name = "MLIR"
    aliases = ["mlir"]
    tokens = {
        "root": [
            (r"//.*?$", token.Comment.Single),
            (r'"[^"\n]*"', token.String),
            (r"[%][\w$.#-]+(:\d+)?", token.Name.Variable),
            (r"[@][\w$.]+", token.Name.Function),
            (r"[#!][\w$.]+", token.Name.Attribute),
            (words(("tensor", "memref", "index", "f32", "f16", "bf16", "f64", "i1", "i8", "i32", "i64"), prefix=r"\b", suffix=r"\b"),
             token.Keyword.Type),
            (r"\b(func|fusion|hostir|scf|arith|math|module|tandem)\.[\w.]+", token.Keyword),
            (r"\b(to|on|from|via|into|step|partial|schedule|return)\b", token.Keyword),
            (r"-?\b\d+(\.\d+)?\b", token.Number),
            (r"\s+", token.Text),
            (r"\w+|.", token.Text),
        ]
    }


def setup(app):
    app.add_lexer("mlir", MlirLexer)
