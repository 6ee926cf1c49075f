//===- DataTrace.cpp - where a value comes from ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataTrace.h"

#include <algorithm>
#include <optional>

namespace tandem::check {

using namespace replay;

/// Most steps back.
static constexpr unsigned kMaxSteps = 32;

std::string elementText(const std::vector<int64_t> &shape, uint64_t element) {
  std::string text;
  for (size_t d = shape.size(); d-- > 0;) {
    auto extent = static_cast<uint64_t>(std::max<int64_t>(shape[d], 1));
    text = fmt::format("{}{}{}", element % extent, text.empty() ? "" : ",", text);
    element /= extent;
  }
  return "[" + text + "]";
}

std::optional<uint64_t> elementOf(const Layout &layout, uint64_t offset) {
  unsigned dims[kMaxRank];
  int64_t index[kMaxRank] = {};
  auto rest = static_cast<int64_t>(offset);
  for (unsigned d = 0; d < layout.rank; ++d)
    dims[d] = d;
  std::sort(dims, dims + layout.rank,
            [&](unsigned a, unsigned b) { return layout.strides[a] > layout.strides[b]; });
  for (unsigned i = 0; i < layout.rank; ++i) {
    unsigned d = dims[i];
    if (layout.shape[d] == 1 || layout.strides[d] == 0)
      continue;
    index[d] = std::min(rest / layout.strides[d], layout.shape[d] - 1);
    rest -= index[d] * layout.strides[d];
  }
  if (rest != 0)
    return std::nullopt;
  uint64_t element = 0;
  for (unsigned d = 0; d < layout.rank; ++d)
    element = element * static_cast<uint64_t>(layout.shape[d]) + static_cast<uint64_t>(index[d]);
  return element;
}

uint64_t offsetOf(const Layout &layout, uint64_t element) {
  uint64_t offset = 0;
  for (unsigned d = layout.rank; d-- > 0;) {
    auto extent = static_cast<uint64_t>(layout.shape[d]);
    offset += element % extent * static_cast<uint64_t>(layout.strides[d]);
    element /= extent;
  }
  return offset;
}

namespace {

/// Row-major index of the element at an address of a written view; its strides are nested.
std::optional<uint64_t> elementAt(const World &world, const View &view, uint64_t address) {
  const Layout &layout = world.layoutOf(view);
  if (address < view.address || address >= view.address + layout.spanBytes())
    return std::nullopt;
  return elementOf(layout, (address - view.address) / sizeOf(layout.dtype));
}

DataPlace placeOf(const World &world, uint32_t rank, const View &view, uint64_t element) {
  const Layout &layout = world.layoutOf(view);
  return {rank, view.space, view.argument,
          view.address + offsetOf(layout, element) * sizeOf(layout.dtype)};
}

class Tracer {
public:
  Tracer(const World &world, const std::vector<CommandId> &executed)
      : world(world), executed(executed) {}

  Trace run(DataPlace place) {
    size_t before = executed.size();
    for (unsigned step = 0; step < kMaxSteps; ++step) {
      uint64_t element = 0;
      if (!findWriter(place, before, element)) {
        trace.end = origin(place);
        return std::move(trace);
      }
      CommandId id = executed[before];
      trace.commands.push_back(id);
      if (!moveBack(id, element, place))
        return std::move(trace);
    }
    return std::move(trace);
  }

private:
  /// The last command before `before` that wrote there; sets `before` to its position.
  bool findWriter(const DataPlace &place, size_t &before, uint64_t &element) {
    while (before-- > 0) {
      CommandId id = executed[before];
      const Command &command = world.commands[id];
      uint32_t issuer = world.rankOf(id);
      const Rank &rank = world.ranks[issuer];
      auto hits = [&](const View &view) {
        if (view.space != place.space || view.argument != place.argument)
          return false;
        std::optional<uint64_t> at = elementAt(world, view, place.address);
        element = at.value_or(0);
        return at.has_value();
      };
      if (command.kind == Kind::Put) {
        if (command.peer == place.rank && hits(*world.operand(rank, command, 0)))
          return true;
        continue;
      }
      if (issuer != place.rank)
        continue;
      accesses.clear();
      localAccesses(world, rank, command, accesses);
      for (const Access &access : accesses)
        if (access.writes && hits(rank.views[access.view]))
          return true;
    }
    return false;
  }

  /// If the command only moves data, sets `place` to its source; false if it computes.
  bool moveBack(CommandId id, uint64_t element, DataPlace &place) {
    const Command &command = world.commands[id];
    CommandId source = id;
    uint32_t operand = 1;
    if (command.kind == Kind::Recv) {
      source = command.partner;
      operand = 0;
      trace.commands.push_back(source);
    } else if (command.kind != Kind::Copy && command.kind != Kind::Put) {
      return false;
    }
    uint32_t rank = world.rankOf(source);
    const View &view = *world.operand(world.ranks[rank], world.commands[source], operand);
    place = placeOf(world, rank, view, element);
    return true;
  }

  std::string origin(const DataPlace &place) const {
    if (place.space != Space::Argument || world.arguments[place.argument].isResult)
      return "unwritten memory";
    const Argument &info = world.arguments[place.argument];
    const Shard &shard = world.ranks[place.rank].shards[place.argument];
    auto logical = static_cast<uint64_t>(
        shard.logicalOf(static_cast<int64_t>(place.address / sizeOf(info.dtype))));
    return fmt::format("{} of input \"{}\" on rank {}", elementText(info.shape, logical), info.name,
                       place.rank);
  }

  const World &world;
  const std::vector<CommandId> &executed;
  std::vector<Access> accesses;
  Trace trace;
};

} // namespace

Trace traceBack(const World &world, const std::vector<CommandId> &executed, DataPlace place) {
  return Tracer(world, executed).run(place);
}

std::vector<std::string> traceNotes(const World &world, const Trace &trace,
                                    const std::string &element) {
  std::vector<std::string> notes;
  std::string where = element;
  for (CommandId command : trace.commands) {
    notes.push_back(fmt::format("{} {} {}", where, notes.empty() ? "was written by" : "from",
                                world.describe(command)));
    where = std::string(element.size(), ' ');
  }
  if (!trace.end.empty())
    notes.push_back("which was read from " + trace.end);
  return notes;
}

} // namespace tandem::check
