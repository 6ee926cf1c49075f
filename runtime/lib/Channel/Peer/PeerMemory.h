//===- PeerMemory.h - the symmetric memory of all members ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_PEER_PEERMEMORY_H
#define TANDEM_CHANNEL_PEER_PEERMEMORY_H

#include "Device/Gpu/ChannelInterface.h"

#include "tandem/Runtime/Channel.h"

#include <functional>

namespace tandem::peer {

using gpu::DeviceState;

/// One member's symmetric memory, as mapped by this rank.
struct Member {
  uint32_t rank = 0;
  std::byte *base = nullptr;
  uint64_t bufferBytes = 0;
  std::byte *signals =
      nullptr; ///< in the symmetric memory, or in a separate pad (DeviceInfo::separateSignalPad)
  uint32_t numSignals = 0;
  std::vector<void *> imported; ///< what to free
  /// Of a rank of this process: its memory, and its signals where they have a separate pad.
  std::shared_ptr<gpu::SymmetricBlock> block, signalBlock;

  void *signal(uint32_t slot) const { return signals + uint64_t(slot) * 8; }
};

/// The symmetric memory of all members of a group, mapped by this rank. Shared by the channels of
/// one instance that have this group.
class PeerMemory {
public:
  /// Collective over the world. Returns null if `desc.group` is empty. `signals`: this rank's,
  /// where they have a separate pad; one block for all groups of an instance, since a rank may wait
  /// over another channel than its peer signals over. Allocated here if null.
  static Expected<std::shared_ptr<PeerMemory>> create(const ChannelDesc &desc,
                                                      std::shared_ptr<DeviceState> state,
                                                      std::shared_ptr<gpu::SymmetricBlock> &signals,
                                                      Bootstrap &bootstrap, Log log);
  /// Memory of others that is not unmapped within `patience` is left to a thread, and no more of
  /// the device is freed. That, and errors, are warnings.
  ~PeerMemory();

  const Member &operator[](uint32_t member) const { return members[member]; }
  uint32_t size() const { return static_cast<uint32_t>(members.size()); }

  DeviceState &shared() const { return *state; }

  /// Whether streams of several ranks share this GPU's hardware queues. Then a stream memory
  /// operation that waits blocks all commands behind it in its queue, perhaps the awaited signal.
  bool ranksShareQueues() const { return ranksOfGpu > 1; }
  /// Of kernels in a stream of the program.
  gpu::HeldProcessors::User user(uint32_t stream) const {
    return {state.get(), instance, stream, runsFollow};
  }
  /// Some member may have no atomic operations on another one's memory: signals are plain stores,
  /// so a slot has one writer. The same on all members.
  bool signalsPlainly() const { return plain; }
  /// Of this rank's waits, over whatever channel their signals come. A plain store may lower what
  /// an abort has raised, which only kernels notice, by the abort flag.
  bool waitsInKernels() const { return ranksShareQueues() || anyPlain; }

private:
  explicit PeerMemory(std::shared_ptr<DeviceState> state) : state(std::move(state)) {}

  std::shared_ptr<DeviceState> state;
  std::shared_ptr<gpu::SymmetricBlock> signals; ///< of this rank, where they have a separate pad
  std::vector<Member> members;
  uint64_t instance = 0; ///< number of the channels' instance
  bool runsFollow = false;
  uint32_t ranksOfGpu = 1; ///< of this process
  bool plain = false;      ///< see signalsPlainly()
  bool anyPlain = false;   ///< likewise, of all ranks of this host
  std::chrono::milliseconds patience{5000};
  uint32_t rank = 0; ///< this one
  Log log;
  friend class Exchange;
};

using PeerMemoryRef = std::shared_ptr<PeerMemory>;

using gpu::kPoison;

// Puts and signals by the GPU (Operations.cpp). `kernels`: of the device; outlives the operations.
Expected<std::unique_ptr<Operation>> preparePut(PeerMemoryRef peers, const gpu::Kernels &kernels,
                                                const Put &put);
Expected<std::unique_ptr<Operation>> prepareSignal(PeerMemoryRef peers, const gpu::Kernels &kernels,
                                                   const Signal &signal);
Expected<std::unique_ptr<Operation>> prepareWaitSignal(PeerMemoryRef peers, uint32_t self,
                                                       const gpu::Kernels &kernels,
                                                       const WaitSignal &wait);

/// What a member tells the others of a typed exchange for which it has the kernel.
struct ExchangeCapability {
  uint64_t key = 0; ///< ExchangeFlags: the rest is where its memory lies
  uint64_t firstFlag = 0, firstLL = 0, set = 0;
  uint32_t blocks = 0; ///< that can run at the same time
  uint32_t hasLL = 0;
};
/// What all members know, before the first run.
struct ExchangeAgreement {
  ExchangeFlags flags;
  ExchangeCapability own;
  std::vector<ExchangeCapability> all; ///< once all have the kernel; empty: protocol `simple`
  uint32_t blocks = 0;                 ///< of all kernels
  bool usesLL = false;
};
using ExchangeAgreements = std::vector<std::shared_ptr<ExchangeAgreement>>;

/// All of a fused exchange by one kernel (FusedExchange.cpp). Adds typed ones to `agreements`.
Expected<std::unique_ptr<Operation>> prepareExchange(PeerMemoryRef peers, uint32_t self,
                                                     const gpu::Kernels &kernels,
                                                     const FusedExchange &exchange,
                                                     ExchangeAgreements &agreements);
/// This rank's capabilities as bytes, and the decision by those of all members: all have the
/// kernel, or not. `log`: gets why an exchange signals in another way than its program asks for.
std::string bytesOf(const ExchangeAgreements &agreements);
void agree(const ExchangeAgreements &agreements, const PeerMemory &peers,
           const std::vector<std::string> &members,
           const std::function<void(const std::string &)> &log);

} // namespace tandem::peer

#endif // TANDEM_CHANNEL_PEER_PEERMEMORY_H
