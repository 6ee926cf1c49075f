//===- Transport.cpp - channels between GPUs that reach each other's memory ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PeerMemory.h"

#include "tandem/Runtime/Gpu.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <iterator>

namespace tandem {

namespace peer {

namespace {

class Stores final : public PeerStores {
public:
  explicit Stores(PeerMemoryRef peers) : peers(std::move(peers)) {}
  void *place(uint32_t member, uint64_t offset, const Frame &frame) const override {
    const Member &peer = (*peers)[member];
    return peer.base + frame.parity * peer.bufferBytes + offset;
  }
  uint64_t *signal(uint32_t member, uint32_t slot, const Frame &frame) const override {
    return static_cast<uint64_t *>((*peers)[member].signal(frame.firstSignal + slot));
  }

private:
  PeerMemoryRef peers;
};

class PeerChannel final : public Channel {
public:
  PeerChannel(PeerMemoryRef peers, uint32_t self, Device &device,
              std::shared_ptr<DeviceState> state, const gpu::Kernels &kernels)
      : peers(std::move(peers)), self(self), device(device), state(std::move(state)),
        kernels(kernels) {}
  ~PeerChannel() override {
    gpu::Driver &driver = *state->driver;
    if (stream && aborted && !state->stuck && !hasAbortEnded(std::chrono::seconds(10)))
      state->stuck = true;
    if (state->stuck)
      return;
    if (stream)
      driver.destroyStream(stream).ignore();
    if (abortValues)
      driver.freeHost(abortValues).ignore();
  }

  /// Resources for abort(), when nothing can be allocated any more.
  Status prepareAbort() {
    gpu::Driver &driver = *state->driver;
    uint32_t slots = (*peers)[self].numSignals;
    TANDEM_ASSIGN_OR_RETURN(stopped, state->stoppedWord());
    TANDEM_RETURN_IF_ERROR(driver.createStream(&stream, StreamPriority::Normal));
    constexpr uint64_t kWords = gpu::kSignalWords;
    TANDEM_RETURN_IF_ERROR(driver.allocateHost((kWords + std::max(1u, slots)) * 8, &abortValues));
    std::fill_n(static_cast<uint64_t *>(abortValues), kWords, 0);
    std::fill_n(static_cast<uint64_t *>(abortValues) + kWords, std::max(1u, slots), kPoison);
    return Status();
  }

  Expected<std::unique_ptr<Operation>> preparePut(const Put &put) override {
    return peer::preparePut(peers, kernels, put);
  }
  Expected<std::unique_ptr<Operation>> prepareSignal(const Signal &signal) override {
    return peer::prepareSignal(peers, kernels, signal);
  }
  Expected<std::unique_ptr<Operation>> prepareWaitSignal(const WaitSignal &wait) override {
    return peer::prepareWaitSignal(peers, self, kernels, wait);
  }
  Expected<std::unique_ptr<Operation>> prepareExchange(const FusedExchange &exchange) override {
    return peer::prepareExchange(peers, self, kernels, exchange, agreements);
  }
  std::string prepared() override { return bytesOf(agreements); }
  Status compare(const std::vector<std::string> &members, Marker &) override {
    agree(agreements, *peers, members,
          [&](const std::string &text) { device.log(LogLevel::Info, text); });
    return Status();
  }
  const uint64_t *signalWords() const override {
    return static_cast<const uint64_t *>((*peers)[self].signal(0));
  }
  std::shared_ptr<const PeerStores> peerStores() const override {
    // Kernels that store there raise signals by atomic operations.
    return peers->signalsPlainly() ? nullptr : std::make_shared<Stores>(peers);
  }

  /// Releases the waits for this rank's signals. Those in kernels see the flag. Stream memory
  /// operations see their signal only, so copies raise all signals; before that, they disable this
  /// rank's own ones, as a kernel that the flag releases does (KernelArguments.h): a peer must not
  /// continue with data that was never sent. (The peer's own watchdog ends its run.) Then it waits
  /// a little until the GPU has done so, because the caller next aborts collectives, and a signal
  /// may follow one.
  void abort(const Status &) override {
    if (aborted.exchange(true))
      return;
    state->raiseAbortFlag();
    const Member &mine = (*peers)[self];
    if (mine.numSignals == 0)
      return;
    constexpr uint64_t kWords = gpu::kSignalWords;
    gpu::Driver &driver = *state->driver;
    auto *poison = static_cast<uint64_t *>(abortValues) + kWords;
    Status status = driver.copyAsync(stopped, poison, 8, stream);
    if (status.ok())
      status = driver.copyAsync(stopped + 1, abortValues, kWords * 8, stream);
    if (status.ok())
      status = driver.copyAsync(mine.signal(0), poison, uint64_t(mine.numSignals) * 8, stream);
    if (status.ok())
      hasAbortEnded(std::chrono::milliseconds(100));
    status.ignore(); // what waits then stays: memory is given up for lost
  }

private:
  /// Whether the copies of abort() end within `limit`. They may be in a hardware queue behind a
  /// wait by a stream memory operation, which they must end.
  bool hasAbortEnded(std::chrono::milliseconds limit) {
    auto giveUp = std::chrono::steady_clock::now() + limit;
    for (gpu::Backoff backoff;; backoff.pause()) {
      bool done = false;
      if (!state->driver->queryStream(stream, &done).ok() || done)
        return true;
      if (std::chrono::steady_clock::now() > giveUp)
        return false;
    }
  }

