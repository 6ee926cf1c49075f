//===- PeerMemory.cpp - the symmetric memory of all members ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PeerMemory.h"

#include "Core/Encode.h"
#include "Core/OwnThread.h"
#include "Core/SharedStep.h"
#include "Descriptors.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <memory>
#include <random>
#include <unistd.h>
#include <utility>

namespace tandem::peer {

namespace {

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

/// What a rank tells the others about its memory, or why it has none.
struct PeerDescriptor {
  std::string error, group, host, process, socket;
  uint64_t id = 0, base = 0, bytes = 0, bufferBytes = 0;
  uint64_t signals =
      0; ///< where they begin: an offset from the base, or an address if they have a separate pad
  uint32_t numSignals = 0, gpu = 0;
  std::string memoryHandle, signalsHandle; ///< empty: none
  uint32_t shared = 0;                     ///< DeviceInfo::sharesMemory
  std::string uuid;                        ///< of the GPU
  uint64_t offset = 0, allocation = 0;     ///< of a SharedHandle of the memory
  std::vector<std::string>
      atomics; ///< UUIDs of the GPUs on whose memory its atomic operations work

  auto fields() {
    return std::tie(error, group, host, process, socket, id, base, bytes, bufferBytes, signals,
                    numSignals, gpu, memoryHandle, signalsHandle, shared, uuid, offset, allocation,
                    atomics);
  }
  /// Whether the memory lies in the allocation that another process maps.
  bool fitsAllocation() const {
    return offset <= allocation && bytes <= allocation - offset && offset % 8 == 0;
  }
  bool hasAtomicsOn(const PeerDescriptor &other) const {
    return std::find(atomics.begin(), atomics.end(), other.uuid) != atomics.end();
  }
  /// Whether what it describes lies in its memory.
  bool fits(bool separateSignalPad) const {
    uint64_t signalBytes = separateSignalPad ? 0 : uint64_t(numSignals) * 8;
    return bufferBytes <= bytes / 2 && signalBytes <= bytes &&
           (signalBytes == 0 || (signals <= bytes - signalBytes && signals % 8 == 0));
  }
};

/// Success if all ranks succeeded. Otherwise this rank's own error, else that of another rank, else
/// the report that some rank aborted. If a rank is lost meanwhile, what this rank was doing comes
/// first.
Status agree(Bootstrap &bootstrap, const Status &mine) {
  bool follows = mine.code() == Code::Aborted;
  auto all = allGatherStrings(bootstrap, mine.ok() ? "" : (follows ? "~" : "!") + mine.message());
  if (!mine.ok() && (!follows || !all)) {
    bool hasCause = all || mine.message().find(all.status().message()) != std::string::npos;
    return hasCause ? mine : all.status().withPrefix(mine.message() + ": ");
  }
  TANDEM_RETURN_IF_ERROR(all.status());
  for (char kind : {'!', '~'})
    for (uint32_t rank = 0; rank < all->size(); ++rank)
      if (!(*all)[rank].empty() && (*all)[rank][0] == kind)
        return Status(Code::Aborted, fmt::format("rank {}: {}", rank, (*all)[rank].substr(1)));
  return Status();
}

/// Whether atomic operations of some rank on the memory of another one may not be atomic.
bool lackAtomics(const std::vector<PeerDescriptor> &ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [&](const PeerDescriptor &from) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](const PeerDescriptor &on) { return !from.hasAtomicsOn(on); });
  });
}

} // namespace

/// One exchange of handles, in steps. The ranks agree after each step, so no rank waits for one
/// that has failed.
class Exchange {
public:
  Exchange(PeerMemory &peers, const ChannelDesc &desc, Bootstrap &bootstrap)
      : peers(peers), desc(desc), limit{desc.timeout, [&bootstrap] { return bootstrap.health(); }} {
  }

