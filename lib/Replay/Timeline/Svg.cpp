//===- Svg.cpp - drawing of a timeline --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Timeline.h"

#include "tandem/Program/AppendTo.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <iterator>

namespace tandem::timeline {

namespace {

constexpr const char *kComputeColour = "#3b6fb6", *kCommunicationColour = "#f28e2b",
                     *kWaitColour = "#e3e3e3", *kExposedColour = "#c8102e";
constexpr double kLeft = 118, kPlot = 960, kRight = 112, kTop = 78, kBottom = 46;
/// Narrower shapes are invisible.
constexpr double kThin = 0.35;
constexpr size_t kStreamsUpTo = 16, kMostRanks = 64;

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    switch (c) {
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '&':
      result += "&amp;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      // Control characters are invalid in XML.
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

/// The unit in which numbers of this size lie between 1 and 1000.
struct TimeUnit {
  double factor;
  const char *name;
};
TimeUnit unitFor(double seconds) {
  if (seconds >= 1)
    return {1, "s"};
  if (seconds >= 1e-3)
    return {1e3, "ms"};
  return {1e6, "us"};
}

/// 1, 2 or 5 times a power of ten, for about eight ticks.
double tickFor(double span) {
  double step = std::pow(10, std::floor(std::log10(span / 8)));
  for (double factor : {1.0, 2.0, 5.0})
    if (step * factor >= span / 8)
      return step * factor;
  return step * 10;
}

/// One horizontal strip of a rank.
struct Lane {
  std::string label;
  std::vector<Span> spans;
  bool merged = false; ///< each span represents many commands
};

struct Band {
  uint32_t rank = 0;
  std::vector<Lane> lanes;
};

double endOf(const Timeline &timeline) {
  double end = timeline.seconds;
  for (const auto &spans : timeline.ranks)
    for (const Span &span : spans)
      end = std::max(end, span.end);
  return end > 0 ? end : 1e-6;
}

/// One run. `axisSeconds`: of the axis, which all runs share; `above`: height of those before.
class Picture {
public:
  Picture(const Timeline &timeline, double axisSeconds, double above)
      : timeline(timeline), total(endOf(timeline)), axisSeconds(axisSeconds), above(above) {
    choose();
  }

  /// Appends the run; returns the height up to its end.
  double draw(std::string &to) {
    double y = above + kTop;
    std::string body;
    for (const Band &band : bands)
      y = draw(band, y, body);
    frame(y);
    to += text + body;
    return y + kBottom;
  }

private:
  void choose() {
    size_t ranks = timeline.ranks.size(), shown = std::min(ranks, kMostRanks);
    bool streams = ranks <= kStreamsUpTo;
    laneHeight = ranks <= 4 ? 18 : ranks <= 8 ? 13 : streams ? 9 : 7;
    for (size_t i = 0; i < shown; ++i) {
      Band band;
      band.rank = static_cast<uint32_t>(shown > 1 ? i * (ranks - 1) / (shown - 1) : 0);
      const std::vector<Span> &spans = timeline.ranks[band.rank];
      if (streams)
        lanesOfStreams(spans, band);
      else
        lanesOfCategories(spans, band);
      bands.push_back(std::move(band));
    }
  }

  static bool isDrawn(const Span &span) { return span.end > span.begin; }

  static void lanesOfStreams(const std::vector<Span> &spans, Band &band) {
    std::vector<Lane> lanes;
    for (const Span &span : spans) {
      if (!isDrawn(span))
        continue;
      if (span.stream >= lanes.size())
        lanes.resize(span.stream + 1u);
      lanes[span.stream].spans.push_back(span);
    }
    for (size_t s = 0; s < lanes.size(); ++s) {
      // Hide streams that only wait.
      bool works = std::any_of(lanes[s].spans.begin(), lanes[s].spans.end(),
                               [](const Span &span) { return span.category != Category::Waiting; });
      if (!works)
        continue;
      lanes[s].label = s == 0 ? "main" : fmt::format("s{}", s);
      band.lanes.push_back(std::move(lanes[s]));
    }
    if (band.lanes.empty())
      band.lanes.emplace_back();
  }

  /// Merges spans that overlap or are too close to distinguish.
  void lanesOfCategories(const std::vector<Span> &spans, Band &band) const {
    band.lanes.resize(2);
    for (const Span &span : spans)
      if (isDrawn(span) && span.category != Category::Waiting)
        band.lanes[span.category == Category::Compute ? 0 : 1].spans.push_back(span);
    for (Lane &lane : band.lanes) {
      std::sort(lane.spans.begin(), lane.spans.end(),
                [](const Span &a, const Span &b) { return a.begin < b.begin; });
      lane.merged = true;
      size_t kept = 0;
      for (const Span &span : lane.spans) {
        if (kept > 0 && x(span.begin) <= x(lane.spans[kept - 1].end) + kThin)
          lane.spans[kept - 1].end = std::max(lane.spans[kept - 1].end, span.end);
        else
          lane.spans[kept++] = span;
      }
      lane.spans.resize(kept);
    }
  }

  double x(double seconds) const { return kLeft + seconds / axisSeconds * kPlot; }

  void frame(double bottom) {
    TimeUnit unit = unitFor(total);
    std::string ranks = fmt::format("{} ranks", timeline.ranks.size());
    if (bands.size() < timeline.ranks.size())
      ranks += fmt::format(", {} of them shown", bands.size());
    appendTo(out,
             "<text x=\"{:.0f}\" y=\"{:.0f}\" font-size=\"15\" font-weight=\"bold\">@{}</text>\n"
             "<text x=\"{:.0f}\" y=\"{:.0f}\" fill=\"#555\">{}; {}; {:.4g} {} in all; {}</text>\n",
             kLeft, above + 22, escaped(timeline.program), kLeft, above + 40,
             escaped(timeline.origin), ranks, total * unit.factor, unit.name, summary());
    legend();
    axis(unitFor(axisSeconds), bottom);
  }

  std::string summary() const {
    double exposed = 0, most = 0;
    for (const std::vector<Span> &spans : timeline.ranks) {
      double part = sharesOf(spans).exposed;
      exposed += part;
      most = std::max(most, part);
    }
    exposed /= static_cast<double>(std::max<size_t>(1, timeline.ranks.size()));
    return fmt::format("communication exposed {:.0f} % of the time ({:.0f} % on the worst rank)",
                       100 * exposed / total, 100 * most / total);
  }

  void legend() {
    struct Entry {
      const char *colour, *label;
    };
    constexpr std::array<Entry, 4> entries = {{{kComputeColour, "compute"},
                                               {kCommunicationColour, "communication"},
                                               {kWaitColour, "waiting"},
                                               {kExposedColour, "exposed communication"}}};
    double at = kLeft;
    for (const Entry &entry : entries) {
      bool line = entry.colour == kExposedColour;
      appendTo(out,
               "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"14\" height=\"{}\" fill=\"{}\"/>"
               "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
               at, above + (line ? 55 : 51), line ? 3 : 10, entry.colour, at + 18, above + 60,
               entry.label);
      at += 40 + 6.2 * static_cast<double>(std::string_view(entry.label).size());
    }
  }

  void axis(TimeUnit unit, double bottom) {
    double step = tickFor(axisSeconds);
    int ticks = static_cast<int>(axisSeconds * 1.0001 / step);
    appendTo(out, "<g stroke=\"#ddd\">\n");
    for (int tick = 0; tick <= ticks; ++tick)
      appendTo(out, "<line x1=\"{0:.1f}\" y1=\"{1:.0f}\" x2=\"{0:.1f}\" y2=\"{2:.0f}\"/>\n",
               x(tick * step), above + kTop - 4, bottom);
    appendTo(out, "</g>\n<g text-anchor=\"middle\" fill=\"#555\">\n");
    for (int tick = 0; tick <= ticks; ++tick)
      appendTo(out, "<text x=\"{:.1f}\" y=\"{:.0f}\">{:.6g}</text>\n", x(tick * step), bottom + 14,
               std::round(tick * step * unit.factor * 1e6) / 1e6);
    appendTo(out, "<text x=\"{:.0f}\" y=\"{:.0f}\">time, {}</text>\n</g>\n", kLeft + kPlot / 2,
             bottom + 32, unit.name);
  }

  double draw(const Band &band, double y, std::string &body) {
    auto to = std::back_inserter(body);
    double height = static_cast<double>(band.lanes.size()) * laneHeight + 5;
    const std::vector<Span> &spans = timeline.ranks[band.rank];
    Shares shares = sharesOf(spans);
    appendTo(to, "<text x=\"8\" y=\"{:.1f}\" font-weight=\"bold\">rank {}</text>\n",
             y + height / 2 + 3, band.rank);
    appendTo(to, "<text x=\"{:.0f}\" y=\"{:.1f}\" fill=\"{}\">{:.0f} % exposed</text>\n",
             kLeft + kPlot + 8, y + height / 2 + 3, kExposedColour,
             shares.total > 0 ? 100 * shares.exposed / shares.total : 0);
    double top = y;
    for (const Lane &lane : band.lanes) {
      if (!lane.label.empty() && laneHeight >= 9)
        appendTo(to,
                 "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\" font-size=\"9\" "
                 "fill=\"#777\">{}</text>\n",
                 kLeft - 6, top + laneHeight / 2 + 3, lane.label);
      draw(lane, top, to);
      top += laneHeight;
    }
    for (const Interval &interval : exposedOf(spans))
      if (x(interval.end) - x(interval.begin) >= 0.1)
        appendTo(to,
                 "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"2.5\" "
                 "fill=\"{}\"/>\n",
                 x(interval.begin), top + 0.5, x(interval.end) - x(interval.begin), kExposedColour);
    return y + height + (laneHeight >= 9 ? 7 : 3);
  }

  template <typename Out> void draw(const Lane &lane, double top, Out to) {
    // Merge shapes narrower than a third of a unit: millions of commands become some thousand
    // shapes.
    size_t count = lane.spans.size();
    for (size_t i = 0; i < count;) {
      const Span &span = lane.spans[i];
      double begin = x(span.begin), end = x(span.end);
      size_t joined = 1;
      if (end - begin < kThin)
        while (i + joined < count && lane.spans[i + joined].category == span.category &&
               x(lane.spans[i + joined].end) - begin < 2 * kThin) {
          end = std::max(end, x(lane.spans[i + joined].end));
          ++joined;
        }
      draw(span, lane.merged ? 0 : joined, begin, end, top, to);
      i += joined;
    }
  }

  /// `joined`: commands merged into the shape; 0: too many to name one.
  template <typename Out>
  void draw(const Span &span, size_t joined, double begin, double end, double top, Out to) {
    const char *colour = span.category == Category::Compute         ? kComputeColour
                         : span.category == Category::Communication ? kCommunicationColour
                                                                    : kWaitColour;
    double gap = end - begin > 3 ? 0.4 : 0;
    appendTo(to, "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"",
             begin, top + 1, std::max(0.15, end - begin - gap), laneHeight - 2, colour);
    if (end - begin < 1 || joined == 0) {
      appendTo(to, "/>\n");
      return;
    }
    std::string name = span.name < timeline.names.size()
                           ? timeline.names[span.name].text
                           : sp::EnumNameCommandKind(static_cast<sp::CommandKind>(span.kind));
    TimeUnit unit = unitFor(span.end - span.begin);
    appendTo(to, "><title>{}, command {}, {:.4g} {}", escaped(name), span.command,
             (span.end - span.begin) * unit.factor, unit.name);
    if (joined > 1)
      appendTo(to, ", and {} more", joined - 1);
    if (span.name < timeline.names.size() && !timeline.names[span.name].location.empty())
      appendTo(to, ", {}", escaped(timeline.names[span.name].location));
    appendTo(to, "</title></rect>\n");
    double room = (end - begin) / 5.4;
    if (span.category != Category::Waiting && laneHeight >= 12 &&
        room > static_cast<double>(name.size() + 1))
      appendTo(to,
               "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"9\" fill=\"white\" "
               "pointer-events=\"none\">{}</text>\n",
               begin + 3, top + laneHeight / 2 + 3, escaped(name));
  }

  const Timeline &timeline;
  const double total, axisSeconds, above;
  double laneHeight = 14;
  std::vector<Band> bands;
  std::string text;
  std::back_insert_iterator<std::string> out{text};
};

} // namespace

std::string svg(const std::vector<Timeline> &runs) {
  double seconds = 0, height = 0;
  for (const Timeline &run : runs)
    seconds = std::max(seconds, endOf(run));
  std::string body;
  for (const Timeline &run : runs)
    height = Picture(run, seconds, height).draw(body);
  return fmt::format(R"(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="11">
<rect width="{0:.0f}" height="{1:.0f}" fill="white"/>
{2}</svg>
)",
                     kLeft + kPlot + kRight, height, body);
}

} // namespace tandem::timeline
