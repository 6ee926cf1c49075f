//===- Compare.cpp - simulated against measured times -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Simulate.h"

#include "tandem/Program/AppendTo.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

namespace tandem::simulate {

using timeline::Span;
using timeline::Timeline;

namespace {

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double errorOf(double simulated, double measured) {
  return measured > 0 ? std::abs(simulated - measured) / measured : 0;
}

bool isWait(const Span &span) {
  return static_cast<sp::CommandKind>(span.kind) == sp::CommandKind::wait;
}

/// Skips records and waits that did not wait.
bool counts(const Span &span) {
  return static_cast<sp::CommandKind>(span.kind) != sp::CommandKind::record &&
         span.end > span.begin;
}

struct KindOfCommand {
  Comparison::Row row;
  std::vector<double> errors;
};

/// Pairs a rank's commands; false if the kinds of a pair differ.
bool pairUp(const std::vector<Span> &measured, const std::vector<Span> &simulated,
            std::vector<KindOfCommand> &kinds) {
  size_t next = 0;
  for (const Span &span : measured) {
    while (next < simulated.size() && simulated[next].command < span.command)
      ++next;
    if (next == simulated.size() || simulated[next].command != span.command) {
      if (counts(span) && !isWait(span))
        return false;
      continue;
    }
    const Span &other = simulated[next];
    if (other.kind != span.kind)
      return false;
    if (!counts(span) && !(isWait(span) && counts(other)))
      continue;
    KindOfCommand &kind = kinds[span.kind];
    double real = span.end - span.begin, guess = other.end - other.begin;
    ++kind.row.commands;
    kind.row.measured += real;
    kind.row.simulated += guess;
    // One of the two may not have waited at all.
    kind.errors.push_back(isWait(span) ? std::abs(guess - real) / std::max(guess, real)
                                       : errorOf(guess, real));
  }
  return true;
}

} // namespace

Expected<Comparison> compare(const Timeline &measured, const Timeline &simulated) {
  auto differ = [&](const std::string &what) {
    return Status(Code::InvalidArgument,
                  fmt::format("the measurement is of another program: {}", what));
  };
  if (measured.program != simulated.program)
    return differ(fmt::format("@{}, not @{}", measured.program, simulated.program));
  if (measured.ranks.size() != simulated.ranks.size())
    return differ(fmt::format("{} ranks, not {}", measured.ranks.size(), simulated.ranks.size()));
  Comparison comparison;
  comparison.measured = measured.seconds;
  comparison.simulated = simulated.seconds;
  std::vector<KindOfCommand> kinds(256);
  for (size_t r = 0; r < measured.ranks.size(); ++r) {
    if (!pairUp(measured.ranks[r], simulated.ranks[r], kinds))
      return differ(fmt::format("the commands of rank {} differ", r));
    Comparison::Row row;
    row.what = fmt::format("rank {}", r);
    row.commands = measured.ranks[r].size();
    row.measured = timeline::sharesOf(measured.ranks[r]).total;
    row.simulated = timeline::sharesOf(simulated.ranks[r]).total;
    row.medianError = errorOf(row.simulated, row.measured);
    comparison.ranks.push_back(std::move(row));
  }
  for (size_t k = 0; k < kinds.size(); ++k)
    if (kinds[k].row.commands > 0) {
      kinds[k].row.what = sp::EnumNameCommandKind(static_cast<sp::CommandKind>(k));
      kinds[k].row.medianError = median(kinds[k].errors);
      comparison.kinds.push_back(std::move(kinds[k].row));
    }
  return comparison;
}

std::string report(const Comparison &comparison) {
  std::string text;
  auto out = std::back_inserter(text);
  appendTo(out, "{:<14}{:>9}{:>14}{:>14}{:>9}{:>14}\n", "", "commands", "measured us",
           "simulated us", "ratio", "median error");
  auto line = [&](const Comparison::Row &row) {
    appendTo(out, "{:<14}{:>9}{:>14.1f}{:>14.1f}{:>9.2f}{:>12.0f} %\n", row.what, row.commands,
             row.measured * 1e6, row.simulated * 1e6,
             row.measured > 0 ? row.simulated / row.measured : 0, 100 * row.medianError);
  };
  for (const Comparison::Row &row : comparison.kinds)
    line(row);
  for (const Comparison::Row &row : comparison.ranks)
    line(row);
  Comparison::Row all{"run", 0, comparison.measured, comparison.simulated,
                      errorOf(comparison.simulated, comparison.measured)};
  for (const Comparison::Row &row : comparison.ranks)
    all.commands += row.commands;
  line(all);
  return text;
}

} // namespace tandem::simulate
