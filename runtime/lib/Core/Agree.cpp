//===- Agree.cpp - what ranks find out together before they run ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstanceImpl.h"

#include "tandem/Program/Container.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <xxhash.h>

namespace tandem::core {

namespace {
template <typename V> uint32_t count(const V *vector) { return vector ? vector->size() : 0; }
} // namespace

Status InstanceImpl::agree(const Status &mine, const char *what) {
  // Code and message in one string; empty = success.
  std::string text =
      mine.ok() ? "" : std::to_string(static_cast<int>(mine.code())) + " " + mine.message();
  auto all = allGatherStrings(context.bootstrap(), text);
  if (!mine.ok())
    return mine.withPrefix(prefix());
  if (!all)
    return all.status().withPrefix(prefix());
  for (uint32_t r = 0; r < all->size(); ++r)
    if (!(*all)[r].empty()) {
      const std::string &theirs = (*all)[r];
      return Status(Code::Aborted, fmt::format("{}rank {} could not {}: {}", prefix(), r, what,
                                               theirs.substr(theirs.find(' ') + 1)));
    }
  return Status();
}

Status InstanceImpl::agreeOnProgram() {
  // What must be equal on all ranks, also where each loaded a file of its own (`--rank=r`).
  std::string text = fmt::format("@{} channels", programHandle->name());
  for (uint32_t c = 0; c < count(data.channels()); ++c) {
    const sp::Channel &channel = *data.channels()->Get(c);
    text += fmt::format(" {}:{:x}", channel.name() ? channel.name()->string_view() : "",
                        channel.capabilities());
  }
  text += " signals";
  for (uint32_t s = 0; s < count(data.signal_slots()); ++s)
    text += fmt::format(" {}", data.signal_slots()->Get(s));
  uint64_t mine = XXH3_64bits(text.data(), text.size());
  std::vector<uint64_t> all(context.worldSize());
  TANDEM_RETURN_IF_ERROR(
      context.bootstrap().allGather(&mine, sizeof mine, all.data()).withPrefix(prefix()));
  for (uint32_t r = 0; r < all.size(); ++r)
    if (all[r] != mine)
      return Status(
          Code::InvalidArgument,
          fmt::format("{}rank {} loaded another program (name, channels or signals differ)",
                      prefix(), r));
  return Status();
}

Status InstanceImpl::agreeOnCommands() {
  // The texts of all channels in one exchange, each behind its length.
  std::string mine;
  for (const auto &channel : channels) {
    std::string text = channel ? channel->prepared() : std::string();
    mine += fmt::format("{} {}", text.size(), text);
  }
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(context.bootstrap(), mine));
  std::vector<const char *> at;
  for (const std::string &text : all)
    at.push_back(text.c_str());
  Status status;
  for (uint32_t c = 0; c < channels.size(); ++c) {
    std::vector<std::string> texts;
    for (const char *&text : at) {
      char *end = nullptr;
      uint64_t size = std::strtoull(text, &end, 10);
      texts.emplace_back(end + 1, size);
      text = end + 1 + size;
    }
    if (!channels[c] || !status.ok())
      continue;
    std::vector<std::string> members;
    for (uint32_t rank : *data.channels()->Get(c)->group())
      members.push_back(texts[rank]);
    Marker culprit = kNoMarker;
    status = channels[c]->compare(members, culprit);
    if (culprit != kNoMarker)
      status = status.withPrefix(describe(static_cast<uint32_t>(culprit)) + ": ");
  }
  Status device = context.device().agree(context.bootstrap());
  return agree(status.ok() ? device : status, "prepare the program");
}

std::string InstanceImpl::whyNoGraph() const {
  const char *off = std::getenv("TANDEM_GRAPH");
  if (!context.wantsGraphs() || !context.device().hasGraphs() || (off && *off == '0'))
    return "-";
  for (const auto &operation : operations)
    if (std::string why = operation->whyNoGraph(); !why.empty())
      return fmt::format("{}: {}", describe(static_cast<uint32_t>(operation->marker)), why);
  return "";
}

Status InstanceImpl::tryCapture() {
  uint64_t most = 0;
  for (const ArgumentInfo &info : programHandle->arguments())
    most = std::max(most, info.present ? info.localBytes() : 0);
  auto standIn = context.device().allocate(most, MemoryKind::Plain);
  if (standIn.status().code() == Code::OutOfMemory)
    return Status(); // then the first run tells
  TANDEM_RETURN_IF_ERROR(standIn.status());
  std::vector<void *> places(bound.size(), (*standIn)->data());
  bound.swap(places);
  Slot &slot = slots[0];
  resolve(slot);
  slot.main = streams[0];
  slot.replays = true;
  slot.deadline = (std::chrono::steady_clock::now() + context.timeout()).time_since_epoch().count();
  slot.enqueuing = true;
  slot.inFlight = true;
  Status status = capture(slot, nullptr).status();
  slot.inFlight = false;
  slot.enqueuing = false;
  bound.swap(places);
  ++bindings; // what was resolved is of no use
  return status;
}

Status InstanceImpl::agreeOnGraphs() {
  graphs = true;
  // Says whether all ranks can, else which cannot, and why.
  auto gather = [&](const std::string &mine) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(context.bootstrap(), mine));
    for (uint32_t r = 0; r < all.size() && graphs; ++r) {
      const std::string &why = all[r];
      graphs = why.empty();
      if (!graphs && why != "-" && context.rank() == 0)
        fmt::print(stderr, "tandem: @{} runs without a graph: rank {}: {}\n", programHandle->name(),
                   r, why);
    }
    return Status();
  };
  TANDEM_RETURN_IF_ERROR(gather(whyNoGraph()).withPrefix(prefix()));
  if (!graphs)
    return Status();
  Status status;
  for (uint32_t s = 0; s < streams.size(); ++s) {
    graphStreams.emplace_back();
    if (usesStream[s] && status.ok()) {
      auto stream = context.device().createStream(priorities[s]);
      status = stream.status();
      if (stream)
        graphStreams.back() = std::move(*stream);
    }
  }
  if (status.ok())
    status = context.awaitRuns(); // of other instances
  bool refused = false;
  // What the device refuses to capture is known before the first run: some ranks with a graph and
  // some without would be another order of what communication libraries see.
  if (status.ok()) {
    status = tryCapture();
    refused = status.code() == Code::Unsupported;
  }
  TANDEM_RETURN_IF_ERROR(gather(refused ? status.message() : "").withPrefix(prefix()));
  if (!graphs)
    graphStreams.clear();
  return agree(refused ? Status() : status, "prepare graphs");
}

} // namespace tandem::core
