//===- Report.cpp - what tandem-bench says ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <utility>

using namespace tandem;
using namespace tandem::bench;

Quantiles bench::quantilesOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  auto at = [&](double part) {
    double place = part * double(values.size() - 1);
    auto below = static_cast<size_t>(place);
    size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (values[above] - values[below]) * (place - double(below));
  };
  return {at(.5), at(.1), at(.9)};
}

std::optional<double> Entry::predictionError() const {
  if (!predicted || !seconds)
    return std::nullopt;
  return *predicted / seconds->median - 1;
}

const Entry *RowReport::find(Role role, Mode mode) const {
  for (const Entry &entry : entries)
    if (entry.measurement.role == role && entry.measurement.mode == mode)
      return &entry;
  return nullptr;
}

Mode RowReport::usualMode() const {
  for (Mode mode : {Mode::Graph, Mode::Direct, Mode::Traced})
    if (std::any_of(entries.begin(), entries.end(), [&](const Entry &entry) {
          return entry.measurement.mode == mode && entry.seconds;
        }))
      return mode;
  return Mode::Direct;
}

std::optional<double> RowReport::limit(Mode mode) const {
  const Entry *matmul = find(Role::Matmul, mode);
  if (!matmul || !matmul->seconds || !linkRate)
    return std::nullopt;
  return std::max(matmul->seconds->median, bytes / *linkRate);
}

/// Whether two vectors of structs, null if empty, agree once `forget` has cleared what may differ.
template <typename T, typename F>
static bool areEqual(const flatbuffers::Vector<const T *> *a,
                     const flatbuffers::Vector<const T *> *b, F forget) {
  size_t size = a ? a->size() : 0;
  if (size != (b ? b->size() : 0))
    return false;
  for (size_t i = 0; i < size; ++i) {
    T one = forget(*a->Get(i)), other = forget(*b->Get(i));
    if (std::memcmp(&one, &other, sizeof one) != 0)
      return false;
  }
  return true;
}

/// Whether a rank does the same: but for names, which tell of the source.
static bool doesTheSame(const Program &a, const Program &b) {
  auto command = [](const sp::Command &c) {
    return sp::Command(c.kind(), c.flags(), c.op(), c.reduce_op(), c.stream(), c.channel(), 0,
                       flatbuffers::span<const uint32_t, 4>(c.operands()->data(), 4), c.peer(),
                       c.aux(), c.value(), 0);
  };
  auto buffer = [](const sp::Buffer &buffer) {
    return sp::Buffer(buffer.space(), buffer.argument(), buffer.offset(), buffer.size(), 0);
  };
  auto view = [](const sp::View &view) { return view; };
  auto layouts = [](const Program &p) {
    return p.data().layouts() ? p.data().layouts()->size() : 0;
  };
  if (!areEqual(a.data().commands(), b.data().commands(), command) ||
      !areEqual(a.data().buffers(), b.data().buffers(), buffer) ||
      !areEqual(a.data().views(), b.data().views(), view) || layouts(a) != layouts(b))
    return false;
  for (uint32_t i = 0; i < layouts(a); ++i)
    if (a.layout(i).str() != b.layout(i).str())
      return false;
  return true;
}

static bool doesTheSame(const ProgramFile &a, const ProgramFile &b) {
  for (uint32_t rank = 0; rank < a.numRanks(); ++rank) {
    auto one = a.rankProgram(rank), other = b.rankProgram(rank);
    if (!one || !other || !doesTheSame(**one, **other))
      return false;
  }
  return a.numRanks() == b.numRanks();
}

RowReport bench::makeRow(const Case &shape, uint32_t ranks, std::optional<double> linkRate,
                         std::vector<Measurement> measurements) {
  RowReport row;
  row.shape = shape;
  row.bytes = shape.bytesReceived(ranks);
  row.linkRate = linkRate;
  for (Measurement &measurement : measurements) {
    Entry entry;
    if (!measurement.seconds.empty()) {
      entry.seconds = quantilesOf(measurement.seconds);
      entry.host = quantilesOf(measurement.host).median;
    }
    entry.measurement = std::move(measurement);
    row.entries.push_back(std::move(entry));
  }
  for (Entry &entry : row.entries) {
    if (!entry.seconds)
      continue;
    Mode mode = entry.measurement.mode;
    if (entry.measurement.name == "auto")
      for (const Entry &other : row.entries)
        if (other.measurement.name != "auto" && other.measurement.mode == mode &&
            other.measurement.file && entry.measurement.file && entry.sameAs.empty() &&
            doesTheSame(*entry.measurement.file, *other.measurement.file))
          entry.sameAs = other.measurement.name;
    const Entry *sequence = row.find(Role::Sequence, mode);
    if (sequence && sequence->seconds)
      entry.toSequence = sequence->seconds->median / entry.seconds->median;
    if (auto limit = row.limit(mode))
      entry.toLimit = entry.seconds->median / *limit;
  }
  return row;
}

std::optional<double> Report::medianPredictionError() const {
  std::vector<double> errors;
  for (const RowReport &row : rows)
    for (const Entry &entry : row.entries)
      if (auto error = entry.predictionError())
        errors.push_back(std::abs(*error));
  if (errors.empty())
    return std::nullopt;
  return quantilesOf(std::move(errors)).median;
}

std::vector<std::string> Report::slower(double percent) const {
  std::vector<std::string> found;
  for (const RowReport &row : rows)
    for (const Entry &entry : row.entries) {
      const Measurement &m = entry.measurement;
      if (m.name != "auto" || !entry.toSequence || m.mode != row.usualMode())
        continue;
      if (entry.sameAs == "sequence") // then they differ by what every measurement does
        continue;
      double by = (1 / *entry.toSequence - 1) * 100;
      if (by > percent)
        found.push_back(fmt::format("{}, {}: {:.1f} %", row.shape.text(), toString(m.mode), by));
    }
  return found;
}