  /// This rank's descriptor for the other members.
  std::string exportMemory() {
    const gpu::DeviceInfo &info = peers.state->driver->info();
    PeerDescriptor mine;
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
    mine.bufferBytes = desc.symmetric.bufferBytes;
    mine.signals = desc.symmetric.signalOffset;
    mine.numSignals = desc.symmetric.numSignals;
    mine.gpu = info.index;
    mine.uuid = info.uuid;
    mine.atomics = peers.state->driver->atomicsOn();
    mine.shared = info.sharesMemory;
    if (Status status = addSignals(mine); !status.ok() && mine.error.empty())
      mine.error = status.message();
    exported = addHandles(mine);
    return core::encode(mine.fields());
  }

  /// Checks that the members are compatible. Exports this rank's memory if another process needs
  /// it.
  Status check(const std::vector<std::string> &all) {
    gpu::Driver &driver = *peers.state->driver;
    std::vector<PeerDescriptor> ranks(all.size()), ofHost; // in any group
    for (uint32_t rank = 0; rank < all.size(); ++rank) {
      PeerDescriptor &peer = ranks[rank];
      if (!core::decode(all[rank], peer.fields()))
        peer.error = "found no description of its memory";
      if (!peer.error.empty())
        return Status(Code::Aborted, fmt::format("rank {}: {}", rank, peer.error));
      if (peer.host == bootId())
        ofHost.push_back(peer);
    }
    for (uint32_t rank : desc.group)
      descriptors.push_back(ranks[rank]);
    auto sharing = std::count_if(ofHost.begin(), ofHost.end(), [&](const PeerDescriptor &peer) {
      return peer.process == processId() && peer.gpu == driver.info().index;
    });
    peers.ranksOfGpu = std::max(static_cast<uint32_t>(sharing), 1U);
    auto ofGpu = std::count_if(ofHost.begin(), ofHost.end(), [&](const PeerDescriptor &peer) {
      return peer.uuid == driver.info().uuid;
    });
    peers.state->ranksOfGpu = std::max(static_cast<uint32_t>(ofGpu), 1U);
    peers.plain = lackAtomics(descriptors);
    peers.anyPlain = lackAtomics(ofHost);
    for (size_t m = 0; m < descriptors.size(); ++m) {
      const PeerDescriptor &peer = descriptors[m], &self = descriptors[desc.self];
      uint32_t rank = desc.group[m];
      if (peer.id != self.id || peer.group != self.group)
        return Status(Code::InvalidProgram,
                      fmt::format("rank {} names another group for this channel", rank));
      if (peer.host != self.host)
        return Status(
            Code::Unsupported,
            fmt::format("channel peer connects GPUs of one node, and rank {} is on another", rank));
      if (!peer.fits(driver.info().separateSignalPad))
        return Status(Code::Io, fmt::format("rank {} gives {} bytes of memory for 2 x {} bytes and "
                                            "{} signals at {}",
                                            rank, peer.bytes, peer.bufferBytes, peer.numSignals,
                                            peer.signals));
      bool sameProcess = peer.process == self.process;
      if (sameProcess && peer.gpu != self.gpu && (!peer.shared || !driver.reaches(peer.gpu)))
        return Status(Code::Unsupported,
                      fmt::format("channel peer: {} does not reach the memory of {}:{} (rank {})",
                                  driver.info().name, driver.vendor().device, peer.gpu, rank));
      importers += sameProcess ? 0 : 1;
    }
    return importers > 0 ? std::exchange(exported, Status()) : Status();
  }

  /// Sends all requests before it waits for any answer, which avoids a deadlock.
  Status requestHandles() {
    requested.resize(descriptors.size());
    for (size_t m = 0; m < descriptors.size(); ++m)
      if (descriptors[m].process != descriptors[desc.self].process && descriptors[m].bytes > 0 &&
          descriptors[m].memoryHandle.empty()) {
        TANDEM_ASSIGN_OR_RETURN(requested[m], requestDescriptor(descriptors[m].socket));
      }
    return Status();
  }

