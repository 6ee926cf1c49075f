//===- Chart.cpp - the picture of tandem-bench ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include <algorithm>
#include <fmt/format.h>

using namespace tandem;
using namespace tandem::bench;

namespace {

constexpr double kWidth = 980, kLeft = 210, kRight = 190, kBar = 15, kStep = 20, kHead = 30,
                 kGap = 18, kTop = 64;

std::string escaped(const std::string &text) {
  std::string result;
  for (char c : text)
    result += c == '<'   ? "&lt;"
              : c == '>' ? "&gt;"
              : c == '&' ? "&amp;"
              : c == '"' ? "&quot;"
                         : std::string(1, c);
  return result;
}

const char *colour(Role role) {
  switch (role) {
  case Role::Sequence:
    return "#8a8f98";
  case Role::Matmul:
  case Role::Communication:
    return "#d3d7dc";
  default:
    return "#3b76c4";
  }
}

/// A block of bars, from y on.
class Block {
public:
  Block(const RowReport &row, double y) : row(row), y(y) {
    for (const Entry &entry : row.entries)
      if (entry.seconds)
        longest = std::max({longest, entry.seconds->p90, entry.predicted.value_or(0)});
  }

  static double height(const RowReport &row) {
    return kHead + kStep * double(row.entries.size()) + kGap;
  }

  std::string draw() {
    text += fmt::format("<text x=\"12\" y=\"{:.0f}\" class=\"head\">{}</text>\n", y + 18,
                        escaped(row.shape.text() + ": " + describe(row.shape.op)));
    double bar = y + kHead;
    for (const Entry &entry : row.entries) {
      drawEntry(entry, bar);
      bar += kStep;
    }
    if (const Entry *sequence = row.find(Role::Sequence, firstMode());
        sequence && sequence->seconds)
      line(sequence->seconds->median, "sequence");
    if (auto limit = row.limit(firstMode()))
      line(*limit, "limit");
    return text;
  }

private:
  Mode firstMode() const { return row.entries.front().measurement.mode; }
  double x(double seconds) const {
    return kLeft + (longest > 0 ? seconds / longest : 0) * (kWidth - kLeft - kRight);
  }

  void line(double seconds, const char *kind) {
    text += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.0f}\" y2=\"{2:.0f}\" "
                        "class=\"{3}\"><title>{3}: {4:.3f} ms</title></line>\n",
                        x(seconds), y + kHead - 3, y + height(row) - kGap, kind, seconds * 1e3);
  }

  void drawEntry(const Entry &entry, double top) {
    const Measurement &m = entry.measurement;
    text += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" class=\"name\">{}</text>\n", kLeft - 8,
                        top + 12, escaped(fmt::format("{}, {}", m.name, toString(m.mode))));
    if (!entry.seconds) {
      std::string why = m.refused.substr(0, 110) + (m.refused.size() > 110 ? " ..." : "");
      text += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" class=\"refused\">refused: {}</text>\n",
                          kLeft + 4, top + 12, escaped(why));
      return;
    }
    const Quantiles &q = *entry.seconds;
    text += fmt::format("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" "
                        "fill=\"{}\"/>\n",
                        kLeft, top, x(q.median) - kLeft, kBar, colour(m.role));
    text += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" "
                        "class=\"spread\"/>\n",
                        x(q.p10), x(q.p90), top + kBar / 2, top + kBar / 2);
    if (entry.predicted)
      text += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" class=\"predicted\">"
                          "<title>predicted: {:.3f} ms</title></circle>\n",
                          x(*entry.predicted), top + kBar / 2, *entry.predicted * 1e3);
    std::string label = fmt::format("{:.3f} ms", q.median * 1e3);
    if (entry.toSequence && m.role == Role::Fused)
      label += fmt::format(", {:.2f} x", *entry.toSequence);
    if (!m.failure.empty())
      label += ", WRONG";
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" class=\"value\">{}</text>\n",
                        x(std::max(q.p90, q.median)) + 7, top + 12, label);
  }

  const RowReport &row;
  double y, longest = 0;
  std::string text;
};

constexpr const char *kStyle = R"(<style>
text { font: 12px system-ui, sans-serif; fill: #22262b }
.head { font-weight: 600; font-size: 13px }
.name { text-anchor: end }
.refused { fill: #9a6a00; font-size: 11px }
.spread { stroke: #22262b; stroke-width: 1 }
.sequence { stroke: #b3261e; stroke-width: 1; stroke-dasharray: 4 3 }
.limit { stroke: #1f7a3d; stroke-width: 1; stroke-dasharray: 2 2 }
.predicted { fill: none; stroke: #b45f06; stroke-width: 1.6 }
</style>
)";

} // namespace

std::string bench::reportSvg(const Options &options, const Report &report) {
  double height = kTop;
  for (const RowReport &row : report.rows)
    height += Block::height(row);
  std::string text = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
                                 "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\">\n{2}"
                                 "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
                                 kWidth, height, kStyle);
  text +=
      fmt::format("<text x=\"12\" y=\"24\" class=\"head\">{}</text>\n",
                  escaped(fmt::format("{} ranks, device {}, channel {}, target {}; median of {} "
                                      "rounds, slowest rank",
                                      report.ranks, options.device, options.channel, report.target,
                                      options.iterations)));
  text += "<text x=\"12\" y=\"44\">Thin line: p10 to p90. Dashed red: the plain sequence; dotted "
          "green: max(matmul, bytes / link rate); circle: predicted. \"x\": the sequence over "
          "this.</text>\n";
  double y = kTop;
  for (const RowReport &row : report.rows) {
    if (row.entries.empty())
      continue;
    text += Block(row, y).draw();
    y += Block::height(row);
  }
  return text + "</svg>\n";
}
