//===- Measured.cpp - a trace of a measured run -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Measured.h"

#include "Clock.h"
#include "Files.h"
#include "Ranks.h"
#include "tandem/Replay/Simulate.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <limits>

using namespace tandem;
using namespace tandem::run;

namespace {

/// What a rank sends: {begin, end, offset}, then two numbers a command.
std::string encode(const MeasuredRun &mine, int64_t offset) {
  const int64_t head[] = {mine.begin, mine.end, offset};
  std::string text(reinterpret_cast<const char *>(head), sizeof head);
  if (mine.count)
    text.append(reinterpret_cast<const char *>(mine.times), 2 * mine.count * sizeof *mine.times);
  return text;
}

int64_t numberAt(const std::string &text, size_t index) {
  int64_t value = 0;
  std::memcpy(&value, text.data() + index * sizeof value, sizeof value);
  return value;
}

constexpr size_t kHead = 3;

/// Times of all ranks on one clock, from the earliest rank's start on.
Expected<simulate::Result> join(const replay::World &world, const std::vector<std::string> &all) {
  simulate::Result result;
  result.begin.assign(world.commands.size(), 0);
  result.end.assign(world.commands.size(), 0);
  int64_t start = std::numeric_limits<int64_t>::max();
  for (uint32_t r = 0; r < all.size(); ++r) {
    const replay::Rank &rank = world.ranks[r];
    if (all[r].size() != (kHead + 2 * uint64_t(rank.end - rank.begin)) * sizeof(int64_t))
      return Status(Code::Internal, fmt::format("rank {} has measured another program", r));
    start = std::min(start, numberAt(all[r], 0) - numberAt(all[r], 2));
  }
  for (uint32_t r = 0; r < all.size(); ++r) {
    int64_t zero = start + numberAt(all[r], 2);
    auto seconds = [&](int64_t time) { return static_cast<double>(time - zero) * 1e-9; };
    const replay::Rank &rank = world.ranks[r];
    result.seconds = std::max(result.seconds, seconds(numberAt(all[r], 1)));
    // What was not noted (a wait for what was never recorded) ends with what is before it.
    std::vector<double> last(rank.numStreams, seconds(numberAt(all[r], 0)));
    for (replay::CommandId c = rank.begin; c < rank.end; ++c) {
      const replay::Command &command = world.commands[c];
      if (replay::isMessage(command.kind)) {
        result.begin[c] = result.begin[command.next];
        result.end[c] = result.end[command.next];
        continue;
      }
      int64_t begin = numberAt(all[r], kHead + 2 * size_t(c - rank.begin)),
              end = numberAt(all[r], kHead + 2 * size_t(c - rank.begin) + 1);
      result.begin[c] = begin ? seconds(begin) : last[command.stream];
      result.end[c] = begin ? seconds(end) : last[command.stream];
      last[command.stream] = result.end[c];
    }
  }
  // A message has arrived when its receiver says so.
  for (replay::CommandId c = 0; c < world.commands.size(); ++c) {
    const replay::Command &command = world.commands[c];
    if (command.kind == replay::Kind::Send && command.partner != replay::kNone)
      result.end[c] = result.end[world.commands[command.partner].next];
  }
  return result;
}

Status write(const ProgramFile &file, const std::vector<std::string> &all,
             const std::string &origin, const std::string &path) {
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<const replay::World> world, replay::World::load(file));
  TANDEM_ASSIGN_OR_RETURN(simulate::Result result, join(*world, all));
  timeline::Timeline timeline = simulate::makeTimeline(*world, result, origin, world->numRanks());
  return replaceFile(path,
                     [&](const std::string &part) { return timeline::writeTrace(timeline, part); });
}

} // namespace

Status run::traceRun(const ProgramFile &file, Bootstrap &bootstrap, const MeasuredRun &mine,
                     const std::string &origin, const std::string &path) {
  TANDEM_ASSIGN_OR_RETURN(int64_t offset, clockOffset(bootstrap));
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, encode(mine, offset)));
  std::string problem;
  if (bootstrap.rank() == 0)
    problem = write(file, all, origin, path).message();
  TANDEM_ASSIGN_OR_RETURN(auto verdicts, allGatherStrings(bootstrap, problem));
  return verdicts[0].empty() ? Status() : Status(Code::Io, verdicts[0]);
}