  /// Sends and receives handles. After an error, informs the ranks that still wait for this one.
  Status importMemory() {
    Status status = exchangeHandles();
    if (!status.ok()) {
      server.reset();
      requested.clear();
    }
    return status;
  }

private:
  /// Signals that have a separate pad: zeroed here, before any rank of the instance can raise one.
  Status addSignals(PeerDescriptor &mine) {
    if (!peers.state->driver->info().separateSignalPad || desc.symmetric.numSignals == 0)
      return Status();
    if (!peers.signals) {
      TANDEM_ASSIGN_OR_RETURN(peers.signals,
                              gpu::SymmetricBlock::allocateSignals(
                                  peers.state, uint64_t(desc.symmetric.numSignals) * 8));
    }
    mine.signals = reinterpret_cast<uintptr_t>(peers.signals->data());
    return Status();
  }

  /// Handles that are bytes travel with the description; a descriptor is sent later. That there is
  /// none matters only if another process needs one.
  Status addHandles(PeerDescriptor &mine) {
    gpu::Driver &driver = *peers.state->driver;
    if (desc.symmetric.totalBytes == 0)
      return Status();
    gpu::SharedHandle made;
    TANDEM_RETURN_IF_ERROR(
        driver.exportShared(desc.symmetric.base, desc.symmetric.totalBytes, &made));
    mine.offset = made.offset;
    mine.allocation = made.allocation;
    if (!driver.info().sharesByBytes) {
      handle = Descriptor(made.descriptor);
      return Status();
    }
    mine.memoryHandle = made.bytes;
    if (!peers.signals)
      return Status();
    TANDEM_RETURN_IF_ERROR(
        driver.exportShared(peers.signals->data(), peers.signals->size(), &made));
    if (made.offset != 0)
      return Status(Code::Internal, "signals that are not an allocation of their own");
    mine.signalsHandle = made.bytes;
    return Status();
  }

  /// Maps memory of another process for `member`.
  Status import(Member &member, const gpu::SharedHandle &from, uint64_t bytes, void **memory) {
    TANDEM_RETURN_IF_ERROR(
        peers.state->driver->importShared(from, bytes, memory)
            .withPrefix(fmt::format("channel peer: the memory of rank {}: ", member.rank)));
    member.imported.push_back(*memory);
    return Status();
  }

  Status exchangeHandles() {
    if (handle.get() >= 0 && importers > 0) {
      std::string what = "channel peer: handles of this rank's memory";
      core::SharedStep step(limit, what, what + ": not all have taken them");
      TANDEM_RETURN_IF_ERROR(server->send(handle.get(), importers, step));
    }
    for (size_t m = 0; m < descriptors.size(); ++m) {
      const PeerDescriptor &peer = descriptors[m];
      Member member;
      member.rank = desc.group[m];
      member.bufferBytes = peer.bufferBytes;
      member.numSignals = peer.numSignals;
      void *memory = reinterpret_cast<void *>(peer.base);     // NOLINT(performance-no-int-to-ptr)
      void *signals = reinterpret_cast<void *>(peer.signals); // NOLINT(performance-no-int-to-ptr)
      bool isSeparate = peers.state->driver->info().separateSignalPad;
      // Mapped memory is the member's to free, however this ends.
      peers.members.push_back(member);
      Member &mapped = peers.members.back();
      if (peer.process != descriptors[desc.self].process && !peer.fitsAllocation())
        return Status(Code::Io, fmt::format("channel peer: rank {} gives {} bytes at {} of {}",
                                            member.rank, peer.bytes, peer.offset, peer.allocation));
      if (requested[m].get() >= 0) {
        std::string what = fmt::format("channel peer: the memory of rank {}", member.rank);
        core::SharedStep step(limit, what, what + ": no handle came");
        TANDEM_ASSIGN_OR_RETURN(Descriptor theirs, receiveDescriptor(requested[m], step));
        TANDEM_RETURN_IF_ERROR(import(mapped, {theirs.get(), ""}, peer.allocation, &memory));
        memory = static_cast<std::byte *>(memory) + peer.offset;
      } else if (peer.process != descriptors[desc.self].process) {
        if (peer.bytes > 0) {
          TANDEM_RETURN_IF_ERROR(import(mapped, {-1, peer.memoryHandle}, peer.allocation, &memory));
          memory = static_cast<std::byte *>(memory) + peer.offset;
        }
        if (isSeparate && peer.numSignals > 0)
          TANDEM_RETURN_IF_ERROR(
              import(mapped, {-1, peer.signalsHandle}, uint64_t(peer.numSignals) * 8, &signals));
      } else {
        // Only what this process has allocated is an address here.
        mapped.block = gpu::SymmetricBlock::find(memory);
        mapped.signalBlock =
            isSeparate && peer.numSignals > 0 ? gpu::SymmetricBlock::find(signals) : nullptr;
        if ((peer.bytes > 0 && (!mapped.block || mapped.block->size() < peer.bytes)) ||
            (isSeparate && peer.numSignals > 0 &&
             (!mapped.signalBlock || mapped.signalBlock->size() < uint64_t(peer.numSignals) * 8)))
          return Status(Code::Io,
                        fmt::format("channel peer: rank {} gives memory that this process "
                                    "does not have",
                                    member.rank));
      }
      mapped.base = static_cast<std::byte *>(memory);
      mapped.signals = isSeparate ? static_cast<std::byte *>(signals) : mapped.base + peer.signals;
    }
    return Status();
  }

