//===- Channel.h - communication between ranks -------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A *channel* is an ordered communication path for a group of ranks, like an NCCL communicator. A
// *transport* (local, ucx, ccl, peer) belongs to a context and makes channels: one per entry of a
// program's channel table, owned by the program instance. Like a device, a channel makes
// operations. Sizes, peers and tags are fixed at prepare; addresses are looked up at run; the work
// is enqueued on a device stream. A transport for host memory returns HostOperations, whose
// execute() returns when the transfer is complete. It blocks only its own stream.
//
// Operations of one channel on different streams run concurrently. Waits must not spin for long,
// because ranks and streams may outnumber the cores.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CHANNEL_H
#define TANDEM_RUNTIME_CHANNEL_H

#include "tandem/Program/FusedExchange.h"
#include "tandem/Runtime/Bootstrap.h"
#include "tandem/Runtime/Device.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tandem {

/// The capabilities of a channel, as bits; numbers as in the stream program.
enum Capability : uint32_t { TwoSided = 1, OneSided = 2, Collectives = 4 };

/// The memory of an instance that peers may access, like torch's symmetric memory: one allocation
/// of MemoryKind::Symmetric with two buffers for the symmetric arena, then signals (uint64_t each,
/// zero at start). Runs alternate between the buffers. Other instances may use them, too, and
/// have other signals. Sizes may differ by rank; ranks exchange them when the channel is created.
struct SymmetricMemory {
  void *base = nullptr;
  uint64_t totalBytes = 0; ///< of the allocation
  uint64_t bufferBytes =
      0; ///< of one buffer (a multiple of 64); buffer p begins p * bufferBytes in
  uint64_t signalOffset = 0; ///< of the instance's signal 0, in bytes; a multiple of 64
  uint32_t numSignals = 0;
  bool empty() const { return base == nullptr; }
};

struct Put;
/// What programs of different ranks could disagree on: an error of the program if the put leaves
/// the `bufferBytes` of the target on world rank `rank`, or if the rank has no signal `slot`.
Status checkTarget(const Put &put, uint64_t bufferBytes, uint32_t rank);
Status checkSlot(uint32_t slot, uint32_t numSignals, uint32_t rank);

/// How to make a channel.
struct ChannelDesc {
  /// Equal on all ranks of the world: (number of the instance in its context << 16) | index in the
  /// channel table. Distinguishes channels of one transport.
  uint64_t id = 0;
  std::string name;
  std::string linkClass;     ///< "", "node", "network", ...
  uint32_t capabilities = 0; ///< what the program needs of it
  std::vector<uint32_t>
      group; ///< world ranks in group order, all different; empty: this rank does not take part
  uint32_t self = 0;         ///< this rank's index in `group`
  SymmetricMemory symmetric; ///< empty unless capabilities has OneSided
  /// Runs of the context's instances follow each other, in one order on all ranks.
  bool runsFollow = false;
  /// While it is made: how long ranks that send heartbeats wait for each other, in each step
  /// outside of the bootstrap's exchanges.
  std::chrono::milliseconds timeout{60000};
};

/// One message of a group. Matched by (channel, source, frame.epoch, tag): each run counts tags
/// from 0, and a fast rank may be one run ahead. The layouts of the two ends may have different
/// strides but must hold the same number of bytes; a difference is an error at least on the
/// receiver. A send is complete when its buffer may be reused. A peer may be the rank itself.
struct Message {
  bool isSend = false;
  uint32_t peer = 0; ///< index in the group
  uint32_t tag = 0;
  Operand buffer; ///< may have no elements; the message is still sent
};

/// A one-sided copy: writes the elements of `src` to the peer's symmetric memory, `offset` bytes
/// into the buffer of frame.parity, with strides `dst`. Complete on this rank when `src` may be
/// reused. Visible to the peer after a later Signal.
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
  /// No other rank or stream raises this slot, and its values grow within a run. So the signal may
  /// be a plain write instead of a maximum.
  bool exclusive = false;
  bool ofBarrier = false; ///< of a barrier before some of the runs, not of a run
};

/// Waits until this rank's signal `slot` is at least frame.epoch * perRun + value.
struct WaitSignal {
  uint32_t slot = 0;
  uint64_t value = 0, perRun = 0;
  uint32_t stream = 0; ///< of the program: its waits follow each other
  std::optional<uint32_t> barrierMember =
      std::nullopt; ///< not of a run: the member whose signal between runs is awaited
};

/// Where a typed exchange has its flags and LL buffers, if its protocol is not `simple`: memory
/// after this rank's signals, as numbers of signals (program::ExchangeMemory).
struct ExchangeFlags {
  uint64_t key = 0; ///< a hash of what must be equal on all members
  bool usesLL = false;
  uint32_t self = 0, members = 0; ///< index in the channel's group, and its size
  uint32_t firstSlot = 0;         ///< the program's signals: slot firstSlot + shot * members + m
  uint32_t blocks = 0;            ///< that there are flags for
  uint64_t firstFlag = 0, numFlags = 0;
  uint64_t firstLL = 0, bufferLL = 0; ///< of two LL buffers
  uint64_t set = 0;                   ///< from a signal to that of runs in the caller's graphs
  uint32_t number = 0, numLL = 0;     ///< among the program's exchanges that use LL
  /// LL: what comes from member m is stored at `slots` + m * `slotBytes` of symmetric memory.
  uint64_t slots = 0, slotBytes = 0;
};

