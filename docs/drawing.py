# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pictures for docs/images: rectangles, lines and text, written as SVG."""

import html

WIDTH = 900
INK, MUTED, GRID = "#1f2328", "#59636e", "#d8dee4"
TANDEM, TORCH, COMMUNICATION = "#0b6bcb", "#b8c2cc", "#e08a1e"


class Drawing:
    def __init__(self, height, title):
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="13">',
            f"<title>{html.escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        ]

    def rect(self, x, y, width, height, color, title=""):
        hover = f"<title>{html.escape(title)}</title>" if title else ""
        self.lines.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}">{hover}</rect>')

    def line(self, x1, y1, x2, y2, color, width=1):
        self.lines.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"/>')

    def text(self, x, y, text, color=INK, anchor="start", weight="normal", size=13):
        self.lines.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}" font-weight="{weight}" '
                          f'font-size="{size}">{html.escape(text)}</text>')

    def write(self, path):
        with open(path, "w") as file:
            file.write("\n".join(self.lines) + "\n</svg>\n")