  PeerMemory &peers;
  const ChannelDesc &desc;
  const core::WaitLimit limit; ///< of a wait for another member
  std::unique_ptr<DescriptorServer> server;
  std::vector<PeerDescriptor> descriptors; ///< of the members
  size_t importers = 0;
  Descriptor handle; ///< of the own memory
  Status exported;   ///< why another process cannot map it
  std::vector<Descriptor> requested;
};

PeerMemory::~PeerMemory() {
  std::vector<void *> imported;
  for (const Member &member : members)
    imported.insert(imported.end(), member.imported.begin(), member.imported.end());
  if (state->stuck || imported.empty())
    return;
  auto result = std::make_shared<Status>();
  core::OwnThread unmaps([state = state, imported, result] {
    for (void *memory : imported)
      if (Status status = state->driver->freeShared(memory); result->ok())
        *result = status;
  });
  Status status;
  if (unmaps.isDone(patience)) {
    status = *result;
  } else {
    state->stuck = true;
    status =
        Status(Code::Timeout, fmt::format("it has not returned after {} ms", patience.count()));
  }
  if (!status.ok())
    log(LogLevel::Warning, fmt::format("channel peer: rank {}: to unmap memory of other ranks: {}",
                                       rank, status.message()));
}

Expected<std::shared_ptr<PeerMemory>>
PeerMemory::create(const ChannelDesc &desc, std::shared_ptr<DeviceState> state,
                   std::shared_ptr<gpu::SymmetricBlock> &signals, Bootstrap &bootstrap, Log log) {
  std::shared_ptr<PeerMemory> peers(new PeerMemory(std::move(state)));
  peers->rank = bootstrap.rank();
  peers->log = std::move(log);
  peers->signals = signals;
  peers->instance = desc.id >> 16;
  peers->runsFollow = desc.runsFollow;
  Exchange exchange(*peers, desc, bootstrap);
  std::string description = exchange.exportMemory();
  signals = peers->signals;
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, description));
  TANDEM_RETURN_IF_ERROR(agree(bootstrap, exchange.check(all)));
  TANDEM_RETURN_IF_ERROR(agree(bootstrap, exchange.requestHandles()));
  TANDEM_RETURN_IF_ERROR(agree(bootstrap, exchange.importMemory()));
  return desc.group.empty() ? std::shared_ptr<PeerMemory>() : peers;
}

} // namespace tandem::peer