/// Puts, signals, waits and reductions as one kernel, step by step: all waits of a step, its move,
/// then its signals (docs/fused-exchange.md).
struct FusedExchange {
  /// What is written: memory of a peer, or of this rank.
  struct Target {
    std::optional<Put> put;
    Operand local;
  };
  struct Step {
    std::vector<WaitSignal> waits;
    program::ExchangeMove move;
    std::vector<Operand> sources; ///< of each store of the move; of a reduction, with all terms
    std::vector<Target> targets;  ///< likewise
    std::vector<Signal> signals;
  };
  std::vector<Step> steps;
  uint32_t blocks = 1; ///< thread blocks of the kernel
  /// None, and where not all members have the kernel: protocol `simple`.
  std::optional<ExchangeFlags> flags = std::nullopt;
};

/// A collective; sp::CollectiveKind has the shapes. `in` is absent if this rank does not read it,
/// `out` if it does not write it.
struct Collective {
  CollectiveKind kind = CollectiveKind::AllGather;
  ReduceOp op = ReduceOp::Sum;
  uint32_t root = 0; ///< index in the group
  Operand out, in;
  /// Number among the channel's collectives in the program: they match by (frame.epoch, sequence).
  uint32_t sequence = 0;
};

/// A group of ranks that communicate. Prepare functions: one thread, not collective. A function
/// that the transport's capabilities() lack returns an Unsupported error.
class Channel {
public:
  virtual ~Channel();

  /// All messages are posted together; complete when all are. May be empty.
  virtual Expected<std::unique_ptr<Operation>> prepareGroup(const std::vector<Message> &messages);
  virtual Expected<std::unique_ptr<Operation>> preparePut(const Put &put);
  virtual Expected<std::unique_ptr<Operation>> prepareSignal(const Signal &signal);
  virtual Expected<std::unique_ptr<Operation>> prepareWaitSignal(const WaitSignal &wait);
  virtual Expected<std::unique_ptr<Operation>> prepareCollective(const Collective &collective);
  /// One kernel for all. Unsupported, with the reason, if there is none for it; the caller then
  /// prepares the commands one by one.
  virtual Expected<std::unique_ptr<Operation>> prepareExchange(const FusedExchange &exchange);
  /// This rank's signals, slot 0 first, where kernels of the device can read them; null: nowhere.
  virtual const uint64_t *signalWords() const { return nullptr; }
  /// Where kernels of the device can store to the members; null: nowhere.
  virtual std::shared_ptr<const PeerStores> peerStores() const { return nullptr; }
  /// A summary of this rank's prepared operations, and its comparison with the summaries of the
  /// other members (by group index). For channels that cannot detect mismatches at run. `culprit`:
  /// the command that an error is about, if any. Called once, after the last prepare function.
  virtual std::string prepared() { return {}; }
  virtual Status compare(const std::vector<std::string> &members, Marker &culprit);

  /// Grows while data of this channel move, also within a command that takes long: then the
  /// watchdog does not end the run. Any thread. Default: not known.
  virtual uint64_t progress() const { return 0; }

  /// Makes waiting operations return `reason`, and later ones fail with it. Informs the peers if
  /// that does not block. Any thread, any number of times, also while operations run.
  virtual void abort(const Status &reason) = 0;
};

/// Makes channels. One per context and kind.
class Transport {
public:
  /// Which ranks a channel can connect: those of one host (Bootstrap::host()), or any.
  enum class Reach : uint8_t { Host, World };

  virtual ~Transport();
  /// "local", "ucx", "ccl", "peer".
  virtual std::string_view name() const = 0;
  /// The name, and the version of a library if that decides how quick it is.
  virtual std::string description() const { return std::string(name()); }
  virtual uint32_t capabilities() const = 0;
  virtual Reach reach() const { return Reach::World; }
  /// Opens what may need the device of the later calls, which outlives the transport. Local. A
  /// context calls it first.
  virtual Status open(Device &) { return Status(); }
  /// True if its channels can access memory of `device` directly. Otherwise the transport is staged
  /// through host memory; see stageThroughHost().
  virtual bool moves(const Device &device) const { return device.hostMemory(); }
  /// Where it does not: true if its channels can access dense operands in memory of `device`, for
  /// two-sided messages.
  virtual bool movesDense(const Device &) const { return false; }
  /// True if its channels keep a dense copy of each operand with gaps, in memory of `device`.
  virtual bool copiesGaps(const Device &) const { return false; }
  /// Collective over the world: every rank calls it for every channel of the table, in order. A
  /// rank with an empty group gets null. Exchanges addresses and symmetric memory through
  /// `bootstrap`, and checks that all members named the same group. A wait outside of `bootstrap`
  /// ends with an error after `desc.timeout`, and at once if Bootstrap::health() is one. `device`
  /// and `bootstrap` outlive the channel.
  virtual Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &desc, Device &device,
                                                           Bootstrap &bootstrap) = 0;
  /// Called when a run has ended. Returns an error if a rank has aborted although this rank's
  /// operations succeeded (see docs/gpu.md, "Abort board"). Does not block; any thread.
  virtual Status checkRun() const { return Status(); }
  /// The same as Channel::progress(), of all its channels together.
  virtual uint64_t progress() const { return 0; }
};

/// A transport that copies device memory to and from host memory and communicates by `inner`; if
/// that movesDense(), it copies only operands with gaps, to dense memory of the device. It lacks
/// OneSided, because peers cannot access the device's memory that way.
std::unique_ptr<Transport> stageThroughHost(std::unique_ptr<Transport> inner);

} // namespace tandem

#endif // TANDEM_RUNTIME_CHANNEL_H
