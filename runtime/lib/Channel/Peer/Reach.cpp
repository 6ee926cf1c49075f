//===- Reach.cpp - the symmetric memory of all members ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reach.h"

#include "Descriptors.h"

#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <random>
#include <sstream>
#include <unistd.h>

namespace tandem::peer {

namespace {

constexpr std::chrono::seconds kTimeout{60};

std::string bootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id.empty() ? "unknown" : id;
}

/// Tells processes apart, also of several containers.
std::string processId() {
  static const uint64_t random = uint64_t(std::random_device{}()) << 32 | std::random_device{}();
  return fmt::format("{}-{:x}", ::getpid(), random); // a fork keeps the one and changes the other
}

/// What a rank says of itself: an error, or a line of fields.
struct Card {
  std::string error;
  std::string group, host, process, socket;
  uint64_t id = 0, base = 0, bytes = 0, halfBytes = 0, signalOffset = 0;
  uint32_t numSignals = 0, gpu = 0;
  bool shared = false;

  std::string str() const {
    if (!error.empty())
      return "!" + error;
    return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", id, group, host, process, socket,
                       base, bytes, halfBytes, signalOffset, numSignals, gpu, shared ? 1 : 0);
  }
  static Card parse(const std::string &text) {
    Card card;
    if (text.substr(0, 1) == "!") {
      card.error = text.substr(1);
      return card;
    }
    std::istringstream in(text);
    if (!(in >> card.id >> card.group >> card.host >> card.process >> card.socket >> card.base >>
          card.bytes >> card.halfBytes >> card.signalOffset >> card.numSignals >> card.gpu >>
          card.shared))
      card.error = "found no description of its memory";
    return card;
  }
};

} // namespace

Reach::~Reach() {
  if (state->stuck)
    return;
  for (const Member &member : members)
    if (member.imported)
      state->driver->freeShared(member.base).ignore();
}

Expected<std::shared_ptr<Reach>> Reach::create(const ChannelDesc &desc,
                                               std::shared_ptr<DeviceState> state, Launch &launch) {
  std::shared_ptr<Reach> reach(new Reach(std::move(state)));
  const gpu::DeviceInfo &info = reach->state->driver->info();
  auto server = DescriptorServer::open();
  Card mine;
  if (!server)
    mine.error = server.status().message();
  mine.id = desc.id;
  mine.group = fmt::format("[{}]", fmt::join(desc.group, ","));
  mine.host = bootId();
  mine.process = processId();
  mine.socket = server ? server->address() : "";
  mine.base = reinterpret_cast<uintptr_t>(desc.symmetric.base);
  mine.bytes = desc.symmetric.totalBytes;
  mine.halfBytes = desc.symmetric.halfBytes;
  mine.signalOffset = desc.symmetric.signalOffset;
  mine.numSignals = desc.symmetric.numSignals;
  mine.gpu = info.index;
  mine.shared = info.sharesMemory;
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(launch, mine.str()));
  Status status = server ? Status() : server.status();
  for (uint32_t rank = 0; rank < all.size() && status.ok(); ++rank)
    if (all[rank].substr(0, 1) == "!")
      status = Status(Code::Aborted, fmt::format("rank {}: {}", rank, all[rank].substr(1)));
  TANDEM_RETURN_IF_ERROR(status);
  // What is found from here on concerns members only; the others must hear of it.
  status = reach->mapAll(desc, all, *server);
  TANDEM_ASSIGN_OR_RETURN(auto verdicts, allGatherStrings(launch, status.message()));
  TANDEM_RETURN_IF_ERROR(status);
  for (uint32_t rank = 0; rank < verdicts.size(); ++rank)
    if (!verdicts[rank].empty())
      return Status(Code::Aborted, fmt::format("rank {}: {}", rank, verdicts[rank]));
  return desc.group.empty() ? std::shared_ptr<Reach>() : reach;
}

Status Reach::mapAll(const ChannelDesc &desc, const std::vector<std::string> &all,
                     DescriptorServer &server) {
  gpu::Driver &driver = *state->driver;
  std::vector<Card> cards;
  for (uint32_t rank : desc.group)
    cards.push_back(Card::parse(all[rank]));
  for (size_t m = 0; m < cards.size(); ++m) {
    const Card &card = cards[m], &self = cards[desc.self];
    uint32_t rank = desc.group[m];
    if (!card.error.empty() || card.id != self.id || card.group != self.group)
      return Status(Code::InvalidProgram,
                    fmt::format("rank {} names another group for this channel", rank));
    if (card.host != self.host)
      return Status(
          Code::Unsupported,
          fmt::format("channel peer connects GPUs of one node, and rank {} is on another", rank));
    bool here = card.process == self.process;
    if (here && card.gpu != self.gpu && (!card.shared || !driver.reaches(card.gpu)))
      return Status(Code::Unsupported,
                    fmt::format("channel peer: {} does not reach the memory of cuda:{} (rank {})",
                                driver.info().name, card.gpu, rank));
  }
  // Ask all before answering any: nobody waits for one that waits.
  std::vector<Descriptor> asked(cards.size());
  for (size_t m = 0; m < cards.size(); ++m)
    if (cards[m].process != cards[desc.self].process && cards[m].bytes > 0) {
      TANDEM_ASSIGN_OR_RETURN(asked[m], askForDescriptor(cards[m].socket));
    }
  auto deadline = std::chrono::steady_clock::now() + kTimeout;
  size_t askers = 0;
  for (const Card &card : cards)
    askers += card.process != cards[desc.self].process;
  if (askers && desc.symmetric.totalBytes > 0) {
    int fd = -1;
    TANDEM_RETURN_IF_ERROR(driver.exportShared(desc.symmetric.base, &fd));
    Descriptor handle(fd);
    TANDEM_RETURN_IF_ERROR(server.give(handle.get(), askers, deadline));
  }
  for (size_t m = 0; m < cards.size(); ++m) {
    const Card &card = cards[m];
    Member member;
    member.rank = desc.group[m];
    member.halfBytes = card.halfBytes;
    member.signalOffset = card.signalOffset;
    member.numSignals = card.numSignals;
    void *memory = reinterpret_cast<void *>(card.base); // NOLINT(performance-no-int-to-ptr)
    if (asked[m].get() >= 0) {
      TANDEM_ASSIGN_OR_RETURN(Descriptor handle, receiveDescriptor(asked[m], deadline));
      TANDEM_RETURN_IF_ERROR(
          driver.importShared(handle.get(), card.bytes, &memory)
              .withPrefix(fmt::format("channel peer: the memory of rank {}: ", member.rank)));
      member.imported = true;
    } else {
      member.block = gpu::SymmetricBlock::find(memory);
    }
    member.base = static_cast<std::byte *>(memory);
    members.push_back(member);
  }
  return Status();
}

} // namespace tandem::peer
