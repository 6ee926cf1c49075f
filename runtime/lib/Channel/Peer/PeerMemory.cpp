//===- PeerMemory.cpp - the symmetric memory of all members ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PeerMemory.h"

#include "Descriptors.h"

#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <memory>
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

/// Identifies the process, also across containers.
std::string processId() {
  static const uint64_t random = uint64_t(std::random_device{}()) << 32 | std::random_device{}();
  return fmt::format("{}-{:x}", ::getpid(), random); // a fork keeps the one and changes the other
}

/// A rank's description of itself: an error, or a line of fields.
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

/// Success if all ranks succeeded. Otherwise this rank's own error, else that of another rank, else
/// the report that some rank aborted.
Status agree(Bootstrap &bootstrap, const Status &mine) {
  bool follows = mine.code() == Code::Aborted;
  TANDEM_ASSIGN_OR_RETURN(
      auto all,
      allGatherStrings(bootstrap, mine.ok() ? "" : (follows ? "~" : "!") + mine.message()));
  if (!mine.ok() && !follows)
    return mine;
  for (char kind : {'!', '~'})
    for (uint32_t rank = 0; rank < all.size(); ++rank)
      if (!all[rank].empty() && all[rank][0] == kind)
        return Status(Code::Aborted, fmt::format("rank {}: {}", rank, all[rank].substr(1)));
  return Status();
}

} // namespace

/// One exchange of handles, in steps. The ranks agree after each step, so no rank waits for one
/// that has failed.
class Exchange {
public:
  Exchange(PeerMemory &peers, const ChannelDesc &desc) : peers(peers), desc(desc) {}

  /// The description for the other members.
  std::string introduce() {
    const gpu::DeviceInfo &info = peers.state->driver->info();
    Card mine;
    auto opened = DescriptorServer::open();
    if (opened)
      server = std::make_unique<DescriptorServer>(std::move(*opened));
    else
      mine.error = opened.status().message();
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
    return mine.str();
  }

  /// Checks that the members are compatible. Exports this rank's memory if another process needs
  /// it.
  Status check(const std::vector<std::string> &all) {
    gpu::Driver &driver = *peers.state->driver;
    for (uint32_t rank = 0; rank < all.size(); ++rank)
      if (all[rank].substr(0, 1) == "!")
        return Status(Code::Aborted, fmt::format("rank {}: {}", rank, all[rank].substr(1)));
    for (uint32_t rank : desc.group)
      cards.push_back(Card::parse(all[rank]));
    uint32_t sharing = 0; // ranks of this process with this GPU, in any group
    for (const std::string &text : all) {
      Card card = Card::parse(text);
      sharing += card.process == processId() && card.gpu == driver.info().index;
    }
    peers.sharesQueues = sharing > 1;
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
      askers += here ? 0 : 1;
    }
    if (askers == 0 || desc.symmetric.totalBytes == 0)
      return Status();
    int fd = -1;
    TANDEM_RETURN_IF_ERROR(driver.exportShared(desc.symmetric.base, &fd));
    handle = Descriptor(fd);
    return Status();
  }

  /// Sends all requests before it waits for any answer, which avoids a deadlock.
  Status ask() {
    asked.resize(cards.size());
    for (size_t m = 0; m < cards.size(); ++m)
      if (cards[m].process != cards[desc.self].process && cards[m].bytes > 0) {
        TANDEM_ASSIGN_OR_RETURN(asked[m], askForDescriptor(cards[m].socket));
      }
    return Status();
  }

  /// Sends and receives handles. After an error, informs the ranks that still wait for this one.
  Status map() {
    Status status = giveAndTake(std::chrono::steady_clock::now() + kTimeout);
    if (!status.ok()) {
      server.reset();
      asked.clear();
    }
    return status;
  }

private:
  Status giveAndTake(std::chrono::steady_clock::time_point deadline) {
    if (handle.get() >= 0)
      TANDEM_RETURN_IF_ERROR(server->give(handle.get(), askers, deadline));
    for (size_t m = 0; m < cards.size(); ++m) {
      const Card &card = cards[m];
      Member member;
      member.rank = desc.group[m];
      member.halfBytes = card.halfBytes;
      member.signalOffset = card.signalOffset;
      member.numSignals = card.numSignals;
      void *memory = reinterpret_cast<void *>(card.base); // NOLINT(performance-no-int-to-ptr)
      if (asked[m].get() >= 0) {
        TANDEM_ASSIGN_OR_RETURN(Descriptor theirs, receiveDescriptor(asked[m], deadline));
        TANDEM_RETURN_IF_ERROR(
            peers.state->driver->importShared(theirs.get(), card.bytes, &memory)
                .withPrefix(fmt::format("channel peer: the memory of rank {}: ", member.rank)));
        member.imported = true;
      } else {
        member.block = gpu::SymmetricBlock::find(memory);
      }
      member.base = static_cast<std::byte *>(memory);
      peers.members.push_back(member);
    }
    return Status();
  }

  PeerMemory &peers;
  const ChannelDesc &desc;
  std::unique_ptr<DescriptorServer> server;
  std::vector<Card> cards; ///< of the members
  size_t askers = 0;
  Descriptor handle; ///< of the own memory
  std::vector<Descriptor> asked;
};

PeerMemory::~PeerMemory() {
  if (state->stuck)
    return;
  for (const Member &member : members)
    if (member.imported)
      state->driver->freeShared(member.base).ignore();
}

Expected<std::shared_ptr<PeerMemory>> PeerMemory::create(const ChannelDesc &desc,
                                                         std::shared_ptr<DeviceState> state,
                                                         Bootstrap &bootstrap) {
  std::shared_ptr<PeerMemory> peers(new PeerMemory(std::move(state)));
  Exchange exchange(*peers, desc);
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, exchange.introduce()));
  TANDEM_RETURN_IF_ERROR(agree(bootstrap, exchange.check(all)));
  TANDEM_RETURN_IF_ERROR(agree(bootstrap, exchange.ask()));
  TANDEM_RETURN_IF_ERROR(agree(bootstrap, exchange.map()));
  return desc.group.empty() ? std::shared_ptr<PeerMemory>() : peers;
}

} // namespace tandem::peer