  PeerMemoryRef peers;
  const uint32_t self;
  Device &device;
  const std::shared_ptr<DeviceState> state;
  const gpu::Kernels &kernels;
  gpu::StreamHandle stream = nullptr; ///< of abort()
  void *abortValues = nullptr; ///< of the host: what abort() writes to the signals' words (zeros),
                               ///< and to each signal
  uint64_t *stopped = nullptr; ///< of the device: first here, then to the signals
  std::atomic<bool> aborted{false};
  ExchangeAgreements agreements; ///< of the exchanges in order
};

class PeerTransport final : public Transport {
public:
  std::string_view name() const override { return "peer"; }
  uint32_t capabilities() const override { return OneSided; }
  Reach reach() const override { return Reach::Host; }
  bool moves(const Device &) const override { return true; } // or says why not

  Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &desc, Device &device,
                                                   Bootstrap &bootstrap) override {
    auto *gpu = dynamic_cast<gpu::GpuAccess *>(&device);
    if (!gpu) {
      Status none(Code::Unsupported,
                  fmt::format("channel peer: expected a GPU, found device {}", device.name()));
      allGatherStrings(bootstrap, "!" + none.message()).status().ignore();
      return none;
    }
    TANDEM_ASSIGN_OR_RETURN(PeerMemoryRef peers, find(desc, *gpu, bootstrap, device.log));
    if (desc.group.empty())
      return std::unique_ptr<Channel>();
    auto channel = std::make_unique<PeerChannel>(std::move(peers), desc.self, device, gpu->shared(),
                                                 gpu->kernels());
    TANDEM_RETURN_IF_ERROR(channel->prepareAbort());
    return std::unique_ptr<Channel>(std::move(channel));
  }

private:
  /// Handles are exchanged once per instance and group. All members get the same answer, and other
  /// ranks are informed of it.
  Expected<PeerMemoryRef> find(const ChannelDesc &desc, gpu::GpuAccess &gpu, Bootstrap &bootstrap,
                               const Log &log) {
    for (auto entry = reaches.begin(); entry != reaches.end();)
      entry = entry->second.expired() ? reaches.erase(entry) : std::next(entry);
    std::weak_ptr<PeerMemory> &known = reaches[{desc.id >> 16, desc.group}];
    PeerMemoryRef peers = known.lock();
    bool needs = !peers && !desc.group.empty();
    TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, needs ? "" : "known"));
    bool anyNew = false;
    for (uint32_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].substr(0, 1) == "!")
        return Status(Code::Aborted, fmt::format("rank {}: {}", rank, all[rank].substr(1)));
      anyNew = anyNew || all[rank].empty();
    }
    if (!anyNew)
      return peers;
    for (auto entry = signals.begin(); entry != signals.end();)
      entry = entry->second.expired() ? signals.erase(entry) : std::next(entry);
    std::shared_ptr<gpu::SymmetricBlock> own = signals[desc.id >> 16].lock();
    TANDEM_ASSIGN_OR_RETURN(PeerMemoryRef made,
                            PeerMemory::create(desc, gpu.shared(), own, bootstrap, log));
    signals[desc.id >> 16] = own;
    if (!peers) {
      peers = std::move(made);
      known = peers;
    }
    return peers;
  }

  std::map<std::pair<uint64_t, std::vector<uint32_t>>, std::weak_ptr<PeerMemory>> reaches;
  /// This rank's signals by instance, where they have a separate pad.
  std::map<uint64_t, std::weak_ptr<gpu::SymmetricBlock>> signals;
};

} // namespace
} // namespace peer

Expected<std::unique_ptr<Transport>> createPeerTransport() {
  TANDEM_RETURN_IF_ERROR(anyGpu());
  return std::make_unique<peer::PeerTransport>();
}

} // namespace tandem
