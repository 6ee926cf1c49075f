//===- Channel.h - how ranks talk -------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A *transport* (local, ucx, ccl, peer) belongs to a context and makes *channels*: one per entry of
// a program's channel table, owned by the program instance. Like a device, a channel makes
// operations: sizes, peers and tags are fixed at prepare, addresses are found at run, the work is
// enqueued on a device stream. A transport for host memory returns HostOperations whose execute()
// returns when the transfer is complete; it blocks that one stream and no other.
//
// Operations of one channel run concurrently when they are on different streams. Waiting must not
// spin for long: ranks and streams may outnumber the cores.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CHANNEL_H
#define TANDEM_RUNTIME_CHANNEL_H

#include "tandem/Runtime/Bootstrap.h"
#include "tandem/Runtime/Device.h"

#include <string>
#include <vector>

namespace tandem {

/// Bits of what a channel can do; numbers as in the stream program.
enum Capability : uint32_t { TwoSided = 1, OneSided = 2, Collectives = 4 };
/// "two_sided|one_sided"; "none" for 0.
std::string capabilitiesToString(uint32_t capabilities);

/// The part of an instance that peers may reach into: one allocation of MemoryKind::Symmetric, laid
/// out as two halves of the symmetric arena, then the signals (uint64_t each, zero at start). Run n
/// uses half n % 2. Sizes may differ by rank; what a peer needs of them is exchanged when the
/// channel is created.
struct SymmetricMemory {
  void *base = nullptr;
  uint64_t totalBytes = 0;   ///< of the allocation
  uint64_t halfBytes = 0;    ///< of one half; half h starts at h * halfBytes (a multiple of 64)
  uint64_t signalOffset = 0; ///< of signal 0, in bytes; a multiple of 64
  uint32_t numSignals = 0;
  bool empty() const { return base == nullptr; }
};

/// A channel to be made.
struct ChannelDesc {
  /// Equal on all ranks of the world: (number of the instance in its context << 16) | index in the
  /// channel table. Tells channels of one transport apart.
  uint64_t id = 0;
  std::string name;
  std::string linkClass;     ///< "", "node", "network", ...
  uint32_t capabilities = 0; ///< what the program needs of it
  std::vector<uint32_t>
      group; ///< world ranks in group order, all different; empty: this rank does not take part
  uint32_t self = 0;         ///< this rank's index in `group`
  SymmetricMemory symmetric; ///< empty unless capabilities has OneSided
};

/// One message of a group. Matched by (channel, source, frame.epoch, tag): tags start anew in each
/// run, and a fast rank may be one run ahead. Layouts of the two ends may have other strides but
/// hold the same number of bytes; a difference is an error on the receiver at least. Complete on
/// the sender when its buffer may be reused. A peer may be the rank itself.
struct Message {
  bool isSend = false;
  uint32_t peer = 0; ///< index in the group
  uint32_t tag = 0;
  Operand buffer; ///< may have no elements: the message is sent all the same
};

/// A one-sided copy: the elements of `src` go to peer's symmetric memory, to the half frame.half,
/// `offset` bytes into it, with strides `dst`. Complete on this rank when `src` may be reused;
/// visible there as `Signal` says.
struct Put {
  uint32_t peer = 0;
  uint64_t offset = 0;
  Layout dst;
  Operand src;
};

/// Raises (never lowers) signal `slot` of `peer` to frame.epoch * perRun + value, after all earlier
/// puts to that peer that this channel was given on the same stream have become visible there.
/// perRun is the largest value of one run.
struct Signal {
  uint32_t peer = 0;
  uint32_t slot = 0;
  uint64_t value = 0, perRun = 0;
  uint32_t stream = 0; ///< of the program: signals of one stream are raised in order
  /// Nobody else raises this slot, and here only this stream does, by values that grow within a
  /// run: it may be written.
  bool exclusive = false;
};

/// Waits until this rank's signal `slot` is at least frame.epoch * perRun + value.
struct WaitSignal {
  uint32_t slot = 0;
  uint64_t value = 0, perRun = 0;
};

/// See sp::CollectiveKind for shapes. `in` or `out` is absent where this rank neither reads nor
/// writes it.
struct Collective {
  CollectiveKind kind = CollectiveKind::AllGather;
  ReduceOp op = ReduceOp::Sum;
  uint32_t root = 0; ///< index in the group
  Operand out, in;
  /// Number among the channel's collectives in the program: they match by (frame.epoch, sequence).
  uint32_t sequence = 0;
};

/// A group of ranks that talk. prepare functions: one thread, not collective. A call of something
/// that capabilities() lacks is an Unsupported error.
class Channel {
public:
  virtual ~Channel();

  /// All messages are posted together; complete when all are. May be empty.
  virtual Expected<std::unique_ptr<Operation>> prepareGroup(const std::vector<Message> &messages);
  virtual Expected<std::unique_ptr<Operation>> preparePut(const Put &put);
  virtual Expected<std::unique_ptr<Operation>> prepareSignal(const Signal &signal);
  virtual Expected<std::unique_ptr<Operation>> prepareWaitSignal(const WaitSignal &wait);
  virtual Expected<std::unique_ptr<Operation>> prepareCollective(const Collective &collective);
  /// What the other members must know of what this rank has prepared, and the check against what
  /// they said (by group index; `culprit`: the command that an error is about, if one is). For
  /// channels that would not notice at run that their members disagree. Called once, after the last
  /// prepare function.
  virtual std::string prepared() { return {}; }
  virtual Status compare(const std::vector<std::string> &members, Marker &culprit);

  /// Makes operations that wait return `reason`, and later ones fail with it. Tells the peers if
  /// that can be done without waiting. Any thread, any number of times, also while operations run.
  virtual void abort(const Status &reason) = 0;
};

/// Makes channels. One per context and kind.
class Transport {
public:
  virtual ~Transport();
  /// "local", "ucx", "ccl", "peer".
  virtual std::string_view name() const = 0;
  virtual uint32_t capabilities() const = 0;
  /// True if its channels move memory of `device` as it is. A transport of host memory that meets a
  /// device with its own is used through host memory; see stageThroughHost().
  virtual bool moves(const Device &device) const { return device.hostMemory(); }
  /// Collective over the world: every rank calls it for every channel of the table, in order, also
  /// those whose group is empty (they get null). Exchanges through `bootstrap` what the peers need:
  /// addresses, symmetric memory. Checks that all members named the same group. `device` and
  /// `bootstrap` outlive the channel.
  virtual Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &desc, Device &device,
                                                           Bootstrap &bootstrap) = 0;
  /// Once a run has ended, of whatever channels: whether its results can be believed, where
  /// operations may end well although a rank has given up. Waits for nobody; any thread.
  virtual Status checkRun() const { return Status(); }
};

/// A transport that moves a device's memory through copies in host memory, by `inner`, which moves
/// only that. Peers cannot reach into the device's memory so: it lacks OneSided.
std::unique_ptr<Transport> stageThroughHost(std::unique_ptr<Transport> inner);

} // namespace tandem

#endif // TANDEM_RUNTIME_CHANNEL_H
