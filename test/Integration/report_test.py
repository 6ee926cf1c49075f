# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of `tandem-sim --html`, opened in headless Chromium: what it draws, what pointer and keys do, what hostile
names cannot do. The runs are traces made here, so every width is known."""

import json
import struct
import zlib

import browser
import harness

ATTACK = '</script><script>document.title="broken"</script><img src=x onerror=alert(1)>'
BLUE, ORANGE, RED = (0x2f, 0x6d, 0xb5), (0xd9, 0x64, 0x1e), (0xc8, 0x10, 0x2e)


def trace(program, ranks, seconds=1e-3):
    """A Chrome trace as tandem-run writes it. `ranks`: of each, spans (stream, kind, begin us, length us, name, bytes)."""
    events = [{"ph": "X", "pid": rank, "tid": stream, "ts": begin, "dur": length, "cat": "", "name": name,
               "args": {"command": number, "kind": kind, "location": "here.mlir:1:2", "bytes": size}}
              for rank, spans in enumerate(ranks)
              for number, (stream, kind, begin, length, name, size) in enumerate(spans)]
    return {"tandem": {"version": 1, "program": program, "origin": "measured on paper", "seconds": seconds, "ranks": len(ranks)},
            "traceEvents": events}


def pixels(path):
    """The rows of a PNG, each a list of (red, green, blue)."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", path
    at, packed, head = 8, b"", None
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        head = struct.unpack(">IIBBBBB", body) if kind == b"IHDR" else head
        packed += body if kind == b"IDAT" else b""
        at += length + 12
    width, height, depth, colour, _, _, interlaced = head
    assert depth == 8 and colour in (2, 6) and not interlaced, head
    size = 3 if colour == 2 else 4
    raw, line, rows = zlib.decompress(packed), bytearray(width * size), []
    for y in range(height):
        start = y * (width * size + 1)
        above, line = line, bytearray(raw[start + 1:start + 1 + width * size])
        how = raw[start]
        for i in range(len(line)) if how else ():
            left, up = line[i - size] if i >= size else 0, above[i]
            corner = above[i - size] if i >= size else 0
            guess = left + up - corner
            near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            line[i] = (line[i] + (0, left, up, (left + up) // 2, near)[how]) & 255
        rows.append([tuple(line[i:i + 3]) for i in range(0, len(line), size)])
    return rows


@browser.needed
class Report(harness.Test):
    def page(self, *traces):
        files = []
        for number, content in enumerate(traces):
            files.append(self.path(f"{number}.json"))
            with open(files[-1], "w", encoding="utf-8") as file:
                json.dump(content, file)
        out = self.path("report.html")
        done = harness.run([harness.tool("tandem-sim"), f"--html={out}", *(f"--with={file}" for file in files)])
        self.assertEqual((done.code, done.err), (0, ""), str(done))
        return out

    #: A gather for 600 us and then a matmul for 400; below, the two at once in 500.
    BASELINE = [(0, "collective", 0, 600, "all-gather", 3000000), (0, "matmul", 600, 400, "matmul #0", 0)]
    OVERLAPPED = [(1, "collective", 0, 500, "all-gather", 3000000), (0, "matmul", 100, 400, "matmul #0", 0)]

    def test_bars(self):
        """Widths are durations on one axis, colours are kinds, and the picture has them where the page says."""
        page = self.page(trace("baseline", [self.BASELINE]), trace("better", [self.OVERLAPPED], 0.5e-3))
        # What was looked at before takes room from the canvas.
        bars, rows = browser.look(page, """document.getElementById("tandem-seen")?.remove(), [tandemReport.bars(),
            [...document.querySelectorAll("#runs tr")].map(row => [...row.cells].map(cell => cell.textContent))]""")
        self.assertEqual(len(bars), 4)
        unit = {round(bar["width"] / (bar["end"] - bar["begin"]), 6) for bar in bars}
        self.assertEqual(len(unit), 1, "a bar's width is not in proportion to its duration")
        first = {(bar["run"], bar["rank"], bar["name"]): bar for bar in bars}
        self.assertAlmostEqual(first[0, 0, "matmul #0"]["x"], first[0, 0, "all-gather"]["x"] + first[0, 0, "all-gather"]["width"], delta=0.01)
        self.assertEqual(first[0, 0, "all-gather"]["x"], first[1, 0, "all-gather"]["x"])
        self.assertEqual([row[1:2] + row[4:] for row in rows[1:]],
                         [["@baseline", "1 ms", "1.00 x", "40.0 %", "60.0 %"], ["@better", "500 us", "2.00 x", "80.0 %", "20.0 %"]])

        picture = self.path("report.png")
        browser.picture(page, picture)
        seen = pixels(picture)
        # The window of a picture may differ from that of a look, so bars are found by their colours.
        longest = {}
        for colour in (BLUE, ORANGE, RED):
            runs = [self.runs_of(row, colour) for row in seen]
            longest[colour] = max(max(row, default=0) for row in runs)
        self.assertGreater(longest[ORANGE], 300)
        # The names that are written on bars, and the shade at their ends, take part of a row; rows above the name have all.
        self.assertAlmostEqual(longest[BLUE] / longest[ORANGE], 400 / 600, delta=0.02)
        self.assertAlmostEqual(longest[RED] / longest[ORANGE], 1, delta=0.02)

    def test_equal_names(self):
        """Runs of one name and origin are labelled by their files; others are not."""
        page = self.page(trace("layer", [self.BASELINE]), trace("layer", [self.OVERLAPPED]), trace("other", [self.BASELINE]))
        labels = browser.look(page, "[...document.querySelectorAll('#runs tr')].slice(1).map(row => row.cells[1].textContent)")
        self.assertEqual(labels, [f"@layer ({self.path('0.json')})", f"@layer ({self.path('1.json')})", "@other"])

    @staticmethod
    def runs_of(row, colour):
        """Lengths of the runs of this colour, nearly."""
        lengths, length = [], 0
        for pixel in row + [None]:
            if pixel and all(abs(a - b) < 12 for a, b in zip(pixel, colour)):
                length += 1
            elif length:
                lengths.append(length)
                length = 0
        return lengths

    def test_pointer_and_keys(self):
        page = self.page(trace("baseline", [self.BASELINE]))
        found = browser.look(page, """(() => {
          const canvas = document.getElementById("canvas"), box = canvas.getBoundingClientRect(), tip = document.getElementById("tip");
          tandemReport.setView(0, 1e6);
          tandemReport.flush();
          const bar = tandemReport.bars().find(bar => bar.kind === "collective"), at = {
            clientX: box.left + bar.x + bar.width / 2, clientY: box.top + bar.y + bar.height / 2, bubbles: true};
          canvas.dispatchEvent(new PointerEvent("pointermove", at));
          const shown = [tip.style.display, tip.textContent];
          canvas.dispatchEvent(new PointerEvent("pointerdown", at));
          canvas.dispatchEvent(new PointerEvent("pointerup", at));
          const picked = document.getElementById("details").textContent;
          const key = (name) => document.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true}));
          key("n");
          const next = document.getElementById("details").textContent;
          key("Enter");
          const entered = tandemReport.shown();
          key("0");
          const all = tandemReport.shown();
          canvas.dispatchEvent(new WheelEvent("wheel", {...at, deltaY: -500, cancelable: true}));
          const zoomed = tandemReport.shown();
          canvas.dispatchEvent(new PointerEvent("pointerdown", at));
          canvas.dispatchEvent(new PointerEvent("pointermove", {...at, clientX: at.clientX - 50}));
          canvas.dispatchEvent(new PointerEvent("pointerup", {...at, clientX: at.clientX - 50}));
          const dragged = tandemReport.shown();
          canvas.dispatchEvent(new PointerEvent("pointerleave", at));
          return {shown, picked, next, entered, all, zoomed, dragged, left: tip.style.display};
        })()""")
        self.assertEqual(found["shown"][0], "block")
        for text in ("all-gather (collective)", "@baseline, rank 0, stream 0, command 0", "start 0 us, duration 600 us", "3 MB, 5 GB/s",
                     "here.mlir:1:2"):
            self.assertIn(text, found["shown"][1])
        self.assertIn("all-gather", found["picked"])
        self.assertIn("matmul #0", found["next"])
        # The matmul, 600 to 1000 us, and two fifths of its length around it; no more than there is.
        self.assertEqual([round(time) for time in found["entered"]], [440000, 1000000])
        self.assertEqual(found["all"], [0, 1000000])
        (a, b), (c, d) = found["zoomed"], found["dragged"]
        self.assertLess(b - a, 500e3)
        # The place below the pointer stays where it was: the middle of the collective.
        self.assertAlmostEqual((300e3 - a) / (b - a), 0.3, delta=0.01)
        self.assertGreater(c, a)
        self.assertAlmostEqual(d - c, b - a, delta=1)
        self.assertEqual(found["left"], "none")

    def test_a_thousand_ranks(self):
        """Equal ranks are one class; a reader may choose others."""
        spans = [(0, "matmul", i * 10, 9, f"matmul #{i}", 0) for i in range(100)]
        page = self.page(trace("large", [spans] * 999 + [spans[:50]]))
        found = browser.look(page, """(() => {
          const field = document.getElementById("ranks");
          field.value = "";
          field.dispatchEvent(new Event("input"));
          const classes = [...new Set(tandemReport.bars().map(bar => bar.rank))];
          field.value = "7, 998-2000";
          field.dispatchEvent(new Event("input"));
          return [classes, [...new Set(tandemReport.bars().map(bar => bar.rank))], tandemReport.bars().length];
        })()""")
        self.assertEqual(found, [[0, 999], [7, 998, 999], 250])

    def test_thousands_of_ranks(self):
        """Counts and shares are of all ranks. Where the page lacks bars, it says so."""
        halves = trace("halves", [[(0, "matmul", 0, 500, "", 0)]] * 1024 + [[(0, "matmul", 0, 1000, "", 0)]] * 1024)
        differ = trace("differ", [[(0, "matmul", 0, 500 + rank / 10, "", 0)] for rank in range(2000)])
        page = self.page(halves, differ)
        found = browser.look(page, """(() => {
          document.getElementById("tandem-seen")?.remove();
          const field = document.getElementById("ranks");
          const ranks = (text) => {
            field.value = text;
            field.dispatchEvent(new Event("input"));
            return [0, 1].map((run) => tandemReport.bars().filter((bar) => bar.run === run).map((bar) => bar.rank));
          };
          return {cut: document.getElementById("cut").textContent, all: ranks(""), some: ranks("0, 2, 1999"),
            table: [...document.querySelectorAll("#runs tr")].slice(1).map(row => [...row.cells].map(cell => cell.textContent).slice(3, 7))};
        })()""")
        self.assertEqual(found["table"], [["2048", "1 ms", "1.00 x", "75.0 %"], ["2000", "1 ms", "1.00 x", "60.0 %"]])
        self.assertEqual(found["cut"], "@differ: bars of 1024 of 2000 ranks are in this page; the table is of all ranks")
        halves, differ = found["all"]
        self.assertEqual(halves, [0, 1024])
        # Those that the window has room for; all of them have bars.
        self.assertGreater(len(differ), 4)
        self.assertEqual(differ, sorted(differ))
        # The first and the last rank have bars, and evenly chosen ones: 0, 1, 3, 5, ...
        self.assertEqual(found["some"], [[0, 2, 1999], [0, 1999]])

    def test_names_are_only_text(self):
        hostile = trace(ATTACK, [[(0, "matmul", 0, 1000, ATTACK, 0)]])
        hostile["tandem"]["origin"] = ATTACK
        hostile["traceEvents"][0]["args"]["location"] = ATTACK
        page = self.page(hostile)
        title, images, scripts, names = browser.look(page, """[document.title, document.images.length,
            document.scripts.length, tandemReport.bars().map(bar => bar.name)]""")
        self.assertEqual(title, "Tandem: @" + ATTACK)
        # That of the page, its data, and the one that looks.
        self.assertEqual((images, scripts, names), (0, 3, [ATTACK]))
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertNotIn(ATTACK, text)
        self.assertNotRegex(text, r"(src|href)=.?https?:|fetch\(|import ", "the page needs no network")


if __name__ == "__main__":
    harness.main(__doc__, Report)
