//===- UcxChannel.h - a channel over a worker -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tags, from the most significant bit:
//
//   63      50 49      34 33   32 31          0
//   | channel |  source  | epoch |  tag       |
//
// channel: its number within the transport, modulo 2^14; source: world rank of the sender; epoch:
// the run, modulo 4 (a rank is at most one run ahead); tag: the program's.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_UCX_UCXCHANNEL_H
#define TANDEM_CHANNEL_UCX_UCXCHANNEL_H

#include "Worker.h"
#include "tandem/Runtime/Channel.h"
#include "tandem/Runtime/MappedMemory.h"

namespace tandem::ucx {

inline constexpr unsigned kChannelBits = 14, kSourceBits = 16, kEpochBits = 2, kTagBits = 32;

constexpr uint64_t makeTag(uint32_t channel, uint32_t source, uint64_t epoch, uint32_t tag) {
  return (uint64_t(channel) << (kSourceBits + kEpochBits + kTagBits)) |
         (uint64_t(source) << (kEpochBits + kTagBits)) | ((epoch & 3) << kTagBits) | tag;
}

/// A member of the group as other members see it.
struct Member {
  uint32_t rank = 0; ///< in the world
  /// Its symmetric memory; base 0: none.
  uint64_t base = 0, bufferBytes = 0;
  uint32_t numSignals = 0;
  ucp_rkey_h key = nullptr;
  std::shared_ptr<MappedMemory>
      mapped; ///< the same memory in this process; null: puts go through UCX
};

/// State shared by the channel and its operations.
struct ChannelState : ControlSink, std::enable_shared_from_this<ChannelState> {
  std::shared_ptr<Worker> worker;
  std::string name;
  uint32_t number = 0; ///< in tags and control messages
  uint32_t self = 0;
  std::vector<Member> members;
  SymmetricMemory symmetric;
  std::shared_ptr<MappedMemory> own; ///< of `symmetric`, if it can be mapped
  ucp_mem_h registration = nullptr;

  std::mutex mutex;
  std::condition_variable condition;
  Status failure;        ///< guarded by mutex
  bool isClosed = false; ///< guarded by mutex: the symmetric memory may be gone
  std::atomic<uint64_t> moved{0};

  /// A piece has arrived or left, or has been stored. Any thread.
  void noteProgress() {
    moved.fetch_add(1, std::memory_order_relaxed);
    worker->noteProgress();
  }
  uint64_t progress() const { return moved; }
  void receive(const Control &control) override;
  void failed(const Status &status) override;
  /// Waits until local signal `slot` is at least `value`.
  Status waitForSignal(uint32_t slot, uint64_t value);
  /// Stops receiving control messages and frees keys and registration. Any thread, once.
  void close();
  /// "rank 2, channel "x"".
  std::string where() const;

private:
  uint64_t *signal(uint32_t slot) const;
};

class UcxChannel : public Channel {
public:
  explicit UcxChannel(std::shared_ptr<ChannelState> state) : state(std::move(state)) {}
  ~UcxChannel() override;

  Expected<std::unique_ptr<Operation>> prepareGroup(const std::vector<Message> &messages) override;
  Expected<std::unique_ptr<Operation>> preparePut(const Put &put) override;
  Expected<std::unique_ptr<Operation>> prepareSignal(const tandem::Signal &signal) override;
  Expected<std::unique_ptr<Operation>> prepareWaitSignal(const WaitSignal &wait) override;
  uint64_t progress() const override { return state->progress(); }
  void abort(const Status &reason) override;

private:
  std::shared_ptr<ChannelState> state;
};

/// createUcxTransport() over another table of functions, which outlives it: for tests.
Expected<std::unique_ptr<Transport>> createTransport(const Api &api, const UcxOptions &options);

} // namespace tandem::ucx

#endif // TANDEM_CHANNEL_UCX_UCXCHANNEL_H