std::vector<std::string> Report::unjudged() const {
  std::vector<std::string> found;
  for (const RowReport &row : rows) {
    bool judged = std::any_of(row.entries.begin(), row.entries.end(), [&](const Entry &entry) {
      return entry.measurement.name == "auto" && entry.measurement.mode == row.usualMode() &&
             entry.toSequence;
    });
    if (!judged)
      found.push_back(row.shape.text());
  }
  return found;
}

bool Report::ranNothing() const {
  return !rows.empty() && std::all_of(rows.begin(), rows.end(), [](const RowReport &row) {
    return std::none_of(row.entries.begin(), row.entries.end(),
                        [](const Entry &entry) { return entry.seconds.has_value(); });
  });
}

std::vector<std::string> Report::wrong() const {
  std::vector<std::string> found;
  for (const RowReport &row : rows)
    for (const Entry &entry : row.entries) {
      const Measurement &m = entry.measurement;
      if (!m.failure.empty())
        found.push_back(
            fmt::format("{}, {}, {}: {}", row.shape.text(), m.name, toString(m.mode), m.failure));
    }
  return found;
}

/// Three figures that matter; times in ms.
static std::string ms(double seconds) {
  double value = seconds * 1e3;
  return fmt::format("{:.{}f}", value, value < 10 ? 3 : value < 100 ? 2 : 1);
}

static std::string optionalText(const std::optional<double> &value, double factor,
                                const char *format) {
  return value ? fmt::format(fmt::runtime(format), *value * factor) : "-";
}

std::string bench::tableHead(const Options &options, const Report &report) {
  std::string rate =
      report.linkRate ? fmt::format("{:.2f} GB/s ({})", *report.linkRate / 1e9, report.linkSource)
                      : "not known (" + report.linkSource + ")";
  return fmt::format(
      "{} ranks, device {}, channel {}, target {}; {} rounds, {} sets of inputs{}\n"
      "link: {}\n"
      "ms, slowest rank; \"x seq\": the sequence's median over this one's (more is faster); "
      "\"/ limit\": over max(matmul, bytes / link)\n",
      report.ranks, options.device, options.channel, report.target, options.iterations,
      options.sets, options.batch > 1 ? fmt::format(", {} runs back to back", options.batch) : "",
      rate);
}

std::string bench::tableRow(const RowReport &row) {
  std::string text =
      fmt::format("\n{} ({}, {:.3g} GFLOP, {:.3g} MB to receive)\n", row.shape.text(),
                  describe(row.shape.op), row.shape.flops() / 1e9, row.bytes / 1e6);
  text += fmt::format("  {:<24} {:<6} {:>8} {:>8} {:>8} {:>7} {:>7} {:>8} {:>9} {:>6}  {}\n",
                      "what", "mode", "median", "p10", "p90", "x seq", "/ limit", "host us",
                      "predicted", "error", "result");
  for (const Entry &entry : row.entries) {
    const Measurement &m = entry.measurement;
    if (!entry.seconds) {
      text += fmt::format("  {:<24} {:<6} refused: {}\n", m.name, toString(m.mode),
                          m.refused.size() > 90 ? m.refused.substr(0, 87) + "..." : m.refused);
      continue;
    }
    std::string error = optionalText(entry.predictionError(), 100, "{:+.0f} %");
    std::string predicted = entry.predicted ? ms(*entry.predicted) : "-";
    std::string result = !m.failure.empty() ? "WRONG: " + m.failure
                         : m.verified       ? fmt::format("verified, {:.1e}", m.error)
                                            : "not verified";
    if (!entry.sameAs.empty())
      result += fmt::format(", is {}", entry.sameAs);
    text += fmt::format("  {:<24} {:<6} {:>8} {:>8} {:>8} {:>7} {:>7} {:>8.1f} {:>9} {:>6}  {}\n",
                        m.name, toString(m.mode), ms(entry.seconds->median), ms(entry.seconds->p10),
                        ms(entry.seconds->p90), optionalText(entry.toSequence, 1, "{:.2f}"),
                        optionalText(entry.toLimit, 1, "{:.2f}"), entry.host * 1e6, predicted,
                        error, result);
    if (!entry.unpredicted.empty())
      text += fmt::format("  {:<24} no prediction: {}\n", "", entry.unpredicted);
  }
  return text;
}

std::string bench::tableEnd(const Options &options, const Report &report) {
  std::string text = "\n";
  if (auto error = report.medianPredictionError())
    text +=
        fmt::format("predictions on {}: median error {:.1f} %\n", options.machine, *error * 100);
  double percent = options.failIfSlower < 0 ? 2 : options.failIfSlower;
  std::vector<std::string> slower = report.slower(percent);
  for (const std::string &line : slower)
    text += fmt::format("slower than the sequence: auto, {}\n", line);
  std::vector<std::string> unjudged = report.unjudged();
  if (options.failIfSlower >= 0)
    for (const std::string &line : unjudged)
      text += fmt::format("not compared with the sequence: auto, {}\n", line);
  if (slower.empty() && unjudged.size() < report.rows.size())
    text += fmt::format("auto is nowhere slower than the sequence by more than {} %\n", percent);
  for (const std::string &line : report.wrong())
    text += fmt::format("WRONG: {}\n", line);
  if (report.ranNothing())
    text += "nothing could be run: all programs were refused\n";
  for (const std::string &line : report.left)
    text += fmt::format("not measured, time was up: {}\n", line);
  if (!report.failure.empty())
    text += fmt::format("FAILED: {}\n", report.failure);
  return text;
}
